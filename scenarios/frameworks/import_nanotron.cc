// SPDX-License-Identifier: Apache-2.0
// import_nanotron: nanotron's YAML.
//
// Names and defaults: src/nanotron/config/ of https://github.com/huggingface/nanotron
#include <algorithm>

#include "scenarios/frameworks/importers.h"

namespace stepcast {
namespace {

constexpr CostArgument kArguments[] = {
    {"parallelism.dp", "parallel.dp"},
    {"parallelism.pp", "parallel.pp"},
    {"parallelism.tp", "parallel.tp"},
    {"parallelism.expert_parallel_size", "parallel.ep"},
    {"parallelism.context_parallel_size", "parallel.cp"},
    {"parallelism.pp_engine", "schedule.kind"},
    {"parallelism.tp_mode", "parallel.sp"},
    {"parallelism.tp_linear_async_communication", "overlap.tp"},
    {"parallelism.recompute_layer", "recompute.granularity"},
    {"parallelism.tp_recompute_allgather", "recompute", "", "", "true"},
    {"parallelism.moe_layer_recompute", "recompute.modules"},
    {"tokens.sequence_length", "batch.seq"},
    {"tokens.micro_batch_size", "batch.micro"},
    {"tokens.batch_accumulation_per_replica", "batch.global"},
    {"optimizer.zero_stage", "parallel.zero"},
    {"optimizer.accumulate_grad_in_fp32", "precision.grads"},
    {"optimizer.clip_grad", "optimizer.clip"},
    {"optimizer.optimizer_factory.name", "optimizer.kind"},
    {"model.dtype", "precision.preset"},
    {"model.ddp_bucket_cap_mb", "overlap.bucket"},
    {"model.make_vocab_size_divisible_by", "model.vocab_size", "", "", "1|128"},
};

class NanotronDraft {
 public:
  NanotronDraft(const ArgumentReader& a, const ImportCluster& cluster, ScenarioDraft& draft)
      : a_(a), cluster_(cluster), draft_(draft) {}

  void write() {
    write_layout();
    write_batch();
    write_run();
    for (const std::string& why : a_.left_out()) draft_.note(why + ": not modelled, left out");
  }

 private:
  int64_t size(const char* name, const char* path, int64_t fallback) {
    const int64_t n = a_.whole(name, fallback);
    constexpr int64_t kMost = 1'000'000;
    if (n < 1 || n > kMost) {
      a_.refuse(name, "must be from 1 to 10^6");
      return 1;
    }
    if (a_.given(name)) draft_.set(path, n, a_.why(name));
    return n;
  }

  void write_layout() {
    const int64_t tp = size("parallelism.tp", "parallel.tp", 1);
    const int64_t pp = size("parallelism.pp", "parallel.pp", 1);
    const int64_t cp = size("parallelism.context_parallel_size", "parallel.cp", 1);
    dp_ = size("parallelism.dp", "parallel.dp", 1);
    size("parallelism.expert_parallel_size", "parallel.ep", 1);
    constexpr int64_t kMost = 10'000'000;
    if (tp > kMost / pp || tp * pp > kMost / cp || tp * pp * cp > kMost / dp_)
      return a_.problems().add("E332", "dp, pp, tp and cp do not make a job of a sensible size",
                               a_.mark("parallelism.tp"), 1, {},
                               "each is at least 1, their product at most 10,000,000 GPUs");
    draft_cluster(cluster_, tp * pp * cp * dp_, "dp x pp x tp of `parallelism`", draft_);
    if (tp > 1)
      draft_.set("parallel.sp", a_.word("parallelism.tp_mode", "ALL_REDUCE") == "REDUCE_SCATTER",
                 a_.given("parallelism.tp_mode") ? a_.why("parallelism.tp_mode")
                                                 : "nanotron's default: ALL_REDUCE");
    if (pp > 1) {
      const std::string engine = a_.word("parallelism.pp_engine", "1f1b");
      if (engine != "1f1b" && engine != "afab")
        return a_.refuse("parallelism.pp_engine", "must be 1f1b or afab");
      draft_.set_text("schedule.kind", engine == "afab" ? "gpipe" : "1f1b",
                      a_.given("parallelism.pp_engine") ? a_.why("parallelism.pp_engine")
                                                        : "nanotron's default");
    }
    if (tp > 1 && a_.given("parallelism.tp_linear_async_communication"))
      draft_.set_text("overlap.tp",
                      a_.flag("parallelism.tp_linear_async_communication") ? "backward" : "none",
                      a_.why("parallelism.tp_linear_async_communication"));
  }

  void write_batch() {
    const int64_t micro = size("tokens.micro_batch_size", "batch.micro", 1);
    const int64_t steps = a_.whole("tokens.batch_accumulation_per_replica", 1);
    if (steps < 1 || steps > 1'000'000)
      return a_.refuse("tokens.batch_accumulation_per_replica", "must be from 1 to 10^6");
    draft_.set("batch.global", micro * steps * dp_,
               a_.why("tokens.batch_accumulation_per_replica") + " x micro_batch_size x dp");
    if (a_.given("tokens.sequence_length"))
      draft_.set("batch.seq", a_.whole("tokens.sequence_length", 1),
                 a_.why("tokens.sequence_length"));
    else
      a_.problems().add("E332", "the file does not say tokens.sequence_length", {});
  }

  void write_run() {
    if (a_.given("optimizer.zero_stage"))
      draft_.set("parallel.zero", a_.whole("optimizer.zero_stage", 0),
                 a_.why("optimizer.zero_stage"));
    const std::string dtype = a_.word("model.dtype", "bfloat16");
    const bool half = dtype == "float16" || dtype == "torch.float16";
    const bool full = dtype == "float32" || dtype == "torch.float32";
    draft_.set_text("precision.preset",
                    full   ? "fp32"
                    : half ? "fp16-mixed"
                           : "bf16-mixed",
                    a_.given("model.dtype") ? a_.why("model.dtype") : "nanotron's default");
    if (!full && a_.given("optimizer.accumulate_grad_in_fp32"))
      draft_.set("precision.grads",
                 std::string(a_.flag("optimizer.accumulate_grad_in_fp32") ? "fp32"
                             : half                                       ? "fp16"
                                                                          : "bf16"),
                 a_.why("optimizer.accumulate_grad_in_fp32"));
    draft_.set(
        "optimizer.clip", a_.real("optimizer.clip_grad").value_or(0) > 0,
        a_.given("optimizer.clip_grad") ? a_.why("optimizer.clip_grad") : "nanotron's default");
    if (a_.given("optimizer.optimizer_factory.name")) {
      const std::string kind = a_.word("optimizer.optimizer_factory.name");
      draft_.set_text("optimizer.kind", kind == "adamW" ? "adamw" : kind,
                      a_.why("optimizer.optimizer_factory.name"));
    }
    if (a_.flag("parallelism.recompute_layer"))
      draft_.set_text("recompute.granularity", "full", a_.why("parallelism.recompute_layer"));
    else if (a_.flag("parallelism.moe_layer_recompute"))
      draft_.set("recompute", std::string("{granularity: selective, modules: [moe]}"),
                 a_.why("parallelism.moe_layer_recompute"));
    if (const auto mb = a_.whole("model.ddp_bucket_cap_mb"); mb && *mb > 0 && *mb < 1'000'000)
      draft_.set("overlap.bucket", *mb * 1024 * 1024 / 4,  // fp32 gradients
                 a_.why("model.ddp_bucket_cap_mb") + " of fp32");
  }

  const ArgumentReader& a_;
  const ImportCluster& cluster_;
  ScenarioDraft& draft_;
  int64_t dp_ = 1;
};

// model.model_config as a config.json: its kind is a flag of its own.
Value config_of(const Value& model_config) {
  Value config;
  config.kind = Value::Kind::mapping;
  config.mark = model_config.mark;
  for (const Member& m : model_config.members) {
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
  if (!draft_config_model(config_of(*model_config), in.problems, draft, counts)) return;
  std::vector<Argument> arguments = flatten(file);
  std::erase_if(arguments,
                [](const Argument& a) { return a.name.starts_with("model.model_config."); });
  const ArgumentReader reader(kArguments, "nanotron", arguments, in.problems);
  counts.add(reader);
  NanotronDraft(reader, cluster, draft).write();
}

}  // namespace stepcast
