// SPDX-License-Identifier: Apache-2.0
// import_torchtitan: the JSON that torchtitan writes (--debug.save_config_file), or a log with it
// (--debug.print_config) and the steps.
//
// Names, defaults and the rule of the pipeline's stages: torchtitan/config/job_config.py and
// torchtitan/distributed/pipeline_parallel.py of https://github.com/pytorch/torchtitan
#include <fmt/format.h>

#include <algorithm>

#include <embedded/import_lists.h>

#include "scenarios/document/files.h"
#include "scenarios/frameworks/importers.h"
#include "scenarios/frameworks/run_log.h"
#include "scenarios/frameworks/toml_values.h"
#include "scenarios/presets.h"
#include "scenarios/resolve/model.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// The name of the preset for a model's name and size: llama3 + 8B -> "llama3-8b".
std::string preset_of(std::string name, const std::string& flavor) {
  name = lower_case(fmt::format("{}-{}", name, flavor));
  std::replace(name.begin(), name.end(), '_', '-');
  if (name == "deepseek-v3-671b") name = "deepseek-v3";
  return name;
}

// Layers of each stage.  torchtitan counts the embedding and the head as so many layers, deals all
// of them out evenly and gives the remainder to the first stages.
std::vector<int64_t> dealt(int64_t layers, int64_t stages, int64_t first_less, int64_t last_less) {
  const int64_t all = layers + first_less + last_less;
  std::vector<int64_t> of_stage;
  for (int64_t s = 0; s < stages; ++s)
    of_stage.push_back(all / stages + (s < all % stages ? 1 : 0));
  of_stage.front() = std::max<int64_t>(0, of_stage.front() - first_less);
  of_stage.back() = std::max<int64_t>(0, of_stage.back() - last_less);
  return of_stage;
}

// The sizes of the job.  dp: replicas and shards together.
struct TitanSizes {
  int64_t tp = 1, cp = 1, pp = 1, replicate = 1, shard = 1;
  bool takes_the_rest = false;  // `shard` takes all GPUs there are
  int64_t dp() const { return replicate * shard; }
};

constexpr int64_t kMostTitanGpus = 100'000;
constexpr const char* kTitanDefault = "torchtitan's default";

// REQUIRES: the rows of the sizes have been written, without a problem.
TitanSizes titan_sizes(const Importing& i) {
  const auto size = [&](const char* name) { return i.a.whole(name, 1); };
  TitanSizes s;
  s.tp = size("parallelism.tensor_parallel_degree");
  s.cp = size("parallelism.context_parallel_degree");
  s.pp = size("parallelism.pipeline_parallel_degree");
  s.replicate = size("parallelism.data_parallel_replicate_degree");
  const char* name = "parallelism.data_parallel_shard_degree";
  // -1 takes all remaining GPUs, and the file does not say how many there are.
  s.takes_the_rest = !i.a.given(name) || i.a.word(name) == "-1";
  if (!s.takes_the_rest) s.shard = size(name);
  if (s.takes_the_rest && i.gpus > 0)
    s.shard = std::max<int64_t>(1, i.gpus / s.tp / s.cp / s.pp / s.replicate);
  else if (s.takes_the_rest)
    while (s.shard < 8 && s.shard * s.tp < 8 && s.shard * s.tp * s.cp < 8 &&
           s.shard * s.tp * s.cp * s.pp * s.replicate < 8)
      s.shard *= 2;
  return s;
}

void titan_cluster(Importing& i) {
  if (i.in.problems.any()) return;
  const TitanSizes s = titan_sizes(i);
  const char* name = "parallelism.data_parallel_shard_degree";
  if (s.shard < 1 || s.shard > kMostTitanGpus)
    return i.a.refuse(name, fmt::format("must be -1, or from 1 to {}", kMostTitanGpus));
  if (s.tp > kMostTitanGpus / s.cp || s.tp * s.cp > kMostTitanGpus / s.pp ||
      s.tp * s.cp * s.pp > kMostTitanGpus / s.replicate ||
      s.tp * s.cp * s.pp * s.replicate > kMostTitanGpus / s.shard)
    return i.in.problems.add("E332", "the degrees do not make a job of a sensible size",
                             i.a.mark("parallelism.tensor_parallel_degree"), 1, {},
                             "each is at least 1, their product at most 100,000 GPUs");
  const int64_t gpus = s.tp * s.cp * s.pp * s.dp();
  if (i.gpus > 0 && gpus != i.gpus)
    return i.in.problems.add(
        "E332", fmt::format("the degrees do not make {} GPUs, but {}", i.gpus, gpus),
        i.a.mark(name), 1, {}, "those of `parallelism` multiply to the number of GPUs");
  if (s.takes_the_rest && i.gpus == 0)
    i.draft.note_about("cluster.nodes",
                       fmt::format("{} GPUs are assumed: data_parallel_shard_degree -1 "
                                   "takes all there are; -s cluster.nodes=N",
                                   gpus));
  draft_cluster(i.cluster, gpus,
                {s.takes_the_rest ? "data_parallel_shard_degree takes what is there"
                                  : "the degrees of `parallelism`",
                 i.a.mark(name)},
                i.draft);
}

void titan_sharding(Importing& i) {
  if (i.in.problems.any()) return;
  const TitanSizes s = titan_sizes(i);
  if (s.shard < 2 && !s.takes_the_rest) return;
  const char* name = "parallelism.fsdp_reshard_after_forward";
  const std::string policy = i.a.word(name, "default");
  // `default` is `always` without a pipeline and `never` with one.
  const bool reshard = policy == "always" || (policy == "default" && s.pp == 1);
  if (policy != "always" && policy != "never" && policy != "default")
    return i.a.refuse(name, "must be default, always or never");
  const Origin origin{fmt::format("FSDP, fsdp_reshard_after_forward {}", policy), i.a.mark(name)};
  i.draft.set("parallel.zero", int64_t{3}, origin);
  if (!reshard) i.draft.set("parallel.reshard_after_forward", false, origin);
  i.draft.set("overlap.dp_grad", true, "FSDP");
}

// Stages that are written out as lists of module names: tok_embeddings, layers.0, ..., norm,
// output.
void titan_written_stages(Importing& i, const Value& parts, int64_t pp) {
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
      if (module.text != fmt::format("layers.{}", next))
        return i.a.refuse(name,
                          fmt::format("names {} where layers.{} comes next", module.text, next));
      ++next;
      ++here;
    }
    text += fmt::format("{}{}{}{}", &part == &parts.items.front() ? "" : "|", embedding ? "E" : "",
                        here > 0 ? fmt::format("t*{}", here) : "", head ? "L" : "");
  }
  if (next != i.layers)
    return i.a.refuse(name, fmt::format("names {} of {} layers", next, i.layers));
  if (static_cast<int64_t>(parts.items.size()) % pp != 0)
    return i.a.refuse(name, fmt::format("has {} stages, which do not fit on {} pipeline ranks",
                                        parts.items.size(), pp));
  i.draft.set_text("parallel.layout", text, {"module_fqns_per_model_part", i.a.mark(name)});
}

void titan_pipeline(Importing& i) {
  if (i.in.problems.any()) return;
  const ArgumentReader& a = i.a;
  const int64_t pp = titan_sizes(i).pp;
  if (pp < 2) return;
  const char* schedule = "parallelism.pipeline_parallel_schedule";
  const char* csv = "parallelism.pipeline_parallel_schedule_csv";
  const std::string kind = a.word(schedule, "1F1B");
  if (!a.word(csv).empty())
    i.draft.set_text("schedule.file", a.word(csv), a.origin(csv));
  else
    i.draft.set_text("schedule.kind", kind, a.origin(schedule, kTitanDefault));
  if (const Value* parts = a.value("parallelism.module_fqns_per_model_part");
      parts != nullptr && !parts->items.empty())
    return titan_written_stages(i, *parts, pp);
  const Mark degree = a.mark("parallelism.pipeline_parallel_degree");
  const bool looped = kind != "1F1B" && kind != "GPipe" && kind != "1f1b" && kind != "gpipe";
  const int64_t first = a.whole("parallelism.pipeline_parallel_first_stage_less_layers", 1);
  const int64_t last = a.whole("parallelism.pipeline_parallel_last_stage_less_layers", 1);
  if (first < 0 || last < 0 || first > i.layers || last > i.layers)
    return i.in.problems.add("E332", "the first or last stage has less than no layers", degree);
  int64_t stages = pp * (looped ? 2 : 1);
  if (const auto each = a.whole("parallelism.pipeline_parallel_layers_per_stage");
      each && *each >= 1)
    stages = (i.layers + first + last + *each - 1) / *each;
  if (stages % pp != 0 || stages > i.layers + 2)
    return i.in.problems.add(
        "E332", fmt::format("{} stages do not fit on {} pipeline ranks", stages, pp), degree);
  std::string text;
  for (const int64_t layers : dealt(i.layers, stages, first, last)) {
    text += text.empty() ? "E" : "|";
    if (layers > 0) text += fmt::format("t*{}", layers);
  }
  i.draft.set_text(
      "parallel.layout", text + 'L',
      {fmt::format("torchtitan deals {} layers out to {} stages", i.layers, stages), degree});
}

void titan_batch_in_sequences(Importing& i, const TitanSizes& s) {
  const ArgumentReader& a = i.a;
  const char* local_name = "training.local_batch_size";
  const int64_t local = a.whole(local_name, 1);
  const char* micro_name = "parallelism.pipeline_parallel_microbatch_size";
  i.draft.set("batch.micro", s.pp > 1 ? a.whole(micro_name, 1) : local,
              s.pp > 1 ? a.origin(micro_name, kTitanDefault) : a.origin(local_name));
  const char* global = "training.global_batch_size";
  if (a.given(global) && a.word(global) != "-1")
    i.draft.set("batch.global", a.whole(global, 1), a.origin(global));
  else if (local < 1'000'000'000)
    i.draft.derive("batch.global",
                   s.pp > 1 ? DerivedBatch{DerivedBatch::Rule::sequences, local, s.dp()}
                            : DerivedBatch{DerivedBatch::Rule::microbatches, 1, s.dp()},
                   {"local_batch_size on each of the dp ranks", a.mark(local_name)});
}

void titan_batch_in_tokens(Importing& i, const TitanSizes& s, int64_t seq) {
  const ArgumentReader& a = i.a;
  const char* micro_name = "training.num_tokens_per_microbatch_per_dp_rank";
  const char* step_name = "training.num_tokens_per_train_step";
  constexpr int64_t kDefault = 16384;
  const int64_t tokens = a.whole(micro_name, kDefault);
  if (tokens % seq != 0 || tokens < 1)
    i.draft.note_about(
        "batch.micro",
        fmt::format("{} tokens are no whole number of {} tokens long sequences", tokens, seq));
  const int64_t micro = std::max<int64_t>(1, tokens / seq);
  const Origin of_micro = a.origin(micro_name, "torchtitan's default: 16384 tokens");
  i.draft.set("batch.micro", micro, {fmt::format("{} / {}", of_micro.text, seq), of_micro.mark});
  if (a.given(step_name) && a.word(step_name) != "-1") {
    i.draft.set("batch.global", std::max<int64_t>(1, a.whole(step_name, seq) / seq),
                {fmt::format("{} / {}", a.why(step_name), seq), a.mark(step_name)});
  } else if (micro < 1'000'000) {
    const char* count_name = "parallelism.num_pp_microbatches";
    const int64_t microbatches = s.pp > 1 ? a.whole(count_name, s.pp) : 1;
    if (microbatches < 1 || microbatches > 1'000'000)
      return a.refuse(count_name, "must be from 1 to 10^6");
    i.draft.derive("batch.global", {DerivedBatch::Rule::microbatches, microbatches, s.dp()},
                   {"one microbatch a replica and pass", a.mark(micro_name)});
  }
}

void titan_batch(Importing& i) {
  if (i.in.problems.any()) return;
  const char* name = "training.max_context_length";
  const int64_t seq = i.a.whole(name, 2048);
  i.draft.set("batch.seq", seq, i.a.origin(name, kTitanDefault));
  if (seq < 1) return i.a.refuse(name, "must be at least 1");
  const TitanSizes s = titan_sizes(i);
  if (i.a.given("training.local_batch_size"))
    titan_batch_in_sequences(i, s);
  else
    titan_batch_in_tokens(i, s, seq);
}

void titan_precision(Importing& i) {
  const char* name = "training.mixed_precision_param";
  std::string preset = i.a.word(name, "bfloat16") == "float32" ? "fp32" : "bf16-mixed";
  Origin origin = i.a.origin(name, kTitanDefault);
  for (const std::string& converter : i.a.words("model.converters")) {
    if (converter.find("mx") != std::string::npos)
      preset = "mxfp8";
    else if (converter.find("float8") != std::string::npos)
      preset = "fp8-tensorwise";
    else
      continue;
    origin = i.a.origin("model.converters");
  }
  // "dynamic" and "delayed" are ways to scale; older files say it as a switch.
  const char* older =
      i.a.flag("float8.enable_float8_linear") ? "float8.enable_float8_linear"
      : !i.a.word("training.fp8_linear").empty() && i.a.word("training.fp8_linear") != "false"
          ? "training.fp8_linear"
          : nullptr;
  if (older != nullptr) {
    preset = "fp8-tensorwise";
    origin = i.a.origin(older);
  }
  i.draft.set_text("precision.preset", preset, origin);
  // "all parameters, gradients, and optimizer states in bfloat16, without an extra copy of fp32
  // weights" (torchtitan/config/job_config.py, Training.dtype).
  const char* stored = "training.dtype";
  const std::string dtype = i.a.word(stored, "float32");
  if (dtype != "bfloat16" && dtype != "float32") i.draft.left_out(i.a.why(stored));
  if (dtype != "bfloat16") return;
  i.draft.set_text("precision.grads", "bf16", i.a.origin(stored));
  i.draft.set("precision.master", false, i.a.origin(stored));
  i.draft.set_text("precision.moments", "bf16", i.a.origin(stored));
  const char* reduce = "training.mixed_precision_reduce";
  if (i.a.word(reduce) != "bfloat16")
    i.draft.set_text("precision.reduce", "fp32", i.a.origin(reduce, kTitanDefault));
}

void titan_recompute(Importing& i) {
  const char* name = "activation_checkpoint.mode";
  const std::string mode = lower_case(i.a.word(name, "selective"));
  const Origin origin = i.a.origin(name, kTitanDefault);
  const std::string option = i.a.word("activation_checkpoint.selective_ac_option", "op");
  const bool selective = mode.starts_with("selective");
  if (mode.starts_with("full") || (selective && option == "1"))
    return i.draft.set_text("recompute.granularity", "full", origin);
  if (!selective) return;
  // Per op: the result of every second matrix product is kept, and the rest is recomputed.
  i.draft.set_text("recompute.granularity", "per-op",
                   {fmt::format("{}, {}", origin.text,
                                option == "op" ? option : fmt::format("every {} layers", option)),
                    origin.mark});
}

// optimizer.fused was a switch until pull request 881 of February 2025, which made fused the
// default.
void titan_optimizer_kernel(Importing& i) {
  const bool older = i.a.given("optimizer.fused");
  const char* name = older ? "optimizer.fused" : "optimizer.implementation";
  const std::string kind = older ? (i.a.flag(name) ? "fused" : "foreach") : i.a.word(name, "fused");
  if (kind != "fused" && kind != "foreach" && kind != "for-loop")
    return i.a.refuse(name, "must be fused, foreach or for-loop");
  if (kind == "for-loop")
    i.draft.note_about("optimizer.kernel", "a launch for each parameter is not modelled");
  i.draft.set_text("optimizer.kernel", kind == "fused" ? "fused" : "foreach",
                   i.a.origin(name, "torchtitan's default since February 2025"));
}

constexpr CostArgument kTorchtitan[] = {
    {"model.name", "model", As::input(), "model_spec.name"},
    {"model.flavor", "model", As::input(), "model_spec.flavor"},

    {"parallelism.tensor_parallel_degree", "parallel.tp",
     As::size_to(kMostTitanGpus).if_above_one(), "training.tensor_parallel_degree"},
    {"parallelism.context_parallel_degree", "parallel.cp",
     As::size_to(kMostTitanGpus).if_above_one(), "experimental.context_parallel_degree"},
    {"parallelism.pipeline_parallel_degree", "parallel.pp",
     As::size_to(kMostTitanGpus).if_above_one(),
     "experimental.pipeline_parallel_degree|training.pipeline_parallel_degree"},
    {"parallelism.expert_parallel_degree", "parallel.ep",
     As::size_to(kMostTitanGpus).if_above_one()},
    {"parallelism.expert_tensor_parallel_degree", "parallel.etp",
     As::size_to(kMostTitanGpus).if_above_one()},
    {"parallelism.data_parallel_replicate_degree", "parallel.dp_replicate",
     As::size_to(kMostTitanGpus).if_above_one(), "training.data_parallel_replicate_degree"},
    {"parallelism.data_parallel_shard_degree", "cluster.nodes", As::code(titan_cluster),
     "training.data_parallel_shard_degree|training.data_parallel_degree"},
    {"parallelism.enable_sequence_parallel", "parallel.sp",
     As::flag().otherwise("true", kTitanDefault).with("parallelism.tensor_parallel_degree")},
    {"parallelism.fsdp_reshard_after_forward", "parallel.zero", As::code(titan_sharding)},
    {"parallelism.context_parallel_rotate_method", "parallel.cp_comm",
     As::word("alltoall=p2p|*")
         .otherwise("allgather", kTitanDefault)
         .with("parallelism.context_parallel_degree")},

    {"parallelism.pipeline_parallel_schedule", "schedule.kind", As::code(titan_pipeline),
     "experimental.pipeline_parallel_schedule"},
    {"parallelism.pipeline_parallel_schedule_csv", "schedule.file", As::input(),
     "experimental.pipeline_parallel_schedule_csv"},
    {"parallelism.pipeline_parallel_layers_per_stage", "parallel.layout"},
    {"parallelism.pipeline_parallel_first_stage_less_layers", "parallel.layout"},
    {"parallelism.pipeline_parallel_last_stage_less_layers", "parallel.layout"},
    {"parallelism.module_fqns_per_model_part", "parallel.layout"},

    {"training.max_context_length", "batch.seq", As::code(titan_batch), "training.seq_len"},
    {"training.local_batch_size", "batch.micro", As::input(), "training.batch_size"},
    {"training.num_tokens_per_microbatch_per_dp_rank", "batch.micro"},
    {"parallelism.pipeline_parallel_microbatch_size", "batch.micro"},
    {"training.global_batch_size", "batch.global"},
    {"training.num_tokens_per_train_step", "batch.global"},
    {"parallelism.num_pp_microbatches", "batch.global", As::input(),
     "training.num_pp_microbatches"},

    {"model.n_layers", "model.num_hidden_layers"},

    {"training.mixed_precision_param", "precision.preset", As::code(titan_precision)},
    {"model.converters", "precision.preset", As::input(), "model.model_converters"},
    // Switches of 2024, before there were converters.
    {"float8.enable_float8_linear", "precision.preset", As::input(), "float8.enable"},
    {"training.fp8_linear", "precision.preset", As::input(), "training.enable_fp8_linear"},
    {"parallelism.pipeline_parallel_microbatches", "batch.micro", As::left_out("none|1"),
     "experimental.pipeline_parallel_microbatches"},
    {"model.norm_type", "model.normalization", As::left_out("rmsnorm|fused_rmsnorm")},
    {"training.dtype", "precision.master"},
    {"training.mixed_precision_reduce", "precision.reduce", As::word("bfloat16=bf16|*=")},
    {"activation_checkpoint.mode", "recompute.granularity", As::code(titan_recompute),
     "activation_checkpoint.type|activation_checkpoint._type"},
    {"activation_checkpoint.selective_ac_option", "recompute.method"},
    {"training.max_norm", "optimizer.clip", As::positive()},
    {"optimizer.name", "optimizer.kind", As::lower()},
    {"optimizer.implementation", "optimizer.kernel", As::code(titan_optimizer_kernel)},
    {"optimizer.fused", "optimizer.kernel"},
    {"optimizer.early_step_in_backward", "optimizer", As::left_out("false")},
    {"training.enable_cpu_offload", "offload.parameters", As::flag("true|false=")},
    {"parallelism.enable_async_tensor_parallel", "overlap.tp",
     As::flag("true=pipelined|false=").with("parallelism.tensor_parallel_degree"),
     "compile.enable_async_tensor_parallel|experimental.enable_async_tensor_parallel"},
    {"compile.enable", "kernels", As::left_out("false"), "training.compile"},
};

// JSON, or TOML until the spring of 2026.
Value read_titan_file(const ImportSources& in, const SourceRef& written) {
  const std::string& text = written->text;
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] == '{')
    return read_mapping(in, written, "a configuration of torchtitan");
  Value file = parse_toml(in.problems, written);
  if (file.is_mapping()) return file;
  file = {};
  file.kind = Value::Kind::mapping;
  return file;
}

// The sizes of a model that only torchtitan names, as the keys of a config.json.
std::optional<Value> titan_model(const std::string& name, Problems& problems) {
  for (const auto& [path, text] : import_lists()) {
    if (!path.ends_with("torchtitan_models.yaml")) continue;
    const Value models = parse_embedded(problems, "torchtitan's models", text);
    if (const Value* model = models.find(name)) return *model;
  }
  return {};
}

// How many layers the model has; adds the problems of the model.
std::optional<int64_t> layers_of(const Value& model, const ImportSources& in) {
  const std::optional<Transformer> t = resolve_model(
      model, in.problems, [](const std::string&, const Mark&) { return SourceRef{}; });
  if (!t) return {};
  return t->layers;
}

// The model that the user states, as a mapping.
Value stated_model(const ImportSources& in) {
  const char* path = in.states("model") ? "model" : "model.preset";
  const SourceRef source =
      in.problems.add_source({fmt::format("--set {}", path), in.stated(path), Source::Kind::set});
  Value stated = parse_yaml(in.problems, source);
  if (stated.is_mapping()) return stated;
  Value model;
  model.kind = Value::Kind::mapping;
  model.mark = stated.mark;
  model.members.push_back({"preset", stated.mark, std::move(stated)});
  return model;
}

}  // namespace

void draft_torchtitan(const Value& file, int64_t gpus, const ImportSources& in,
                      const ImportCluster& cluster, ScenarioDraft& draft, ImportCounts& counts) {
  const ArgumentReader reader(kTorchtitan, "torchtitan", flatten(file), in.problems);
  if (reader.used() == 0)
    return in.problems.add("E330", "there is nothing of torchtitan in this file", {in.file, 1, 1},
                           1, {}, "torchtitan writes it with --debug.save_config_file");
  counts.add(reader);
  draft.set_text("software", "torchtitan", "");
  Value model;
  model.mark = {in.file, 1, 1};
  if (in.config != nullptr) {
    model = read_mapping(in, in.config, "a config.json");
    if (in.problems.any() || !draft_config_model(model, in, draft, counts)) return;
  } else if (in.states("model") || in.states("model.preset")) {
    model = stated_model(in);
    if (in.problems.any()) return;
  } else {
    const std::string name = preset_of(reader.word("model.name"), reader.word("model.flavor"));
    const Origin origin{fmt::format("{}, {}", reader.why("model.name"), reader.why("model.flavor")),
                        reader.mark("model.name")};
    if (preset_text(PresetKind::model, name)) {
      draft.set_text("model.preset", name, origin);
      model.kind = Value::Kind::mapping;
      model.members.push_back({"preset", model.mark, word_value(name, model.mark)});
      if (const auto n = reader.whole("model.n_layers")) {  // Primus's
        draft.set("model.num_hidden_layers", *n, reader.origin("model.n_layers"));
        model.members.push_back({"num_hidden_layers", model.mark, *reader.value("model.n_layers")});
      }
    } else if (const auto sizes = titan_model(name, in.problems)) {
      model = *sizes;
      ImportCounts of_model;
      if (!draft_config_model(model, in, draft, of_model)) return;
      draft.note(fmt::format("{}: the sizes are those of torchtitan's flavor in January 2026",
                             origin.text));
    } else if (!reader.given("model.name")) {
      return in.problems.add("E332", "the file names no model (model.name, model.flavor)",
                             {in.file, 1, 1}, 1, {},
                             "--model config.json names its sizes, or -s model=PRESET");
    } else {
      return in.problems.add(
          "E332", fmt::format("the sizes of the model '{}' are not known", name),
          reader.mark("model.name"), 1, {},
          "--model config.json names them, or -s model=PRESET; models that make pictures are not "
          "simulated");
    }
  }
  const std::optional<int64_t> layers = layers_of(model, in);
  if (!layers) return;
  Importing importing{reader, in, cluster, draft};
  importing.layers = *layers;
  importing.gpus = gpus;
  draft_rows(importing);
}

void import_torchtitan(const ImportSources& in, const ImportCluster& cluster, ScenarioDraft& draft,
                       ImportCounts& counts) {
  const SourceRef written = torchtitan_configuration(in);
  if (written == nullptr) return;
  const Value file = read_titan_file(in, written);
  if (in.problems.any()) return;
  draft_torchtitan(file, 0, in, cluster, draft, counts);
  if (written != in.file && !in.problems.any()) draft_measured(in, draft, counts);
}

}  // namespace stepcast
