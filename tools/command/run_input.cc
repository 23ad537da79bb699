// SPDX-License-Identifier: Apache-2.0
#include "tools/command/run_input.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "report/text/run.h"
#include "tools/command/import.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

// What imports a file; empty for a scenario.
std::string kind_of_run(const std::string& file) {
  if (file == "-") return {};
  for (const char* ending : {".yaml", ".yml", ".json"})
    if (file.ends_with(ending)) return {};
  const bool log = file.ends_with(".log");
  const std::string kind(kind_of_log(read_whole_file(file)));
  return kind.empty() && log ? "megatron-log" : kind;
}

// A file as a scenario, with more set.  `imported`: the text of a log's; empty for others.
Scenario load_run(const std::string& file, const std::string& imported, const Arguments& args,
                  const Sets& extra) {
  if (imported.empty()) return load(file, args, extra);
  LoadOptions options;
  options.set = extra;  // --set went into the import
  return load_scenario_text(imported, file, options);
}

// Several runs may have one name; the file tells them apart.
std::string name_of(const Scenario& run, const Measured& m, const std::string& file,
                    std::set<std::string>& taken) {
  std::string name =
      (run.name.empty() ? file : run.name) + (m.variant.empty() ? "" : ", " + m.variant);
  if (taken.contains(name)) name += " (" + file + ')';
  taken.insert(name);
  return name;
}

}  // namespace

MeasuredScenario measured_by_log(const std::string& file, const Arguments& args,
                                 std::set<std::string>& warnings) {
  for (const auto& [path, value] : parse_sets(args.set))
    if ((path == "measured" || path.starts_with("measured.")) && path != "measured.tolerance")
      usage_error("E003", fmt::format("--log says what was measured, and -s {}, too", path),
                  "leave one of them out");
  const std::string log = shown_name(args.log);
  const LogMeasurement found = measured_in_log(log, read_whole_file(args.log));
  Sets sets;  // the figures of the scenario itself go, its tolerance stays
  for (const char* figure : {"step_time", "tokens_per_gpu_s", "peak_memory", "source", "variants"})
    sets.emplace_back(fmt::format("measured.{}", figure), "null");
  for (const auto& [key, value] : found.set) sets.emplace_back("measured." + key, value);
  Scenario scenario = load(file, args, sets);
  if (!args.quiet)
    write_stderr(fmt::format("measured: {} of {}\n", escape_text(found.summary), escape_text(log)));
  const int64_t batch = scenario.plan.global_batch;
  if (found.global_batch > 0 && found.global_batch != batch)
    warnings.insert(fmt::format("the steps of {} have a global batch of {}, the scenario's has {}",
                                log, found.global_batch, batch));
  const Measured measured = scenario.measured.front();
  std::string name = scenario.name.empty() ? file : scenario.name;
  return {std::move(name), std::move(scenario), measured};
}

std::vector<MeasuredScenario> read_measured_runs(const std::string& file, const Arguments& args,
                                                 std::set<std::string>& names) {
  std::string imported;
  if (const std::string kind = kind_of_run(file); !kind.empty()) {
    const ImportedRun run = import_run(import_request(args, kind, file));
    imported = run.scenario;
    if (!args.quiet) write_stderr(imported_summary(run));
  }
  std::vector<MeasuredScenario> runs;
  for (const Measured& m : load_run(file, imported, args, {}).measured) {
    if (!m.step_time_s && !m.tokens_per_gpu_s && !m.peak_memory) continue;
    Scenario run = load_run(file, imported, args, m.set);
    std::string name = name_of(run, m, file, names);
    runs.push_back({std::move(name), std::move(run), m});
  }
  if (runs.empty())
    usage_error("E008", "'" + file + "' does not say what was measured",
                "add measured: {step_time: 13.75s, source: where} to it");
  return runs;
}

std::optional<std::string> doubt_of_memory(const std::string& name, const Result& forecast) {
  if (forecast.fits) return {};
  return fmt::format("'{}' was measured, but by its forecast it {}", name,
                     memory_verdict(forecast));
}

}  // namespace stepcast::cli
