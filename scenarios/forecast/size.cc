// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/size.h"

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/forecast/size_search.h"
#include "scenarios/presets.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "sim/diagnostic.h"
#include "sim/text.h"

namespace stepcast {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

[[noreturn]] void refuse(std::string code, std::string message, std::string help) {
  throw file_error(std::move(code), std::move(message), {}, std::move(help));
}

[[noreturn]] void refuse_name(const std::string& subject) {
  const std::string near = did_you_mean(subject, preset_names(PresetKind::model));
  constexpr int kExitIo = 7;
  throw file_error("E101", "there is no model preset and no file '" + subject + '\'', {},
                   near.empty() ? "`stepcast presets models` lists the presets" : near, kExitIo);
}

// Value of a key of a cluster preset, "" if it is not there.
std::string gpu_of_cluster(std::string_view cluster) {
  Problems problems;
  const std::string text(preset_text(PresetKind::cluster, cluster).value_or(""));
  const Value root = parse_yaml(problems, problems.add_source({std::string(cluster), text, true}));
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
  refuse("E006", "no cluster preset has the GPU '" + word + "'",
         !near.empty() ? near
                       : "`stepcast presets` lists them; a scenario can describe any other node");
}

constexpr int64_t kStepTokens = 1024 * 4096, kLongest = 4096, kShortest = 16;

// The step of a subject that says nothing of its batch.
std::string batch_of(int64_t seq) {
  return "{global: " + std::to_string(kStepTokens / seq) +
         ", micro: 1, seq: " + std::to_string(seq) + "}";
}

// Gives that step the longest sequences that the model's positions allow.
void lengthen(SizeSubject& subject, const Transformer& model) {
  const bool limited = model.positions == Positions::learned && model.max_positions > 0;
  const int64_t seq = limited ? std::min(kLongest, model.max_positions) : kLongest;
  for (auto& [path, text] : subject.load.set)
    if (path == "batch" && text == batch_of(kShortest)) text = batch_of(seq);
}

// What `size` adds where the subject says nothing.
Sets fill_in(const Value& root, const SizeOptions& options) {
  Sets sets;
  if (!options.gpu.empty() || root.find("cluster") == nullptr)
    sets.emplace_back("cluster",
                      cluster_with(options.gpu.empty() ? "h100-sxm" : options.gpu) + " x 1");
  if (root.find("batch") == nullptr) sets.emplace_back("batch", batch_of(kShortest));
  return sets;
}

bool is_config(const Value& root) {
  return root.find("model") == nullptr &&
         (root.find("model_type") != nullptr || root.find("num_hidden_layers") != nullptr ||
          root.find("n_layer") != nullptr);
}

// Of the subject as it will be loaded: GPUs of a node, and whether its step only runs forward.
void read_settings(Value root, SizeSubject& subject) {
  Problems problems;  // loading says them again
  for (const auto& [path, text] : subject.load.set) {
    Value value = parse_yaml(problems, problems.add_source({"--set " + path, text, false}));
    set_path(root, path, {}, std::move(value), problems);
  }
  apply_cluster_presets(root, problems);
  const FieldValues v(std::move(root), "", problems);
  v.read("cluster.node.gpus", subject.node);
  subject.infers = v.is("mode", StepMode::prefill) || v.is("mode", StepMode::decode);
}

// A scenario with the subject's model in it, and how to load it.
SizeSubject read_subject(const std::string& subject, const std::optional<std::string>& text,
                         const SizeOptions& options) {
  SizeSubject out;
  out.load = options.load;
  Value root;
  const bool preset = !text && preset_text(PresetKind::model, subject).has_value();
  if (preset) {
    out.name = subject;
    out.text = "model: " + subject + '\n';
  } else {
    if (!text && !std::filesystem::exists(subject)) refuse_name(subject);
    Problems problems;
    ScenarioFiles files(problems, options.load.root);
    const SourceRef first = text ? files.add_first(*text, subject) : files.open_first(subject);
    problems.throw_if_any();
    root = files.load(first);
    problems.throw_if_any();
    out.name = subject;
    if (text) out.text = text;
    if (is_config(root)) {
      if (text)
        refuse("E004", "a config.json is read from a file, not from standard input",
               "name the file: stepcast size config.json");
      out.text = "model: {hf: \"" + subject.substr(subject.rfind('/') + 1) + "\"}\n";
    }
  }
  out.load.set = fill_in(root, options);
  out.load.set.insert(out.load.set.end(), options.load.set.begin(), options.load.set.end());
  read_settings(std::move(root), out);
  return out;
}

int64_t embedding_parameters(const Transformer& t) {
  const int64_t words = t.vocab * t.hidden * (t.tied ? 1 : 2);
  return words + (t.positions == Positions::learned ? t.max_positions * t.hidden : 0);
}

// Of one more token of a decoder.
double cache_bytes_per_token(const Transformer& t) {
  if (t.bidirectional) return 0;
  const int64_t width = t.kv_rank > 0 ? t.kv_rank + t.qk_rope_dim : 2 * t.kv_heads * t.head_dim;
  return 2.0 * static_cast<double>(width) * static_cast<double>(t.layers - t.encoder_layers);
}

void fill_model(const Scenario& s, ModelSize& size) {
  Transformer model = s.model;
  model.vocab = s.written_vocab;
  size.model = s.name;
  size.parameters = parameters(model);
  size.active_parameters = active_parameters(model);
  size.embedding_parameters = embedding_parameters(model);
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
  size.flops = 3 * forward;
  size.causal_flops = 3 * forward_matmul_flops(s.model, sequences, seq, true);
  size.recomputed_flops = 4 * forward - head_matmul_flops(s.model, sequences, seq);
}

}  // namespace

ModelSize size_model(const std::string& subject, const std::optional<std::string>& text,
                     const SizeOptions& options) {
  SizeSubject read = read_subject(subject, text, options);
  lengthen(read, load_candidate(read, {}).model);
  const Scenario own = load_candidate(read, {});
  ModelSize size;
  size.tokens = options.tokens;
  size.mfu = options.mfu;
  const Gpu& gpu = own.cluster.node.gpu;
  size.gpu = gpu.name;
  size.gpu_memory = gpu.memory;
  size.gpu_usable = gpu.memory - gpu.reserve;
  const auto peak = gpu.peak.find(own.plan.precision.params);
  if (peak != gpu.peak.end()) size.gpu_peak = peak->second.value;
  fill_model(own, size);
  fill_step(own, size);
  if (options.search) find_smallest(read, options.most_gpus, size);
  return size;
}

}  // namespace stepcast
