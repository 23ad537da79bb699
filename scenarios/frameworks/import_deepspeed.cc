// SPDX-License-Identifier: Apache-2.0
// import_deepspeed: DeepSpeed's JSON, with the model's config.json beside it.
//
// Names and defaults: https://www.deepspeed.ai/docs/config-json/
#include <algorithm>

#include "scenarios/frameworks/importers.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr CostArgument kArguments[] = {
    {"train_batch_size", "batch.global"},
    {"train_micro_batch_size_per_gpu", "batch.micro"},
    {"gradient_accumulation_steps", "batch.global"},
    {"fp16.enabled", "precision.preset"},
    {"bf16.enabled", "precision.preset", "bfloat16.enabled"},
    {"communication_data_type", "precision.reduce"},
    {"data_types.grad_accum_dtype", "precision.grads"},
    {"gradient_clipping", "optimizer.clip"},
    {"optimizer.type", "optimizer.kind"},
    {"zero_optimization.stage", "parallel.zero"},
    {"zero_optimization.overlap_comm", "overlap.dp_grad"},
    {"zero_optimization.reduce_bucket_size", "overlap.bucket"},
    {"zero_optimization.allgather_bucket_size", "overlap.gather_bucket"},
    {"zero_optimization.stage3_prefetch_bucket_size", "overlap.fsdp_prefetch",
     "zero_optimization.prefetch_bucket_size"},
    {"zero_optimization.stage3_param_persistence_threshold", "parallel.zero",
     "zero_optimization.param_persistence_threshold"},
    {"zero_optimization.stage3_max_live_parameters", "parallel.zero",
     "zero_optimization.max_live_parameters"},
    {"zero_optimization.stage3_max_reuse_distance", "parallel.zero",
     "zero_optimization.max_reuse_distance"},
    {"zero_optimization.offload_optimizer.device", "offload.optimizer"},
    {"zero_optimization.offload_optimizer.ratio", "offload.optimizer"},
    {"zero_optimization.cpu_offload", "offload.optimizer"},
    {"zero_optimization.offload_param.device", "offload.parameters"},
    {"zero_optimization.zero_hpz_partition_size", "parallel.dp_replicate", "", "", "1"},
    {"zero_optimization.mics_shard_size", "parallel.dp_replicate", "", "", "-1"},
    {"zero_optimization.zero_quantized_weights", "precision", "", "", "false"},
    {"zero_optimization.zero_quantized_gradients", "precision", "", "", "false"},
    {"zero_optimization.zero_quantized_nontrainable_weights", "precision", "", "", "false"},
    {"zero_optimization.round_robin_gradients", "overlap", "", "", "false"},
    {"tensor_parallel.autotp_size", "parallel.tp"},
    {"sequence_parallel_size", "parallel.cp"},
    {"activation_checkpointing.partition_activations", "recompute.distribute"},
    {"activation_checkpointing.cpu_checkpointing", "offload", "", "", "false"},
    {"activation_checkpointing.number_checkpoints", "recompute", "", "", "null"},
    {"compression_training", "precision", "", "", "false"},
    {"sparse_attention.mode", "kernels", "", "", "dense"},
    {"progressive_layer_drop.enabled", "model", "", "", "false"},
};

constexpr int64_t kMost = 1'000'000'000;

class DeepSpeedDraft {
 public:
  DeepSpeedDraft(const ArgumentReader& a, const ImportSources& in, const ImportCluster& cluster,
                 ScenarioDraft& draft)
      : a_(a), in_(in), cluster_(cluster), draft_(draft) {}

  void write(int64_t max_positions) {
    write_batch(max_positions);
    write_zero();
    write_precision();
    if (a_.given("gradient_clipping"))
      draft_.set("optimizer.clip", real("gradient_clipping") > 0, a_.why("gradient_clipping"));
    else
      draft_.set("optimizer.clip", false, "DeepSpeed's default: gradient_clipping 0");
    if (a_.given("optimizer.type")) {
      draft_.set_text("optimizer.kind", lower_case(a_.word("optimizer.type")),
                      a_.why("optimizer.type"));
    }
    for (const std::string& why : a_.left_out()) draft_.note(why + ": not modelled, left out");
  }

 private:
  // "auto": transformers' Trainer fills it in from its own arguments, which are not here.
  bool is_auto(const char* name) const { return a_.word(name) == "auto"; }

  int64_t size(const char* name, const char* path, int64_t fallback) {
    if (!a_.given(name)) return fallback;
    if (is_auto(name)) {
      if (!in_.states(path))
        a_.problems().add("E332", '\'' + a_.why(name) + "': the file leaves it to the Trainer",
                          a_.mark(name), 4, {}, std::string("state it: -s ") + path + "=N");
      return fallback;
    }
    const std::optional<int64_t> n = a_.whole(name);
    if (n && (*n < 1 || *n > kMost)) a_.refuse(name, "must be from 1 to 10^9");
    return n.value_or(fallback);
  }

  double real(const char* name) { return is_auto(name) ? 1 : a_.real(name).value_or(0); }

  void write_batch(int64_t max_positions) {
    const int64_t tp = size("tensor_parallel.autotp_size", "parallel.tp", 1);
    const int64_t cp = size("sequence_parallel_size", "parallel.cp", 1);
    const int64_t steps = size("gradient_accumulation_steps", "batch.global", 1);
    const int64_t global = size("train_batch_size", "batch.global", 0);
    const int64_t stated = size("train_micro_batch_size_per_gpu", "batch.micro", 0);
    if (a_.problems().any()) return;
    // Three numbers and the replicas: the file gives two or three of the four.
    int64_t dp = 1, micro = stated;
    std::string why = "train_batch_size = micro batch x accumulation x replicas";
    if (global > 0 && stated > 0 && !is_auto("gradient_accumulation_steps")) {
      if (global % (stated * steps) != 0)
        return a_.refuse("train_batch_size",
                         "is no multiple of train_micro_batch_size_per_gpu x "
                         "gradient_accumulation_steps = " +
                             std::to_string(stated * steps));
      dp = global / (stated * steps);
      if (!a_.given("gradient_accumulation_steps"))
        draft_.note("cluster.nodes: without gradient_accumulation_steps " + std::to_string(dp) +
                    " GPUs are assumed, one microbatch each");
    } else {
      dp = 8;
      why = "the file does not say how many GPUs there are";
      draft_.note("cluster.nodes: 8 GPUs a model replica are assumed: " + why);
    }
    if (tp > kMost / dp / cp) return a_.refuse("tensor_parallel.autotp_size", "is too large");
    draft_cluster(cluster_, dp * tp * cp, why, draft_);
    if (tp > 1) draft_.set("parallel.tp", tp, a_.why("tensor_parallel.autotp_size"));
    if (tp > 1) draft_.set("parallel.sp", false, "DeepSpeed splits no sequences over tp");
    if (cp > 1) {
      draft_.set("parallel.cp", cp, a_.why("sequence_parallel_size"));
      draft_.set_text("parallel.cp_comm", "a2a", "DeepSpeed-Ulysses");
    }
    if (micro == 0) micro = global > 0 ? std::max<int64_t>(1, global / (steps * dp)) : 1;
    draft_.set("batch.micro", micro,
               a_.given("train_micro_batch_size_per_gpu") ? a_.why("train_micro_batch_size_per_gpu")
                                                          : "what is left for one microbatch");
    if (global > 0)
      draft_.set("batch.global", global, a_.why("train_batch_size"));
    else
      draft_.set("batch.global", micro * steps * dp, "micro batch x accumulation x replicas");
    constexpr int64_t kUsual = 4096;
    draft_.assume("batch.seq",
                  std::to_string(max_positions > 0 ? std::min(max_positions, kUsual) : kUsual),
                  "DeepSpeed's file does not say how long sequences are; -s batch.seq=N");
  }

  void write_zero() {
    const int64_t stage = a_.whole("zero_optimization.stage", 0);
    if (stage < 0 || stage > 3) return a_.refuse("zero_optimization.stage", "must be 0, 1, 2 or 3");
    draft_.set("parallel.zero", stage,
               a_.given("zero_optimization.stage") ? a_.why("zero_optimization.stage")
                                                   : "DeepSpeed's default");
    // On by default with stage 3 alone.
    const bool overlap = is_auto("zero_optimization.overlap_comm")
                             ? stage == 3
                             : a_.flag("zero_optimization.overlap_comm", stage == 3);
    draft_.set("overlap.dp_grad", overlap,
               a_.given("zero_optimization.overlap_comm") ? a_.why("zero_optimization.overlap_comm")
                                                          : "DeepSpeed's default");
    if (stage > 0 && !is_auto("zero_optimization.reduce_bucket_size")) {
      constexpr int64_t kDefault = 500'000'000;
      const double bucket =
          a_.real("zero_optimization.reduce_bucket_size").value_or(static_cast<double>(kDefault));
      draft_.set("overlap.bucket", static_cast<int64_t>(bucket),
                 a_.given("zero_optimization.reduce_bucket_size")
                     ? a_.why("zero_optimization.reduce_bucket_size")
                     : "DeepSpeed's default");
    }
    if (stage == 3) draft_.set_text("parallel.fsdp", "deepspeed", "ZeRO-3 of DeepSpeed");
    if ((stage == 1 || stage == 2) && !is_auto("zero_optimization.allgather_bucket_size"))
      draft_.set("overlap.gather_bucket",
                 static_cast<int64_t>(
                     a_.real("zero_optimization.allgather_bucket_size").value_or(500'000'000.0)),
                 a_.given("zero_optimization.allgather_bucket_size")
                     ? a_.why("zero_optimization.allgather_bucket_size")
                     : "DeepSpeed's default");
    if (stage == 3)
      for (const char* name : {"zero_optimization.stage3_param_persistence_threshold",
                               "zero_optimization.stage3_max_live_parameters",
                               "zero_optimization.stage3_max_reuse_distance",
                               "zero_optimization.stage3_prefetch_bucket_size",
                               "zero_optimization.allgather_bucket_size"})
        if (a_.given(name) && !is_auto(name))
          draft_.note(a_.why(name) + ": not modelled, left out");
    write_offload(stage);
  }

  void write_offload(int64_t stage) {
    const std::string device = a_.word("zero_optimization.offload_optimizer.device", "none");
    if (device == "cpu" || a_.flag("zero_optimization.cpu_offload"))
      draft_.set("offload.optimizer",
                 a_.given("zero_optimization.offload_optimizer.ratio")
                     ? a_.word("zero_optimization.offload_optimizer.ratio")
                     : std::string("1"),
                 a_.why(device == "cpu" ? "zero_optimization.offload_optimizer.device"
                                        : "zero_optimization.cpu_offload"));
    else if (device != "none")
      draft_.note(a_.why("zero_optimization.offload_optimizer.device") +
                  ": not modelled, left out");
    const std::string parameters = a_.word("zero_optimization.offload_param.device", "none");
    if (parameters == "cpu" && stage == 3)
      draft_.set("offload.parameters", true, a_.why("zero_optimization.offload_param.device"));
    else if (parameters != "none")
      draft_.note(a_.why("zero_optimization.offload_param.device") + ": not modelled, left out");
  }

  void write_precision() {
    const bool auto_bf16 = is_auto("bf16.enabled"), auto_fp16 = is_auto("fp16.enabled");
    if ((auto_bf16 || auto_fp16) && !in_.states("precision.preset") && !in_.states("precision"))
      draft_.assume("precision.preset", "bf16-mixed",
                    "the file leaves it to the Trainer; -s precision.preset=fp16-mixed");
    const bool bf16 = !auto_bf16 && a_.flag("bf16.enabled");
    const bool fp16 = !auto_fp16 && a_.flag("fp16.enabled");
    if (bf16 || fp16)
      draft_.set_text("precision.preset", bf16 ? "bf16-mixed" : "fp16-mixed",
                      a_.why(bf16 ? "bf16.enabled" : "fp16.enabled"));
    else if (!auto_bf16 && !auto_fp16)
      draft_.set_text("precision.preset", "fp32", "neither bf16 nor fp16 is enabled");
    // Which layers are checkpointed the model's code says.
    if (a_.flag("activation_checkpointing.partition_activations"))
      draft_.note(a_.why("activation_checkpointing.partition_activations") +
                  ": the file does not say what is checkpointed; if the layers are, -s "
                  "'recompute={granularity: full, distribute: true}'");
    if (a_.given("communication_data_type"))
      draft_.set_text("precision.reduce", a_.word("communication_data_type"),
                      a_.why("communication_data_type"));
    if (a_.given("data_types.grad_accum_dtype"))
      draft_.set_text("precision.grads", a_.word("data_types.grad_accum_dtype"),
                      a_.why("data_types.grad_accum_dtype"));
  }

  const ArgumentReader& a_;
  const ImportSources& in_;
  const ImportCluster& cluster_;
  ScenarioDraft& draft_;
};

}  // namespace

void import_deepspeed(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                      ImportCounts& counts) {
  const Value file = read_mapping(in, in.file, "a configuration of DeepSpeed");
  if (in.problems.any()) return;
  const ArgumentReader reader(kArguments, "deepspeed", flatten(file), in.problems);
  if (reader.used() == 0)
    return in.problems.add("E330", "there is nothing of DeepSpeed in this file", {in.file, 1, 1}, 1,
                           {}, "its configuration has train_batch_size, zero_optimization, ...");
  if (in.config == nullptr)
    return in.problems.add("E332", "DeepSpeed's file does not say what model it trains",
                           {in.file, 1, 1}, 1, {}, "--model config.json names it");
  const Value config = read_mapping(in, in.config, "a config.json");
  if (in.problems.any()) return;
  counts.add(reader);
  draft.set_text("software", "deepspeed-zero3", "");
  const auto model = draft_config_model(config, in.problems, draft, counts);
  if (model) check_config_model(in, config);
  if (model) DeepSpeedDraft(reader, in, cluster, draft).write(model->max_positions);
}

}  // namespace stepcast
