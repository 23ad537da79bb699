// SPDX-License-Identifier: Apache-2.0
// stepcast run FILE: simulate, print the answer.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <charconv>
#include <optional>
#include <set>

#include "job/power.h"
#include "report/json/result.h"
#include "report/text/roles.h"
#include "report/text/run.h"
#include "report/text/train.h"
#include "report/trace/perfetto.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/lane_set.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/page.h"
#include "tools/command/search_advice.h"

namespace stepcast::cli {
namespace {

uint32_t slowest_role(const Result& result) {
  const auto& roles = result.account.by_role;
  const auto most =
      std::max_element(roles.begin(), roles.end(), [](const SpendTable& a, const SpendTable& b) {
        return sum_if(a, is_compute) < sum_if(b, is_compute);
      });
  return static_cast<uint32_t>(most - roles.begin());
}

// A whole number at the start of `text`, which is shortened by it.
std::optional<uint32_t> take_number(std::string_view& text) {
  uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return value;
}

// "0-3,7" of `count` ranks, ascending; nothing if it is malformed or names others.
std::optional<std::vector<uint32_t>> parse_ranks(std::string_view text, uint32_t count) {
  std::vector<bool> chosen(count, false);
  while (true) {
    const std::optional<uint32_t> first = take_number(text);
    if (!first || *first >= count) return std::nullopt;
    uint32_t last = *first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      const std::optional<uint32_t> end = take_number(text);
      if (!end || *end >= count || *end < *first) return std::nullopt;
      last = *end;
    }
    for (uint32_t i = *first; i <= last; ++i) chosen[i] = true;
    if (text.empty()) break;
    if (!text.starts_with(',')) return std::nullopt;
    text.remove_prefix(1);
  }
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < count; ++i)
    if (chosen[i]) ranks.push_back(i);
  return ranks;
}

// Ranks of the job that the trace is of, from --ranks.
std::vector<int64_t> ranks_to_trace(const Arguments& args, const Scenario& scenario) {
  if (args.ranks.empty() || args.ranks == "all") return {};
  if (args.trace_ranks != "all")
    usage_error("E004", "--trace-ranks and --ranks both say which ranks the trace is of",
                "--ranks takes ranks of the job, --trace-ranks pipeline ranks");
  const RankGrid& grid = scenario.plan.grid;
  const auto ranks = parse_ranks(args.ranks, static_cast<uint32_t>(grid.world()));
  if (!ranks)
    usage_error("E004", "'--ranks " + args.ranks + "' names no ranks of this job",
                fmt::format("all, or numbers from 0 to {} such as 0,8-15", grid.world() - 1));
  std::set<int64_t> lanes;
  for (const uint32_t rank : *ranks) lanes.insert(lane_of_rank(grid, rank));
  if (lanes.size() > kMostTracedLanes)
    usage_error(
        "E004",
        fmt::format("'--ranks {}' names ranks of {} pipelines, each to be simulated once more",
                    args.ranks, lanes.size()),
        fmt::format("a trace takes up to {}", kMostTracedLanes));
  return {ranks->begin(), ranks->end()};
}

// Pipeline ranks that the trace is of, from --trace-ranks; the slowest is known after the run.
TraceOptions trace_options(const Arguments& args, const Scenario& scenario) {
  if (args.trace_ranks == "all" || args.trace_ranks == "pp" || args.trace_ranks == "slowest")
    return {};
  const int64_t count = scenario.plan.pp;
  const auto ranks = parse_ranks(args.trace_ranks, static_cast<uint32_t>(count));
  if (!ranks)
    usage_error("E004",
                "'--trace-ranks " + args.trace_ranks + "' names no pipeline ranks of this scenario",
                fmt::format("all, slowest, or numbers from 0 to {} such as 0-2,5", count - 1));
  return {*ranks};
}

int run_command(const Arguments& args, const Terminal& terminal) {
  if (args.trace == "-")
    usage_error("E004", "the trace goes to a file, standard output is for the answer",
                "for example: --trace run.pftrace");
  if (!args.ranks.empty() && args.ranks != "all" && args.trace.empty())
    usage_error("E004", "--ranks " + args.ranks + " says which ranks a trace is of",
                "--trace FILE writes one; --ranks all simulates every rank by itself");
  if (args.trace_ranks != "all" && args.trace.empty())
    usage_error("E004", "--trace-ranks " + args.trace_ranks + " says which ranks a trace is of",
                "--trace FILE writes one");
  check_page_options(args);
  // Before the simulation: an existing file is refused at once.
  std::optional<OutputFile> trace_file;
  if (!args.trace.empty()) trace_file.emplace(args.trace, args.force);
  const Scenario scenario = load_or_advise(args.file, args);
  ForecastOptions options;
  options.trace = trace_file.has_value() || !args.html.empty();
  options.all_ranks = args.ranks == "all";
  options.every_what_if = args.what_if;
  options.jobs = jobs_of(args);
  options.trace_ranks = ranks_to_trace(args, scenario);
  TraceOptions trace = trace_options(args, scenario);
  const Result result = [&] {
    ProgressLine line(args.quiet ? ProgressStyle::none : args.progress, "replicas");
    options.progress = [&](int64_t done, int64_t total) { line.show(done, total); };
    return forecast(scenario, options);
  }();

  TraceCounts counts;
  if (trace_file) {
    if (args.trace_ranks == "slowest") trace.roles = {slowest_role(result)};
    counts =
        write_perfetto(result, trace, [&](std::string_view bytes) { trace_file->write(bytes); });
    trace_file->commit();
    trace_file.reset();
  }
  if (!args.html.empty()) write_page(result, scenario, args);
  const std::optional<StepEnergy> energy =
      args.energy ? step_energy(scenario.cluster.node.gpu, result) : std::nullopt;
  if (args.energy && !energy) refuse_energy(scenario.cluster.node.gpu);
  if (args.json) {
    write_stdout(run_json(result, version(), energy));
  } else {
    const std::string advice = args.quiet
                                   ? ""
                                   : search_advice(args.file, args, result.fits,
                                                   result.scenario.gpus, scenario.plan.trains());
    write_stdout(text_report(result, terminal.out, scenario_words(args.file, args)) +
                 (energy ? '\n' + step_energy_text(*energy) : "") +
                 (advice.empty() ? "" : wrap(advice, "  search   ", terminal.out.width)));
  }
  if (!args.trace.empty() && !args.quiet) {
    write_stderr(fmt::format("trace: {}, {}{}{} slices; open it at https://ui.perfetto.dev\n",
                             escape_text(args.trace), counts.ranks,
                             counts.ranks == 1 ? " rank, " : " ranks, ", grouped(counts.slices)));
  }
  return args.fail_on_oom && !result.fits ? kExitOutOfMemory : 0;
}

}  // namespace

void add_run(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(app, "run", "Simulate a training step and print the answer", chosen, run_command);
  add_scenario(sub, args);
  sub->add_option("--trace", args.trace, "write the timeline, for https://ui.perfetto.dev")
      ->option_text("FILE");
  sub->add_option(
         "--trace-ranks", args.trace_ranks,
         "pipeline ranks in the trace: all of them (pp, the default), slowest, or numbers: "
         "0-2,5")
      ->option_text("RANKS");
  add_html(sub, args);
  sub->add_option("--ranks", args.ranks,
                  "all: simulate every rank by itself, not only those unlike the others;\n"
                  "with --trace, ranks of the job in the trace, each with its own times: 0,40-47")
      ->option_text("RANKS");
  sub->add_flag("--what-if", args.what_if,
                "say what each cost is worth even where so many ranks differ that it takes long");
  add_choice(sub, "--progress", {"auto", "plain", "none"}, args.progress,
             "of replicas, on standard error: auto (the default: a bar on a terminal, else\n"
             "a line every 30 seconds), plain (lines), none",
             "WHEN");
  add_jobs(sub, args);
  sub->add_flag("--energy", args.energy, "also say what the step draws, hosts included");
  add_force(sub, args);
  sub->add_flag("--fail-on-oom", args.fail_on_oom,
                "exit with 3 if the step does not fit in memory");
  sub->footer(
      "Printed are the step time, what it is spent on, the memory of the fullest rank and the\n"
      "utilization; `stepcast explain` says where each of them is from. -s tries other values\n"
      "without a change of the file: stepcast run run.yaml -s parallel.tp=4 -s parallel.pp=2");
  add_common(sub, args);
}

}  // namespace stepcast::cli
