// SPDX-License-Identifier: Apache-2.0
// import_accelerate: the YAML that `accelerate config` writes.  It says how a job is spread over
// GPUs; the model is --model's, and what the training script is given is not in it.
//
// Names and defaults: src/accelerate/commands/config/ and src/accelerate/utils/dataclasses.py of
// https://github.com/huggingface/accelerate
#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "scenarios/frameworks/importers.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int64_t kMostProcesses = 10'000'000;

bool is(const Importing& i, const char* name, std::string_view word) {
  return lower_case(i.a.word(name)) == word;
}

int64_t degree(const Importing& i, const char* name) {
  const int64_t n = i.a.whole(name, 1);
  if (n >= 1 && n <= kMostProcesses) return n;
  i.a.refuse(name, fmt::format("must be from 1 to {}", kMostProcesses));
  return 1;
}

struct Degree {
  const char* name;
  const char* path;
};
constexpr Degree kDegrees[] = {
    {"parallelism_config.parallelism_config_tp_size", "parallel.tp"},
    {"parallelism_config.parallelism_config_cp_size", "parallel.cp"},
    {"parallelism_config.parallelism_config_sp_size", "parallel.cp"},
    {"megatron_lm_config.megatron_lm_tp_degree", "parallel.tp"},
    {"megatron_lm_config.megatron_lm_pp_degree", "parallel.pp"},
};

void accelerate_job(Importing& i) {
  const std::string where = lower_case(i.a.word("distributed_type", "multi_gpu"));
  if (where == "multi_cpu" || where == "tpu" || where == "xla" || i.a.flag("use_cpu"))
    return i.a.problems().add("E130", "not supported yet: a job without GPUs",
                              i.a.mark("distributed_type"), 1, i.a.why("distributed_type"));
  const int64_t gpus = degree(i, "num_processes");
  int64_t one = 1;
  for (const Degree& d : kDegrees) {
    const int64_t n = degree(i, d.name);
    if (n < 2) continue;
    const auto twice = std::find_if(std::begin(kDegrees), &d, [&](const Degree& before) {
      return std::string_view(before.path) == d.path && degree(i, before.name) > 1;
    });
    if (twice != &d)
      return i.a.refuse(d.name,
                        fmt::format("and {} are two sizes of one thing, {}", twice->name, d.path),
                        "a job has one of them");
    if (one > kMostProcesses / n) return i.a.refuse(d.name, "is too large");
    one *= n;
    i.draft.set(d.path, n, i.a.origin(d.name));
  }
  if (gpus % one != 0)
    return i.a.refuse("num_processes",
                      fmt::format("is no multiple of the {} GPUs of a replica", one));
  draft_cluster(i.cluster, gpus, i.a.origin("num_processes", "the file does not say num_processes"),
                i.draft);
  if (degree(i, "parallelism_config.parallelism_config_sp_size") > 1)
    i.draft.set_text("parallel.cp_comm", "a2a", "DeepSpeed-Ulysses");
  const bool of_deepspeed = where == "deepspeed";
  const char* steps =
      of_deepspeed ? "deepspeed_config.gradient_accumulation_steps" : "gradient_accumulation_steps";
  const int64_t accumulated = i.a.word(steps) == "auto" ? 1 : degree(i, steps);
  const std::string script = "what the training script is given is not in this file";
  i.draft.assume("batch.micro", "1", script + "; -s batch.micro=N");
  const std::string stated = i.in.stated("batch.micro");
  const int64_t micro =
      stated.empty() ? 1 : std::clamp<int64_t>(python_whole(stated).value_or(1), 1, kMostProcesses);
  if (accumulated > kMostProcesses / micro)
    return i.in.problems.add("E332", "the sizes of this file make no step of a sensible size",
                             i.a.mark(steps), 1, {},
                             fmt::format("at most {} sequences of a replica and step, and {} x "
                                         "batch.micro {} are more",
                                         kMostProcesses, i.a.why(steps), micro));
  i.draft.assume_derived("batch.global",
                         {DerivedBatch::Rule::microbatches, accumulated, gpus / one},
                         fmt::format("micro batch x {} x replicas; -s batch.global=N",
                                     i.a.given(steps) ? i.a.why(steps) : "1"));
  i.draft.assume("batch.seq", fmt::format("{}", usual_sequence(i.max_positions)),
                 script + "; -s batch.seq=N");
}

void accelerate_fsdp(Importing& i) {
  if (is(i, "distributed_type", "fsdp")) {
    const char* name = "fsdp_config.fsdp_sharding_strategy";
    const auto [none, hybrid, keeps] = fsdp_strategy(i.a.word(name, "full_shard"));
    const bool newer = i.a.whole("fsdp_config.fsdp_version", 1) == 2;
    i.draft.set("parallel.zero", int64_t{none ? 0 : 3},
                i.a.origin(name, "FSDP's default: full shard"));
    const char* offloads = "fsdp_config.fsdp_offload_params";
    if (i.a.flag(offloads)) {
      if (none)
        i.draft.left_out(i.a.why(offloads));
      else
        i.draft.set("offload.parameters", true, i.a.origin(offloads));
    }
    if (none) return;
    i.draft.set_text("parallel.fsdp", newer ? "fsdp2" : "fsdp1",
                     i.a.origin("fsdp_config.fsdp_version", "Accelerate's default: FSDP 1"));
    const char* reshard = "fsdp_config.fsdp_reshard_after_forward";
    const std::string word = lower_case(i.a.word(reshard));
    if (keeps || truth(word) == false || word == "shard_grad_op")
      i.draft.set("parallel.reshard_after_forward", false, i.a.origin(keeps ? name : reshard));
    const char* copies = "parallelism_config.parallelism_config_dp_replicate_size";
    if (i.a.given(copies) && degree(i, copies) > 1)
      i.draft.set("parallel.dp_replicate", degree(i, copies), i.a.origin(copies));
    else if (hybrid && i.a.whole("num_machines", 1) > 1)
      i.draft.set("parallel.dp_replicate", degree(i, "num_machines"), i.a.origin(name));
    return;
  }
  if (is(i, "distributed_type", "megatron_lm"))
    i.draft.set(
        "parallel.zero",
        int64_t{i.a.flag("megatron_lm_config.megatron_lm_use_distributed_optimizer") ? 1 : 0},
        i.a.origin("megatron_lm_config.megatron_lm_use_distributed_optimizer", "not split"));
  if (!is(i, "distributed_type", "deepspeed")) return;
  const char* file = "deepspeed_config.deepspeed_config_file";
  if (i.a.given(file) && i.a.word(file) != "none")
    return i.a.problems().add(
        "E332", fmt::format("'{}': what DeepSpeed does is in another file", i.a.why(file)),
        i.a.mark(file), 1, {},
        "import that file: stepcast import deepspeed FILE --model config.json");
  const char* stage = "deepspeed_config.zero_stage";
  const int64_t zero = i.a.whole(stage, 2);
  if (zero < 0 || zero > 3) return i.a.refuse(stage, "must be 0, 1, 2 or 3");
  i.draft.set("parallel.zero", zero, i.a.origin(stage, "Accelerate's default: 2"));
  if (zero == 3) i.draft.set_text("parallel.fsdp", "deepspeed", i.a.origin(stage));
  for (const auto& [name, path, value] :
       {std::tuple{"deepspeed_config.offload_optimizer_device", "offload.optimizer", "1"},
        std::tuple{"deepspeed_config.offload_param_device", "offload.parameters", "true"}}) {
    const std::string device = i.a.word(name, "none");
    if (device == "cpu")
      i.draft.set(path, std::string(value), i.a.origin(name));
    else if (device != "none")
      i.draft.left_out(i.a.why(name));
  }
}

void accelerate_recompute(Importing& i) {
  for (const char* name : {"fsdp_config.fsdp_activation_checkpointing",
                           "megatron_lm_config.megatron_lm_recompute_activations"})
    if (i.a.flag(name))
      i.draft.set_text("recompute.granularity", name[0] == 'f' ? "full" : "selective",
                       i.a.origin(name));
}

void accelerate_precision(Importing& i) {
  const std::string word = lower_case(i.a.word("mixed_precision", "no"));
  const char* preset = word == "bf16"   ? "bf16-mixed"
                       : word == "fp16" ? "fp16-mixed"
                       : word == "fp8"  ? "fp8-delayed"
                                        : "fp32";
  i.draft.set_text("precision.preset", preset,
                   i.a.origin("mixed_precision", "Accelerate's default: no"));
}

void accelerate_clip(Importing& i) {
  for (const char* name :
       {"deepspeed_config.gradient_clipping", "megatron_lm_config.megatron_lm_gradient_clipping"})
    if (i.a.given(name)) i.draft.set("optimizer.clip", true, i.a.origin(name));
}

constexpr CostArgument kAccelerate[] = {
    {"distributed_type", "parallel.zero", As::code(accelerate_job)},
    {"num_processes", "cluster.nodes"},
    {"num_machines", "cluster.nodes"},
    {"use_cpu", "cluster.nodes"},
    {"gradient_accumulation_steps", "batch.global"},
    {"parallelism_config.parallelism_config_tp_size", "parallel.tp"},
    {"parallelism_config.parallelism_config_cp_size", "parallel.cp"},
    {"parallelism_config.parallelism_config_sp_size", "parallel.cp"},
    {"parallelism_config.parallelism_config_dp_replicate_size", "parallel.dp_replicate"},
    {"parallelism_config.parallelism_config_dp_shard_size", "parallel.zero"},
    {"megatron_lm_config.megatron_lm_tp_degree", "parallel.tp"},
    {"megatron_lm_config.megatron_lm_pp_degree", "parallel.pp"},
    {"megatron_lm_config.megatron_lm_num_micro_batches", "batch.global", As::left_out("1")},
    {"megatron_lm_config.megatron_lm_sequence_parallelism", "parallel.sp",
     As::flag().with("megatron_lm_config.megatron_lm_tp_degree")},
    {"megatron_lm_config.megatron_lm_use_distributed_optimizer", "parallel.zero"},
    {"fsdp_config.fsdp_sharding_strategy", "parallel.zero", As::code(accelerate_fsdp)},
    {"fsdp_config.fsdp_version", "parallel.fsdp"},
    {"fsdp_config.fsdp_reshard_after_forward", "parallel.reshard_after_forward"},
    {"deepspeed_config.zero_stage", "parallel.zero"},
    {"deepspeed_config.deepspeed_config_file", "parallel.zero"},
    {"deepspeed_config.offload_optimizer_device", "offload.optimizer"},
    {"deepspeed_config.offload_param_device", "offload.parameters"},
    {"deepspeed_config.gradient_accumulation_steps", "batch.global"},
    {"fsdp_config.fsdp_offload_params", "offload.parameters"},
    {"fsdp_config.fsdp_activation_checkpointing", "recompute.granularity",
     As::code(accelerate_recompute)},
    {"megatron_lm_config.megatron_lm_recompute_activations", "recompute.granularity"},
    {"mixed_precision", "precision.preset", As::code(accelerate_precision)},
    {"deepspeed_config.gradient_clipping", "optimizer.clip", As::code(accelerate_clip)},
    {"megatron_lm_config.megatron_lm_gradient_clipping", "optimizer.clip"},
};

}  // namespace

void import_accelerate(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                       ImportCounts& counts) {
  const Value file = read_mapping(in, in.file, "a configuration of Accelerate");
  if (in.problems.any()) return;
  const ArgumentReader reader(kAccelerate, "accelerate", flatten(file), in.problems);
  if (!reader.given("distributed_type"))
    return in.problems.add("E330", "there is no distributed_type in this file", {in.file, 1, 1}, 1,
                           {}, "`accelerate config` writes one");
  const bool deepspeed = lower_case(reader.word("distributed_type")) == "deepspeed";
  draft.set_text("software", deepspeed ? "deepspeed-zero3" : "pytorch-fsdp", "");
  const auto positions = draft_model_beside(in, "Accelerate's file", draft, counts);
  if (!positions) return;
  counts.add(reader);
  Importing importing{reader, in, cluster, draft};
  importing.max_positions = *positions;
  draft_rows(importing);
}

}  // namespace stepcast
