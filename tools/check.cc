// SPDX-License-Identifier: Apache-2.0
// stepcast check FILE...: what scenarios say was measured beside what is predicted; a log of
// Megatron-LM is a scenario that was measured.
#include <charconv>
#include <optional>
#include <set>

#include "report/check_table.h"
#include "scenarios/forecast.h"
#include "tools/command.h"
#include "tools/import_run.h"
#include "tools/output.h"

namespace stepcast::cli {
namespace {

constexpr size_t kDoubts = 2;  // of each run

using Sets = std::vector<std::pair<std::string, std::string>>;

// A file as a scenario, with more set.  `imported`: the text of a log's; empty for others.
Scenario load_run(const std::string& file, const std::string& imported, const Arguments& args,
                  const Sets& extra) {
  if (imported.empty()) return load(file, args, extra);
  LoadOptions options;
  options.set = extra;  // --set went into the import
  return load_scenario_text(imported, file, options);
}

// --tolerance: "10%" or "0.1"; nullopt if it is not given.
std::optional<double> read_tolerance(std::string_view text) {
  if (text.empty()) return {};
  std::string_view digits = text;
  const bool per_cent = digits.ends_with('%');
  if (per_cent) digits.remove_suffix(1);
  while (digits.ends_with(' ')) digits.remove_suffix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const double share = per_cent ? value / 100 : value;
  if (digits.empty() || error != std::errc{} || end != digits.data() + digits.size() ||
      !(share >= 0 && share <= 1))
    usage_error("E004", "--tolerance takes a share from 0 to 1, not '" + std::string(text) + '\'',
                "write --tolerance 10% or --tolerance 0.1");
  return share;
}

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
  if (m.peak_memory)
    add(Figure::peak_memory, static_cast<double>(r.memory[r.memory_role].memory.peak.value),
        static_cast<double>(m.peak_memory->value));
}

}  // namespace

int check_command(const Arguments& args, const Terminal& terminal) {
  std::vector<CheckedFigure> figures;
  std::vector<Doubt> doubts;
  std::set<std::string> warnings;
  const std::optional<double> tolerance = read_tolerance(args.tolerance);
  for (const std::string& file : args.files) {
    std::string imported;
    if (file.ends_with(".log")) {
      const ImportedRun run = import_run(import_request(args, "megatron-log", file));
      imported = run.scenario;
      if (!args.quiet) write_stderr(imported_summary(run));
    }
    const Scenario scenario = load_run(file, imported, args, {});
    const size_t before = figures.size();
    for (Measured m : scenario.measured) {
      if (tolerance) m.tolerance = *tolerance;
      if (!m.step_time_s && !m.tokens_per_gpu_s && !m.peak_memory) continue;
      ForecastOptions options;
      options.what_if = false;
      const Scenario run = load_run(file, imported, args, m.set);
      const Result result = forecast(run, options);
      const std::string name =
          (run.name.empty() ? file : run.name) + (m.variant.empty() ? "" : ", " + m.variant);
      add_figures(name, m, result, figures);
      for (Doubt& d : largest_doubts(name, result, kDoubts)) doubts.push_back(std::move(d));
      warnings.insert(run.warnings.begin(), run.warnings.end());
    }
    if (figures.size() == before)
      usage_error("E008", "'" + file + "' does not say what was measured",
                  "add measured: {step_time: 13.75s, source: where} to it");
  }
  write_stdout(args.json ? check_json(figures, doubts)
                         : check_table(figures, doubts, terminal.out));
  for (const std::string& w : warnings)
    if (!args.quiet) write_stderr(wrap(escape_text(w), "warning: ", terminal.err.width));
  for (const CheckedFigure& f : figures)
    if (!f.within()) return kExitOutsideTolerance;
  return 0;
}

}  // namespace stepcast::cli
