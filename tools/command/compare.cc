// SPDX-License-Identifier: Apache-2.0
// stepcast compare A B..., one file with a `compare:` section, or one under several schedules:
// results side by side.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <map>
#include <variant>

#include "job/power.h"
#include "job/training.h"
#include "report/diagnostics.h"
#include "report/html/page.h"
#include "report/json/result.h"
#include "report/text/compare.h"
#include "report/text/train.h"
#include "scenarios/forecast/comparison.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/page.h"

namespace stepcast::cli {
namespace {

// The files, each read once, with what --set says.  Throws InputError: what is wrong with any of
// them, where one cannot be read.
std::vector<ComparedScenario> scenarios_of(const Arguments& args) {
  std::vector<ComparedScenario> all;
  std::map<std::string, InputError> unread;
  for (const std::string& file : args.files) {
    try {
      const auto same = std::ranges::find(all, file, &ComparedScenario::file);
      all.push_back({file, same != all.end() ? same->document : read_scenario(file, args)});
    } catch (const InputError& e) {
      unread.emplace(file, e);
    }
  }
  if (unread.empty()) return all;
  std::vector<Diagnostic> problems;
  const auto add = [&](const InputError& e) {
    problems.insert(problems.end(), e.diagnostics.begin(), e.diagnostics.end());
  };
  for (const std::string& file : args.files) {
    if (const auto wrong = unread.find(file); wrong != unread.end()) {
      add(wrong->second);
      continue;
    }
    const auto read = std::ranges::find(all, file, &ComparedScenario::file);
    const auto resolved = read->document.try_resolve();
    if (const InputError* e = std::get_if<InputError>(&resolved)) add(*e);
  }
  throw InputError(problems);
}

int compare_command(const Arguments& args, const Terminal& terminal) {
  check_page_options(args);
  CompareOptions options;
  options.schedules = args.schedules;
  options.record = !args.html.empty();
  options.jobs = jobs_of(args);
  options.progress = [&](int64_t, int64_t total) {
    if (!args.html.empty() && total > int64_t{kMostPageCases})
      usage_error("E004", fmt::format("--html of {} cases", total),
                  fmt::format("a report takes up to {}", kMostPageCases));
  };
  std::vector<std::optional<TrainingPlan>> whole_runs;
  std::vector<std::optional<StepEnergy>> energies;
  Gpu last_gpu;
  options.each = [&](const ScenarioDocument& document, const Scenario& scenario,
                     const Result& result) {
    whole_runs.push_back(whole_run(read_job(document), scenario, result));
    if (!args.energy) return;
    last_gpu = scenario.cluster.node.gpu;
    energies.push_back(step_energy(last_gpu, result));
  };
  const Comparison c = compare_scenarios(scenarios_of(args), options);
  if (args.energy && !energies.empty() &&
      std::ranges::none_of(energies, [](const auto& e) { return e.has_value(); }))
    refuse_energy(last_gpu);
  if (!args.html.empty())
    write_compare_page(c.results, c.scenarios, c.names, c.baseline, whole_runs, c.left_out, args);
  write_stdout(args.json ? compare_json(c.results, c.names, c.baseline, version(), c.left_out,
                                        whole_runs, energies)
                         : compare_table(c.results, c.names, c.baseline, terminal.out, c.left_out) +
                               whole_runs_table(whole_runs, c.names) +
                               (args.energy ? step_energies_table(energies, c.names) : ""));
  for (const std::string& w : c.remarks)
    if (!args.quiet) write_stderr(wrap(escape_text(w), "warning: ", terminal.err.width));
  if (!c.problems.empty() && !args.json)
    write_stderr(render_diagnostics(c.problems, terminal.err, "The others were run."));
  if (!c.problems.empty()) return exit_status_of(c.problems);
  const bool all_fit =
      std::all_of(c.results.begin(), c.results.end(), [](const Result& r) { return r.fits; });
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
  add_jobs(sub, args);
  add_html(sub, args);
  add_force(sub, args);
  sub->add_flag("--energy", args.energy, "also say what each step draws, hosts included");
  sub->add_flag("--fail-on-oom", args.fail_on_oom, "exit with 3 if a case does not fit in memory");
  sub->footer(
      "The first case is the baseline, unless the compare section names another. With --schedules\n"
      "each runs with the scenario's parallel.vpp if it can, else with one or two chunks, and\n"
      "with the keys of the scenario's schedule section (p2p, group, params, ...) that it can\n"
      "take; a remark names the others. A schedule that cannot be run is left out, and the exit\n"
      "status is 2.\n\n"
      "span: the longest time that a rank works on the step, which is what the step takes without\n"
      "the optimizer's barrier.  pp rank: the one with the peak.  Waits are those of the critical\n"
      "rank: fill, drain, imbalance and blocked make the bubble, transfers and collectives are\n"
      "exposed communication.");
  add_common(sub, args);
}

}  // namespace stepcast::cli
