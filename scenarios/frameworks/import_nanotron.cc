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
// that says.  Queries and keys that stay packed are rotated by flash-attn's kernel.
void nanotron_qwen(Importing& i) {
  if (!i.a.flag("model.model_config.is_qwen2_config")) return;
  const char* norm = "model.model_config._fused_rms_norm";
  const char* rotary = "model.model_config._fused_rotary_emb";
  const char* packed = "model.model_config._use_qkv_packed";
  if (i.a.flag(norm, true))
    i.draft.set("kernels.fused_input_norm", false, "nanotron's Qwen2DecoderLayer: LlamaRMSNorm");
  else
    i.draft.set("kernels.fused_norm", false, i.a.origin(norm));
  if (!i.a.flag(packed, true) && !i.a.flag(rotary, true))
    i.draft.set("kernels.fused_rotary", false, i.a.origin(rotary));
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
    {"parallelism.tp_recompute_allgather", "recompute", As::left_out("true")},
    {"model.make_vocab_size_divisible_by", "model.vocab_size", As::left_out("1|128")},
};

// Keys of model.model_config that say what nanotron launches, and not the model.
bool is_of_kernels(std::string_view key) {
  constexpr std::string_view kKeys[] = {"_fused_rms_norm",  "_fused_rotary_emb", "_use_qkv_packed",
                                        "_use_doc_masking", "no_rope_layer",     "z_loss_enabled",
                                        "rope_interleaved"};
  return std::ranges::find(kKeys, key) != std::end(kKeys);
}

// model.model_config as a config.json.  nanotron says the kind of model by a flag: is_llama_config.
// Its Qwen2 has biases as attention_bias says, which its first version, with biases, did not have.
Value config_of(const Value& model_config) {
  Value config;
  config.kind = Value::Kind::mapping;
  config.mark = model_config.mark;
  for (const Member& m : model_config.members) {
    if (is_of_kernels(m.key)) continue;
    if (m.key != "is_llama_config" && m.key != "is_qwen2_config" &&
        m.key != "is_starcoder2_config") {
      config.members.push_back(m);
      continue;
    }
    if (m.value.text != "true") continue;
    Member type = m;
    type.key = "model_type";
    type.value.text = m.key.substr(3, m.key.size() - 10);
    config.members.push_back(std::move(type));
    const Value* bias = model_config.find("attention_bias");
    if (m.key != "is_qwen2_config" || bias == nullptr) continue;
    Member qkv = m;
    qkv.key = "qkv_bias";
    qkv.value = *bias;
    config.members.push_back(std::move(qkv));
  }
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
  const Value config = config_of(*model_config);
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
