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
  if (!runs && model != nullptr && section(file, "run") != nullptr && !optimizes)
    return NemoPurpose{"it converts, exports or evaluates a model", "run", false};
  if (!runs || model == nullptr) return {};
  for (const NemoPurpose& p : kOfModels)
    if (model->find(p.key) != nullptr) return p;
  return {};
}

}  // namespace stepcast
