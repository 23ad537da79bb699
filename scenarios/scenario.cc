// SPDX-License-Identifier: Apache-2.0
// load_scenario: files -> one tree -> the rows of the field table -> model, cluster, plan,
// schedule.
#include "scenarios/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "calibrate/fit/own_runs_text.h"
#include "calibrate/table/cost_table.h"
#include "scenarios/document/files.h"
#include "scenarios/document/value.h"
#include "scenarios/own_runs.h"
#include "scenarios/pricing_table.h"
#include "scenarios/resolve/model.h"
#include "scenarios/resolve/resolve.h"
#include "scenarios/scenario_document.h"
#include "scenarios/schema/software.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "sim/check.h"

namespace stepcast {

int64_t padded_vocab(int64_t vocab, int64_t tp, int64_t multiple) {
  const int64_t unit = multiple * tp;
  return (vocab + unit - 1) / unit * unit;
}

Plan resolve_plan(const PlanInputs& in) {
  Plan plan;
  in.values.fill(plan);
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
  check_mixers(in, plan);
  return plan;
}

bool is_shipped_table(const std::string& name) {
  return name.find_first_of("./") == std::string::npos && !shipped_table_text(name).empty();
}

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
  if (s.links != Scenario::Links::off) return;
  for (const Key key :
       Keys{"cluster.fabric.routing", "cluster.fabric.rail_aware", "cluster.fabric.pxn"})
    if (v.value(key) != nullptr)
      s.warnings.push_back(key.path() +
                           " matters only to what shares links: contention: {links: on}");
}

// What is to be said where the measured times of one GPU price another, or cannot.
void note_like(const FieldValues& v, Scenario& s) {
  Gpu& gpu = s.cluster.node.gpu;
  const Gpu* const like = gpu.like.get();
  if (like == nullptr) return;
  // A table of the user's own says itself what this GPU takes.
  if (s.calibration != nullptr && s.calibration->table.name() == like->name) {
    gpu.like = {};
    return;
  }
  const bool is_changed =
      v.has("cluster.node.gpu.preset") && v.text("cluster.node.gpu.preset") == like->name;
  if (is_changed && !measured_tables(gpu).empty())
    s.warnings.push_back(remark_on_changed_rates(gpu));
  if (!is_changed && measured_tables(*like).empty())
    s.warnings.push_back(
        fmt::format("cluster.node.gpu.like: of {} too nothing was measured", like->name));
}

// The user's own cost table and runs.  Throws InputError for what is wrong with them.
void resolve_calibration(const FieldValues& v, ScenarioFiles& files, Scenario& s) {
  if (!v.has("calibration")) return;
  const Gpu& gpu = s.cluster.node.gpu;
  bool table = false;
  const auto once = [&](bool there, const char* what) {
    if (there)
      v.refuse("E127", "calibration", fmt::format("there are two {}", what),
               "at most one cost table and one file of own runs");
    return !there;
  };
  for (const std::string& name : v.texts("calibration")) {
    if (is_shipped_table(name)) {
      if (!once(table, "cost tables")) return;
      table = true;
      const std::vector<const CostTable*> tables = measured_tables(gpu);
      if (!tables.empty() && tables.front()->name() == name) continue;
      s.calibration = read_calibration(std::string(shipped_table_text(name)), name, gpu);
    } else {
      const SourceRef source = files.open(name, v.mark("calibration"));
      if (source == nullptr) return;
      if (is_own_runs(source->text)) {
        if (!once(s.own_runs != nullptr, "files of own runs")) return;
        s.own_runs =
            read_own_runs(source->text, source->name, s.cluster.node, s.plan.kernels.libraries);
        continue;
      }
      if (!once(table, "cost tables")) return;
      table = true;
      s.calibration = read_calibration(source->text, source->name, gpu);
    }
    if (!s.calibration->warning.empty()) s.warnings.push_back(s.calibration->warning);
  }
  if (s.own_runs == nullptr) return;
  if (!s.in_situ)
    s.warnings.push_back("in_situ: off leaves out what the own runs " + s.own_runs->file + " say");
  for (std::string w : {s.own_runs->warning, warning_of_other_prices(s)})
    if (!w.empty()) s.warnings.push_back(std::move(w));
}

// What a run is beside model, cluster, plan and schedule.
void resolve_run(const FieldValues& v, Scenario& s) {
  v.fill(s);
  if (v.has("seed")) s.seed = static_cast<uint64_t>(v.whole("seed"));
  s.share_links = s.links == Scenario::Links::on;
  if (s.replicas > 1 && !draws_something(s))
    s.warnings.push_back("nothing is drawn from the seed, so all replicas are equal");
  warn_unused_routing(v, s);
}

}  // namespace

std::optional<Scenario> resolve_tree(Value root, const std::string& file, ScenarioFiles& files,
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
    model = resolve_model(*written, problems, open, &s.warnings);
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
    ResolvedTransfers transfers = resolve_transfers(in, schedule->schedule);
    s.p2p = transfers.style;
    s.transfers = std::move(transfers.made);
    s.plan.vocabulary = resolve_vocabulary(in, s.plan, schedule->schedule);
  }
  s.perturb = resolve_perturb(in, s.plan, !problems.any());
  if (problems.any()) return {};
  STEPCAST_CHECK(model && cluster && schedule, "something is missing and nobody has said so");

  fill_texts(v, s);
  s.written_vocab = model->vocab;
  resolve_vocab_and_dropout(v, s.plan, *model);
  s.model = std::move(*model);
  s.cluster = std::move(*cluster);
  resolve_run(v, s);
  resolve_calibration(v, files, s);
  if (problems.any()) return {};
  note_like(v, s);
  s.schedule = std::move(schedule->schedule);
  s.to_make = std::move(schedule->to_make);
  s.schedule_title = s.plan.trains() ? schedule_title(s.schedule.name) : mode_title(s.plan);
  s.settings = settings_of(v, s, *unpruned);
  add_hashes(v, files, s);
  return s;
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
