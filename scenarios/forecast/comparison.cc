// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <variant>

#include "scenarios/forecast/anomaly.h"
#include "scenarios/forecast/make_schedule.h"
#include "scenarios/older_software.h"
#include "sim/for_each_item.h"
#include "sim/graph/op_graph.h"

namespace stepcast {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

// One scenario under another schedule: what has to change in it.
struct UnderSchedule {
  std::string name;                  // "zb-v vpp 2"
  Sets set;                          // after --set
  std::vector<std::string> dropped;  // keys of the section `schedule` that it cannot take
};

// What not every schedule takes.
constexpr std::array<const char*, 4> kKeys{"schedule.group", "schedule.params", "schedule.p2p",
                                           "schedule.memory_limit"};
constexpr unsigned kAll = (1u << kKeys.size()) - 1;

// What is dropped, as bits of kKeys: nothing, then as little as possible.
std::vector<unsigned> attempts() {
  std::vector<unsigned> all;
  for (unsigned dropped = 0; dropped <= kAll; ++dropped) all.push_back(dropped);
  std::stable_sort(all.begin(), all.end(), [](unsigned a, unsigned b) {
    return __builtin_popcount(a) < __builtin_popcount(b);
  });
  return all;
}

Sets sets_for(const std::string& name, const char* vpp, unsigned dropped) {
  // Orders written out give way.
  Sets set{{"schedule.kind", name}, {"schedule.steps", "null"}, {"schedule.file", "null"}};
  for (size_t k = 0; k < kKeys.size(); ++k)
    if ((dropped >> k & 1) != 0) set.emplace_back(kKeys[k], "null");
  if (*vpp != 0) set.emplace_back("parallel.vpp", vpp);
  return set;
}

// The schedule is named on the command line, not in a --set.
void forget_place(Diagnostic& d) {
  if (d.file != "--set schedule.kind") return;
  d.file.clear();
  d.source_line.clear();
  d.line = d.column = 0;
}

// The scenario with more set, or what is wrong with it then.
std::variant<Scenario, InputError> try_with(const ScenarioDocument& document, const Sets& set) {
  ScenarioDocument changed = document;
  LoadOptions options;
  options.set = set;
  changed.set(options);
  auto resolved = std::move(changed).try_resolve();
  if (InputError* wrong = std::get_if<InputError>(&resolved))
    for (Diagnostic& d : wrong->diagnostics) forget_place(d);
  return resolved;
}

// Whether a key goes with some schedules only: its value may be wrong as well.
bool is_misplaced(const InputError& e) {
  return std::all_of(e.diagnostics.begin(), e.diagnostics.end(),
                     [](const Diagnostic& d) { return d.code == "E127" || d.code == "E102"; });
}

// Whether the schedule has no order of these sizes, which other chunks may mend.
bool is_of_sizes(const InputError& e) {
  return std::ranges::any_of(e.diagnostics, [](const Diagnostic& d) { return d.code == "E205"; });
}

// Each key goes because the schedule has no such key, not because its value is wrong.
void check_dropped(const std::string& name, const char* vpp, unsigned dropped,
                   const ScenarioDocument& document) {
  for (size_t k = 0; k < kKeys.size(); ++k) {
    if ((dropped >> k & 1) == 0) continue;
    const auto tried = try_with(document, sets_for(name, vpp, dropped & ~(1u << k)));
    const InputError* wrong = std::get_if<InputError>(&tried);
    if (wrong != nullptr && !is_misplaced(*wrong)) throw InputError(*wrong);
  }
}

// Throws InputError if a key of the section `schedule` is wrong under the scenario's own schedule:
// then no other is to blame.
void check_own_schedule(const ScenarioDocument& document) {
  const auto tried = try_with(document, {});
  const InputError* wrong = std::get_if<InputError>(&tried);
  if (wrong != nullptr && is_misplaced(*wrong)) throw InputError(*wrong);
}

// The scenario under the schedule `name`, with its own parallel.vpp if the schedule takes it, else
// with one or two chunks, and with all keys of its section `schedule` but those that the schedule
// cannot take: it is resolved with fewer and fewer of them until it can be.  Throws InputError if
// it cannot be, with what is wrong with the first number of chunks that the schedule has an order
// of.
UnderSchedule under_schedule(const std::string& name, const ScenarioDocument& document) {
  std::optional<InputError> reason;
  for (const char* vpp : {"", "null", "2"}) {
    auto bare = try_with(document, sets_for(name, vpp, kAll));
    if (InputError* wrong = std::get_if<InputError>(&bare)) {
      if (!reason || (is_of_sizes(*reason) && !is_of_sizes(*wrong))) reason = std::move(*wrong);
      continue;
    }
    for (const unsigned dropped : attempts()) {
      const Sets set = sets_for(name, vpp, dropped);
      const auto tried = try_with(document, set);
      const Scenario* scenario = std::get_if<Scenario>(&tried);
      if (scenario == nullptr) continue;
      check_dropped(name, vpp, dropped, document);
      UnderSchedule under{name, set, {}};
      if (scenario->plan.vpp > 1) under.name += fmt::format(" vpp {}", scenario->plan.vpp);
      for (size_t k = 0; k < kKeys.size(); ++k)
        if ((dropped >> k & 1) != 0) under.dropped.emplace_back(kKeys[k]);
      return under;
    }
  }
  throw InputError(*reason);
}

struct Case {
  std::string name;
  const ComparedScenario* of = nullptr;
  std::string of_file;  // name of a case in the file's compare section; empty: none
  UnderSchedule under;  // of the schedules
};

ScenarioDocument document_of(const Case& c) {
  ScenarioDocument changed = c.of->document;
  LoadOptions options;
  options.set = c.under.set;
  options.compare_case = c.of_file;
  changed.set(options);
  return changed;
}

ForecastOptions options_of_cases(bool record, MadeLists& lists) {
  ForecastOptions options;
  options.what_if = false;
  options.trace = record;
  options.lists = &lists;
  options.remark_on_older_software = false;
  return options;
}

struct RunCase {
  RunCase(const Case& c, bool record, MadeLists& lists)
      : document(document_of(c)),
        scenario(document.resolve()),
        result(forecast(scenario, options_of_cases(record, lists))) {}

  ScenarioDocument document;
  Scenario scenario;
  Result result;
};

// Drops what no comparison shows: ops, their prices and times, which are most of a result.
void forget_ops(Result& result) {
  auto names = std::make_shared<OpGraph>();
  names->labels = result.graph->labels;
  names->works = result.graph->works;
  names->rendezvous = result.graph->rendezvous;
  for (const RoleOps& role : result.graph->roles) {
    RoleOps& own = names->roles.emplace_back();
    own.name = role.name;
    own.pipeline_rank = role.pipeline_rank;
    own.ranks = role.ranks;
  }
  result.graph = std::move(names);
  result.prices = nullptr;
  result.timeline = {};
  for (RankMemory& rank : result.memory) rank.memory.curve = {};
}

// Problems of all cases, each said once.
class Collector {
 public:
  void add(const InputError& e, const std::string& name) {
    for (Diagnostic d : e.diagnostics) {
      const std::string key = fmt::format("{}{}{}{}", d.code, d.message, d.file, d.line);
      if (!seen_.insert(key).second) continue;
      if (d.note.empty() && d.file != name) d.note = "in case '" + name + "'";
      found_.push_back(std::move(d));
    }
  }
  void throw_if_any() const {
    if (!found_.empty()) throw InputError(found_);
  }
  bool any() const { return !found_.empty(); }
  std::span<const Diagnostic> found() const { return found_; }

 private:
  std::set<std::string> seen_;
  std::vector<Diagnostic> found_;
};

// Called with what keeps a case from running.
using Refuse = std::function<void(const InputError&, const std::string& name)>;

[[noreturn]] void refuse_comparison(std::string code, std::string message, std::string help) {
  throw file_error(std::move(code), std::move(message), {}, std::move(help));
}

std::vector<Case> cases_under_schedules(std::span<const ComparedScenario> scenarios,
                                        const CompareOptions& options, const Refuse& refuse) {
  if (scenarios.size() > 1)
    refuse_comparison("E003",
                      fmt::format("--schedules is for one scenario, not {}", scenarios.size()),
                      "compare takes one of them at a time");
  const ScenarioDocument& document = scenarios.front().document;
  check_own_schedule(document);
  std::vector<Case> cases;
  for (const std::string& name : options.schedules) {
    try {
      UnderSchedule under = under_schedule(name, document);
      cases.push_back({under.name, &scenarios.front(), {}, std::move(under)});
    } catch (const InputError& e) {
      refuse(e, name);
    }
  }
  return cases;
}

std::vector<Case> cases_of(std::span<const ComparedScenario> scenarios,
                           const CompareOptions& options, const Refuse& refuse,
                           std::string& baseline) {
  std::vector<Case> cases;
  if (!options.schedules.empty()) return cases_under_schedules(scenarios, options, refuse);
  if (scenarios.size() > 1) {
    for (const ComparedScenario& s : scenarios) cases.push_back({s.file, &s, s.compare_case, {}});
    return cases;
  }
  const ComparedScenario& one = scenarios.front();
  const Scenario scenario = one.document.resolve();
  if (scenario.compare.empty())
    refuse_comparison("E005",
                      "'" + one.file +
                          "' has no compare section, so there is nothing "
                          "to compare it with",
                      "name more files or --schedules, or add compare: {cases: {...}} to it");
  for (const CompareCase& c : scenario.compare) cases.push_back({c.name, &one, c.name, {}});
  baseline = scenario.compare_baseline;
  return cases;
}

// Names of the scenarios where they tell the cases apart, else the files they are in.
void name_after_scenarios(std::vector<Case>& cases, std::span<const Result> results) {
  std::set<std::string> names;
  for (const Result& r : results) names.insert(r.scenario.name);
  if (names.size() != results.size() || names.contains("")) return;
  for (size_t i = 0; i < cases.size(); ++i) cases[i].name = results[i].scenario.name;
}

bool shares_links(const Result& result) {
  return result.disturbance && result.disturbance->shared_links;
}

// Faster links and a longer step are no mistake of the reader's.
void note_anomalies(std::span<const Case> cases, std::span<const Scenario> scenarios,
                    std::span<Result> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t j = 0; j < results.size(); ++j) {
      if (results[i].step_time <= results[j].step_time) continue;
      if (!has_faster_links(scenarios[i], scenarios[j])) continue;
      results[i].scenario.warnings.push_back(
          anomaly_note(scenarios[i], cases[i].name, scenarios[j], cases[j].name,
                       shares_links(results[i]) || shares_links(results[j])));
      break;
    }
  }
}

// "schedule.group does not apply to 1f1b, zb-v and is left out there": each key once.
void note_dropped(std::span<const Case> cases, std::span<Result> results) {
  std::map<std::string, std::string> names;
  for (const Case& c : cases)
    for (const std::string& key : c.under.dropped)
      names[key] += (names[key].empty() ? "" : ", ") + c.name;
  for (size_t i = 0; i < cases.size(); ++i)
    for (const std::string& key : cases[i].under.dropped)
      results[i].scenario.warnings.push_back(key + " does not apply to " + names[key] +
                                             " and is left out there");
}

// The first of the schedules is what the others are compared with, if it runs.
void note_baseline(const CompareOptions& options, std::span<const Case> cases,
                   std::span<Result> results) {
  if (options.schedules.empty()) return;
  const std::string& first = options.schedules.front();
  const auto& [key, kind] = cases.front().under.set.front();
  if (kind == first) return;
  results.front().scenario.warnings.push_back(first + " is left out: the baseline is " +
                                              cases.front().name);
}

// What is said of some cases only begins with their names, "zb-v, dualpipev: ...".  Once each.
std::vector<std::string> remarks_by_case(std::span<const Case> cases,
                                         std::span<const Result> results) {
  std::vector<std::pair<std::string, std::vector<size_t>>> said;
  std::vector<OlderSoftware> older;
  std::vector<size_t> with_older;
  for (size_t i = 0; i < results.size(); ++i) {
    if (results[i].older_software) {
      older.push_back(*results[i].older_software);
      with_older.push_back(i);
    }
    for (const std::string& w : results[i].scenario.warnings) {
      auto at = std::ranges::find(said, w, &std::pair<std::string, std::vector<size_t>>::first);
      if (at == said.end()) at = said.insert(at, {w, {}});
      if (at->second.empty() || at->second.back() != i) at->second.push_back(i);
    }
  }
  // It changes each step in its own way.
  if (!older.empty()) said.emplace_back(remark_on_older_software(older), std::move(with_older));
  constexpr size_t kMostNames = 12;
  std::vector<std::string> remarks;
  for (const auto& [text, of] : said) {
    const size_t named = of.size() > kMostNames ? kMostNames / 2 : of.size();
    std::string names;
    for (size_t i = 0; i < named; ++i) names += (i == 0 ? "" : ", ") + cases[of[i]].name;
    if (named < of.size()) names += fmt::format(" and {} more", of.size() - named);
    remarks.push_back(of.size() == results.size() ? text : names + ": " + text);
  }
  return remarks;
}

}  // namespace

Comparison compare_scenarios(std::span<const ComparedScenario> given,
                             const CompareOptions& options) {
  Comparison all;
  Collector problems;
  const Refuse refuse = [&](const InputError& e, const std::string& name) {
    problems.add(e, name);
    all.left_out.push_back({name, e.diagnostics});
  };
  std::string baseline_name;
  std::vector<Case> cases;
  std::vector<Case> asked = cases_of(given, options, refuse, baseline_name);
  std::vector<MadeLists> lists(static_cast<size_t>(std::max(1, options.jobs)));
  // A few cases at a time, on all threads, so that not all results with their ops exist at once.
  const size_t at_once = lists.size() == 1 ? 1 : 4 * lists.size();
  for (size_t from = 0; from < asked.size(); from += at_once) {
    const size_t count = std::min(at_once, asked.size() - from);
    std::vector<std::variant<std::monostate, RunCase, InputError>> runs(count);
    for (size_t i = 0; i < count && options.progress; ++i)
      options.progress(static_cast<int64_t>(from + i), std::ssize(asked));
    for_each_item(count, options.jobs, [&](size_t i, size_t thread) {
      try {
        runs[i].emplace<RunCase>(asked[from + i], options.record, lists[thread]);
      } catch (const InputError& e) {
        runs[i].emplace<InputError>(e);
      }
    });
    for (size_t i = 0; i < count; ++i) {
      Case& c = asked[from + i];
      try {
        if (const InputError* wrong = std::get_if<InputError>(&runs[i])) throw InputError(*wrong);
        RunCase& run = std::get<RunCase>(runs[i]);
        if (options.each) options.each(run.document, run.scenario, run.result);
        if (!options.record) forget_ops(run.result);
        run.scenario.schedule = {};
        run.scenario.transfers = nullptr;
        all.results.push_back(std::move(run.result));
        all.scenarios.push_back(std::move(run.scenario));
        cases.push_back(std::move(c));
      } catch (const InputError& e) {
        refuse(e, c.name);
      }
      runs[i].emplace<std::monostate>();
    }
  }
  std::vector<Result>& results = all.results;
  if (options.schedules.empty() || results.empty()) problems.throw_if_any();
  if (given.size() > 1 && !options.keep_names) name_after_scenarios(cases, results);
  // Those of the comparison itself, below, name their cases.
  all.remarks = remarks_by_case(cases, results);
  std::vector<size_t> own;
  for (const Result& r : results) own.push_back(r.scenario.warnings.size());
  note_anomalies(cases, all.scenarios, results);
  note_dropped(cases, results);
  for (size_t i = 0; i < cases.size(); ++i) {
    all.names.push_back(cases[i].name);
    if (cases[i].name == baseline_name) all.baseline = i;
  }
  note_baseline(options, cases, results);
  for (size_t i = 0; i < results.size(); ++i) {
    const std::vector<std::string>& warnings = results[i].scenario.warnings;
    for (size_t w = own[i]; w < warnings.size(); ++w)
      if (std::ranges::find(all.remarks, warnings[w]) == all.remarks.end())
        all.remarks.push_back(warnings[w]);
  }
  for (Result& r : results)
    if (r.older_software)
      r.scenario.warnings.push_back(remark_on_older_software({&*r.older_software, 1}));
  all.problems.assign(problems.found().begin(), problems.found().end());
  return all;
}

}  // namespace stepcast
