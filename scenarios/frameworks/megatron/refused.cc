// SPDX-License-Identifier: Apache-2.0
// refuse_megatron_training: arguments with which Megatron trains nothing, or what is not simulated.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/megatron/parts.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

struct RefusedArgument {
  enum class If : unsigned char {
    flag,       // it is set
    text,       // it says anything but "False"
    above,      // its number is above `most`
    not_model,  // it is none of the models whose sizes are in the arguments
    not_own,    // its word is another than "megatron"
    not_delta,  // it is no gated delta net
  };
  const char* name;
  If is_refused;
  const char* what;
  int64_t most = 0;
};
using If = RefusedArgument::If;

constexpr const char* kPreferences = "training by preferences or rewards";
constexpr const char* kTeacher = "learning from another model";
constexpr const char* kPartOfModel = "training of a part of the parameters";
constexpr const char* kOwnGpus = "parts of a model on GPUs of their own";

constexpr RefusedArgument kRefused[] = {
    {"heterogeneous_layers_config_path", If::text, "layers of several architectures"},
    {"heterogeneous_layers_config_encoded_json", If::text, "layers of several architectures"},
    {"perform_rl_step", If::flag, kPreferences},
    {"export_kd_teacher_load", If::text, kTeacher},
    {"num_layers_teacher", If::above, kTeacher},
    {"kd", If::flag, kTeacher},
    {"freeze_LM", If::flag, kPartOfModel},
    {"freeze_llm", If::flag, kPartOfModel},
    {"tune_mm_mlp_adapter", If::flag, kPartOfModel},
    {"bitfit", If::flag, kPartOfModel},
    {"retro_add_retriever", If::flag, "layers that retrieve (RETRO)"},
    // Megatron's examples/mimo: of its models the arguments say nothing but the layout.
    {"model_provider", If::not_model, "a model whose sizes are in the program"},
    {"transformer_type", If::not_own, "a model of transformers' with Megatron's arguments"},
    {"experimental_attention_variant", If::not_delta, "layers of a variant"},
    {"llm_tp", If::above, kOwnGpus, 1},
    {"encoder_pipeline_model_parallel_size", If::above, kOwnGpus},
    {"t5_swiglu", If::flag, "a gated MLP of T5's kind"},
    {"flextron", If::flag, "models of several sizes trained as one"},
};

bool is_refused(const ArgumentReader& a, const RefusedArgument& row) {
  if (!a.given(row.name)) return false;
  switch (row.is_refused) {
    case If::flag: return a.flag(row.name);
    case If::text: return a.word(row.name) != "False" && a.word(row.name) != "false";
    case If::above: return a.whole(row.name, row.most) > row.most;
    case If::not_model: {
      const std::string model = a.word(row.name);
      return model != "gpt" && model != "mamba" && model != "hybrid";
    }
    case If::not_delta: return !is_gated_delta_net(a.word(row.name)) && a.word(row.name) != "False";
    case If::not_own: return a.word(row.name) != "megatron";
  }
  return false;
}

}  // namespace

bool is_gated_delta_net(std::string_view variant) {
  return variant == "gated_delta_net" || variant == "gdn";
}

bool refuse_megatron_training(const ArgumentReader& a, const MegatronSizes& sizes) {
  bool refused = false;
  for (const char* name : {"no_train", "skip_train"}) {
    if (!a.flag(name)) continue;
    a.problems().add("E336", fmt::format("this run trains no model: {}", a.why(name)), a.mark(name),
                     1, {}, "import the script that starts the training");
    refused = true;
  }
  const auto refuse = [&](const char* name, const char* what) {
    // Its sizes are in a checkpoint, or are some of its own: the user may state them.
    if (std::string_view(what) == kTeacher) {
      if (sizes.in.states_any_of("distill")) return;
      refused = true;
      return a.problems().add(
          "E332", fmt::format("'{}': the file does not say what model the teacher is", a.why(name)),
          a.mark(name), 1, {},
          "-s distill=PRESET states it; it has the vocabulary of the model that learns");
    }
    a.problems().add("E130", fmt::format("not supported yet: {} ({})", what, a.why(name)),
                     a.mark(name));
    refused = true;
  };
  for (const RefusedArgument& row : kRefused)
    if (is_refused(a, row)) refuse(row.name, row.what);
  // Of the models with such a gate those that are simulated have recurrent layers, and the others
  // have none.
  const bool delta = is_gated_delta_net(a.word("experimental_attention_variant"));
  if (a.flag("attention_output_gate") && !delta)
    refuse("attention_output_gate", "a gate after attention without recurrent layers");
  if (delta && !a.flag("attention_output_gate"))
    refuse("experimental_attention_variant", "recurrent layers beside attention without a gate");
  if (delta && a.flag("multi_latent_attention"))
    refuse("multi_latent_attention", "latent attention beside recurrent layers");
  const char* encoder = "encoder_tensor_model_parallel_size";
  if (const int64_t tp = a.whole(encoder, 0); tp > 0 && tp != sizes.tp) refuse(encoder, kOwnGpus);
  return refused;
}

}  // namespace stepcast
