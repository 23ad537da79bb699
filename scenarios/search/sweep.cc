// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/sweep.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "job/power.h"
#include "job/training.h"
#include "model/passes/forward_only.h"
#include "scenarios/document/files.h"
#include "scenarios/document/number.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step.h"
#include "scenarios/own_runs.h"
#include "scenarios/schema/keys.h"
#include "scenarios/schema/tree.h"
#include "scenarios/schema/values.h"
#include "scenarios/search/shard.h"
#include "sim/check.h"
#include "sim/for_each_item.h"
#include "sim/text.h"

namespace stepcast {

// ---------------------------------------------------------------------------- reading the section

class SweepSpace::Reader {
 public:
  Reader(SweepSpace& space, const SweepOptions& options) : space_(space), options_(options) {}

  void read() {
    const Value* section = space_.document_.tree().find("sweep");
    if (section != nullptr && section->kind != Value::Kind::null) read_section(*section);
    for (const std::string& axis : options_.axes) read_option(axis);
    std::vector<Diagnostic> all = space_.document_.problems().diagnostics();
    if (space_.axes_.empty() && !problems_.any() && all.empty())
      problems_.add("E126", "there is nothing to sweep over",
                    section != nullptr ? section->mark : space_.document_.tree().mark, 1, {},
                    "sweep: {axes: {parallel.tp: [1, 2, 4]}} in the file, or --axis "
                    "parallel.tp=1,2,4");
    count_points(section);
    for (Diagnostic& d : problems_.diagnostics()) all.push_back(std::move(d));
    if (!all.empty()) throw InputError(std::move(all));
  }

 private:
  void read_section(const Value& section) {
    if (!section.is_mapping()) {
      problems_.add("E107", "'sweep' must be a mapping", section.mark, 1, {},
                    "sweep: {axes: {parallel.tp: [1, 2, 4]}}");
      return;
    }
    for (const Member& m : section.members) {
      const auto size = static_cast<int>(m.key.size());
      if (m.key == "mode")
        read_mode(m.value);
      else if (m.key != "axes")
        problems_.add("E102", "unknown key '" + m.key + "' in 'sweep'", m.key_mark, size,
                      did_you_mean(m.key, std::array<std::string_view, 2>{"axes", "mode"}),
                      "'sweep' has the keys axes and mode");
      else if (!m.value.is_mapping())
        problems_.add("E107", "'axes' must be a mapping of dotted paths to values", m.value.mark, 1,
                      {}, "axes: {parallel.tp: [1, 2, 4], precision: [bf16-mixed, fp8-delayed]}");
      else
        for (const Member& axis : m.value.members)
          add_axis(axis.key, axis.key_mark, axis.key_mark, axis.value);
    }
  }

  void read_mode(const Value& value) {
    const Word* word =
        value.is_scalar() ? Key("sweep.mode").row().choices.find(value.text) : nullptr;
    if (word == nullptr)
      problems_.add("E125", "'mode' cannot be '" + escape_text(value.text) + '\'', value.mark,
                    std::max(1, static_cast<int>(value.text.size())), {},
                    "it is one of: " + choices_text(Key("sweep.mode").row().choices));
    else
      space_.zipped_ = word->meaning != 0;
  }

  // "parallel.tp=1,2,4": as a list in YAML.
  void read_option(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string path = text.substr(0, equals);
    const SourceRef source = problems_.add_source(
        {"--axis " + path, equals == std::string::npos ? "" : '[' + text.substr(equals + 1) + ']',
         Source::Kind::set});
    const Mark begin{source, 1, 1};
    if (equals == std::string::npos || equals == 0) {
      problems_.add("E004", "'--axis " + escape_text(text) + "' is not of the form path=values",
                    begin, 1, {}, "for example: --axis parallel.tp=1,2,4");
      return;
    }
    Problems own;
    Value list = parse_yaml(problems_, source);
    std::erase_if(space_.axes_, [&](const SweptAxis& a) { return a.path == path; });
    if (list.kind == Value::Kind::sequence || !problems_.any()) add_axis(path, {}, begin, list);
  }

  // `mark`: what problems are shown at.
  void add_axis(const std::string& path, const Mark& key, const Mark& mark, const Value& written) {
    const auto size = static_cast<int>(path.size());
    const std::string_view section = std::string_view(path).substr(0, path.find('.'));
    if (field_of_path(path) == nullptr || section == "sweep" || section == "search" ||
        section == "compare" || section == "measured") {
      std::vector<std::string_view> known;
      for (const Field& f : scenario_fields()) known.push_back(f.path);
      problems_.add("E102", '\'' + escape_text(path) + "' is no key that can be swept over", mark,
                    size, did_you_mean(path, known),
                    "axes are dotted paths: parallel.tp, cluster.nodes, precision");
      return;
    }
    SweptAxis axis{path, key, {}};
    if (written.kind == Value::Kind::sequence)
      axis.values = written.items;
    else if (written.kind != Value::Kind::null)
      axis.values.push_back(written);
    if (axis.values.empty()) {
      problems_.add("E125", '\'' + path + "' lists no values", mark, size, {},
                    "a value, or several: [1, 2, 4]");
      return;
    }
    marks_.push_back(mark);
    check_values(axis);
    space_.axes_.push_back(std::move(axis));
  }

  // What is no value of the key at all, as in a search: no point with it would be a scenario.  One
  // that is too small, too large or not modelled is left to its points.
  void check_values(const SweptAxis& axis) {
    const Field& field = *field_of_path(axis.path);
    if (!is_leaf(field) || field.path != axis.path) return;
    for (const Value& value : axis.values) {
      if (value.kind == Value::Kind::null) continue;
      Problems own;
      if (read_datum(value, field, last_word(axis.path), own)) continue;
      const Diagnostic wrong = own.diagnostics().front();
      if (std::ranges::count(kOfNoValue, wrong.code) == 0) continue;
      problems_.add(wrong.code, wrong.message, value.mark, wrong.length, wrong.label,
                    is_range(value.text) ? "values are listed one by one: 1,2,4" : wrong.help);
    }
  }
  static constexpr std::array<std::string_view, 4> kOfNoValue{"E107", "E120", "E124", "E125"};

  // "1-4", "1..4" and "1:4".
  static bool is_range(std::string_view text) {
    const size_t first = text.find_first_not_of("0123456789");
    if (first == 0 || first == text.npos) return false;
    const size_t second = text.find_first_of("0123456789", first);
    const std::string_view between = text.substr(first, second - first);
    return second != text.npos && (between == "-" || between == ".." || between == ":") &&
           text.find_first_not_of("0123456789", second) == text.npos;
  }

  // A value that is listed twice makes the same points again.
  static void keep_distinct(std::vector<Value>& values) {
    std::set<std::string> seen;
    std::erase_if(values, [&](const Value& v) { return !seen.insert(to_flow(v)).second; });
  }

  void count_points(const Value* section) {
    if (space_.axes_.empty()) return;
    if (!space_.zipped_)
      for (SweptAxis& axis : space_.axes_) keep_distinct(axis.values);
    const Mark mark = marks_.empty() ? section->mark : marks_.front();
    if (space_.zipped_) {
      space_.size_ = space_.axes_.front().values.size();
      for (const SweptAxis& axis : space_.axes_)
        if (axis.values.size() != space_.size_) {
          problems_.add(
              "E127",
              fmt::format("'{}' has {} values and '{}' {}: zipped axes have as many",
                          space_.axes_.front().path, space_.size_, axis.path, axis.values.size()),
              mark, 1, {}, "as many values for each, or mode: product");
          return;
        }
    }
    double points = 1;
    if (space_.zipped_)
      points = static_cast<double>(space_.size_);
    else
      for (const SweptAxis& axis : space_.axes_) points *= static_cast<double>(axis.values.size());
    if (points > static_cast<double>(kMostPoints)) {
      problems_.add("E123",
                    fmt::format("the axes have {:.4g} points: at most {} are forecast one by one",
                                points, kMostPoints),
                    mark, 1, {}, "fewer values; `stepcast search` finds the best of many more");
      return;
    }
    space_.size_ = static_cast<size_t>(points);
  }

  SweepSpace& space_;
  const SweepOptions& options_;
  Problems problems_;
  std::vector<Mark> marks_;
};

SweepSpace::SweepSpace(const ScenarioDocument& document, const SweepOptions& options)
    : document_(document) {
  Reader(*this, options).read();
  document_.set("sweep", {});
  const auto is_section = [](std::string_view path) {
    const std::string_view section = path.substr(0, path.find('.'));
    return section == "sweep" || section == "search";
  };
  const std::vector<std::pair<std::string, std::string>> all = document.sets_again(options.given);
  for (size_t i = 0; i < all.size(); ++i) {
    const std::string& given = all[i].first;
    const bool later = std::any_of(all.begin() + static_cast<ptrdiff_t>(i) + 1, all.end(),
                                   [&](const auto& setting) { return setting.first == given; });
    const bool is_axis = std::ranges::count(axes_, given, &SweptAxis::path) > 0;
    if (!later && !is_axis && !is_section(given)) given_.push_back(all[i]);
  }
}

std::vector<std::string> SweepSpace::paths() const {
  std::vector<std::string> all;
  for (const SweptAxis& axis : axes_) all.push_back(axis.path);
  return all;
}

std::vector<const Value*> SweepSpace::values_at(size_t point) const {
  std::vector<const Value*> all(axes_.size());
  for (size_t a = axes_.size(); a-- > 0;) {
    const std::vector<Value>& values = axes_[a].values;
    all[a] = &values[zipped_ ? point : point % values.size()];
    if (!zipped_) point /= values.size();
  }
  return all;
}

std::vector<std::pair<std::string, std::string>> SweepSpace::settings(size_t point) const {
  std::vector<std::pair<std::string, std::string>> all;
  const std::vector<const Value*> values = values_at(point);
  for (size_t a = 0; a < axes_.size(); ++a) all.emplace_back(axes_[a].path, to_flow(*values[a]));
  return all;
}

std::vector<std::pair<std::string, std::string>> SweepSpace::settings_of(size_t point) const {
  std::vector<std::pair<std::string, std::string>> all = given_;
  for (auto& setting : settings(point)) all.push_back(std::move(setting));
  return all;
}

ScenarioDocument SweepSpace::document(size_t point) const {
  ScenarioDocument document = document_;
  const std::vector<const Value*> values = values_at(point);
  for (size_t a = 0; a < axes_.size(); ++a) document.set(axes_[a].path, *values[a], axes_[a].key);
  return document;
}

// ----------------------------------------------------------------------------------------- points

namespace {

// Whether an Evaluator says all of it: ranks are equal and undisturbed, the order is known.
bool is_plain(const Scenario& s) {
  return s.plan.trains() && !s.to_make && s.perturb.empty() && s.replicas == 1 && !s.share_links &&
         s.links == Scenario::Links::off;
}

// Throws InputError if the step cannot be simulated.
Evaluator::Trial whole_step(const Scenario& scenario, Evaluator& evaluator) {
  if (is_plain(scenario))
    return evaluator.attempt(scenario, Bytes{std::numeric_limits<int64_t>::max()}, Time::max());
  const Result result = forecast(scenario, {.what_if = false});
  return {Evaluator::Trial::Outcome::fits, result.step_time,
          result.memory[result.peak_role].memory.peak, result.memory_reserved};
}

}  // namespace

SweepResult sweep(const ScenarioDocument& document, const SweepOptions& options,
                  const SweepRun& run) {
  const SweepSpace space(document, options);
  SweepResult out;
  out.axes = space.paths();
  out.all = static_cast<int64_t>(space.size());
  std::vector<size_t> own;
  for (size_t i = 0; i < space.size(); ++i)
    if (run.shard.count <= 1 || is_in_shard(run.shard, settings_text(space.settings(i))))
      own.push_back(i);
  out.points.resize(own.size());
  std::vector<Evaluator> evaluators(static_cast<size_t>(std::max(1, run.jobs)));
  std::mutex mutex;
  int64_t done = 0;
  for_each_item(own.size(), run.jobs, [&](size_t i, size_t thread) {
    if (run.stop && run.stop()) return;
    SweepPoint& point = out.points[i];
    for (const auto& [path, value] : space.settings(own[i])) point.values.push_back(value);
    const auto settings = space.settings_of(own[i]);
    const ScenarioDocument changed = space.document(own[i]);
    auto resolved = changed.try_resolve();
    try {
      if (InputError* wrong = std::get_if<InputError>(&resolved)) throw InputError(*wrong);
      const Scenario& scenario = std::get<Scenario>(resolved);
      const auto simulate = [&] { return whole_step(scenario, evaluators[thread]); };
      const Evaluator::Trial trial =
          run.remember ? run.remember(scenario, settings, job_of(changed), simulate) : simulate();
      point.row = step_row(scenario, step_key(scenario, run.version), settings_text(settings),
                           trial, job_of(changed));
      if (run.energy && point.row.runs() && knows_power(scenario)) {
        const auto whole = [&] { return joules_per_token(scenario); };
        point.row.joules_per_token =
            run.remember_energy ? run.remember_energy(scenario, settings, job_of(changed), whole)
                                : whole();
      }
      point.outcome = SweepPoint::Outcome::found;
    } catch (const InputError& e) {
      // What a file cannot take is no matter of the point.
      if (exit_status_of(e.diagnostics) == 7) throw;
      point.outcome = SweepPoint::Outcome::illegal;
      point.code = e.diagnostics.front().code;
      point.why = e.diagnostics.front().message;
    }
    const std::lock_guard lock(mutex);
    if (run.progress) run.progress(++done, static_cast<int64_t>(own.size()));
  });
  for (size_t i = 0; i < own.size(); ++i)
    if (out.points[i].values.empty())
      for (const auto& [path, value] : space.settings(own[i]))
        out.points[i].values.push_back(value);
  return out;
}

// ------------------------------------------------------------------------------------------- rows

JobFacts job_of(const ScenarioDocument& document) {
  JobFacts job;
  const Value* section = document.tree().find("job");
  if (section == nullptr) return job;
  Problems ignored;  // reported when the scenario is resolved
  if (const Value* tokens = section->find("tokens"); tokens != nullptr)
    job.tokens = read_tokens(*tokens, "tokens", ignored);
  if (const Value* price = section->find("price"); price != nullptr)
    job.price = read_price(*price, ignored);
  Job whole = read_job(document);
  if (job.tokens) job.losses = std::make_shared<const Job>(std::move(whole));
  return job;
}

Hash128 step_key(const Scenario& scenario, std::string_view version) {
  const std::string rest = fmt::format("\n{}\n{}\n{}", prices_key(scenario),
                                       scenario.own_runs ? scenario.own_runs->hash : "", version);
  return hash_text_128(rest, scenario.identity);
}

std::string settings_text(const std::vector<std::pair<std::string, std::string>>& settings) {
  std::string text;
  for (const auto& [path, value] : settings)
    text += (text.empty() ? "" : " ") + shell_word(path + '=' + value);
  return text;
}

namespace {

std::optional<double> useful_share(const Scenario& s, Time step, const JobFacts& job) {
  if (!job.losses || !s.plan.trains() || step <= Time{}) return {};
  const double steps = static_cast<double>(*job.tokens) / static_cast<double>(step_tokens(s.plan));
  return to_seconds(step) * steps / job_seconds(*job.losses, s, to_seconds(step), steps);
}

}  // namespace

bool knows_power(const Scenario& s) {
  const Gpu& gpu = s.cluster.node.gpu;
  return gpu_watts(gpu, Draw::idle) && host_watts(gpu);
}

double joules_per_token(const Scenario& s) {
  const auto energy = step_energy(s.cluster.node.gpu, forecast(s, {.what_if = false}));
  STEPCAST_CHECK(energy.has_value(), "the power of the GPU is known");
  return energy->joules_per_token;
}

StepRow step_row(const Scenario& s, Hash128 step, std::string settings,
                 const Evaluator::Trial& trial, const JobFacts& job) {
  const Plan& plan = s.plan;
  StepRow row;
  row.name = s.name;
  row.file = s.file;
  row.settings = std::move(settings);
  row.gpu = upper_case(s.cluster.node.gpu.name);
  row.gpus = plan.grid.world();
  row.nodes = std::max<int64_t>(1, row.gpus / s.cluster.node.gpus);
  row.tp = plan.grid.tp;
  row.cp = plan.grid.cp;
  row.pp = plan.grid.pp;
  row.vpp = std::max<int64_t>(1, static_cast<int64_t>(plan.stages.size()) / plan.grid.pp);
  row.ep = plan.grid.ep;
  row.etp = plan.grid.etp;
  row.dp = plan.grid.dp;
  row.zero = plan.zero;
  row.micro_batch = plan.micro_batch;
  row.microbatches = plan.microbatches();
  row.global_batch = plan.global_batch;
  row.seq = plan.seq;
  for (const Word& w : Key("recompute.granularity").row().choices.words)
    if (w.meaning == static_cast<int>(plan.recompute)) row.recompute = w.text;
  row.schedule = row.pp > 1 ? s.schedule.name : "none";
  const auto& stages = plan.stages;
  if (std::ranges::adjacent_find(stages, std::not_equal_to<>{}, &StageContent::layers) !=
      stages.end())
    for (const StageContent& stage : stages)
      row.stage_layers += fmt::format("{}{}", row.stage_layers.empty() ? "" : " ", stage.layers);
  row.peak_bytes = trial.peak.value;
  row.usable_bytes = usable_memory(s).value;
  row.job_tokens = job.tokens;
  row.price_usd_per_gpu_h = job.price;
  if (trial.outcome != Evaluator::Trial::Outcome::impossible)
    row.useful_share = useful_share(s, trial.time, job);
  row.set_step(step);
  if (trial.outcome == Evaluator::Trial::Outcome::impossible) return row;
  row.step_time_ps = trial.time.count();
  row.reserved_bytes = trial.reserved.value;
  const double seconds = to_seconds(trial.time);
  row.tokens_per_gpu_s =
      static_cast<double>(step_tokens(plan)) / seconds / static_cast<double>(row.gpus);
  if (plan.trains()) row.mfu = training_mfu(s, trial.time);
  return row;
}

}  // namespace stepcast
