// SPDX-License-Identifier: Apache-2.0
// import_torchtitan: the JSON that torchtitan writes (--debug.save_config_file, --print_config).
//
// Names, defaults and the rule of the pipeline's stages: torchtitan/config/job_config.py and
// torchtitan/distributed/pipeline_parallel.py of https://github.com/pytorch/torchtitan
#include <algorithm>

#include "scenarios/frameworks/importers.h"
#include "scenarios/presets.h"
#include "scenarios/resolve/model.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr CostArgument kArguments[] = {
    {"model.name", "model", "model_spec.name"},
    {"model.flavor", "model", "model_spec.flavor"},
    {"model.converters", "precision.preset", "model.model_converters"},
    {"parallelism.data_parallel_replicate_degree", "parallel.dp_replicate"},
    {"parallelism.data_parallel_shard_degree", "parallel.dp"},
    {"parallelism.fsdp_reshard_after_forward", "parallel.zero"},
    {"parallelism.tensor_parallel_degree", "parallel.tp"},
    {"parallelism.enable_sequence_parallel", "parallel.sp"},
    {"parallelism.enable_async_tensor_parallel", "overlap.tp",
     "compile.enable_async_tensor_parallel"},
    {"parallelism.context_parallel_degree", "parallel.cp"},
    {"parallelism.context_parallel_rotate_method", "parallel.cp_comm"},
    {"parallelism.expert_parallel_degree", "parallel.ep"},
    {"parallelism.expert_tensor_parallel_degree", "parallel.etp"},
    {"parallelism.pipeline_parallel_degree", "parallel.pp"},
    {"parallelism.pipeline_parallel_schedule", "schedule.kind"},
    {"parallelism.pipeline_parallel_schedule_csv", "schedule.file"},
    {"parallelism.pipeline_parallel_layers_per_stage", "parallel.layout"},
    {"parallelism.pipeline_parallel_first_stage_less_layers", "parallel.layout"},
    {"parallelism.pipeline_parallel_last_stage_less_layers", "parallel.layout"},
    {"parallelism.pipeline_parallel_microbatch_size", "batch.micro"},
    {"parallelism.num_pp_microbatches", "batch.global", "training.num_pp_microbatches"},
    {"parallelism.module_fqns_per_model_part", "parallel.layout"},
    {"training.num_tokens_per_microbatch_per_dp_rank", "batch.micro"},
    {"training.num_tokens_per_train_step", "batch.global"},
    {"training.max_context_length", "batch.seq", "training.seq_len"},
    {"training.local_batch_size", "batch.micro"},
    {"training.global_batch_size", "batch.global"},
    {"training.mixed_precision_param", "precision.preset"},
    {"training.mixed_precision_reduce", "precision.reduce"},
    {"training.dtype", "precision.preset", "", "", "float32"},
    {"training.max_norm", "optimizer.clip"},
    {"training.enable_cpu_offload", "offload.parameters"},
    {"optimizer.name", "optimizer.kind"},
    {"optimizer.implementation", "optimizer.kernel"},
    {"optimizer.fused", "optimizer.kernel"},
    {"activation_checkpoint.mode", "recompute.granularity",
     "activation_checkpoint.type|activation_checkpoint._type"},
    {"activation_checkpoint.selective_ac_option", "recompute.method"},
    {"compile.enable", "kernels", "training.compile", "", "false"},
};

// The row of a model's name and size in the presets: llama3 + 8B -> "llama3-8b".
std::string preset_of(std::string name, const std::string& flavor) {
  name = lower_case(name + '-' + flavor);
  std::replace(name.begin(), name.end(), '_', '-');
  if (name == "deepseek-v3-671b") name = "deepseek-v3";
  return name;
}

// Stages of a pipeline: torchtitan counts the embedding and the head as so many layers, deals all
// of them out evenly and gives what is left over to the first stages.
std::vector<int64_t> dealt(int64_t layers, int64_t stages, int64_t first_less, int64_t last_less) {
  const int64_t all = layers + first_less + last_less;
  std::vector<int64_t> of_stage;
  for (int64_t s = 0; s < stages; ++s)
    of_stage.push_back(all / stages + (s < all % stages ? 1 : 0));
  of_stage.front() = std::max<int64_t>(0, of_stage.front() - first_less);
  of_stage.back() = std::max<int64_t>(0, of_stage.back() - last_less);
  return of_stage;
}

class TorchtitanDraft {
 public:
  TorchtitanDraft(const ArgumentReader& a, const ImportCluster& cluster, ScenarioDraft& draft)
      : a_(a), cluster_(cluster), draft_(draft) {}

  void write(int64_t layers) {
    write_sizes();
    if (a_.problems().any()) return;
    write_pipeline(layers);
    write_batch();
    write_run();
    for (const std::string& why : a_.left_out()) draft_.note(why + ": not modelled, left out");
  }

 private:
  int64_t size(const char* name, const char* path) {
    const int64_t n = a_.whole(name, 1);
    constexpr int64_t kMost = 100'000;
    if (n < 1 || n > kMost) {
      a_.refuse(name, "must be from 1 to 100000");
      return 1;
    }
    if (a_.given(name) && n > 1) draft_.set(path, n, a_.why(name));
    return n;
  }

  void write_sizes() {
    tp_ = size("parallelism.tensor_parallel_degree", "parallel.tp");
    cp_ = size("parallelism.context_parallel_degree", "parallel.cp");
    pp_ = size("parallelism.pipeline_parallel_degree", "parallel.pp");
    size("parallelism.expert_parallel_degree", "parallel.ep");
    size("parallelism.expert_tensor_parallel_degree", "parallel.etp");
    const int64_t replicate =
        size("parallelism.data_parallel_replicate_degree", "parallel.dp_replicate");
    const char* shard_name = "parallelism.data_parallel_shard_degree";
    // -1: all GPUs that are left, and the file does not say how many there are.
    const bool rest = !a_.given(shard_name) || a_.word(shard_name) == "-1";
    int64_t shard = rest ? 1 : a_.whole(shard_name, 1);
    constexpr int64_t kMost = 100'000;
    if (shard < 1 || shard > kMost) return a_.refuse(shard_name, "must be -1, or from 1 to 100000");
    if (tp_ > kMost / cp_ || tp_ * cp_ > kMost / pp_ || tp_ * cp_ * pp_ > kMost / replicate)
      return a_.problems().add("E332", "the degrees do not make a job of a sensible size",
                               a_.mark("parallelism.tensor_parallel_degree"), 1, {},
                               "each is at least 1, their product at most 100,000 GPUs");
    const int64_t one = tp_ * cp_ * pp_ * replicate;
    if (rest) {
      while (shard * one < 8) shard *= 2;
      draft_.note("cluster.nodes: " + std::to_string(shard * one) +
                  " GPUs are assumed: data_parallel_shard_degree -1 takes all there are; "
                  "-s cluster.nodes=N");
    }
    dp_ = replicate * shard;
    draft_cluster(
        cluster_, one * shard,
        rest ? "data_parallel_shard_degree takes what is there" : "the degrees of `parallelism`",
        draft_);
    if (tp_ > 1)
      draft_.set("parallel.sp", a_.flag("parallelism.enable_sequence_parallel", true),
                 a_.given("parallelism.enable_sequence_parallel")
                     ? a_.why("parallelism.enable_sequence_parallel")
                     : "torchtitan's default");
    write_sharding(shard > 1 || rest);
    if (cp_ > 1) {
      const std::string way = a_.word("parallelism.context_parallel_rotate_method", "allgather");
      draft_.set_text("parallel.cp_comm", way == "alltoall" ? "p2p" : way,
                      a_.given("parallelism.context_parallel_rotate_method")
                          ? a_.why("parallelism.context_parallel_rotate_method")
                          : "torchtitan's default");
    }
  }

  void write_sharding(bool sharded) {
    if (!sharded) return;
    const std::string policy = a_.word("parallelism.fsdp_reshard_after_forward", "default");
    // `default`: as `always` without a pipeline, as `never` with one.
    const bool reshard = policy == "always" || (policy == "default" && pp_ == 1);
    if (policy != "always" && policy != "never" && policy != "default")
      return a_.refuse("parallelism.fsdp_reshard_after_forward",
                       "must be default, always or never");
    const std::string why = "FSDP, fsdp_reshard_after_forward " + policy;
    draft_.set("parallel.zero", std::string("3"), why);
    if (!reshard) draft_.set("parallel.reshard_after_forward", false, why);
    draft_.set("overlap.dp_grad", true, "FSDP");
  }

  void write_pipeline(int64_t layers) {
    if (pp_ < 2) return;
    const std::string kind = a_.word("parallelism.pipeline_parallel_schedule", "1F1B");
    if (!a_.word("parallelism.pipeline_parallel_schedule_csv").empty())
      draft_.set_text("schedule.file", a_.word("parallelism.pipeline_parallel_schedule_csv"),
                      a_.why("parallelism.pipeline_parallel_schedule_csv"));
    else
      draft_.set_text("schedule.kind", kind,
                      a_.given("parallelism.pipeline_parallel_schedule")
                          ? a_.why("parallelism.pipeline_parallel_schedule")
                          : "torchtitan's default");
    if (const Value* parts = a_.value("parallelism.module_fqns_per_model_part");
        parts != nullptr && !parts->items.empty())
      return write_parts(*parts, layers);
    const bool looped = kind != "1F1B" && kind != "GPipe" && kind != "1f1b" && kind != "gpipe";
    const int64_t first = a_.whole("parallelism.pipeline_parallel_first_stage_less_layers", 1);
    const int64_t last = a_.whole("parallelism.pipeline_parallel_last_stage_less_layers", 1);
    if (first < 0 || last < 0 || first > layers || last > layers)
      return a_.problems().add("E332", "the first or last stage has less than no layers",
                               a_.mark("parallelism.pipeline_parallel_degree"));
    int64_t stages = pp_ * (looped ? 2 : 1);
    if (const auto each = a_.whole("parallelism.pipeline_parallel_layers_per_stage");
        each && *each >= 1) {
      const int64_t all = layers + first + last;
      stages = (all + *each - 1) / *each;
    }
    if (stages % pp_ != 0 || stages > layers + 2)
      return a_.problems().add("E332",
                               std::to_string(stages) + " stages do not fit on " +
                                   std::to_string(pp_) + " pipeline ranks",
                               a_.mark("parallelism.pipeline_parallel_degree"));
    const std::vector<int64_t> of_stage = dealt(layers, stages, first, last);
    std::string text;
    for (size_t s = 0; s < of_stage.size(); ++s) {
      text += s == 0 ? "E" : "|";
      if (of_stage[s] > 0) text += "t*" + std::to_string(of_stage[s]);
    }
    draft_.set_text("parallel.layout", text + 'L',
                    "torchtitan deals " + std::to_string(layers) + " layers out to " +
                        std::to_string(stages) + " stages");
  }

  // Stages written out as lists of module names: tok_embeddings, layers.0, ..., norm, output.
  void write_parts(const Value& parts, int64_t layers) {
    const char* name = "parallelism.module_fqns_per_model_part";
    std::string text;
    int64_t next = 0;
    for (const Value& part : parts.items) {
      int64_t here = 0;
      bool embedding = false, head = false;
      for (const Value& module : part.items) {
        embedding = embedding || module.text == "tok_embeddings";
        head = head || module.text == "output" || module.text == "lm_head";
        if (!module.text.starts_with("layers.")) continue;
        if (module.text != "layers." + std::to_string(next))
          return a_.refuse(name, "names " + module.text + " where layers." + std::to_string(next) +
                                     " comes next");
        ++next;
        ++here;
      }
      text += (&part == &parts.items.front() ? "" : "|") + std::string(embedding ? "E" : "") +
              (here > 0 ? "t*" + std::to_string(here) : "") + (head ? "L" : "");
    }
    if (next != layers)
      return a_.refuse(
          name, "names " + std::to_string(next) + " of " + std::to_string(layers) + " layers");
    if (static_cast<int64_t>(parts.items.size()) % pp_ != 0)
      return a_.refuse(name, "has " + std::to_string(parts.items.size()) +
                                 " stages, which do not fit on " + std::to_string(pp_) +
                                 " pipeline ranks");
    draft_.set_text("parallel.layout", text, "module_fqns_per_model_part");
  }

  void write_batch() {
    const int64_t seq = a_.whole("training.max_context_length", 2048);
    draft_.set("batch.seq", seq,
               a_.given("training.max_context_length") ? a_.why("training.max_context_length")
                                                       : "torchtitan's default");
    if (seq < 1) return a_.refuse("training.max_context_length", "must be at least 1");
    if (a_.given("training.local_batch_size"))
      write_batch_in_sequences();
    else
      write_batch_in_tokens(seq);
  }

  void write_batch_in_sequences() {
    const int64_t local = a_.whole("training.local_batch_size", 1);
    const char* micro_name = "parallelism.pipeline_parallel_microbatch_size";
    const int64_t micro = pp_ > 1 ? a_.whole(micro_name, 1) : local;
    draft_.set("batch.micro", micro,
               pp_ > 1 && a_.given(micro_name) ? a_.why(micro_name)
               : pp_ > 1                       ? "torchtitan's default"
                                               : a_.why("training.local_batch_size"));
    const char* global = "training.global_batch_size";
    if (a_.given(global) && a_.word(global) != "-1")
      draft_.set("batch.global", a_.whole(global, 1), a_.why(global));
    else if (local < 1'000'000'000)
      draft_.set("batch.global", local * dp_, "local_batch_size on each of the dp ranks");
  }

  void write_batch_in_tokens(int64_t seq) {
    const char* micro_name = "training.num_tokens_per_microbatch_per_dp_rank";
    const char* step_name = "training.num_tokens_per_train_step";
    constexpr int64_t kDefault = 16384;
    const int64_t tokens = a_.whole(micro_name, kDefault);
    if (tokens % seq != 0 || tokens < 1)
      draft_.note("batch.micro: " + std::to_string(tokens) + " tokens are no whole number of " +
                  std::to_string(seq) + " tokens long sequences");
    const int64_t micro = std::max<int64_t>(1, tokens / seq);
    draft_.set("batch.micro", micro,
               (a_.given(micro_name) ? a_.why(micro_name) : "torchtitan's default: 16384 tokens") +
                   " / " + std::to_string(seq));
    if (a_.given(step_name) && a_.word(step_name) != "-1") {
      const int64_t all = a_.whole(step_name, seq);
      draft_.set("batch.global", std::max<int64_t>(1, all / seq),
                 a_.why(step_name) + " / " + std::to_string(seq));
    } else if (micro < 1'000'000) {
      const int64_t microbatches =
          pp_ > 1 ? std::max<int64_t>(1, a_.whole("parallelism.num_pp_microbatches", pp_)) : 1;
      draft_.set("batch.global", micro * dp_ * microbatches, "one microbatch a replica and pass");
    }
  }

  void write_run() {
    write_precision();
    write_recompute();
    if (a_.given("training.max_norm"))
      draft_.set("optimizer.clip", a_.real("training.max_norm").value_or(1) > 0,
                 a_.why("training.max_norm"));
    if (a_.given("optimizer.name")) {
      draft_.set_text("optimizer.kind", lower_case(a_.word("optimizer.name")),
                      a_.why("optimizer.name"));
    }
    write_optimizer_kernel();
    if (a_.flag("training.enable_cpu_offload"))
      draft_.set("offload.parameters", true, a_.why("training.enable_cpu_offload"));
    if (tp_ > 1 && a_.flag("parallelism.enable_async_tensor_parallel"))
      draft_.set_text("overlap.tp", "pipelined",
                      a_.why("parallelism.enable_async_tensor_parallel"));
  }

  // A switch of its own until pull request 881 of February 2025, which made fused the default.
  void write_optimizer_kernel() {
    const bool older = a_.given("optimizer.fused");
    const char* name = older ? "optimizer.fused" : "optimizer.implementation";
    const std::string kind = older ? (a_.flag(name) ? "fused" : "foreach") : a_.word(name, "fused");
    if (kind != "fused" && kind != "foreach" && kind != "for-loop")
      return a_.refuse(name, "must be fused, foreach or for-loop");
    if (kind == "for-loop")
      draft_.note("optimizer.kernel: a launch for each parameter is not modelled");
    draft_.set_text("optimizer.kernel", kind == "fused" ? "fused" : "foreach",
                    a_.given(name) ? a_.why(name) : "torchtitan's default since February 2025");
  }

  void write_precision() {
    std::string preset =
        a_.word("training.mixed_precision_param", "bfloat16") == "float32" ? "fp32" : "bf16-mixed";
    std::string why = a_.given("training.mixed_precision_param")
                          ? a_.why("training.mixed_precision_param")
                          : "torchtitan's default";
    for (const std::string& converter : a_.words("model.converters")) {
      if (converter.find("mx") != std::string::npos)
        preset = "mxfp8";
      else if (converter.find("float8") != std::string::npos)
        preset = "fp8-tensorwise";
      else
        continue;
      why = a_.why("model.converters");
    }
    draft_.set_text("precision.preset", preset, why);
    if (a_.word("training.mixed_precision_reduce", "float32") == "bfloat16")
      draft_.set_text("precision.reduce", "bf16", a_.why("training.mixed_precision_reduce"));
  }

  void write_recompute() {
    const std::string mode = lower_case(a_.word("activation_checkpoint.mode", "selective"));
    const std::string why = a_.given("activation_checkpoint.mode")
                                ? a_.why("activation_checkpoint.mode")
                                : "torchtitan's default";
    if (mode.starts_with("full")) return draft_.set_text("recompute.granularity", "full", why);
    if (!mode.starts_with("selective")) return;
    const std::string option = a_.word("activation_checkpoint.selective_ac_option", "op");
    if (option == "1") return draft_.set_text("recompute.granularity", "full", why);
    // Per op: what matrix products give is kept, every second of them, and the rest computed again.
    draft_.set_text("recompute.granularity", "per-op",
                    why + (option == "op" ? ", op" : ", every " + option + " layers"));
  }

  const ArgumentReader& a_;
  const ImportCluster& cluster_;
  ScenarioDraft& draft_;
  int64_t tp_ = 1, cp_ = 1, pp_ = 1, dp_ = 1;
};

// How many layers the model has that the draft names; adds problems.
std::optional<int64_t> layers_of(const Value& model, const ImportSources& in) {
  const std::optional<Transformer> t = resolve_model(
      model, in.problems, [](const std::string&, const Mark&) { return SourceRef{}; });
  if (!t) return {};
  return t->layers;
}

}  // namespace

void import_torchtitan(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                       ImportCounts& counts) {
  const Value file = read_mapping(in, in.file, "a configuration of torchtitan");
  if (in.problems.any()) return;
  const ArgumentReader reader(kArguments, "torchtitan", flatten(file), in.problems);
  if (reader.used() == 0)
    return in.problems.add("E330", "there is nothing of torchtitan in this file", {in.file, 1, 1},
                           1, {}, "torchtitan writes it with --debug.save_config_file");
  counts.add(reader);
  draft.set_text("software", "torchtitan", "");
  Value model;
  model.mark = {in.file, 1, 1};
  if (in.config != nullptr) {
    model = read_mapping(in, in.config, "a config.json");
    if (in.problems.any() || !draft_config_model(model, in.problems, draft, counts)) return;
  } else {
    const std::string name = preset_of(reader.word("model.name"), reader.word("model.flavor"));
    if (!preset_text(PresetKind::model, name))
      return in.problems.add("E332", "there is no preset '" + name + "' for the model of this file",
                             {in.file, 1, 1}, 1, {}, "--model config.json names it");
    draft.set_text("model.preset", name,
                   reader.why("model.name") + ", " + reader.why("model.flavor"));
    model.kind = Value::Kind::scalar;
    model.text = name;
  }
  const std::optional<int64_t> layers = layers_of(model, in);
  if (layers) TorchtitanDraft(reader, cluster, draft).write(*layers);
}

}  // namespace stepcast
