// SPDX-License-Identifier: Apache-2.0
// load_scenario: files -> one tree -> the rows of the field table -> model, cluster, plan,
// schedule.
#include "scenarios/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>

#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/pricing_table.h"
#include "scenarios/resolve/model.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/scenario_document.h"
#include "scenarios/schema/software.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "sim/check.h"
#include "sim/text.h"

namespace stepcast {

// ------------------------------------------------------------------------------ explain

namespace {

struct ModelKey {
  std::string_view key;  // config.json's
  int64_t Transformer::*field;
};
constexpr std::array<ModelKey, 9> kModelKeys{
    {{"num_hidden_layers", &Transformer::layers},
     {"hidden_size", &Transformer::hidden},
     {"num_attention_heads", &Transformer::heads},
     {"num_key_value_heads", &Transformer::kv_heads},
     {"head_dim", &Transformer::head_dim},
     {"intermediate_size", &Transformer::ffn},
     {"vocab_size", &Transformer::vocab},
     {"max_position_embeddings", &Transformer::max_positions},
     {"sliding_window", &Transformer::sliding_window}}};

// What most models have nothing of: 0.  Dropout is that of kernels.dropout.
std::vector<std::pair<std::string_view, int64_t>> rare_parts(const Transformer& m) {
  return {{"attention_sinks", m.attention_sinks},
          {"bidirectional", m.bidirectional},
          {"parallel_block", m.parallel_block},
          {"shared_norm", m.shared_norm},
          {"encoder_layers", m.encoder_layers},
          {"mtp_layers", m.mtp_layers},
          {"relative_buckets", m.relative_buckets},
          {"token_types", m.token_types},
          {"embedding_norm", m.embedding_norm},
          {"masked_head", m.masked_head},
          {"experts", m.experts},
          {"experts_per_token", m.experts_per_token},
          {"moe_ffn", m.moe_ffn},
          {"shared_ffn", m.shared_ffn},
          {"dense_layers", m.dense_layers},
          {"router_groups", m.router_groups},
          {"router_top_groups", m.router_top_groups},
          {"router_bias", m.router_bias},
          {"shared_gate", m.shared_gate},
          {"q_rank", m.q_rank},
          {"kv_rank", m.kv_rank},
          {"qk_nope_dim", m.qk_nope_dim},
          {"qk_rope_dim", m.qk_rope_dim},
          {"v_dim", m.v_dim}};
}

// Everything of the model that the result depends on.
std::string model_text(const Transformer& m) {
  std::string text;
  for (const ModelKey& k : kModelKeys) text += fmt::format("{} ", m.*k.field);
  for (const bool flag : {m.gated, m.tied, m.attention_bias, m.attention_output_bias, m.mlp_bias,
                          m.norm_bias, m.qk_norm})
    text += flag ? '1' : '0';
  for (const int kind :
       {static_cast<int>(m.norm), static_cast<int>(m.activation), static_cast<int>(m.positions)})
    text += fmt::format(" {}", kind);
  for (const auto& [key, value] : rare_parts(m))
    if (value != 0) text += fmt::format(" {}={}", key, value);
  for (const int64_t window : m.windows) text += fmt::format(" w{}", window);
  for (const uint8_t experts : m.expert_layers) text += experts != 0 ? 'e' : 'd';
  return text;
}

// `model` and its sizes, each with where it comes from.
std::vector<Setting> model_settings(const Value& written, const Transformer& model,
                                    const Transformer& unpruned, int64_t unit) {
  std::string base = written.text;
  if (const Value* preset = written.find("preset"); preset != nullptr) base = preset->text;
  if (const Value* hf = written.find("hf"); hf != nullptr) base = hf->text;
  const bool pasted = base.empty();
  std::vector<Setting> all{{"model", pasted ? model.name : base, origin_of(written.mark)}};
  for (const ModelKey& k : kModelKeys) {
    const int64_t value = model.*k.field;
    if (value == 0) continue;
    const Value* own = written.find(k.key);
    std::string origin = own != nullptr ? origin_of(own->mark)
                         : pasted       ? "default: of this kind of model"
                                        : "model " + base;
    const int64_t before = unpruned.*k.field;
    if (k.field != &Transformer::vocab && value != before)
      origin = fmt::format("derived: {}, of which `prune` takes {}", before, before - value);
    if (k.field == &Transformer::vocab && value != before)
      origin = fmt::format("derived: {} padded to a multiple of parallel.vocab_multiple * tp = {}",
                           before, unit);
    all.push_back({"model." + std::string(k.key), std::to_string(value), std::move(origin)});
  }
  return all;
}

// Settings that say what the scenario is called, not what happens in it: of a software profile,
// the keys that it fills in do.
bool is_label(std::string_view path) {
  for (const std::string_view label :
       {"schema", "name", "description", "tags", "software", "measured", "compare", "env", "job",
        "sweep", "objective", "constraints"})
    if (path == label || (path.starts_with(label) && path[label.size()] == '.')) return true;
  return false;
}

}  // namespace

std::vector<Setting> settings_of(const FieldValues& v, const Scenario& s,
                                 const Transformer& unpruned) {
  std::vector<Setting> settings = v.settings();
  const auto after_texts = std::find_if(settings.begin(), settings.end(),
                                        [](const Setting& x) { return !is_label(x.path); });
  const std::vector<Setting> sizes = model_settings(*v.value("model"), s.model, unpruned,
                                                    s.plan.tp * v.whole("parallel.vocab_multiple"));
  settings.insert(after_texts, sizes.begin(), sizes.end());
  return settings;
}

std::string hash_of(const FieldValues& v, const Scenario& s) {
  return hex_of(hash_text(v.canonical(is_label) + model_text(s.model) +
                          (s.plan.teacher ? model_text(*s.plan.teacher) : "")));
}

// ------------------------------------------------------------------------------ plan

int64_t padded_vocab(int64_t vocab, int64_t tp, int64_t multiple) {
  const int64_t unit = multiple * tp;
  return (vocab + unit - 1) / unit * unit;
}

Plan resolve_plan(const PlanInputs& in) {
  Plan plan;
  resolve_mode(in, plan);
  resolve_layout(in, plan);
  resolve_batch(in, plan);
  resolve_context(in, plan);
  resolve_precision(in, plan);
  resolve_exchange(in, plan);
  resolve_recompute(in, plan);
  resolve_sharding(in, plan);
  resolve_kernels(in, plan);
  resolve_overlap(in, plan);
  remark_overridden(in, plan);
  check_tensor_sizes(in, plan);
  check_mode(in, plan);
  return plan;
}

// ------------------------------------------------------------------------------ load

namespace {

void resolve_vocab_and_dropout(const FieldValues& v, const Plan& plan, Transformer& model) {
  model.vocab = padded_vocab(model.vocab, plan.tp, v.whole("parallel.vocab_multiple"));
  v.read("kernels.dropout.attention", model.attention_dropout);
  v.read("kernels.dropout.hidden", model.hidden_dropout);
}

std::string file_stem(const std::string& name) {
  std::string stem = name.substr(name.rfind('/') + 1);
  for (const std::string_view ending : {".yaml", ".yml", ".json"})
    if (stem.size() > ending.size() && stem.ends_with(ending))
      return stem.substr(0, stem.size() - ending.size());
  return stem;
}

void fill_texts(const FieldValues& v, Scenario& s) {
  s.name = file_stem(s.file);
  v.read("name", s.name);
  constexpr size_t kLongestName = 200;
  if (s.name.size() > kLongestName) s.name.resize(kLongestName);
  v.read("description", s.description);
  s.software = v.text("software");
}

// Whether runs under different seeds differ.
bool draws_something(const Scenario& s) {
  const bool routes = s.share_links && !s.cluster.fabric.adaptive;
  return routes || std::any_of(s.perturb.begin(), s.perturb.end(),
                               [](const Perturbation& p) { return p.sigma > 0; });
}

// Which route a transfer takes matters only where links are shared.
void warn_unused_routing(const FieldValues& v, Scenario& s) {
  if (s.share_links) return;
  for (const Key key :
       Keys{"cluster.fabric.routing", "cluster.fabric.rail_aware", "cluster.fabric.pxn"})
    if (v.value(key) != nullptr)
      s.warnings.push_back(key.path() +
                           " matters only to what shares links: contention: {links: on}");
}

void resolve_calibration(const FieldValues& v, ScenarioFiles& files, Problems& problems,
                         Scenario& s) {
  if (!v.has("calibration")) return;
  const SourceRef source = files.open(v.text("calibration"), v.mark("calibration"));
  problems.throw_if_any();
  s.calibration = read_calibration(source->text, source->name, s.cluster.node.gpu);
  if (!s.calibration->warning.empty()) s.warnings.push_back(s.calibration->warning);
}

// What a run is beside model, cluster, plan and schedule.
void resolve_run(const FieldValues& v, Scenario& s) {
  v.read("schedule.post_validation", s.post_validation);
  v.read("contention.links", s.share_links);
  v.read("contention.interference", s.interference);
  v.read("in_situ", s.in_situ);
  if (v.has("seed")) s.seed = static_cast<uint64_t>(v.whole("seed"));
  v.read("replicas", s.replicas);
  if (s.replicas > 1 && !draws_something(s))
    s.warnings.push_back("nothing is drawn from the seed, so all replicas are equal");
  warn_unused_routing(v, s);
}

// Problems are collected as far as anything can be made out; then they are thrown together.
Scenario resolve_tree(Value root, const std::string& file, ScenarioFiles& files,
                      Problems& problems) {
  Scenario s;
  s.file = file;
  const bool presets_known = apply_cluster_presets(root, problems);
  FieldValues v(std::move(root), "", problems);
  apply_software(v, problems);

  const FileReader open = [&](const std::string& path, const Mark& from) {
    return files.open(path, from);
  };
  std::optional<Transformer> model;
  v.require("model", "a preset, as in model: llama3-8b, or keys of a config.json");
  if (const Value* written = v.value("model"); written != nullptr)
    model = resolve_model(*written, problems, open);
  const std::optional<Transformer> unpruned = model;
  if (model) prune_model(v, *model);
  std::optional<Cluster> cluster;
  if (presets_known) cluster = resolve_cluster(v, problems, s.warnings);
  if (cluster) s.placement = resolve_placement(v, problems, *cluster);

  const PlanInputs in{v,
                      problems,
                      s.warnings,
                      model ? &*model : nullptr,
                      cluster ? &*cluster : nullptr,
                      cluster ? gpus_of(s.placement, *cluster) : 0};
  s.plan = resolve_plan(in);
  resolve_routing_trace(in, files, s.plan);
  resolve_teacher(in, open, s.plan);
  s.measured = resolve_measured(v, problems);
  resolve_compare(v, problems, s);
  std::optional<ResolvedSchedule> schedule = resolve_schedule(in, s.plan, !problems.any(), files);
  if (schedule) {
    strip_schedule(in, s.plan, *schedule);
    s.p2p = resolve_transfers(in, schedule->schedule);
    s.plan.vocabulary = resolve_vocabulary(in, s.plan, schedule->schedule);
  }
  s.perturb = resolve_perturb(in, s.plan, !problems.any());
  problems.throw_if_any();
  STEPCAST_CHECK(model && cluster && schedule, "something is missing and nobody has said so");

  fill_texts(v, s);
  s.written_vocab = model->vocab;
  resolve_vocab_and_dropout(v, s.plan, *model);
  s.model = std::move(*model);
  s.cluster = std::move(*cluster);
  resolve_run(v, s);
  resolve_calibration(v, files, problems, s);
  s.schedule = std::move(schedule->schedule);
  s.to_make = std::move(schedule->to_make);
  s.schedule_title = s.plan.trains() ? schedule_title(s.schedule.name) : mode_title(s.plan);
  s.warnings.insert(s.warnings.end(), v.warnings().begin(), v.warnings().end());
  s.settings = settings_of(v, s, *unpruned);
  s.hash = hash_of(v, s);
  return s;
}

}  // namespace

ScenarioDocument::ScenarioDocument(const ScenarioDocument& other)
    : problems_(other.problems_),
      files_(other.files_, problems_),
      first_(other.first_),
      tree_(other.tree_) {}

ScenarioDocument ScenarioDocument::of_file(const std::string& path, const std::string& root) {
  ScenarioDocument document(root);
  SourceRef first = document.files_.open_first(path);
  document.problems_.throw_if_any();
  document.read(std::move(first));
  return document;
}

ScenarioDocument ScenarioDocument::of_text(std::string text, const std::string& name,
                                           const std::string& root) {
  ScenarioDocument document(root);
  document.read(document.files_.add_first(std::move(text), name));
  return document;
}

void ScenarioDocument::read(SourceRef first) {
  first_ = std::move(first);
  tree_ = files_.load(first_);
}

void ScenarioDocument::set(const std::string& path, Value value) {
  const SourceRef source = problems_.add_source({"the value set for " + path, {}, false});
  const auto place = [&](auto& self, Value& v) -> void {
    v.mark = {source, 1, 1};
    for (Value& item : v.items) self(self, item);
    for (Member& m : v.members) {
      m.key_mark = v.mark;
      self(self, m.value);
    }
  };
  place(place, value);
  set_path(tree_, path, {source, 1, 1}, std::move(value), problems_);
}

void ScenarioDocument::set(const LoadOptions& options) {
  for (const auto& [path, text] : options.set) {
    const SourceRef source = problems_.add_source({"--set " + path, text, false});
    Value value = parse_yaml(problems_, source);
    if (value.mark.line == 0) {  // nothing, or nothing that could be read
      if (text.find_first_not_of(" \t") != std::string::npos) continue;
      value.mark = Mark{source, 1, 1};
    }
    const SourceRef whole = problems_.add_source({"--set " + path, path + '=' + text, false});
    set_path(tree_, path, {whole, 1, 1}, std::move(value), problems_);
  }
  if (options.compare_case.empty()) return;
  const Value* compare = tree_.find("compare");
  const Value* cases = compare != nullptr ? compare->find("cases") : nullptr;
  const Value* changes = cases != nullptr ? cases->find(options.compare_case) : nullptr;
  STEPCAST_CHECK(changes != nullptr, options.compare_case);
  const std::vector<Member> members = changes->members;  // the tree is about to change
  for (const Member& m : members) set_path(tree_, m.key, m.key_mark, m.value, problems_);
}

Scenario ScenarioDocument::resolve() && {
  if (files_.incomplete()) problems_.throw_if_any();
  const std::string file = first_->name;
  return resolve_tree(std::move(tree_), file, files_, problems_);
}

Scenario ScenarioDocument::resolve() const& {
  return ScenarioDocument(*this).resolve();  // resolving reads files and finds problems
}

Value scalar_value(std::string text) {
  Value value;
  value.kind = Value::Kind::scalar;
  value.text = std::move(text);
  return value;
}

Value mapping_value(const std::vector<std::pair<std::string, std::string>>& members) {
  Value value;
  value.kind = Value::Kind::mapping;
  for (const auto& [key, text] : members) {
    Member& member = value.members.emplace_back();
    member.key = key;
    member.value = scalar_value(text);
  }
  return value;
}

Scenario load_scenario(const std::string& path, const LoadOptions& options) {
  ScenarioDocument document = ScenarioDocument::of_file(path, options.root);
  document.set(options);
  return std::move(document).resolve();
}

Scenario load_scenario_text(const std::string& text, const std::string& name,
                            const LoadOptions& options) {
  ScenarioDocument document = ScenarioDocument::of_text(text, name, options.root);
  document.set(options);
  return std::move(document).resolve();
}

}  // namespace stepcast
