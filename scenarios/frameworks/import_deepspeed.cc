// SPDX-License-Identifier: Apache-2.0
// import_deepspeed: DeepSpeed's JSON, with the model's config.json beside it.
//
// Names and defaults: https://www.deepspeed.ai/docs/config-json/
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "scenarios/frameworks/importers.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr int64_t kMostSequences = 1'000'000'000;  // of a step

// "auto" is filled in by transformers' Trainer from its own arguments, which are not in the file.
bool is_auto(const Importing& i, const char* name) {
  return i.a.word(name) == "auto";
}

// A size; where the file leaves it to the Trainer, the user has to state it.
int64_t size_or_auto(Importing& i, const char* name, const char* path, int64_t fallback) {
  if (!i.a.given(name)) return fallback;
  if (is_auto(i, name)) {
    if (!i.in.states(path))
      i.in.problems.add("E332",
                        fmt::format("'{}': the file leaves it to the Trainer", i.a.why(name)),
                        i.a.mark(name), 4, {}, fmt::format("state it: -s {}=N", path));
    return fallback;
  }
  const std::optional<int64_t> n = i.a.whole(name);
  if (n && (*n < 1 || *n > kMostSequences)) i.a.refuse(name, "must be from 1 to 10^9");
  return n.value_or(fallback);
}

// The batch is micro batch x accumulation x replicas; the file gives two or three of the four
// numbers.
void deepspeed_batch(Importing& i) {
  const ArgumentReader& a = i.a;
  ScenarioDraft& draft = i.draft;
  const int64_t tp = size_or_auto(i, "tensor_parallel.autotp_size", "parallel.tp", 1);
  const int64_t cp = size_or_auto(i, "sequence_parallel_size", "parallel.cp", 1);
  const int64_t steps = size_or_auto(i, "gradient_accumulation_steps", "batch.global", 1);
  const int64_t global = size_or_auto(i, "train_batch_size", "batch.global", 0);
  const int64_t stated = size_or_auto(i, "train_micro_batch_size_per_gpu", "batch.micro", 0);
  if (i.in.problems.any()) return;
  if (stated > 0 && steps > kMostSequences / stated)
    return a.refuse("gradient_accumulation_steps", "is too large");
  int64_t dp = 1;
  std::string why = "train_batch_size = micro batch x accumulation x replicas";
  if (global > 0 && stated > 0 && !is_auto(i, "gradient_accumulation_steps")) {
    if (global % (stated * steps) != 0)
      return a.refuse("train_batch_size",
                      fmt::format("is no multiple of train_micro_batch_size_per_gpu x "
                                  "gradient_accumulation_steps = {}",
                                  stated * steps));
    dp = global / (stated * steps);
    if (!a.given("gradient_accumulation_steps"))
      draft.note_about("cluster.nodes",
                       fmt::format("without gradient_accumulation_steps {} GPUs are "
                                   "assumed, one microbatch each",
                                   dp));
  } else {
    dp = 8;
    why = "the file does not say how many GPUs there are";
    draft.note_about("cluster.nodes", "8 GPUs a model replica are assumed: " + why);
  }
  if (tp > kMostSequences / dp / cp)
    return a.refuse(tp > 1 ? "tensor_parallel.autotp_size" : "sequence_parallel_size",
                    "is too large");
  draft_cluster(i.cluster, dp * tp * cp, {why, a.mark("train_batch_size")}, draft);
  if (tp > 1) draft.set("parallel.tp", tp, a.origin("tensor_parallel.autotp_size"));
  if (tp > 1) draft.set("parallel.sp", false, "DeepSpeed splits no sequences over tp");
  if (cp > 1) {
    draft.set("parallel.cp", cp, a.origin("sequence_parallel_size"));
    draft.set_text("parallel.cp_comm", "a2a", "DeepSpeed-Ulysses");
  }
  const Origin of_micro =
      a.origin("train_micro_batch_size_per_gpu", "what is left for one microbatch");
  if (stated > 0 || global == 0)
    draft.set("batch.micro", std::max<int64_t>(1, stated), of_micro);
  else
    draft.derive("batch.micro", {DerivedBatch::Rule::split, steps, dp}, of_micro);
  if (global > 0)
    draft.set("batch.global", global, a.origin("train_batch_size"));
  else
    draft.derive("batch.global", {DerivedBatch::Rule::microbatches, steps, dp},
                 "micro batch x accumulation x replicas");
  draft.assume("batch.seq", fmt::format("{}", usual_sequence(i.max_positions)),
               "DeepSpeed's file does not say how long sequences are; -s batch.seq=N");
}

int64_t zero_stage(const Importing& i) {
  return i.a.whole("zero_optimization.stage", 0);
}

// Overlap is on by default only with stage 3.
void deepspeed_overlap(Importing& i) {
  const char* name = "zero_optimization.overlap_comm";
  const bool usual = zero_stage(i) == 3;
  i.draft.set("overlap.dp_grad", is_auto(i, name) ? usual : i.a.flag(name, usual),
              i.a.origin(name, "DeepSpeed's default"));
}

void deepspeed_bucket(Importing& i, const char* name, const char* path) {
  if (is_auto(i, name)) return;
  constexpr double kDefault = 500'000'000;
  i.draft.set(path, static_cast<int64_t>(i.a.real(name).value_or(kDefault)),
              i.a.origin(name, "DeepSpeed's default"));
}

void deepspeed_buckets(Importing& i) {
  const int64_t stage = zero_stage(i);
  if (stage > 0) deepspeed_bucket(i, "zero_optimization.reduce_bucket_size", "overlap.bucket");
  if (stage == 3) i.draft.set_text("parallel.fsdp", "deepspeed", "ZeRO-3 of DeepSpeed");
  if (stage == 1 || stage == 2)
    deepspeed_bucket(i, "zero_optimization.allgather_bucket_size", "overlap.gather_bucket");
  if (stage != 3) return;
  for (const char* name :
       {"zero_optimization.stage3_param_persistence_threshold",
        "zero_optimization.stage3_max_live_parameters",
        "zero_optimization.stage3_max_reuse_distance",
        "zero_optimization.stage3_prefetch_bucket_size", "zero_optimization.allgather_bucket_size"})
    if (i.a.given(name) && !is_auto(i, name)) i.draft.left_out(i.a.why(name));
}

void deepspeed_offload(Importing& i) {
  const ArgumentReader& a = i.a;
  const char* device = "zero_optimization.offload_optimizer.device";
  const char* ratio = "zero_optimization.offload_optimizer.ratio";
  const std::string optimizer = lower_case(a.word(device, "none"));
  const bool cpu = optimizer == "cpu";
  if (cpu || a.flag("zero_optimization.cpu_offload")) {
    if (a.given(ratio)) a.real(ratio);  // refuses it if it is no number
    i.draft.set("offload.optimizer", a.word(ratio, "1"),
                a.origin(cpu ? device : "zero_optimization.cpu_offload"));
  } else if (optimizer != "none") {
    i.draft.left_out(a.why(device));
  }
  const char* parameters = "zero_optimization.offload_param.device";
  const std::string where = lower_case(a.word(parameters, "none"));
  if (where == "cpu" && zero_stage(i) == 3)
    i.draft.set("offload.parameters", true, a.origin(parameters));
  else if (where != "none")
    i.draft.left_out(a.why(parameters));
}

void deepspeed_precision(Importing& i) {
  const bool auto_bf16 = is_auto(i, "bf16.enabled"), auto_fp16 = is_auto(i, "fp16.enabled");
  // Apex: at O2 parameters are in fp16 and the optimizer's in fp32, at O1 only products are in fp16
  // (https://nvidia.github.io/apex/amp.html).  What is left to the Trainer is off: it uses
  // PyTorch's own mixed precision unless it is told otherwise.
  if (!is_auto(i, "amp.enabled") && i.a.flag("amp.enabled")) {
    const char* name = "amp.opt_level";
    const bool stated = i.a.given(name) && !is_auto(i, name);
    const std::string level = stated ? i.a.word(name) : "O1";
    const Origin origin = stated ? i.a.origin(name) : Origin("Apex' default: O1");
    if (level == "O2") return i.draft.set_text("precision.preset", "fp16-mixed", origin);
    if (level != "O0")
      i.draft.left_out(fmt::format("amp.opt_level {} (some kernels in fp16)", level));
    return i.draft.set_text("precision.preset", "fp32", origin);
  }
  if ((auto_bf16 || auto_fp16) && !i.in.states("precision.preset") && !i.in.states("precision"))
    i.draft.assume("precision.preset", "bf16-mixed",
                   "the file leaves it to the Trainer; -s precision.preset=fp16-mixed");
  const bool bf16 = !auto_bf16 && i.a.flag("bf16.enabled");
  const bool fp16 = !auto_fp16 && i.a.flag("fp16.enabled");
  if (bf16 || fp16)
    i.draft.set_text("precision.preset", bf16 ? "bf16-mixed" : "fp16-mixed",
                     i.a.origin(bf16 ? "bf16.enabled" : "fp16.enabled"));
  else if (!auto_bf16 && !auto_fp16)
    i.draft.set_text("precision.preset", "fp32", "neither bf16 nor fp16 is enabled");
}

// The code of the model says which layers are checkpointed, so the file only gives a hint.
void deepspeed_checkpoints(Importing& i) {
  const char* name = "activation_checkpointing.partition_activations";
  if (i.a.flag(name))
    i.draft.note(
        fmt::format("{}: the file does not say what is checkpointed; if the layers are, "
                    "-s 'recompute={{granularity: full, distribute: true}}'",
                    i.a.why(name)));
}

void deepspeed_clip(Importing& i) {
  const char* name = "gradient_clipping";
  const bool clips = i.a.given(name) && (is_auto(i, name) || i.a.real(name).value_or(0) > 0);
  i.draft.set("optimizer.clip", clips,
              i.a.origin(name, "DeepSpeed's default: gradient_clipping 0"));
}

// What is sharded and moved to the host.
constexpr CostArgument kDeepSpeedSharding[] = {
    {"zero_optimization.stage", "parallel.zero",
     As::word("0|1|2|3").otherwise("0", "DeepSpeed's default")},
    {"zero_optimization.overlap_comm", "overlap.dp_grad", As::code(deepspeed_overlap)},
    {"zero_optimization.reduce_bucket_size", "overlap.bucket", As::code(deepspeed_buckets)},
    {"zero_optimization.allgather_bucket_size", "overlap.gather_bucket"},
    {"zero_optimization.stage3_prefetch_bucket_size", "overlap.fsdp_prefetch", As::input(),
     "zero_optimization.prefetch_bucket_size"},
    {"zero_optimization.stage3_param_persistence_threshold", "parallel.zero", As::input(),
     "zero_optimization.param_persistence_threshold"},
    {"zero_optimization.stage3_max_live_parameters", "parallel.zero", As::input(),
     "zero_optimization.max_live_parameters"},
    {"zero_optimization.stage3_max_reuse_distance", "parallel.zero", As::input(),
     "zero_optimization.max_reuse_distance"},
    {"zero_optimization.offload_optimizer.device", "offload.optimizer",
     As::code(deepspeed_offload)},
    {"zero_optimization.offload_optimizer.ratio", "offload.optimizer"},
    {"zero_optimization.cpu_offload", "offload.optimizer"},
    {"zero_optimization.offload_param.device", "offload.parameters"},
    {"zero_optimization.zero_hpz_partition_size", "parallel.dp_replicate", As::left_out("1")},
    {"zero_optimization.mics_shard_size", "parallel.dp_replicate", As::left_out("-1")},
    {"zero_optimization.zero_quantized_weights", "precision", As::left_out("false")},
    {"zero_optimization.zero_quantized_gradients", "precision", As::left_out("false")},
    {"zero_optimization.zero_quantized_nontrainable_weights", "precision", As::left_out("false")},
    {"zero_optimization.round_robin_gradients", "overlap", As::left_out("false")},
    {"communication_data_type", "precision.reduce", As::lower()},
    {"data_types.grad_accum_dtype", "precision.grads", As::word()},
    {"optimizer.type", "optimizer.kind", As::lower()},
};

constexpr CostArgument kDeepSpeedRun[] = {
    {"train_batch_size", "batch.global", As::code(deepspeed_batch)},
    {"train_micro_batch_size_per_gpu", "batch.micro"},
    {"gradient_accumulation_steps", "batch.global"},
    {"tensor_parallel.autotp_size", "parallel.tp"},
    {"sequence_parallel_size", "parallel.cp"},

    {"bf16.enabled", "precision.preset", As::code(deepspeed_precision), "bfloat16.enabled"},
    {"fp16.enabled", "precision.preset"},
    {"amp.enabled", "precision.preset"},
    {"amp.opt_level", "precision.preset"},
    {"activation_checkpointing.partition_activations", "recompute.distribute",
     As::code(deepspeed_checkpoints)},
    {"gradient_clipping", "optimizer.clip", As::code(deepspeed_clip)},
    {"activation_checkpointing.cpu_checkpointing", "offload", As::left_out("false")},
    {"activation_checkpointing.number_checkpoints", "recompute", As::left_out("null")},
    {"compression_training", "precision", As::left_out("false")},
    {"sparse_attention.mode", "kernels", As::left_out("dense")},
    {"progressive_layer_drop.enabled", "model", As::left_out("false")},
};

std::span<const CostArgument> deepspeed_arguments() {
  static const std::vector<CostArgument> kRows = [] {
    std::vector<CostArgument> rows(std::begin(kDeepSpeedRun), std::end(kDeepSpeedRun));
    rows.insert(rows.end(), std::begin(kDeepSpeedSharding), std::end(kDeepSpeedSharding));
    return rows;
  }();
  return kRows;
}

// A word that a script replaces before DeepSpeed reads the file: CONFIG_BATCH_SIZE.
bool is_placeholder(const Argument& a) {
  constexpr std::string_view kCapitals = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  // Values of its own in capitals, some of which it reads in letters of any case.
  constexpr std::string_view kValues[] = {
      "fp16", "fp32", "bf16", "bfp16", "bfloat16", "float16", "float32", "half", "float",
      "cpu",  "nvme", "none", "null",  "auto",     "true",    "false",   "dense"};
  const std::string& text = a.value.text;
  if (!a.value.is_scalar() || text.size() < 3 || a.name == "optimizer.type") return false;  // LAMB
  if (std::ranges::find(kValues, lower_case(text)) != std::end(kValues)) return false;
  return kCapitals.find(text.front()) != std::string_view::npos &&
         text.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == std::string::npos;
}

// Fills in what is given after the file as NAME=VALUE, and asks for the others that change the
// cost, but for those that the user states otherwise.  Adds E332.
void fill_in(std::vector<Argument>& arguments, const ImportSources& in) {
  std::vector<std::string> open;
  Mark first;
  std::erase_if(arguments, [&](Argument& a) {
    if (!is_placeholder(a)) return false;
    const std::string assigned = a.value.text + "=";
    const auto given = std::ranges::find_if(
        in.given, [&](const std::string& word) { return word.starts_with(assigned); });
    if (given != in.given.end()) {
      a.value = word_value(given->substr(assigned.size()), a.value.mark);
      return false;
    }
    const auto rows = deepspeed_arguments();
    const auto row = std::ranges::find(rows, a.name, &CostArgument::name);
    if (row == rows.end() || in.states_any_of(row->path)) return true;
    if (open.empty()) first = a.value.mark;
    if (std::ranges::find(open, a.value.text) == open.end()) open.push_back(a.value.text);
    return true;
  });
  if (open.empty()) return;
  in.problems.add(
      "E332", fmt::format("this file is a template: it does not say {}", fmt::join(open, ", ")),
      first, 1, {}, fmt::format("give them after the file: {}=...", fmt::join(open, "=... ")));
}

}  // namespace

std::span<const CostArgument> deepspeed_sharding() {
  return kDeepSpeedSharding;
}

void import_deepspeed(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                      ImportCounts& counts) {
  const Value file = read_mapping(in, in.file, "a configuration of DeepSpeed");
  if (in.problems.any()) return;
  std::vector<Argument> arguments = flatten(file);
  fill_in(arguments, in);
  if (in.problems.any()) return;
  const ArgumentReader reader(deepspeed_arguments(), "deepspeed", arguments, in.problems);
  if (reader.used() == 0)
    return in.problems.add("E330", "there is nothing of DeepSpeed in this file", {in.file, 1, 1}, 1,
                           {}, "its configuration has train_batch_size, zero_optimization, ...");
  counts.add(reader);
  draft.set_text("software", "deepspeed-zero3", "");
  const auto positions = draft_model_beside(in, "DeepSpeed's file", draft, counts);
  if (!positions) return;
  Importing importing{reader, in, cluster, draft};
  importing.max_positions = *positions;
  draft_rows(importing);
}

void refuse_unsplit_experts(const ImportSources& in, const Mark& mark) {
  if (in.states("parallel.sp")) return;
  in.problems.add(
      "E130",
      "not supported yet: experts over ranks of tensor parallelism without sequence parallelism",
      mark, 1, {}, "-s parallel.sp=true forecasts it as though the sequence was split, too");
}

}  // namespace stepcast
