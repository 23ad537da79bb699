// SPDX-License-Identifier: Apache-2.0
// stepcast compare A B..., one file with a `compare:` section, or one under several schedules:
// results side by side.
#include "report/compare.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <set>

#include "forecast/anomaly.h"
#include "forecast/forecast.h"
#include "report/json.h"
#include "sim/diagnostic.h"
#include "tools/options.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

struct Case {
  std::string name;
  std::string file;
  std::vector<std::pair<std::string, std::string>> set;
};

// Problems of all cases, each said once.
class Collector {
 public:
  void add(const InputError& e, const std::string& name) {
    status_ = std::max(status_, e.exit_status);
    for (Diagnostic d : e.diagnostics) {
      const std::string key = d.code + d.message + d.file + std::to_string(d.line);
      if (!seen_.insert(key).second) continue;
      if (d.note.empty() && d.file != name) d.note = "in case '" + name + "'";
      found_.push_back(std::move(d));
    }
  }
  void throw_if_any() const {
    if (!found_.empty()) throw InputError(found_, status_);
  }

 private:
  int status_ = 0;
  std::set<std::string> seen_;
  std::vector<Diagnostic> found_;
};

// A scenario under the schedule `name`, with the scenario's own vpp if the schedule takes it, else
// one or two chunks.  Throws the first reason if there is none.
Case under_schedule(const std::string& name, const Arguments& args) {
  const std::string& file = args.files.front();
  std::optional<InputError> first;
  for (const std::string vpp : {"", "null", "2"}) {
    Case c{name, file, {{"schedule", name}}};
    if (!vpp.empty()) c.set.emplace_back("parallel.vpp", vpp);
    try {
      const Scenario scenario = load(file, args, c.set);
      if (scenario.plan.vpp > 1) c.name += " vpp " + std::to_string(scenario.plan.vpp);
      return c;
    } catch (const InputError& e) {
      if (!first) first = e;
    }
  }
  throw InputError(*first);
}

std::vector<Case> cases_under_schedules(const Arguments& args) {
  if (args.files.size() > 1)
    usage_error("E003", "--schedules is for one scenario, not " + std::to_string(args.files.size()),
                "compare takes one of them at a time");
  std::vector<Case> cases;
  Collector problems;
  for (const std::string& name : args.schedules) {
    try {
      cases.push_back(under_schedule(name, args));
    } catch (const InputError& e) {
      problems.add(e, name);
    }
  }
  problems.throw_if_any();
  return cases;
}

std::vector<Case> cases_of(const Arguments& args, std::string& baseline) {
  std::vector<Case> cases;
  if (!args.schedules.empty()) return cases_under_schedules(args);
  if (args.files.size() > 1) {
    for (const std::string& file : args.files) cases.push_back({file, file, {}});
    return cases;
  }
  const Scenario scenario = load(args.files.front(), args);
  if (scenario.compare.empty())
    usage_error("E005",
                "'" + args.files.front() +
                    "' has no compare section, so there is nothing "
                    "to compare it with",
                "name more files or --schedules, or add compare: {cases: {...}} to it");
  for (const CompareCase& c : scenario.compare)
    cases.push_back({c.name, args.files.front(), c.set});
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

// Faster links and a longer step are no mistake of the reader's.
void note_anomalies(std::span<const Case> cases, std::span<const Scenario> scenarios,
                    std::span<Result> results) {
  for (size_t i = 0; i < results.size(); ++i) {
    for (size_t j = 0; j < results.size(); ++j) {
      if (results[i].step_time <= results[j].step_time) continue;
      if (!has_faster_links(scenarios[i], scenarios[j])) continue;
      results[i].scenario.warnings.push_back(
          anomaly_note(scenarios[i], cases[i].name, scenarios[j], cases[j].name));
      break;
    }
  }
}

int compare_command(const Arguments& args, const Terminal& terminal) {
  std::string baseline_name;
  std::vector<Case> cases = cases_of(args, baseline_name);
  std::vector<Scenario> scenarios;
  std::vector<Result> results;
  Collector problems;
  for (const Case& c : cases) {
    try {
      ForecastOptions options;
      options.what_if = false;
      scenarios.push_back(load(c.file, args, c.set));
      results.push_back(forecast(scenarios.back(), options));
    } catch (const InputError& e) {
      problems.add(e, c.name);
    }
  }
  problems.throw_if_any();
  if (args.files.size() > 1) name_after_scenarios(cases, results);
  note_anomalies(cases, scenarios, results);
  std::vector<std::string> names;
  size_t baseline = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    names.push_back(cases[i].name);
    if (cases[i].name == baseline_name) baseline = i;
  }
  write_stdout(args.json ? compare_json(results, names, baseline, version())
                         : compare_table(results, names, baseline, terminal.out));
  std::set<std::string> said;
  for (const Result& r : results)
    for (const std::string& w : r.scenario.warnings)
      if (!args.quiet && said.insert(w).second)
        write_stderr(wrap(escape_text(w), "warning: ", terminal.err.width));
  const bool all_fit =
      std::all_of(results.begin(), results.end(), [](const Result& r) { return r.fits; });
  return args.fail_on_oom && !all_fit ? kExitOutOfMemory : 0;
}

}  // namespace

void add_compare(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "compare", "Put several scenarios, or the cases of one, side by side",
                  chosen, compare_command);
  add_files(sub, args, "FILE", "scenarios, or one with a compare section; - is standard input");
  add_scenario_options(sub, args);
  sub->add_option("--schedules", args.schedules,
                  "one scenario under each of these: 1f1b,interleaved,zb-v,dualpipe,auto")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->option_text("NAME,...");
  sub->add_flag("--fail-on-oom", args.fail_on_oom, "exit with 3 if a case does not fit in memory");
  sub->footer(
      "The first case is the baseline, unless the compare section names another. With --schedules\n"
      "each runs with the scenario's parallel.vpp if it can, else with one or two chunks.\n\n"
      "span: the longest time that a rank works on the step, which is what the step takes without\n"
      "the optimizer's barrier.  on: the rank with the peak.  Waits are those of the critical\n"
      "rank: fill, drain, imbalance and blocked make the bubble, transfers and collectives are\n"
      "exposed communication.");
  add_common(sub, args);
}

}  // namespace stepcast::cli
