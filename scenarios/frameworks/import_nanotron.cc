// SPDX-License-Identifier: Apache-2.0
// import_nanotron: nanotron's YAML.
//
// Names and defaults: src/nanotron/config/ of https://github.com/huggingface/nanotron
#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <optional>

#include "scenarios/frameworks/importers.h"

namespace stepcast {
namespace {

constexpr int64_t kMostRanks = 1'000'000;  // of each kind of parallelism; also of microbatches

// As many as the GPUs make where the user states how many of those there are, or how many a replica
// has.
void nanotron_replicas(Importing& i) {
  const char* name = "parallelism.dp";
  const std::optional<int64_t> dp = i.a.whole(name);
  if (!dp) return;
  if (*dp < 1 || *dp > kMostRanks)
    return i.a.refuse(name, fmt::format("must be from 1 to {}", kMostRanks));
  const bool follows = std::ranges::any_of(
      std::initializer_list<const char*>{"cluster", "parallel.tp", "parallel.pp", "parallel.cp"},
      [&](const char* path) { return i.in.states_any_of(path); });
  if (!follows) i.draft.set("parallel.dp", *dp, i.a.origin(name));
}

void nanotron_cluster(Importing& i) {
  if (i.in.problems.any()) return;
  int64_t gpus = 1;
  constexpr int64_t kMost = 10'000'000;
  for (const char* name : {"parallelism.tp", "parallelism.pp", "parallelism.context_parallel_size",
                           "parallelism.dp"}) {
    const int64_t n = i.a.whole(name, 1);
    if (gpus > kMost / n)
      return i.in.problems.add("E332", "dp, pp, tp and cp do not make a job of a sensible size",
                               i.a.mark("parallelism.tp"), 1, {},
                               "each is at least 1, their product at most 10,000,000 GPUs");
    gpus *= n;
  }
  draft_cluster(i.cluster, gpus, {"dp x pp x tp of `parallelism`", i.a.mark("parallelism.dp")},
                i.draft);
}

void nanotron_global_batch(Importing& i) {
  const char* name = "tokens.batch_accumulation_per_replica";
  const int64_t steps = i.a.whole(name, 1);
  if (steps < 1 || steps > kMostRanks)
    return i.a.refuse(name, fmt::format("must be from 1 to {}", kMostRanks));
  if (i.in.problems.any()) return;
  i.draft.derive("batch.global",
                 {DerivedBatch::Rule::microbatches, steps, i.a.whole("parallelism.dp", 1)},
                 {fmt::format("{} x micro_batch_size x dp", i.a.why(name)), i.a.mark(name)});
}

void nanotron_gradients(Importing& i) {
  const char* name = "optimizer.accumulate_grad_in_fp32";
  const std::string dtype = i.a.word("model.dtype", "bfloat16");
  const bool half = dtype == "float16" || dtype == "torch.float16";
  const bool full = dtype == "float32" || dtype == "torch.float32";
  if (full || !i.a.given(name)) return;
  i.draft.set_text("precision.grads",
                   i.a.flag(name) ? "fp32"
                   : half         ? "fp16"
                                  : "bf16",
                   i.a.origin(name));
}

void nanotron_recompute(Importing& i) {
  if (i.a.flag("parallelism.recompute_layer"))
    i.draft.set_text("recompute.granularity", "full", i.a.origin("parallelism.recompute_layer"));
  else if (i.a.flag("parallelism.moe_layer_recompute"))
    i.draft.set("recompute", std::string("{granularity: selective, modules: [moe]}"),
                i.a.origin("parallelism.moe_layer_recompute"));
}

// DistributedDataParallel's buckets are of the parameters' own gradients, whose hook then sums fp32
// ones (src/nanotron/optim/gradient_accumulator.py, get_fp32_accum_hook).
void nanotron_bucket(Importing& i) {
  const char* name = "model.ddp_bucket_cap_mb";
  const std::string dtype = i.a.word("model.dtype", "bfloat16");
  const bool full = dtype == "float32" || dtype == "torch.float32";
  if (const auto mib = i.a.whole(name); mib && *mib > 0 && *mib < 1'000'000)
    i.draft.set(
        "overlap.bucket", *mib * 1024 * 1024 / (full ? 4 : 2),
        {fmt::format("{} of {}", i.a.why(name), full ? "fp32" : "16 bits"), i.a.mark(name)});
}

// Models of Qwen2Config (src/nanotron/models/qwen.py since 0ce73399 of March 2025, SmolLM3's branch
// too): Qwen2DecoderLayer makes a TritonRMSNorm of each norm where _fused_rms_norm says so, and
// puts one of PyTorch's operators (LlamaRMSNorm) in the place of the one before attention whatever
// that says.  Queries and keys that stay packed are rotated by flash-attn's kernel.  All of these
// keys are false by default (src/nanotron/config/models_config.py @025f3141).
void nanotron_qwen(Importing& i) {
  if (!i.a.flag("model.model_config.is_qwen2_config")) return;
  const char* norm = "model.model_config._fused_rms_norm";
  const char* rotary = "model.model_config._fused_rotary_emb";
  const char* packed = "model.model_config._use_qkv_packed";
  if (i.a.flag(norm))
    i.draft.set("kernels.fused_input_norm", false, "nanotron's Qwen2DecoderLayer: LlamaRMSNorm");
  else
    i.draft.set("kernels.fused_norm", false, "nanotron's Qwen2Config: _fused_rms_norm false");
  if (!i.a.flag(packed) && !i.a.flag(rotary))
    i.draft.set("kernels.fused_rotary", false, "nanotron's Qwen2Config: _fused_rotary_emb false");
}

constexpr CostArgument kNanotron[] = {
    {"parallelism.tp", "parallel.tp", As::size_to(kMostRanks)},
    {"parallelism.pp", "parallel.pp", As::size_to(kMostRanks)},
    {"parallelism.context_parallel_size", "parallel.cp", As::size_to(kMostRanks)},
    {"parallelism.dp", "parallel.dp", As::code(nanotron_replicas)},
    {"parallelism.expert_parallel_size", "parallel.ep", As::size_to(kMostRanks)},
    {"", "cluster", As::code(nanotron_cluster)},
    {"parallelism.tp_mode", "parallel.sp",
     As::word("REDUCE_SCATTER=true|*=false")
         .otherwise("ALL_REDUCE", "nanotron's default: ALL_REDUCE")
         .with("parallelism.tp")},
    {"parallelism.pp_engine", "schedule.kind",
     As::word("1f1b|afab=gpipe").otherwise("1f1b", "nanotron's default").with("parallelism.pp")},
    {"parallelism.tp_linear_async_communication", "overlap.tp",
     As::flag("true=backward|false=none").with("parallelism.tp")},
    {"tokens.micro_batch_size", "batch.micro", As::size_to(kMostRanks)},
    {"tokens.batch_accumulation_per_replica", "batch.global", As::code(nanotron_global_batch)},
    {"tokens.sequence_length", "batch.seq", As::whole().needed()},
    {"optimizer.zero_stage", "parallel.zero", As::whole()},
    {"model.dtype", "precision.preset",
     As::word("float32=fp32|torch.float32=fp32|float16=fp16-mixed|torch.float16=fp16-mixed|"
              "*=bf16-mixed")
         .otherwise("bfloat16", "nanotron's default")},
    {"optimizer.accumulate_grad_in_fp32", "precision.grads", As::code(nanotron_gradients)},
    {"optimizer.clip_grad", "optimizer.clip",
     As::positive().otherwise("false", "nanotron's default")},
    {"optimizer.optimizer_factory.name", "optimizer.kind", As::word("adamW=adamw|*")},
    {"parallelism.recompute_layer", "recompute.granularity", As::code(nanotron_recompute)},
    {"parallelism.moe_layer_recompute", "recompute.modules"},
    {"model.ddp_bucket_cap_mb", "overlap.bucket", As::code(nanotron_bucket)},
    {"", "kernels.fused_input_norm", As::code(nanotron_qwen)},
    {"model.model_config.is_qwen2_config", "kernels.fused_norm"},
    {"model.model_config._fused_rms_norm", "kernels.fused_norm"},
    {"model.model_config._fused_rotary_emb", "kernels.fused_rotary"},
    {"model.model_config._use_qkv_packed", "kernels.fused_rotary"},
    {"model.model_config._use_doc_masking", "model", As::left_out("false")},
    {"model.model_config.no_rope_layer", "model", As::left_out("null")},
    {"model.model_config.z_loss_enabled", "kernels.loss", As::left_out("false")},
    // Trains with a model beside it that only runs forward.
    {"doremi.ref_model_resume_checkpoint_path", "distill", As::left_out("none")},
    {"parallelism.tp_recompute_allgather", "recompute", As::left_out("true")},
    {"model.make_vocab_size_divisible_by", "model.vocab_size", As::left_out("1|128")},
};

// A member of a mapping that is made up here.
Member made_up(const char* key, std::string text, const Mark& mark) {
  return {key, mark, word_value(std::move(text), mark)};
}

// A flag of a mapping; false where it is not there.  Adds E331.
bool flag_of(const Value& mapping, const char* key, Problems& problems) {
  const Value* v = mapping.find(key);
  if (v == nullptr || v->kind == Value::Kind::null) return false;
  const std::optional<bool> on = v->is_scalar() ? truth(v->text) : std::nullopt;
  if (!on)
    problems.add("E331", fmt::format("'{}' must be true or false, not '{}'", key, to_flow(*v)),
                 v->mark, static_cast<int>(std::max<size_t>(1, v->text.size())));
  return on.value_or(false);
}

// `moe_config` as the keys that transformers' Qwen2MoE has for the same; what it does not say has
// the defaults of MoEConfig (config/models_config.py).
void add_experts(const Value& experts, Value& config, Problems& problems) {
  struct Row {
    const char *theirs, *ours, *fallback;
  };
  constexpr Row kRows[] = {
      {"num_experts", "num_experts", "8"},
      {"top_k", "num_experts_per_tok", "2"},
      {"moe_intermediate_size", "moe_intermediate_size", "1408"},
      {"shared_expert_intermediate_size", "shared_expert_intermediate_size", "5632"}};
  const bool shared = flag_of(experts, "enable_shared_expert", problems);
  for (const Row& row : kRows) {
    const Value* v = experts.find(row.theirs);
    const bool of_shared = std::string_view(row.ours).starts_with("shared");
    if (of_shared && !shared)
      config.members.push_back(made_up(row.ours, "0", experts.mark));
    else if (v == nullptr)
      config.members.push_back(made_up(row.ours, row.fallback, experts.mark));
    else
      config.members.push_back({row.ours, v->mark, *v});
  }
  const Value* layers = experts.find("layers");  // those with experts; -1: all of them
  const Value* all = config.find("num_hidden_layers");
  const int64_t count = all == nullptr ? 0 : python_whole(all->text).value_or(0);
  if (layers == nullptr || layers->items.empty() || layers->items.front().text == "-1" ||
      count > kMostRanks)
    return;
  Value dense;
  dense.kind = Value::Kind::sequence;
  dense.mark = layers->mark;
  for (int64_t layer = 0; layer < count; ++layer) {
    const std::string index = fmt::format("{}", layer);
    if (std::ranges::find(layers->items, index, &Value::text) == layers->items.end())
      dense.items.push_back(word_value(index, layers->mark));
  }
  if (!dense.items.empty())
    config.members.push_back({"mlp_only_layers", layers->mark, std::move(dense)});
}

// Keys of model_config that say what nanotron launches, and not the model.
bool is_of_kernels(std::string_view key) {
  constexpr std::string_view kKeys[] = {"_fused_rms_norm",  "_fused_rotary_emb", "_use_qkv_packed",
                                        "_use_doc_masking", "no_rope_layer",     "z_loss_enabled"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

// Other keys of it that transformers does not have, and that hardly change the cost.
bool is_of_no_cost(std::string_view key) {
  constexpr std::string_view kKeys[] = {"flex_attention_mask", "interleaved_rotary",
                                        "log_attn_probs",      "ring_attn_heads_k_stride",
                                        "rope_interleaved",    "z_loss_coefficient"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

// model.model_config as a config.json.  nanotron says the kind of model by a flag: is_llama_config.
// Adds E331.
Value config_of(const Value& model_config, Problems& problems) {
  Value config;
  config.kind = Value::Kind::mapping;
  config.mark = model_config.mark;
  const Value* experts = model_config.find("moe_config");
  const bool has_experts = experts != nullptr && experts->is_mapping();
  const bool is_qwen = flag_of(model_config, "is_qwen2_config", problems);
  // Of nanotron's Qwen2 the key of all biases is that of Q, K and V, and off by default
  // (models/qwen.py); transformers' Qwen2 always has them.
  if (is_qwen && model_config.find("attention_bias") == nullptr)
    config.members.push_back(
        made_up("qkv_bias", "false", model_config.find("is_qwen2_config")->mark));
  for (const Member& m : model_config.members) {
    if (m.key == "moe_config" && has_experts) continue;
    if (is_of_kernels(m.key) || is_of_no_cost(m.key)) continue;
    if (is_qwen && m.key == "attention_bias") {
      config.members.push_back({"qkv_bias", m.key_mark, m.value});
      continue;
    }
    if (!m.key.starts_with("is_") || !m.key.ends_with("_config")) {
      config.members.push_back(m);
      continue;
    }
    if (m.key == "is_qwen2_config" ? !is_qwen : !flag_of(model_config, m.key.c_str(), problems))
      continue;
    Member type = m;
    type.key = "model_type";
    type.value.text = m.key.substr(3, m.key.size() - 10);
    if (has_experts && is_qwen) type.value.text = "qwen2_moe";
    config.members.push_back(std::move(type));
  }
  if (has_experts) add_experts(*experts, config, problems);
  return config;
}

}  // namespace

void import_nanotron(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                     ImportCounts& counts) {
  Value file = read_mapping(in, in.file, "a configuration of nanotron");
  if (in.problems.any()) return;
  const Value* model = file.find("model");
  const Value* model_config = model == nullptr ? nullptr : model->find("model_config");
  if (model_config == nullptr || !model_config->is_mapping())
    return in.problems.add("E330", "there is no model.model_config in this file", {in.file, 1, 1},
                           1, {},
                           "a configuration of nanotron has model, parallelism, tokens, ...");
  draft.set_text("software", "nanotron", "");
  const Value config = config_of(*model_config, in.problems);
  if (in.problems.any()) return;
  const auto of_config = draft_config_model(config, in, draft, counts);
  if (!of_config) return;
  check_config_model(in, *of_config);
  std::vector<Argument> arguments = flatten(file);
  std::erase_if(arguments, [](const Argument& a) {
    constexpr std::string_view kConfig = "model.model_config.";
    if (!a.name.starts_with(kConfig)) return false;
    const std::string_view key = std::string_view(a.name).substr(kConfig.size());
    return !is_of_kernels(key) && key != "is_qwen2_config";
  });
  const ArgumentReader reader(kNanotron, "nanotron", arguments, in.problems);
  counts.add(reader);
  Importing importing{reader, in, cluster, draft};
  draft_rows(importing);
}

}  // namespace stepcast
