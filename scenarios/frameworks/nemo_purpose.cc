// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/nemo_purpose.h"

#include <algorithm>

namespace stepcast {
namespace {

constexpr std::string_view kSpeech = "models of speech and sound";
constexpr std::string_view kImages = "models that make or see pictures";
// Keys of `model` that no language model has.
constexpr NemoPurpose kOfModels[] = {
    {kSpeech, "preprocessor"},
    {kSpeech, "sample_rate"},
    {kSpeech, "speech_encoder"},
    {kSpeech, "perception"},
    {kSpeech, "n_mel_channels"},
    {kSpeech, "pretrained_asr"},
    {kSpeech, "diarizer"},
    {kSpeech, "msdd_module"},
    {kImages, "unet_config"},
    {kImages, "first_stage_config"},
    {kImages, "vision"},
    {kImages, "unet"},
    {kImages, "unet_type"},
    {kImages, "control_stage_config"},
    {kImages, "vision_pretraining_type"},
    {kImages, "nerf"},
};

const Value* section(const Value& v, std::string_view key) {
  const Value* found = v.find(key);
  return found != nullptr && found->is_mapping() ? found : nullptr;
}

}  // namespace

std::optional<NemoPurpose> other_purpose_of_nemo(const Value& file) {
  const Value* model = section(file, "model");
  const bool optimizes = model != nullptr && model->find("optim") != nullptr;
  const bool runs = section(file, "trainer") != nullptr;
  if (runs && section(file, "inference") != nullptr && !optimizes)
    return NemoPurpose{"it generates text", "inference", false};
  constexpr std::string_view kConverts = "it converts, exports or evaluates a model";
  const Value* run = section(file, "run");
  if (!runs && model != nullptr && run != nullptr && !optimizes)
    return NemoPurpose{kConverts, "run", false};
  // Those of other tools' checkpoints have all that a training of the model has.
  if (run != nullptr)
    for (const std::string_view key : {"huggingface_ckpt_path", "nemo_file_name"})
      if (run->find(key) != nullptr) return NemoPurpose{kConverts, key, false};
  if (runs && model == nullptr && file.find("tensor_model_parallel_size") != nullptr)
    for (const std::string_view key : {"checkpoint_dir", "hparams_file"})
      if (file.find(key) != nullptr) return NemoPurpose{kConverts, key, false};
  if (!runs || model == nullptr) return {};
  for (const NemoPurpose& p : kOfModels)
    if (model->find(p.key) != nullptr) return p;
  return {};
}

}  // namespace stepcast
