// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/export_layout.h"

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

}  // namespace

std::optional<std::string> torchtitan_layout(const Scenario& s) {
  const Plan& p = s.plan;
  const bool sharded = p.zero == 3 || p.dp * p.cp == 1;
  const bool recomputes = p.recompute == Recompute::none || p.recompute == Recompute::full;
  const auto* schedule = std::ranges::find(kTorchSchedules, std::string_view(s.schedule.name),
                                           &std::pair<std::string_view, std::string_view>::first);
  const bool known = p.pp == 1 || schedule != kTorchSchedules.end();
  const bool ways = p.cp == 1 || p.cp_comm == CpComm::p2p || p.cp_comm == CpComm::all_gather;
  if (!sharded || !recomputes || !known || !ways || s.model.mtp_layers > 0) return {};
  std::string text = fmt::format(
      "[training]\nseq_len = {}\nlocal_batch_size = {}\nglobal_batch_size = {}\n\n[parallelism]\n"
      "data_parallel_replicate_degree = {}\ndata_parallel_shard_degree = {}\n"
      "fsdp_reshard_after_forward = \"{}\"\ntensor_parallel_degree = {}\n"
      "enable_sequence_parallel = {}\ncontext_parallel_degree = {}\n",
      p.seq, p.pp > 1 ? p.global_batch / p.dp : p.micro_batch, p.global_batch, p.dp_replicate,
      p.dp / p.dp_replicate, p.sharding.reshard_after_forward ? "always" : "never", p.tp, p.sp,
      p.cp);
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
  return text + fmt::format("\n[activation_checkpoint]\nmode = \"{}\"\n",
                            p.recompute == Recompute::full ? "full" : "none");
}

std::optional<std::string> nemo_overrides(const Scenario& s) {
  const Plan& p = s.plan;
  const bool order = p.pp == 1 || s.schedule.name == "1f1b" ||
                     (p.vpp > 1 && s.schedule.name.starts_with("interleaved-1f1b"));
  const bool recomputes = p.recompute == Recompute::none || p.recompute == Recompute::full ||
                          p.recompute_modules == RecomputeModules{};
  if (p.zero > 1 || !order || !recomputes) return {};
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += fmt::format("{}={}\n", name, value);
  };
  const auto number = [&](const char* name, int64_t value) { add(name, fmt::to_string(value)); };
  const auto flag = [&](const char* name, bool value) { add(name, value ? "true" : "false"); };
  number("train.global_batch_size", p.global_batch);
  number("train.micro_batch_size", p.micro_batch);
  number("model.seq_length", p.seq);
  number("dataset.sequence_length", p.seq);
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
  flag("ddp.use_distributed_optimizer", p.zero == 1);
  add("model.recompute_granularity", p.recompute == Recompute::none   ? "null"
                                     : p.recompute == Recompute::full ? "full"
                                                                      : "selective");
  if (p.recompute == Recompute::full) {
    add("model.recompute_method",
        p.recompute_method == RecomputeMethod::uniform ? "uniform" : "block");
    number("model.recompute_num_layers", p.recompute_layers);
  }
  return text;
}

}  // namespace stepcast
