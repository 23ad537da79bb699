// SPDX-License-Identifier: Apache-2.0
// stepcast sweep FILE: forecasts of a scenario with other values.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>

#include "report/text/steps.h"
#include "scenarios/search/sweep.h"
#include "stepcast/build.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/store/session.h"

namespace stepcast::cli {
namespace {

void print_sweep(const SweepResult& result, const Arguments& args, const Terminal& terminal) {
  TextStyle style = terminal.out;
  style.width = std::max(style.width, terminal.columns);
  if (args.json)
    deliver(sweep_json(result, version()), args.output, args.force);
  else if (args.csv)
    deliver(sweep_csv(result), args.output, args.force);
  else if (args.json_lines)
    deliver(sweep_json_lines(result), args.output, args.force);
  else
    deliver(sweep_text(result, style), args.output, args.force);
}

// Of a point that is a scenario.
Gpu gpu_of(ScenarioDocument document, const std::vector<std::string>& axes,
           const SweepPoint& point) {
  LoadOptions settings;
  for (size_t a = 0; a < axes.size(); ++a) settings.set.emplace_back(axes[a], point.values[a]);
  document.set(settings);
  return std::move(document).resolve().cluster.node.gpu;
}

int sweep_command(const Arguments& args, const Terminal& terminal) {
  if (args.csv + args.json + args.json_lines > 1)
    usage_error("E003", "one of --csv, --json and --jsonl at a time");
  ScenarioDocument document = read_scenario(args.file, args);
  if (args.zip) document.set("sweep.mode", scalar_value("zip"));
  SweepOptions options;
  options.axes = args.axes;
  options.given = parse_sets(args.set);
  SweepRun run;
  run.jobs = jobs_of(args);
  run.shard = shard_of(args);
  run.version = build();
  run.energy = args.energy;
  // Before anybody waits for it in a queue, and before there is a file.
  if (!args.slurm.empty() || !args.store.empty()) const SweepSpace checked(document, options);
  if (wrote_batch_script(args)) return 0;
  std::optional<NotedSignals> noted(std::in_place, !args.store.empty());
  std::optional<StoreSession> store;
  if (!args.store.empty()) store.emplace(args, "sweep", run.shard);
  if (store) run.remember = store->remember();
  if (store) run.remember_energy = store->remember_energy();
  int64_t done = 0, total = 0;
  SweepResult result;
  {
    ProgressLine line(args.quiet ? ProgressStyle::none : args.progress, "points");
    run.progress = [&](int64_t now, int64_t all) { line.show(done = now, total = all); };
    run.stop = [&] {
      if (store) store->throw_if_terminated();
      return was_interrupted();
    };
    try {
      result = sweep(document, options, run);
    } catch (const Terminated&) {
      store->end_early(done, total, "points");
      return kExitTerminated;
    }
    if (store) store->close();
    noted.reset();
  }
  const auto ended = [](const SweepPoint& p) {
    return p.outcome == SweepPoint::Outcome::found && p.row.runs();
  };
  if (args.energy && std::ranges::any_of(result.points, ended) &&
      std::ranges::none_of(result.points,
                           [](const SweepPoint& p) { return p.row.joules_per_token.has_value(); }))
    refuse_energy(gpu_of(document, result.axes, *std::ranges::find_if(result.points, ended)));
  result.name = shown_name(args.file);
  for (const SweepPoint& p : result.points)
    if (p.outcome == SweepPoint::Outcome::found) {
      result.name = p.row.name;
      break;
    }
  print_sweep(result, args, terminal);
  return was_interrupted() ? kExitInterrupted : 0;
}

}  // namespace

void add_sweep(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "sweep", "Forecast a scenario with other values", chosen, sweep_command);
  sub->footer(
      "Axes stand in the file's section sweep or on the command line. All combinations of their\n"
      "values are forecast; what cannot be is counted. --store keeps rows (docs/store.md).\n\n"
      "  stepcast sweep run.yaml --axis parallel.tp=1,2,4,8 --axis batch.micro=1,2 --csv");
  add_scenario(sub, args);
  sub->add_option("--axis", args.axes, "a key and its values: parallel.tp=1,2,4; may be repeated")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUES");
  sub->add_flag("--zip", args.zip, "the first values of all axes, then the second ones, ...");
  add_many_steps(sub, args);
  sub->add_flag("--energy", args.energy,
                "also say what a token of each draws, hosts included; each takes a whole forecast");
  sub->add_flag("--csv", args.csv, "a line for each point, with all columns");
  sub->add_flag("--jsonl", args.json_lines, "the same as JSON Lines");
  add_output(sub, args);
  add_choice(sub, "--progress", {"auto", "plain", "none"}, args.progress,
             "on standard error: auto (the default: a bar on a terminal, else a line every 30\n"
             "seconds), plain (lines), none",
             "WHEN");
  add_common(sub, args);
}

}  // namespace stepcast::cli
