// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/megatron/export_layout.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace stepcast {
namespace {

// pytorch/pytorch torch/distributed/pipelining/schedules.py, get_schedule_class()
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kTorchSchedules{
    {{"1f1b", "1F1B"},
     {"gpipe", "GPipe"},
     {"interleaved-1f1b", "Interleaved1F1B"},
     {"looped-bfs", "LoopedBFS"},
     {"interleaved-zero-bubble", "InterleavedZeroBubble"},
     {"zb-v", "ZBVZeroBubble"}}};

// [["tok_embeddings", "layers.0"], ["layers.1", "norm", "output"]]
std::string module_names(const std::vector<StageContent>& stages) {
  std::string text;
  int64_t layer = 0;
  for (const StageContent& s : stages) {
    std::vector<std::string> names;
    if (s.embedding) names.emplace_back("tok_embeddings");
    for (int64_t i = 0; i < s.layers; ++i) names.push_back(fmt::format("layers.{}", layer++));
    if (s.head) {
      names.emplace_back("norm");
      names.emplace_back("output");
    }
    std::string part;
    for (const std::string& n : names) part += (part.empty() ? "\"" : ", \"") + n + '"';
    text += (text.empty() ? "  [" : ",\n  [") + part + ']';
  }
  return "[\n" + text + "\n]";
}

bool is_even(const std::vector<StageContent>& stages) {
  return std::ranges::all_of(
      stages, [&](const StageContent& s) { return s.layers == stages.front().layers; });
}

// [[embedding, decoder], [decoder, loss]]: how pipeline_model_parallel_layout is written in Python.
std::string bridge_layout(const std::vector<StageContent>& stages) {
  std::string text;
  for (const StageContent& s : stages) {
    std::string part = s.embedding ? "embedding" : "";
    const auto add = [&](const char* word, int64_t count) {
      for (int64_t i = 0; i < count; ++i) part += (part.empty() ? "" : ",") + std::string(word);
    };
    add("decoder", s.layers);
    add("mtp", s.predictions);
    add("loss", s.head ? 1 : 0);
    text += (text.empty() ? "[" : ",[") + part + ']';
  }
  return '[' + text + ']';
}

// "# not said: NOTE", a line each.
std::string comments(const std::vector<std::string>& notes) {
  std::string text;
  for (const std::string& n : notes) text += fmt::format("# not said: {}\n", n);
  return text;
}

constexpr std::array<std::string_view, 21> kSaidToTorchtitan{
    "optimizer.kind",        "parallel.tp",           "parallel.cp",
    "parallel.pp",           "parallel.vpp",          "parallel.dp",
    "parallel.dp_replicate", "parallel.sp",           "parallel.zero",
    "parallel.ep",           "parallel.etp",          "parallel.layout",
    "parallel.split",        "parallel.cp_comm",      "parallel.reshard_after_forward",
    "batch.global",          "batch.micro",           "batch.seq",
    "schedule.kind",         "recompute.granularity", "precision.preset"};

constexpr std::array<std::string_view, 5> kSaidByBridge{"recompute.granularity", "recompute.method",
                                                        "recompute.layers", "precision.reduce",
                                                        "precision.master"};

// A recipe of Megatron-Bridge's src/megatron/bridge/training/mixed_precision.py, after "bf16_" or
// "fp16_", and what it has beside the scaling.
struct MixedPrecisionRecipe {
  Scaling scaling;
  std::string_view name;
  bool low_params;      // fp8_param_gather or fp4_param_gather
  int64_t wide_layers;  // at either end in bf16
};
constexpr std::array<MixedPrecisionRecipe, 6> kBridgeRecipes{
    {{Scaling::none, "mixed", false, 0},
     {Scaling::delayed, "with_fp8_delayed_scaling_mixed", true, 0},
     {Scaling::tensorwise, "with_fp8_current_scaling_mixed", true, 1},
     {Scaling::blockwise, "with_fp8_subchannel_scaling_mixed", false, 0},
     {Scaling::mxfp8, "with_mxfp8_mixed", true, 0},
     {Scaling::nvfp4, "with_nvfp4_mixed", true, 0}}};

const std::pair<std::string_view, std::string_view>* torch_schedule(const Scenario& s) {
  return std::ranges::find(kTorchSchedules, std::string_view(s.schedule.name),
                           &std::pair<std::string_view, std::string_view>::first);
}

// The override of mixed_precision; what the recipe does otherwise goes to `notes`.
std::string bridge_precision(const Precision& p, std::vector<std::string>& notes) {
  const auto* recipe = std::ranges::find(kBridgeRecipes, p.scaling, &MixedPrecisionRecipe::scaling);
  const bool half = p.params == DType::fp16;
  // There is no recipe with fp16 and NVFP4, and none of fp32 or with int8.
  if (recipe == kBridgeRecipes.end() || (p.params != DType::bf16 && !half) ||
      (half && p.scaling == Scaling::nvfp4)) {
    notes.push_back(fmt::format("precision.preset: mixed_precision has no recipe of {}{}",
                                name_of(p.params), p.scaling == Scaling::int8 ? " with int8" : ""));
    return {};
  }
  const auto note = [&](bool differs, const char* key, const std::string& value) {
    if (differs) notes.push_back(fmt::format("{} {}, which this recipe has otherwise", key, value));
  };
  note(p.low_params != recipe->low_params, "precision.fp8_params", fmt::format("{}", p.low_params));
  note(p.wide_first_layers != recipe->wide_layers, "precision.first_bf16_layers",
       fmt::to_string(p.wide_first_layers));
  note(p.wide_last_layers != recipe->wide_layers, "precision.last_bf16_layers",
       fmt::to_string(p.wide_last_layers));
  // bf16_mixed() has grad_reduce_in_fp32, fp16_mixed() has not.
  const DType usual = half ? DType::fp16 : DType::fp32;
  note(p.gradients != usual, "precision.grads", std::string(name_of(p.gradients)));
  note(p.reduce != usual, "precision.reduce", std::string(name_of(p.reduce)));
  note(!p.master, "precision.master", "none");
  note(p.moments != DType::fp32, "precision.moments", std::string(name_of(p.moments)));
  return fmt::format("mixed_precision={}_{}\n", half ? "fp16" : "bf16", recipe->name);
}

}  // namespace

std::vector<std::string_view> said_by_megatron(std::span<const std::string_view> more) {
  std::vector<std::string_view> said{"parallel.tp",
                                     "parallel.cp",
                                     "parallel.pp",
                                     "parallel.vpp",
                                     "parallel.dp",
                                     "parallel.dp_replicate",
                                     "parallel.sp",
                                     "parallel.zero",
                                     "parallel.ep",
                                     "parallel.etp",
                                     "parallel.layout",
                                     "parallel.split",
                                     "parallel.cp_comm",
                                     "batch.global",
                                     "batch.micro",
                                     "batch.seq",
                                     "schedule.kind",
                                     "precision.preset",
                                     "precision.params",
                                     "precision.grads",
                                     "precision.moments",
                                     "precision.fp8_params",
                                     "precision.first_last_bf16",
                                     "precision.first_bf16_layers",
                                     "precision.last_bf16_layers",
                                     "overlap.dp_grad",
                                     "overlap.dp_param",
                                     "overlap.bucket",
                                     "overlap.tp",
                                     "overlap.ep",
                                     "optimizer.kind"};
  said.insert(said.end(), more.begin(), more.end());
  return said;
}

std::vector<std::string> stated_beside(const Scenario& s, std::span<const std::string_view> said) {
  constexpr std::array<std::string_view, 11> kOfTheStep{
      "parallel",  "batch",   "schedule", "precision", "recompute", "overlap",
      "optimizer", "kernels", "moe",      "offload",   "env"};
  const auto is_below = [](std::string_view path, std::string_view key) {
    return path.starts_with(key) && (path.size() == key.size() || path[key.size()] == '.');
  };
  std::vector<std::string> all;
  for (const Setting& x : s.settings) {
    const auto holds = [&](std::string_view key) { return is_below(x.path, key); };
    if (x.stated && std::ranges::any_of(kOfTheStep, holds) && std::ranges::none_of(said, holds))
      all.push_back(x.path + ' ' + x.value);
  }
  return all;
}

std::string why_not_torchtitan(const Scenario& s) {
  const Plan& p = s.plan;
  if (p.zero != 3 && p.dp * p.cp > 1)
    return fmt::format("parallel.zero {}: torchtitan shards parameters (FSDP), as ZeRO-3", p.zero);
  if (p.recompute == Recompute::selective)
    return "recompute selective: torchtitan recomputes whole layers or by operator (per-op)";
  if (p.pp > 1 && torch_schedule(s) == kTorchSchedules.end())
    return fmt::format("schedule {}: PyTorch has no such order", s.schedule.name);
  if (p.cp > 1 && p.cp_comm != CpComm::p2p && p.cp_comm != CpComm::all_gather)
    return "parallel.cp_comm: torchtitan passes keys and values around or gathers them";
  if (s.model.mtp_layers > 0) return "modules of multi-token prediction: torchtitan has none";
  return {};
}

std::optional<std::string> torchtitan_layout(const Scenario& s) {
  if (!why_not_torchtitan(s).empty()) return {};
  const Plan& p = s.plan;
  const auto* schedule = torch_schedule(s);
  std::vector<std::string> notes;
  const auto note = [&](bool is_so, const char* text) {
    if (is_so) notes.emplace_back(text);
  };
  const Precision& precision = p.precision;
  const bool async = p.overlap.tp == TpOverlap::pipelined;
  note(precision.params == DType::fp16, "precision.preset: torchtitan computes in bf16 or fp32");
  note(precision.scaling == Scaling::tensorwise || precision.scaling == Scaling::mxfp8,
       "precision.preset: how a model is converted to float8 or MX differs between versions");
  note(precision.scaling != Scaling::none && precision.scaling != Scaling::tensorwise &&
           precision.scaling != Scaling::mxfp8,
       "precision.preset: torchtitan converts to float8 by tensors or rows, and to MX alone");
  note(p.dp * p.cp > 1 && !p.overlap.dp_grad,
       "overlap.dp_grad false: FSDP reduces gradients beside the backward");
  note(p.dp * p.cp > 1 && !p.overlap.dp_param,
       "overlap.dp_param false: FSDP gathers parameters beside the compute");
  std::vector<std::string_view> said(kSaidToTorchtitan.begin(), kSaidToTorchtitan.end());
  if (async) said.emplace_back("overlap.tp");
  for (const std::string_view key : {"overlap.dp_grad", "overlap.dp_param"}) said.push_back(key);
  for (std::string& more : stated_beside(s, said)) notes.push_back(std::move(more));
  std::string text =
      "# The layout alone: it goes over the file of a job, which names the model.\n" +
      comments(notes) +
      fmt::format(
          "[training]\nseq_len = {}\nlocal_batch_size = {}\nglobal_batch_size = {}\n"
          "mixed_precision_param = \"{}\"\n\n[parallelism]\n"
          "data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
          "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n"
          "enable_sequence_parallel = {}\ncontext_parallel_degree = {}\n",
          p.seq, p.pp > 1 ? p.global_batch / p.dp : p.micro_batch, p.global_batch,
          precision.params == DType::fp32 ? "float32" : "bfloat16", p.dp_replicate,
          p.dp / p.dp_replicate, p.sharding.reshard_after_forward ? "always" : "never", p.tp, p.sp,
          p.cp);
  if (async) text += "enable_async_tensor_parallel = true\n";
  if (p.cp > 1)
    text += fmt::format("context_parallel_rotate_method = \"{}\"\n",
                        p.cp_comm == CpComm::p2p ? "alltoall" : "allgather");
  if (s.model.experts > 0)
    text += fmt::format("expert_parallel_degree = {}\nexpert_tensor_parallel_degree = {}\n", p.ep,
                        p.etp);
  text += fmt::format("pipeline_parallel_degree = {}\n", p.pp);
  if (p.pp > 1)
    text += fmt::format(
        "pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n"
        "module_fqns_per_model_part = {}\n",
        schedule->second, p.micro_batch, module_names(p.stages));
  text += fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                      p.recompute == Recompute::full     ? "full"
                      : p.recompute == Recompute::per_op ? "selective"
                                                         : "none");
  if (p.recompute == Recompute::per_op) text += "selective_ac_option = \"op\"\n";
  return text;
}

std::string why_not_nemo(const Scenario& s) {
  const Plan& p = s.plan;
  if (p.zero > 1)
    return fmt::format("parallel.zero {}: Megatron-Bridge's overrides say ZeRO-1 at most", p.zero);
  const bool order = p.pp == 1 || s.schedule.name == "1f1b" ||
                     (p.vpp > 1 && s.schedule.name.starts_with("interleaved-1f1b"));
  if (!order) return fmt::format("schedule {}: Megatron-LM has 1F1B alone", s.schedule.name);
  if (p.recompute == Recompute::per_op)
    return "recompute per-op: Megatron-LM recomputes whole layers or modules";
  if (p.recompute == Recompute::selective && !(p.recompute_modules == RecomputeModules{}))
    return "recompute.modules: the overrides say selective recomputation of attention alone";
  return {};
}

std::optional<std::string> nemo_overrides(const Scenario& s) {
  if (!why_not_nemo(s).empty()) return {};
  const Plan& p = s.plan;
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("{}={}\n", name, value);
  };
  const auto number = [&](const char* name, int64_t value) { add(name, fmt::to_string(value)); };
  const auto flag = [&](const char* name, bool value) { add(name, value ? "true" : "false"); };
  number("train.global_batch_size", p.global_batch);
  number("train.micro_batch_size", p.micro_batch);
  number("model.seq_length", p.seq);
  number("dataset.seq_length", p.seq);
  number("model.tensor_model_parallel_size", p.tp);
  flag("model.sequence_parallel", p.sp);
  number("model.context_parallel_size", p.cp);
  number("model.pipeline_model_parallel_size", p.pp);
  add("model.virtual_pipeline_model_parallel_size", p.vpp > 1 ? fmt::to_string(p.vpp) : "null");
  if (p.pp > 1 && !is_even(p.stages))
    add("model.pipeline_model_parallel_layout", bridge_layout(p.stages));
  if (s.model.experts > 0) {
    number("model.expert_model_parallel_size", p.ep);
    number("model.expert_tensor_parallel_size", p.etp);
  }
  if (p.cp > 1) {
    // of Megatron-Core's TransformerConfig
    constexpr std::array<const char*, 4> kWays{"p2p", "all_gather", "a2a", "a2a+p2p"};
    add("model.cp_comm_type", kWays[static_cast<size_t>(p.cp_comm)]);
  }
  // Of these two Bridge takes what either section has on (its config.py).
  for (const char* name : {"ddp.use_distributed_optimizer", "optimizer.use_distributed_optimizer"})
    flag(name, p.zero == 1);
  number("ddp.num_distributed_optimizer_instances", p.dp_replicate);
  flag("ddp.overlap_grad_reduce", p.overlap.dp_grad);
  for (const char* name : {"ddp.overlap_param_gather", "optimizer.overlap_param_gather"})
    flag(name, p.overlap.dp_param);
  if (p.bucket_parameters > 0) number("ddp.bucket_size", p.bucket_parameters);
  if (s.model.experts > 0) flag("model.overlap_moe_expert_parallel_comm", p.overlap.ep);
  // Megatron-Core refuses it without sequence parallelism.
  const TpOverlap overlap = p.tp > 1 && p.sp ? p.overlap.tp : TpOverlap::none;
  flag("model.tp_comm_overlap", overlap == TpOverlap::pipelined || overlap == TpOverlap::bulk);
  if (overlap == TpOverlap::bulk) {
    flag("model.tp_comm_overlap_ag", false);
    flag("model.tp_comm_overlap_rs", false);
  }
  add("model.recompute_granularity", p.recompute == Recompute::none   ? "null"
                                     : p.recompute == Recompute::full ? "full"
                                                                      : "selective");
  if (p.recompute == Recompute::full) {
    add("model.recompute_method",
        p.recompute_method == RecomputeMethod::uniform ? "uniform" : "block");
    number("model.recompute_num_layers", p.recompute_layers);
  }
  std::vector<std::string> notes;
  text += bridge_precision(p.precision, notes);
  if (overlap == TpOverlap::none && p.overlap.tp == TpOverlap::pipelined && p.tp > 1)
    notes.emplace_back("overlap.tp: Megatron overlaps beside sequence parallelism alone");
  if (p.overlap.tp == TpOverlap::none && p.tp > 1)
    notes.emplace_back("overlap.tp none: Megatron's backward collectives run beside GEMMs");
  for (std::string& more : stated_beside(s, said_by_megatron(kSaidByBridge)))
    notes.push_back(std::move(more));
  // CommOverlapConfig.setup() is applied after ddp and model, with defaults of its own.
  return "# A section comm_overlap of the recipe overrides what model and ddp say here of "
         "overlap:\n"
         "# give its keys of the same names the same values.\n" +
         comments(notes) + text;
}

}  // namespace stepcast
