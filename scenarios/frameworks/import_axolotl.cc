// SPDX-License-Identifier: Apache-2.0
// import_axolotl: axolotl's YAML.  It names a model of the Hub, whose sizes are those of a preset
// (imports/hub_models.yaml) or in the model's config.json: --model.
//
// Names and defaults: src/axolotl/utils/schemas/ of https://github.com/axolotl-ai-cloud/axolotl
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/hub_names.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/presets.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int64_t kMostOfAxolotl = 10'000'000;  // GPUs, sequences of a step

// What is trained beside or instead of the model's own parameters, and other losses.
void axolotl_parts(Importing& i) {
  const auto refuse = [&](const char* name, std::string_view part) {
    i.a.problems().add("E130", fmt::format("not supported yet: {} ({})", part, i.a.why(name)),
                       i.a.mark(name), 1, {}, "what is forecast trains all parameters on one loss");
  };
  if (const std::string adapter = i.a.word("adapter"); !adapter.empty())
    refuse("adapter", "adapters of low rank");
  if (i.a.given("hatchery.lora_rank")) refuse("hatchery.lora_rank", "adapters of low rank");
  if (!i.a.word("rl").empty()) refuse("rl", "training by preferences or rewards");
  for (const char* name : {"reward_model", "process_reward_model"})
    if (i.a.flag(name)) refuse(name, "training by preferences or rewards");
  if (!i.a.words("unfrozen_parameters").empty())
    refuse("unfrozen_parameters", "training of a part of the parameters");
  if (i.a.given("lisa_n_layers")) refuse("lisa_n_layers", "training of a part of the parameters");
}

int64_t axolotl_size(const Importing& i, const char* name) {
  const int64_t n = i.a.whole(name, 1);
  if (n >= 1 && n <= kMostOfAxolotl) return n;
  i.a.refuse(name, fmt::format("must be from 1 to {}", kMostOfAxolotl));
  return 1;
}

void axolotl_batch(Importing& i) {
  const int64_t tp = axolotl_size(i, "tensor_parallel_size");
  const int64_t cp = axolotl_size(i, "context_parallel_size");
  const int64_t sharded = axolotl_size(i, "dp_shard_size");
  const int64_t copies = axolotl_size(i, "dp_replicate_size");
  const int64_t micro = axolotl_size(i, "micro_batch_size");
  const int64_t steps = axolotl_size(i, "gradient_accumulation_steps");
  if (i.in.problems.any()) return;
  constexpr int64_t kUsual = 8;
  const bool states_dp = i.a.given("dp_shard_size") || i.a.given("dp_replicate_size");
  if (tp > kMostOfAxolotl / cp || sharded > kMostOfAxolotl / copies ||
      tp * cp > kMostOfAxolotl / (sharded * copies) || micro > kMostOfAxolotl / steps)
    return i.in.problems.add("E332", "the sizes of this file make no job of a sensible size",
                             i.a.mark("micro_batch_size"), 1, {},
                             "at most 10,000,000 GPUs and sequences of a step");
  const int64_t dp = states_dp ? sharded * copies : std::max<int64_t>(1, kUsual / (tp * cp));
  Origin why = "the file does not say how many GPUs there are";
  if (states_dp) {
    why = {"", i.a.mark(i.a.given("dp_shard_size") ? "dp_shard_size" : "dp_replicate_size")};
    for (const char* name :
         {"dp_replicate_size", "dp_shard_size", "tensor_parallel_size", "context_parallel_size"})
      if (i.a.given(name)) why.text += (why.text.empty() ? "" : " x ") + i.a.why(name);
  }
  draft_cluster(i.cluster, dp * tp * cp, why, i.draft);
  if (!states_dp)
    i.draft.note_about("cluster.nodes",
                       fmt::format("{} GPUs are assumed: the file does not say how many "
                                   "there are; -s cluster.nodes=N",
                                   dp * tp * cp));
  if (tp > 1) i.draft.set("parallel.tp", tp, i.a.origin("tensor_parallel_size"));
  if (cp > 1) i.draft.set("parallel.cp", cp, i.a.origin("context_parallel_size"));
  if (copies > 1) i.draft.set("parallel.dp_replicate", copies, i.a.origin("dp_replicate_size"));
  i.draft.set("batch.micro", micro, i.a.origin("micro_batch_size", "axolotl's default: 1"));
  i.draft.derive("batch.global", {DerivedBatch::Rule::microbatches, steps, dp},
                 i.a.origin("gradient_accumulation_steps", "micro_batch_size x replicas"));
  if (i.a.given("sequence_len"))
    i.draft.set("batch.seq", i.a.whole("sequence_len", 1), i.a.origin("sequence_len"));
  else
    i.draft.assume("batch.seq", fmt::format("{}", usual_sequence(i.max_positions)),
                   "the file does not say sequence_len; -s batch.seq=N");
}

bool axolotl_has_fsdp(const Importing& i) {
  return std::ranges::any_of(
      std::initializer_list<const char*>{"fsdp", "fsdp_config", "fsdp_version"},
      [&](const char* name) { return i.a.given(name); });
}

void axolotl_sharding(Importing& i) {
  const char* file = "deepspeed";
  if (i.a.given(file)) {
    // axolotl's own files say the stage in their names: deepspeed_configs/zero3_bf16.json.
    const std::string path = i.a.word(file);
    const std::string name = path.substr(path.rfind('/') + 1);
    const size_t at = name.find("zero");
    const char stage = at == std::string::npos || at + 4 >= name.size() ? '?' : name[at + 4];
    if (stage < '1' || stage > '3')
      return i.a.problems().add(
          "E332", fmt::format("'{}': what DeepSpeed does is in another file", i.a.why(file)),
          i.a.mark(file), 1, {},
          "import that one: stepcast import deepspeed FILE --model config.json");
    i.draft.set("parallel.zero", int64_t{stage - '0'}, i.a.origin(file));
    if (stage == '3') i.draft.set_text("parallel.fsdp", "deepspeed", i.a.origin(file));
    i.draft.set_text("software", "deepspeed-zero3", i.a.origin(file));
    if (name.find("offload") != std::string::npos)
      i.draft.left_out(fmt::format("what {} moves to the host's memory", i.a.why(file)));
    return;
  }
  if (!axolotl_has_fsdp(i)) return;
  const char* by = i.a.given("fsdp")                            ? "fsdp"
                   : i.a.given("fsdp_version")                  ? "fsdp_version"
                   : i.a.given("fsdp_config.sharding_strategy") ? "fsdp_config.sharding_strategy"
                   : i.a.given("fsdp_config.fsdp_version")      ? "fsdp_config.fsdp_version"
                                                                : "fsdp_config";
  FsdpStrategy strategy = fsdp_strategy(i.a.word("fsdp_config.sharding_strategy", "full_shard"));
  const char* offloads =  // the key that says so
      i.a.flag("fsdp_config.offload_params") ? "fsdp_config.offload_params" : nullptr;
  for (const std::string& word : i.a.words("fsdp")) {
    const FsdpStrategy named = fsdp_strategy(word);
    strategy.none = strategy.none || named.none;
    strategy.hybrid = strategy.hybrid || named.hybrid;
    strategy.keeps = strategy.keeps || named.keeps;
    if (lower_case(word) == "offload") offloads = "fsdp";
  }
  if (strategy.none) {
    if (offloads != nullptr) i.draft.left_out(i.a.why(offloads));
    return i.draft.set("parallel.zero", int64_t{0}, i.a.origin(by));
  }
  const bool newer = i.a.whole("fsdp_config.fsdp_version", i.a.whole("fsdp_version", 1)) == 2;
  i.draft.set("parallel.zero", int64_t{3}, i.a.origin(by));
  i.draft.set_text("parallel.fsdp", newer ? "fsdp2" : "fsdp1", i.a.origin(by));
  const char* reshard = "fsdp_config.reshard_after_forward";
  if (i.a.given(reshard) && !i.a.flag(reshard, true))
    i.draft.set("parallel.reshard_after_forward", false, i.a.origin(reshard));
  else if (strategy.keeps)
    i.draft.set("parallel.reshard_after_forward", false, i.a.origin(by));
  if (strategy.hybrid && !i.a.given("dp_replicate_size")) {
    // Each node has a copy, and the file does not say how many nodes there are.
    const int64_t nodes = python_whole(i.in.stated("cluster.nodes")).value_or(1);
    if (nodes > 1) i.draft.set("parallel.dp_replicate", nodes, i.a.origin(by));
  }
  if (offloads != nullptr) i.draft.set("offload.parameters", true, i.a.origin(offloads));
}

void axolotl_precision(Importing& i) {
  // Weights that are stored quantized, unless they are no longer so when they are trained.
  if (i.a.given("model_quantization_config") &&
      !i.a.flag("model_quantization_config_kwargs.dequantize"))
    i.draft.left_out(i.a.why("model_quantization_config"));
  const std::string bf16 = lower_case(i.a.word("bf16", "auto"));
  const std::string fp16 = lower_case(i.a.word("fp16", "false"));
  const bool in_bf16 = bf16 == "auto" || bf16 == "full" || truth(bf16) == true;
  const bool in_fp16 = truth(fp16) == true;
  const Origin of_bf16 = i.a.origin("bf16", "axolotl's default: auto");
  if (i.a.flag("fp8"))  // torchao's Float8LinearConfig (core/trainers/base.py)
    i.draft.set_text("precision.preset", "fp8-tensorwise", i.a.origin("fp8"));
  else if (in_bf16)
    i.draft.set_text("precision.preset", "bf16-mixed", of_bf16);
  else
    i.draft.set_text("precision.preset", in_fp16 ? "fp16-mixed" : "fp32",
                     i.a.origin(in_fp16 ? "fp16" : "bf16"));
  // The model is loaded in bf16 (torch_dtype in utils/config/__init__.py and loaders/model.py).
  // Only FSDP and DeepSpeed keep parameters in fp32 then: Accelerate's prepare_model() upcasts for
  // FSDP.
  if (!in_bf16 || axolotl_has_fsdp(i) || i.a.given("deepspeed")) return;
  const std::string why = "parameters are loaded in bf16, and without FSDP stay so";
  i.draft.set_text("precision.grads", "bf16", why);
  i.draft.set("precision.master", false, why);
  i.draft.set_text("precision.moments", "bf16", why);
}

// Names of transformers' OptimizerNames (training_args.py) and axolotl's CustomSupportedOptimizers
// (utils/schemas/enums.py) that are Adam.
struct AxolotlAdam {
  std::string_view name;
  std::string_view moments{};  // of their own, else those of the parameters
  std::string_view remark{};
};
constexpr std::string_view kWholeEmbedding =
    "the moments of embeddings, which bitsandbytes keeps in fp32, count as 8 bits";
constexpr std::string_view kOfFourBits = "its moments of 4 bits count as 8 bits";
constexpr std::string_view kKahan =
    "what it keeps of the sums in bf16, one more number a parameter, is left out";
constexpr std::string_view kAsAdam = "it has as many states as Adam, and counts as it";
constexpr AxolotlAdam kAxolotlAdam[] = {
    {"adamw_torch"},
    {"adamw_torch_fused"},
    {"adamw_hf"},
    {"adamw_torch_xla"},
    {"adamw_torch_npu_fused"},
    // apex's keeps its moments in fp32 (apex/optimizers/fused_adam.py), and transformers has
    // AnyPrecision's do so (trainer.py).
    {"adamw_apex_fused", "fp32"},
    {"adamw_anyprecision", "fp32"},
    {"optimi_adamw", "", kKahan},
    {"stable_adamw", "", kKahan},
    {"adopt_adamw", "", kAsAdam},
    {"schedule_free_adamw", "", kAsAdam},
    {"paged_adamw", "fp32"},
    {"paged_adamw_32bit", "fp32"},
    {"adamw_8bit", "int8", kWholeEmbedding},
    {"adamw_bnb_8bit", "int8", kWholeEmbedding},
    {"paged_adamw_8bit", "int8", kWholeEmbedding},
    {"adamw_torch_8bit", "int8"},
    {"ao_adamw_8bit", "int8"},
    {"ao_adamw_fp8", "fp8"},
    {"adamw_torch_4bit", "int8", kOfFourBits},
    {"ao_adamw_4bit", "int8", kOfFourBits},
};

void axolotl_optimizer(Importing& i) {
  const char* name = "optimizer";
  const std::string kind = lower_case(i.a.word(name, "adamw_torch_fused"));
  const auto* const adam = std::ranges::find(kAxolotlAdam, kind, &AxolotlAdam::name);
  if (adam == std::end(kAxolotlAdam))
    return i.draft.set_text("optimizer.kind", kind, i.a.origin(name));
  i.draft.set_text("optimizer.kind", "adamw",
                   i.a.origin(name, "axolotl's default: adamw_torch_fused"));
  if (kind.ends_with("_fused"))
    i.draft.set_text("optimizer.kernel", "fused",
                     i.a.origin(name, "axolotl's default: adamw_torch_fused"));
  if (!adam->moments.empty())
    i.draft.set_text("precision.moments", adam->moments, i.a.origin(name));
  if (!adam->remark.empty()) i.draft.note(fmt::format("{}: {}", i.a.why(name), adam->remark));
}

void axolotl_recompute(Importing& i) {
  const char* name = "gradient_checkpointing";
  // Accelerate's FSDP then checkpoints each layer (utils/trainer.py, setup_fsdp_envs()).
  const char* of_fsdp = "fsdp_config.activation_checkpointing";
  if (i.a.flag(of_fsdp)) i.draft.set_text("recompute.granularity", "full", i.a.origin(of_fsdp));
  const std::string word = lower_case(i.a.word(name, "false"));
  if (truth(word) == false) return;
  i.draft.set_text("recompute.granularity", "full", i.a.origin(name));
  if (truth(word) != true) i.draft.left_out(i.a.why(name) + " (to the host's memory)");
}

void axolotl_kernels(Importing& i) {
  const std::string word = i.a.word("attn_implementation");
  if (word.starts_with("flash") || i.a.flag("flash_attention") || word == "sdpa" ||
      i.a.flag("sdp_attention"))
    i.draft.set_text("kernels.attention", "flash",
                     i.a.origin(word.empty() ? "flash_attention" : "attn_implementation"));
  else if (word == "eager")
    i.draft.set_text("kernels.attention", "unfused", i.a.origin("attn_implementation"));
}

// Kernels of Liger-Kernel that axolotl's plugin puts in place of transformers' operators
// (src/axolotl/integrations/liger/plugin.py).
struct LigerKernel {
  const char* name;
  const char* path;
  std::string_view value;
  std::string_view remark{};
};
constexpr LigerKernel kLiger[] = {
    {"liger_rms_norm", "kernels.fused_norm", "true"},
    {"liger_glu_activation", "kernels.fused_activation", "true"},
    {"liger_rope", "kernels.fused_rotary", "true"},
    // transformers' ForCausalLMLoss (loss/loss_utils.py) converts them first.
    {"liger_cross_entropy", "kernels.loss", "in-place",
     "the copy of the logits in fp32 that transformers makes before it is left out"},
    {"liger_fused_linear_cross_entropy", "kernels.loss", "in-place",
     "logits, of which it makes a part at a time, count as a whole"},
};

void axolotl_liger(Importing& i) {
  const bool has_plugin = std::ranges::any_of(
      i.a.words("plugins"), [](const std::string& p) { return p.ends_with("LigerPlugin"); });
  for (const LigerKernel& k : kLiger) {
    if (!i.a.flag(k.name)) continue;
    if (!has_plugin) {
      i.draft.note(fmt::format("{}: does nothing without axolotl.integrations.liger.LigerPlugin",
                               i.a.why(k.name)));
      continue;
    }
    i.draft.set(k.path, std::string(k.value), i.a.origin(k.name));
    if (!k.remark.empty()) i.draft.note(fmt::format("{}: {}", i.a.why(k.name), k.remark));
  }
}

constexpr CostArgument kAxolotl[] = {
    {"adapter", "model"},
    {"rl", "model"},
    {"reward_model", "model"},
    {"process_reward_model", "model"},
    {"unfrozen_parameters", "model"},
    {"lisa_n_layers", "model"},
    {"hatchery.lora_rank", "model"},
    {"model_quantization_config", "precision"},
    {"model_quantization_config_kwargs.dequantize", "precision"},
    {"qat", "precision", As::left_out("false")},        // rounds weights and activations
    {"diffusion", "model", As::left_out("false")},      // attention to both sides
    {"tiled_mlp", "recompute", As::left_out("false")},  // a sequence in pieces
    {"micro_batch_size", "batch.micro", As::code(axolotl_batch), "batch_size"},
    {"gradient_accumulation_steps", "batch.global"},
    {"sequence_len", "batch.seq"},
    {"tensor_parallel_size", "parallel.tp"},
    {"context_parallel_size", "parallel.cp", As::input(), "sequence_parallel_degree"},
    {"dp_shard_size", "parallel.zero"},
    {"dp_replicate_size", "parallel.dp_replicate"},
    {"expert_parallel_size", "parallel.ep", As::whole().if_above_one()},
    {"deepspeed", "parallel.zero", As::code(axolotl_sharding)},
    {"fsdp", "parallel.zero"},
    {"fsdp_config", "parallel.zero"},  // that there is one
    {"fsdp_version", "parallel.fsdp"},
    {"fsdp_config.sharding_strategy", "parallel.zero", As::input(),
     "fsdp_config.fsdp_sharding_strategy"},
    {"fsdp_config.fsdp_version", "parallel.fsdp"},
    {"fsdp_config.reshard_after_forward", "parallel.reshard_after_forward", As::input(),
     "fsdp_config.fsdp_reshard_after_forward"},
    {"fsdp_config.offload_params", "offload.parameters", As::input(),
     "fsdp_config.fsdp_offload_params"},
    {"fsdp_config.activation_checkpointing", "recompute.granularity", As::input(),
     "fsdp_config.fsdp_activation_checkpointing"},
    {"fsdp_config.forward_prefetch", "overlap.fsdp_prefetch", As::left_out("false"),
     "fsdp_config.fsdp_forward_prefetch"},
    {"fsdp_config.backward_prefetch", "overlap.fsdp_prefetch",
     As::left_out("BACKWARD_PRE|backward_pre"), "fsdp_config.fsdp_backward_prefetch"},
    {"fsdp_config.limit_all_gathers", "overlap.fsdp_prefetch", As::left_out("true"),
     "fsdp_config.fsdp_limit_all_gathers"},
    {"fsdp_config.mixed_precision_policy", "precision.preset", As::left_out("bf16"),
     "fsdp_config.fsdp_mixed_precision_policy"},
    {"bf16", "precision.preset", As::code(axolotl_precision), "bfloat16"},
    {"fp16", "precision.preset", As::input(), "float16"},
    {"fp8", "precision.preset"},
    {"fp8_enable_fsdp_float8_all_gather", "precision.fp8_params", As::left_out("false")},
    {"optimizer", "optimizer.kind", As::code(axolotl_optimizer)},
    {"gradient_checkpointing", "recompute.granularity", As::code(axolotl_recompute)},
    {"attn_implementation", "kernels.attention", As::code(axolotl_kernels)},
    {"flash_attention", "kernels.attention"},
    {"sdp_attention", "kernels.attention"},
    {"plugins", "kernels", As::code(axolotl_liger)},
    {"liger_rms_norm", "kernels.fused_norm"},
    {"liger_glu_activation", "kernels.fused_activation", As::input(), "liger_swiglu"},
    {"liger_rope", "kernels.fused_rotary"},
    {"liger_cross_entropy", "kernels.loss"},
    {"liger_fused_linear_cross_entropy", "kernels.loss"},
    {"liger_rms_norm_gated", "kernels", As::left_out("false")},  // of recurrent layers
    {"torch_compile", "kernels", As::left_out("false")},
    {"activation_offloading", "offload", As::left_out("false")},
};

// The preset with the sizes of the file's model; empty: there is none, or the file changes them.
std::string preset_of_hub(const Value& file, const std::string& name) {
  for (const Member& m : file.members)
    if (const bool changes = m.key == "base_model_config" || m.key == "overrides_of_model_config";
        changes && m.value.kind != Value::Kind::null && m.value.text != name)
      return {};
  return preset_of_hub_model(name);
}

// How long the sequences of a preset can be; 0: it does not say.
int64_t positions_of_preset(const std::string& preset, Problems& problems) {
  const auto text = preset_text(PresetKind::model, preset);
  const Value model = text ? parse_embedded(problems, preset, *text) : Value{};
  const Value* positions = model.find("max_position_embeddings");
  return positions == nullptr ? 0 : python_whole(positions->text).value_or(0);
}

}  // namespace

void import_axolotl(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                    ImportCounts& counts) {
  Value file = read_mapping(in, in.file, "a configuration of axolotl");
  if (in.problems.any()) return;
  const Value* base = file.find("base_model");
  if (base == nullptr || !base->is_scalar())
    return in.problems.add("E330", "there is no base_model in this file", {in.file, 1, 1}, 1, {},
                           "a configuration of axolotl has base_model, datasets, ...");
  draft.set_text("software", "pytorch-fsdp", "");
  const std::string name = base->text;
  std::vector<Argument> arguments = flatten(file);
  if (const Value* fsdp = file.find("fsdp");
      fsdp != nullptr && fsdp->kind == Value::Kind::sequence && fsdp->items.empty())
    std::erase_if(arguments, [](const Argument& a) { return a.name == "fsdp"; });
  // Any key of it turns FSDP on (core/builders/base.py: `fsdp_config or fsdp`).  The section is no
  // argument beside its keys, and so has no place.
  const auto says_something = [](const Member& m) {
    return m.value.kind != Value::Kind::null && m.value.text != "null";
  };
  for (const char* section : {"fsdp_config", "qat", "diffusion"}) {
    const Value* v = file.find(section);
    if (v == nullptr || !std::ranges::any_of(v->members, says_something)) continue;
    const std::string below = fmt::format("{}.", section);
    // What a part that is left out is like does not matter.
    if (std::string_view(section) != "fsdp_config")
      std::erase_if(arguments, [&](const Argument& a) { return a.name.starts_with(below); });
    arguments.push_back({section, section, word_value("true", {})});
  }
  const ArgumentReader reader(kAxolotl, "axolotl", arguments, in.problems);
  counts.add(reader);
  Importing importing{reader, in, cluster, draft};
  axolotl_parts(importing);
  if (in.problems.any()) return;
  const std::string preset = preset_of_hub(file, name);
  if (!preset.empty() && in.config == nullptr && !in.states_a_model()) {
    draft.set_text("model.preset", preset, {fmt::format("base_model {}", name), base->mark});
    importing.max_positions = positions_of_preset(preset, in.problems);
  } else {
    const auto positions =
        draft_model_beside(in, fmt::format("axolotl's file names {}, and", name), draft, counts);
    if (!positions) return;
    importing.max_positions = *positions;
  }
  draft_rows(importing);
}

}  // namespace stepcast
