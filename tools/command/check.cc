// SPDX-License-Identifier: Apache-2.0
// stepcast check FILE...: what scenarios say was measured beside what is predicted; a log of
// Megatron-LM is a scenario that was measured.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <optional>
#include <set>

#include "report/diagnostics.h"
#include "report/text/compare.h"
#include "scenarios/document/number.h"
#include "scenarios/forecast/forecast.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/run_input.h"

namespace stepcast::cli {
namespace {

constexpr size_t kDoubts = 2;  // of each run

void add_figures(const std::string& name, const Measured& m, const Result& r,
                 std::vector<CheckedFigure>& figures) {
  const auto add = [&](Figure figure, double predicted, double measured) {
    figures.push_back({name, figure, predicted, measured, m.tolerance, m.source});
  };
  const double step = to_seconds(r.step_time);
  const double low = r.interval ? to_seconds(r.interval->low) : 0;
  const double high = r.interval ? to_seconds(r.interval->high) : 0;
  if (m.step_time_s) {
    add(Figure::step_time, step, *m.step_time_s);
    if (r.interval) figures.back().interval = {low, high, r.interval->level};
  }
  if (m.tokens_per_gpu_s) {
    const double rate = r.tokens_per_s_per_gpu;
    add(Figure::tokens_per_gpu_s, rate, *m.tokens_per_gpu_s);
    if (r.interval && low > 0)
      figures.back().interval = {rate * step / high, rate * step / low, r.interval->level};
  }
  const auto add_memory = [&](Figure figure, Bytes predicted, const std::optional<Bytes>& measured,
                              const std::optional<MemoryInterval>& interval) {
    if (!measured) return;
    add(figure, static_cast<double>(predicted.value), static_cast<double>(measured->value));
    if (interval)
      figures.back().interval = {static_cast<double>(interval->low.value),
                                 static_cast<double>(interval->high.value), interval->level};
  };
  add_memory(Figure::peak_memory, r.memory[r.peak_role].memory.peak, m.peak_memory,
             r.allocated_interval);
  add_memory(Figure::reserved_memory, r.memory_reserved, m.reserved_memory, r.reserved_interval);
}

// What is known of all files.
struct Checked {
  std::vector<CheckedFigure> figures;
  std::vector<Doubt> doubts;
  std::set<std::string> names, warnings;
  size_t runs = 0;
};

// Throws InputError; what was known before stays in `checked`.
void check_file(const std::string& file, const Arguments& args, Checked& checked) {
  std::vector<MeasuredScenario> runs;
  if (args.log.empty())
    runs = read_measured_runs(file, args, checked.names);
  else
    runs.push_back(measured_by_log(file, args, checked.warnings));
  for (MeasuredScenario& run : runs) {
    if (args.tolerance) run.measured.tolerance = *args.tolerance;
    ForecastOptions options;
    options.what_if = false;
    const Result result = forecast(run.scenario, options);
    add_figures(run.name, run.measured, result, checked.figures);
    for (Doubt& d : largest_doubts(run.name, checked.runs, result, kDoubts))
      checked.doubts.push_back(std::move(d));
    checked.warnings.insert(result.scenario.warnings.begin(), result.scenario.warnings.end());
    if (auto doubt = doubt_of_memory(run.name, result)) checked.warnings.insert(std::move(*doubt));
    ++checked.runs;
  }
}

int check_command(const Arguments& args, const Terminal& terminal) {
  static_cast<void>(parse_sets(args.set));  // wrong for all files
  if (!args.log.empty() && args.files.size() > 1)
    usage_error("E003", "--log is of one run, and there are several scenarios",
                "name the one that says what the log's run trained");
  Checked checked;
  std::vector<Diagnostic> errors;
  for (const std::string& file : args.files) {
    try {
      check_file(file, args, checked);
    } catch (const InputError& e) {
      errors.insert(errors.end(), e.diagnostics.begin(), e.diagnostics.end());
    }
  }
  if (checked.figures.empty()) throw InputError(std::move(errors));
  write_stdout(args.json ? check_json(checked.figures, checked.doubts, errors)
                         : check_table(checked.figures, checked.doubts, terminal.out));
  for (const std::string& w : checked.warnings)
    if (!args.quiet) write_stderr(wrap(escape_text(w), "warning: ", terminal.err.width));
  if (!args.json) write_stderr(render_diagnostics(errors, terminal.err, ""));
  if (!errors.empty()) return exit_status_of(errors);
  for (const CheckedFigure& f : checked.figures)
    if (!f.within()) return kExitOutsideTolerance;
  return 0;
}

}  // namespace

void add_check(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(app, "check", "Put predicted figures beside measured ones", chosen,
                              check_command);
  add_files(sub, args, "FILE", "scenarios, logs of training; - is standard input");
  add_scenario_options(sub, args);
  sub->add_option("--preset", args.preset,
                  "cluster that the runs of logs were on: a preset, by default dgx-h100")
      ->option_text("NAME");
  sub->add_option("--log", args.log,
                  "log of the run that the one scenario describes, whatever else is in it: what\n"
                  "its steps took stands in for measured:")
      ->option_text("FILE");
  add_quantity(sub, "--tolerance", args.tolerance, read_share,
               "largest error, 10% or 0.1, for all files; else what each says, or 10 %", "SHARE");
  sub->footer(
      "Scenarios say what was measured under measured:.  Logs of Megatron-LM, Megatron-Bridge, "
      "NeMo\n"
      "and torchtitan that have their configuration are imported first.  Doubts are the works "
      "that\n"
      "take longest among those whose prices were not measured.  Files that cannot be checked are\n"
      "named after the others are.  Exit status 6: an error is larger than the tolerance.");
  add_common(sub, args);
}

}  // namespace stepcast::cli
