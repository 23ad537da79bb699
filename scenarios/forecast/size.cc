// SPDX-License-Identifier: Apache-2.0
// What a model takes, and the fewest GPUs that train it.
//
// The search on llama3-70b and nodes of eight H100 goes like this.  70.6 billion parameters with 18
// bytes of states each are 1.27 TB, so that clusters of 1, 2, 4 and 8 GPUs, which have 0.67 TB at
// most, are passed over without a look at a layout.  On 16 GPUs there are the layouts that divide
// 16 GPUs, 64 heads and 80 layers: tp 1, 2, 4, 8, and with each the pp that goes into the rest.
// Each that can hold its share of the states is lowered with full recomputation and with no more
// microbatches than fill its pipeline: those fit that reserve no more than there is.  Of these the
// least recomputation that fits is found in the same way, and the whole step is timed (step.h). The
// fastest is forecast with all its microbatches, the next one if it then does not fit after all; if
// none is left, the next larger cluster is looked at.
//
// A layout is tried by changing the values of the scenario as it is written (ScenarioDocument), so
// that everything that depends on them, and whether they are legal, is worked out anew.
#include "scenarios/forecast/size.h"
#include "scenarios/document/config_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <utility>
#include <variant>

#include "model/parameters.h"
#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/interference.h"
#include "scenarios/forecast/perturbed_step.h"
#include "scenarios/forecast/step.h"
#include "scenarios/presets.h"
#include "scenarios/pricing_table.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/scenario_document.h"
#include "scenarios/schema/keys.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

// ------------------------------------------------------------------------------------ the subject

[[noreturn]] void refuse_name(const std::string& subject) {
  const std::string near = did_you_mean(subject, preset_names(PresetKind::model));
  throw file_error("E101", fmt::format("there is no model preset and no file '{}'", subject), {},
                   near.empty() ? "`stepcast presets models` lists the presets" : near);
}

// Value of a key of a cluster preset, "" if it is not there.
std::string gpu_of_cluster(std::string_view cluster) {
  Problems problems;
  const std::string text(preset_text(PresetKind::cluster, cluster).value_or(""));
  const Value root =
      parse_yaml(problems, problems.add_source({std::string(cluster), text, Source::Kind::preset}));
  const Value* node = root.find("node");
  const Value* gpu = node != nullptr ? node->find("gpu") : nullptr;
  return gpu != nullptr ? gpu->text : "";
}

// The cluster preset that `word` means: its own name, or one with the GPU that it names or begins.
// NVIDIA's reference systems come before clouds.
std::string cluster_with(const std::string& word) {
  const std::vector<std::string_view> clusters = preset_names(PresetKind::cluster);
  if (std::find(clusters.begin(), clusters.end(), word) != clusters.end()) return word;
  std::string found;
  for (const bool exact : {true, false}) {
    for (const std::string_view name : clusters) {
      const std::string gpu = gpu_of_cluster(name);
      if (exact ? gpu != word : !gpu.starts_with(word + '-')) continue;
      const bool reference = name.starts_with("dgx-") || name.starts_with("hgx-");
      if (found.empty() || (reference && !found.starts_with("dgx-"))) found = name;
    }
    if (!found.empty()) return found;
  }
  std::vector<std::string_view> known = preset_names(PresetKind::gpu);
  known.insert(known.end(), clusters.begin(), clusters.end());
  std::erase(known, word);  // a GPU without a cluster
  const std::string near = did_you_mean(word, known);
  throw file_error("E006", fmt::format("no cluster preset has the GPU '{}'", word), {},
                   !near.empty()
                       ? near
                       : "`stepcast presets` lists them; a scenario can describe any other node");
}

// The step of a subject that says nothing of its batch: 4 Mi tokens.
Value default_batch(int64_t seq) {
  constexpr int64_t kStepTokens = 1024 * 4096;
  return mapping_value({{"global", fmt::to_string(kStepTokens / seq)},
                        {"micro", "1"},
                        {"seq", fmt::to_string(seq)}});
}

// The longest sequences, up to 4,096 tokens, that the model's positions allow.
int64_t default_seq(const Transformer& model) {
  constexpr int64_t kLongest = 4096;
  const bool limited = model.positions == Positions::learned && model.max_positions > 0;
  return limited ? std::min(kLongest, model.max_positions) : kLongest;
}

bool is_config(const Value& root) {
  return root.find("model") == nullptr &&
         (root.find("model_type") != nullptr || root.find("num_hidden_layers") != nullptr ||
          root.find("n_layer") != nullptr);
}

// Whether the file is a Hugging Face config.json.
bool is_config_file(const std::string& path) {
  Problems problems;  // dropped: they are reported when the file is read as a scenario
  ScenarioFiles files(problems, {});
  const SourceRef first = files.open_first(path);
  return first != nullptr && is_config(parse_yaml(problems, first));
}

// A scenario with the subject's model in it.
ScenarioDocument read_subject(const std::string& subject, const std::optional<std::string>& text,
                              const std::string& root) {
  if (text) {
    Problems problems;
    if (is_config(parse_yaml(problems, problems.add_source({subject, *text}))))
      throw file_error("E004", "a config.json is read from a file, not from standard input", {},
                       "name the file: stepcast size config.json");
    return ScenarioDocument::of_text(*text, subject, root);
  }
  if (preset_text(PresetKind::model, subject))
    return ScenarioDocument::of_text("model: " + subject + '\n', subject, root);
  if (!std::filesystem::exists(subject)) refuse_name(subject);
  if (!is_config_file(subject)) return ScenarioDocument::of_file(subject, root);
  // A scenario beside it, of the same name: the file itself is read as the model.
  std::string beside = std::filesystem::path(subject).replace_extension().string();
  if (beside == subject) beside += " (scenario)";
  ScenarioDocument document = ScenarioDocument::of_text("", beside, root);
  document.set("model", mapping_value({{"hf", subject.substr(subject.rfind('/') + 1)}}));
  if (std::filesystem::path(subject).filename() == "config.json")
    document.set("name", scalar_value(folder_of(subject)));  // what it is called says nothing
  return document;
}

// ------------------------------------------------------------------------------------- the layouts

// A layout in the words of a scenario.
struct Layout {
  int64_t gpus = 1, tp = 1, pp = 1, ep = 1;
  int zero = 1;
  std::string recompute = "none";
  std::string weights{};  // one sequence is decoded with weights in this format; "": training
};

std::vector<std::pair<std::string, std::string>> members_of(const Layout& l) {
  std::vector<std::pair<std::string, std::string>> members{{"tp", fmt::to_string(l.tp)},
                                                           {"pp", fmt::to_string(l.pp)}};
  if (!l.weights.empty()) return members;
  if (l.ep > 1) members.emplace_back("ep", fmt::to_string(l.ep));
  members.emplace_back("zero", fmt::to_string(l.zero));
  return members;
}

// What to set in a scenario: "parallel={tp: 8, pp: 6, zero: 1} recompute=full".
std::string set_text(const Layout& l) {
  std::string parallel;
  for (const auto& [key, value] : members_of(l))
    parallel += fmt::format("{}{}: {}", parallel.empty() ? "" : ", ", key, value);
  return fmt::format("parallel={{{}}} {}={}", parallel,
                     l.weights.empty() ? "recompute" : "precision.weights",
                     l.weights.empty() ? l.recompute : l.weights);
}

// The subject, as many times as there are layouts to try.
class Subject {
 public:
  explicit Subject(ScenarioDocument document) : document_(std::move(document)) {
    Problems problems;  // dropped: they are reported when the scenario is resolved
    Value root = document_.tree();
    apply_cluster_presets(root, problems);
    const FieldValues v(std::move(root), "", problems);
    v.read("cluster.node.gpus", node_);
    infers_ = v.is("mode", StepMode::prefill) || v.is("mode", StepMode::decode);
  }

  int64_t gpus_of_node() const { return node_; }
  void set(const std::string& path, Value value) { document_.set(path, std::move(value)); }

  // The subject trained (or decoded) with this layout, microbatches of one sequence, 1F1B, and at
  // most this many sequences a step (0: as many as the subject says).  Throws InputError if the
  // layout is illegal.
  Scenario with(const Layout& l, int64_t most_sequences = 0) const {
    return changed_to(l, most_sequences).resolve();
  }

  // The same; nothing if the layout is illegal.  REQUIRES: with({}) is legal, so that whatever is
  // wrong is wrong with the layout.
  std::optional<Scenario> legal_with(const Layout& l, int64_t most_sequences = 0) const {
    auto resolved = changed_to(l, most_sequences).try_resolve();
    Scenario* legal = std::get_if<Scenario>(&resolved);
    return legal != nullptr ? std::optional(std::move(*legal)) : std::nullopt;
  }

 private:
  ScenarioDocument changed_to(const Layout& l, int64_t most_sequences) const;

  ScenarioDocument document_;
  int64_t node_ = 8;     // GPUs of a node
  bool infers_ = false;  // its mode is no training
};

ScenarioDocument Subject::changed_to(const Layout& l, int64_t most_sequences) const {
  ScenarioDocument d = document_;
  if (most_sequences > 0) d.set("batch.global", scalar_value(fmt::to_string(most_sequences)));
  for (const char* section : {"parallel", "schedule", "recompute", "cluster.placement", "perturb"})
    d.set(section, {});
  d.set("parallel", mapping_value(members_of(l)));
  d.set("batch.micro", scalar_value("1"));
  if (l.weights.empty()) {
    d.set("recompute", scalar_value(l.recompute));
    // Without what only a forward has.
    for (const char* key : {"mode", "precision.weights", "precision.kv_cache"})
      if (infers_) d.set(key, {});
  } else {
    d.set("distill", {});
    d.set("mode", scalar_value("decode"));
    d.set("precision.weights", scalar_value(l.weights));
    d.set("batch.global", scalar_value("1"));
  }
  if (l.gpus < node_) d.set("cluster.node.gpus", scalar_value(fmt::to_string(l.gpus)));
  d.set("cluster.nodes", scalar_value(fmt::to_string(std::max<int64_t>(1, l.gpus / node_))));
  return d;
}

// The sizes of clusters that are looked at: parts of a node, then nodes.
std::vector<int64_t> gpu_counts(int64_t node, int64_t most) {
  std::vector<int64_t> counts;
  for (int64_t n = 1; n < node && n <= most; n *= 2) counts.push_back(n);
  constexpr int64_t kEveryNode = 16;  // up to so many nodes one by one, then in steps of an eighth
  for (int64_t nodes = 1; nodes * node <= most;
       nodes += std::max<int64_t>(1, nodes / kEveryNode * (kEveryNode / 8)))
    counts.push_back(nodes * node);
  return counts;
}

std::vector<int> zero_stages() {
  std::vector<int> stages;
  for (const Word& word : Key("parallel.zero").row().choices.words)
    if (word.modelled && word.meaning > 0) stages.push_back(word.meaning);
  return stages;
}

std::vector<int64_t> expert_groups(const Transformer& model) {
  std::vector<int64_t> groups{1};
  for (int64_t ep = 8; ep <= std::min<int64_t>(64, model.experts); ep *= 2)
    if (model.experts % ep == 0) groups.push_back(ep);
  return groups;
}

// All layouts on so many GPUs that divide the model; what else is illegal shows when they are
// loaded.
std::vector<Layout> layouts_on(int64_t gpus, int64_t node, const Scenario& scenario) {
  std::vector<Layout> all;
  const Transformer& m = scenario.model;
  for (int64_t tp = 1; tp <= std::min(node, gpus); tp *= 2) {
    if (gpus % tp != 0 || m.heads % tp != 0) continue;
    for (int64_t pp = 1; pp <= gpus / tp && pp <= m.layers; ++pp) {
      if (gpus % (tp * pp) != 0 || m.layers % pp != 0) continue;
      const int64_t dp = gpus / (tp * pp);
      if (scenario.plan.global_batch % dp != 0) continue;
      for (const int64_t ep : expert_groups(m)) {
        if (ep > tp * dp) continue;
        for (const int zero : zero_stages()) {
          if (zero > 1 && (dp == 1 || pp > 1)) continue;
          all.push_back({gpus, tp, pp, ep, zero, "full"});
        }
      }
    }
  }
  return all;
}

// Whether the states fit, spread as evenly as the layout spreads them: necessary for a layout, and
// quick.  `l` of one tensor-parallel group, one stage and ZeRO-3: for any layout.
bool can_hold(const ModelSize& size, const Layout& l) {
  const auto all = static_cast<double>(l.gpus);
  // Experts may be spread over all ranks.
  const bool dense = size.active_parameters == size.parameters;
  const double model = dense ? static_cast<double>(l.tp * l.pp) : all;
  const double each = size.parameter_bytes / (l.zero == 3 ? all : model) +
                      size.gradient_bytes / (l.zero >= 2 ? all : model) +
                      size.optimizer_bytes / all;
  return each * static_cast<double>(size.parameters) <= static_cast<double>(size.gpu_usable.value);
}

// Whether the step fits, from as few microbatches as fill the pipeline.
bool fits(const Subject& subject, const Layout& l, int64_t global_batch) {
  const int64_t dp = l.gpus / (l.tp * l.pp);
  const std::optional<Scenario> s = subject.legal_with(l, std::min(global_batch, dp * (l.pp + 1)));
  return s && fits(lower_step(*s, s->schedule));
}

// The forecast of the whole step; nothing if it is too long.  Where ranks or their transfers
// differ, that shows only while they run.
std::optional<Result> forecast_if_possible(const Scenario& s) {
  try {
    return forecast(s, {.what_if = false});
  } catch (const InputError&) {
    return {};
  }
}

// How long the whole step takes; nothing if it is too long.
std::optional<Time> step_time(const Scenario& s) {
  if (s.to_make || is_perturbed(s)) {
    const std::optional<Result> result = forecast_if_possible(s);
    return result ? std::optional(result->step_time) : std::nullopt;
  }
  const PricingTable pricing = pricing_table(s);
  const std::optional<PricedStep> step =
      price_if_possible(lower_step(s, s.schedule), pricing.table);
  if (!step) return {};
  try {
    return step_time_of(s, pricing.table, step->graph, step->prices);
  } catch (const Deadlock&) {
    return {};
  } catch (const InputError&) {  // longer than contention can be followed
    return {};
  }
}

// The layout with its whole step; nothing if that does not fit, or takes too long.
std::optional<SizedLayout> simulated(const Layout& l, const Scenario& s) {
  std::optional<Result> result = forecast_if_possible(s);
  if (!result || !result->fits) return {};
  SizedLayout out;
  out.gpus = l.gpus;
  out.tp = l.tp;
  out.pp = l.pp;
  out.ep = l.ep;
  out.dp = s.plan.dp;
  out.zero = l.zero;
  out.recompute = l.recompute;
  out.set = set_text(l);
  out.result = std::move(*result);
  out.parameters = stage_parameters(s.model, s.plan, s.plan.stages[out.result.reserved_role]);
  return out;
}

// Layouts of one number of GPUs that fit, the fastest of them simulated.
std::optional<SizedLayout> fastest_on(const Subject& subject, const Scenario& own, int64_t gpus,
                                      ModelSize& size) {
  std::vector<std::pair<Time, Layout>> fitting;
  for (Layout l : layouts_on(gpus, subject.gpus_of_node(), own)) {
    ++size.layouts_tried;
    if (!can_hold(size, l)) continue;
    // Full recomputation holds least; then the least recomputation that still fits.
    l.recompute = "full";
    if (!fits(subject, l, own.plan.global_batch)) continue;
    for (const char* less : {"none", "selective", "full"}) {
      l.recompute = less;
      if (l.recompute == "full" || fits(subject, l, own.plan.global_batch)) break;
    }
    const std::optional<Scenario> s = subject.legal_with(l);
    if (!s) continue;
    if (const std::optional<Time> time = step_time(*s)) fitting.emplace_back(*time, std::move(l));
  }
  std::ranges::stable_sort(fitting, {}, &std::pair<Time, Layout>::first);
  for (const auto& [time, l] : fitting)
    if (std::optional<SizedLayout> found = simulated(l, subject.with(l))) return found;
  return {};
}

// All GPUs share the model, by tensor parallelism and by stages: the fastest layout on the fewest.
// Tensor parallelism may go beyond a node, since the number of layers may have no divisor.
std::optional<SizedLayout> smallest_inference(const Subject& subject, const Transformer& model,
                                              int64_t most_gpus, const std::string& weights) {
  for (const int64_t gpus : gpu_counts(subject.gpus_of_node(), most_gpus)) {
    std::optional<SizedLayout> fastest;
    for (int64_t tp = 1; tp <= std::min(gpus, model.heads); ++tp) {
      if (gpus % tp != 0 || model.heads % tp != 0) continue;
      const Layout l{.gpus = gpus, .tp = tp, .pp = gpus / tp, .zero = 0, .weights = weights};
      if (model.layers % l.pp != 0 || !fits(subject, l, 1)) continue;
      const std::optional<Scenario> s = subject.legal_with(l);
      if (!s) continue;
      std::optional<SizedLayout> found = simulated(l, *s);
      if (!found) continue;
      if (!fastest || found->result.step_time < fastest->result.step_time)
        fastest = std::move(found);
    }
    if (fastest) return fastest;
  }
  return {};
}

// Fills in what the search finds.  A layout is tried on 1, 2, 4, ... GPUs of a node, then on whole
// nodes; of those with the fewest GPUs that fit it takes the fastest.  The same for inference of
// decoders, with weights in 2, 1 and 0.5 bytes; other models have none.
void find_smallest(const Subject& subject, const Scenario& own, int64_t most_gpus,
                   ModelSize& size) {
  for (const int64_t gpus : gpu_counts(subject.gpus_of_node(), most_gpus)) {
    size.most_gpus_tried = gpus;
    if (!can_hold(size, {.gpus = gpus, .zero = 3})) continue;
    size.training = fastest_on(subject, own, gpus, size);
    if (size.training) break;
  }
  const bool alone = own.model.encoder_layers == 0 && !own.model.bidirectional &&
                     own.model.index_topk == 0 && own.model.compressions.empty() &&
                     !has_recurrent_layers(own.model);
  if (!alone) return;  // no forward alone of these (resolve/limits.cc)
  for (const auto& [weights, bytes] :
       std::array<std::pair<const char*, double>, 3>{{{"bf16", 2}, {"int8", 1}, {"int4", 0.5}}}) {
    SizedInference inference{weights, bytes, {}};
    inference.layout = smallest_inference(subject, own.model, most_gpus, inference.weights);
    size.inference.push_back(std::move(inference));
  }
}

// ------------------------------------------------------------------------------- rules of thumb

int64_t embedding_parameters(const Transformer& t) {
  const int64_t words = t.vocab * t.hidden * (t.tied ? 1 : 2);
  return words + (t.positions == Positions::learned ? t.max_positions * t.hidden : 0);
}

// The same of compressed keys, those of indexers among them: a window stays as large as it is.
double compressed_cache_bytes_per_token(const Transformer& t) {
  double width = 0;
  for (int64_t i = 0; i < t.layers; ++i) {
    const LayerKind kind = layer_kind(t, i);
    if (kind.compression > 0)
      width += static_cast<double>(t.head_dim + (kind.indexes ? t.index_dim : 0)) /
               static_cast<double>(kind.compression);
  }
  return 2.0 * width;
}

// Bytes that one more token takes in the cache of a decoder.
double cache_bytes_per_token(const Transformer& t) {
  if (t.bidirectional) return 0;
  if (!t.compressions.empty()) return compressed_cache_bytes_per_token(t);
  int64_t width = 0;  // of all layers
  for (int64_t i = t.encoder_layers; i < t.layers; ++i) {
    const LayerKind kind = layer_kind(t, i);
    const LayerShape shape = layer_shape(t, kind);
    if (kind.attends())
      width += t.kv_rank > 0 ? t.kv_rank + t.qk_rope_dim
                             : shape.kv_heads * (shape.head_dim + shape.value_dim);
  }
  return 2.0 * static_cast<double>(width) +
         2.0 * static_cast<double>(t.index_dim) *
             static_cast<double>(t.indexers.empty() ? t.layers : std::ranges::count(t.indexers, 1));
}

void fill_model(const Scenario& s, ModelSize& size) {
  Transformer model = s.model;
  model.vocab = s.written_vocab;
  size.model = s.name;
  size.parameters = parameters(model);
  size.active_parameters = active_parameters(model);
  size.embedding_parameters = embedding_parameters(model);
  size.mtp_layers = model.mtp_layers;
  size.mtp_parameters = prediction_parameters(model);
  size.cache_bytes_per_token = cache_bytes_per_token(model);
  const Precision& p = s.plan.precision;
  size.parameter_bytes = bytes_per_element(p.params);
  size.gradient_bytes = bytes_per_element(p.gradients);
  size.optimizer_bytes = 2 * bytes_per_element(p.moments) + (p.master ? 4 : 0);
}

void fill_step(const Scenario& s, ModelSize& size) {
  size.global_batch = s.plan.global_batch;
  size.seq = s.plan.seq;
  const auto sequences = static_cast<double>(s.plan.global_batch);
  const auto seq = static_cast<double>(s.plan.seq);
  const double forward = forward_matmul_flops(s.model, sequences, seq, false);
  size.flops = training_matmul_flops(s.model, sequences, seq, false);
  size.causal_flops = training_matmul_flops(s.model, sequences, seq, true);
  const double cut_off = 3 * forward - size.flops;  // gradients that nobody reads
  size.recomputed_flops = 4 * forward - head_matmul_flops(s.model, sequences, seq) - cut_off;
}

}  // namespace

ModelSize size_model(const std::string& subject, const std::optional<std::string>& text,
                     const SizeOptions& options) {
  ScenarioDocument document = read_subject(subject, text, options.load.root);
  const bool says_batch = document.tree().find("batch") != nullptr;
  if (!options.gpu.empty() || document.tree().find("cluster") == nullptr)
    document.set(
        "cluster",
        scalar_value(cluster_with(options.gpu.empty() ? "h100-sxm" : options.gpu) + " x 1"));
  // How many positions the model has is known only once it is resolved, so that is done first with
  // sequences that are short enough for any model, and have a compressed key of any.
  constexpr int64_t kShortest = 128;
  const auto with_batch = [&](int64_t seq) {
    ScenarioDocument d = document;
    if (!says_batch) d.set("batch", default_batch(seq));
    d.set(options.load);
    return Subject(std::move(d));
  };
  const int64_t seq = says_batch ? 0 : default_seq(with_batch(kShortest).with({}).model);
  const Subject read = with_batch(seq);
  const Scenario own = read.with({});
  ModelSize size;
  size.tokens = options.tokens;
  size.mfu = options.mfu;
  const Gpu& gpu = own.cluster.node.gpu;
  size.gpu = gpu.name;
  size.gpu_memory = gpu.memory;
  size.gpu_usable = gpu.memory - device_reserve(own);
  const auto peak = gpu.peak.find(own.plan.precision.params);
  if (peak != gpu.peak.end()) size.gpu_peak = peak->second.value;
  fill_model(own, size);
  fill_step(own, size);
  if (options.search) find_smallest(read, own, options.most_gpus, size);
  return size;
}

}  // namespace stepcast
