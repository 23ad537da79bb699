// SPDX-License-Identifier: Apache-2.0
// stepcast schedule show|check|export|eval|synth: pipeline schedules without a scenario.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "report/diagnostics.h"
#include "report/json/writer.h"
#include "report/svg/schedule.h"
#include "schedules/families/families.h"
#include "schedules/formats/action_text.h"
#include "schedules/formats/compute_comms.h"
#include "schedules/formats/schedule_csv.h"
#include "schedules/synthesis/synthesis.h"
#include "sim/check.h"
#include "tools/command/options.h"
#include "tools/command/output.h"
#include "tools/command/schedule/input.h"
#include "tools/command/schedule/timing.h"

namespace stepcast::cli {
namespace {

ScheduleCosts costs_of(const Arguments& args) {
  return parse_costs(args.schedule.costs, args.schedule.straggler, read_stages(args.schedule));
}

std::string rows_json(const ChosenSchedule& chosen) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    std::vector<std::string> rows;
    for (const std::vector<Action>& rank : chosen.schedule.ranks)
      rows.push_back(to_text(rank, chosen.schedule.seq_splits, chosen.schedule.names_pieces));
    json.values("ranks", rows);
  });
}

std::string verdict_json(const ChosenSchedule& chosen) {
  return json_document([&](JsonWriter& json) {
    json.member("ok", true);
    write_schedule(json, chosen);
    json.values("remarks", chosen.remarks);
  });
}

std::string eval_json(const ChosenSchedule& chosen, const ScheduleTiming& timing,
                      const ScheduleCosts& costs, P2pStyle style) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    json.member("p2p", name_of(style));
    write_times(json, timing, costs);
    json.objects("ranks", timing.ranks, [&](const RankTiming& rank) {
      write_time(json, "busy", rank.busy, costs);
      json.member("peak_in_flight", rank.peak_in_flight);
      json.member("peak_in_flight_release_input", rank.peak_until_input);
      write_time(json, "start", rank.start, costs);
      write_time(json, "end", rank.end, costs);
    });
  });
}

std::string eval_text(const ChosenSchedule& chosen, const ScheduleTiming& timing,
                      const ScheduleCosts& costs, const Terminal& terminal) {
  const auto time = [&](Time t) { return exact_decimal(t.count(), costs.per_unit); };
  std::vector<std::vector<std::string>> rows = {
      {"", "busy", "start", "end", "in flight", "... released at I"}};
  for (size_t r = 0; r < timing.ranks.size(); ++r) {
    const RankTiming& rank = timing.ranks[r];
    rows.push_back({fmt::format("rank {}", r), time(rank.busy), time(rank.start), time(rank.end),
                    std::to_string(rank.peak_in_flight), std::to_string(rank.peak_until_input)});
  }
  return wrap(escape_text(chosen.title) + ": " + sizes_of(chosen.schedule), "",
              terminal.out.width) +
         flow(facts_of(timing, costs), terminal.out.width) + '\n' +
         titled_table(rows, "<>>>>>", terminal.out);
}

std::string lanes_json(const ScheduleDrawing& drawing, const ChosenSchedule& chosen,
                       const ScheduleTiming& timing, const ScheduleCosts& costs) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    write_times(json, timing, costs);
    json.key("ranks");
    json.begin_array();
    for (const auto& lane : drawing.lanes) {
      json.begin_array();
      for (const DrawnAction& a : lane) {
        json.begin_object();
        json.member("action", to_string(a.action, drawing.seq_splits));
        write_time(json, "begin", a.begin, costs);
        write_time(json, "end", a.end, costs);
        json.end_object();
      }
      json.end_array();
    }
    json.end_array();
  });
}

int columns_of(const ScheduleArguments& a, const Terminal& terminal) {
  return static_cast<int>(std::min<int64_t>(a.columns.value_or(terminal.columns), 100'000));
}

int schedule_export_command(const Arguments& args, const Terminal& terminal) {
  const bool transfers = args.schedule.format == ScheduleArguments::Format::compute_comms;
  const ChosenSchedule chosen = choose_schedule(args, costs_of(args));
  const Schedule& schedule = chosen.schedule;
  deliver(args.json   ? rows_json(chosen)
          : transfers ? write_compute_comms_csv(schedule)
                      : write_schedule_csv(schedule),
          args.output, args.force);
  say_remarks(chosen, args, terminal);
  return 0;
}

int schedule_check_command(const Arguments& args, const Terminal& terminal) {
  ChosenSchedule chosen = choose_schedule(args, costs_of(args));
  remark_stalls(chosen);
  if (args.json) {
    write_stdout(verdict_json(chosen));
    return 0;
  }
  write_stdout(wrap(escape_text(chosen.title) + ": " + sizes_of(chosen.schedule),
                    paint("ok", Tone::good, terminal.out) + ": ", terminal.out.width));
  say_remarks(chosen, args, terminal);
  return 0;
}

int schedule_eval_command(const Arguments& args, const Terminal& terminal) {
  const ScheduleCosts costs = costs_of(args);
  const P2pStyle style = args.schedule.p2p;
  const ChosenSchedule chosen = choose_schedule(args, costs);
  const ScheduleTiming timing = time_schedule(chosen.schedule, costs, style);
  write_stdout(args.json ? eval_json(chosen, timing, costs, style)
                         : eval_text(chosen, timing, costs, terminal));
  say_remarks(chosen, args, terminal);
  return 0;
}

int schedule_show_command(const Arguments& args, const Terminal& terminal) {
  const ScheduleArguments& a = args.schedule;
  const ScheduleCosts costs = costs_of(args);
  const P2pStyle style = a.p2p;
  const int columns = columns_of(a, terminal);
  const ChosenSchedule chosen = choose_schedule(args, costs);
  const ScheduleTiming timing = time_schedule(chosen.schedule, costs, style);
  const ScheduleDrawing drawing = drawing_of(chosen, timing, costs);
  // -o picture.svg is a picture too.
  const bool named_svg = args.svg.empty() && args.output.ends_with(".svg");
  const std::string& svg = named_svg ? args.output : args.svg;
  if (!svg.empty()) deliver(schedule_svg(drawing), svg, args.force);
  if (args.json)
    deliver(lanes_json(drawing, chosen, timing, costs), named_svg ? "" : args.output, args.force);
  else if (svg.empty())
    deliver(draw_schedule(drawing, {terminal.out.color, columns}), args.output, args.force);
  else if (svg != "-" && !args.quiet)
    write_stdout(escape_text(svg) + ": " + escape_text(drawing.title) + '\n');
  say_remarks(chosen, args, terminal);
  return 0;
}

// An empty schedule that has the placement.
Schedule placed(const ScheduleArguments& a, const ScheduleParams& params) {
  const bool loop = a.placement == ScheduleArguments::Placement::loop;
  std::optional<Diagnostic> wrong = check_sizes(params);
  if (!wrong && !loop) wrong = check_two_chunks("synth", params);
  if (wrong) usage_error("E205", wrong->message);
  return loop ? loop_schedule("synth", params) : snake_schedule("synth", params);
}

StageTimes times_of(int64_t forward, int64_t input, int64_t weight) {
  StageTimes times;
  times.forward = Time{forward};
  times.backward_input = Time{input};
  times.backward_weight = Time{weight};
  return times;
}

// What 1F1B holds: pp microbatches of the rank that needs most for one.
int64_t default_limit(const Schedule& empty, const ScheduleCosts& costs) {
  if (costs.by_stage.empty()) return empty.pp * empty.vpp;
  std::vector<int64_t> held(static_cast<size_t>(empty.pp));
  for (size_t s = 0; s < costs.by_stage.size(); ++s)
    held[empty.rank_of_stage[s]] +=
        std::max(costs.by_stage[s].after_forward, costs.by_stage[s].after_input);
  const int64_t most = *std::max_element(held.begin(), held.end());
  if (most > std::numeric_limits<int64_t>::max() / 4 / empty.pp)
    usage_error("E004", "what the stages of --stages hold is beyond what can be counted",
                "write it in a larger unit");
  return most * empty.pp;
}

// An activation of a chunk counts 1 from its forward to its weight gradient.
SynthesisProblem problem_of(const ScheduleArguments& a, const ScheduleCosts& costs) {
  if (!a.pp || !a.microbatches)
    usage_error("E003", "synth needs --pp and --microbatches",
                "for example: --pp 4 --microbatches 8 --costs 10,12,7,1");
  ScheduleParams params;
  params.pp = *a.pp;
  params.vpp = a.vpp.value_or(a.placement == ScheduleArguments::Placement::v ? 2 : 1);
  params.microbatches = *a.microbatches;
  require_few_actions(params);
  const Schedule empty = placed(a, params);
  require_stages(empty.rank_of_stage.size(), costs);
  const int64_t limit = a.memory_limit ? *a.memory_limit : default_limit(empty, costs);
  SynthesisProblem problem;
  problem.costs = level_costs(params.pp, params.microbatches, empty.rank_of_stage,
                              times_of(costs.forward, costs.backward_input, costs.backward_weight),
                              {.forward = 1, .backward_input = 0, .backward_weight = -1},
                              Time{costs.hop}, limit);
  for (size_t s = 0; s < costs.by_stage.size(); ++s) {
    const StageCosts& stage = costs.by_stage[s];
    problem.costs.times[s] = times_of(stage.forward, stage.backward_input, stage.backward_weight);
    problem.costs.times[s].backward = Time{stage.backward};
    problem.costs.memory[s] = {.forward = stage.after_forward,
                               .backward_input = stage.after_input - stage.after_forward,
                               .backward_weight = -stage.after_input};
  }
  if (a.effort) problem.effort = *a.effort;
  require_countable(empty, costs);
  return problem;
}

std::string answer_json(const ChosenSchedule& chosen, const Synthesis& s,
                        const ScheduleTiming& timing, const ScheduleCosts& costs) {
  return json_document([&](JsonWriter& json) {
    write_schedule(json, chosen);
    write_times(json, timing, costs);
    write_time(json, "lower_bound", s.lower_bound, costs);
    json.member("gap", s.gap);
    json.member("start", s.start);
    write_time(json, "start_makespan", s.start_time, costs);
    json.member("orders_tried", s.orders_tried);
    size_t rank = 0;
    json.objects("ranks", timing.ranks, [&](const RankTiming& t) {
      json.member("peak_in_flight", t.peak_in_flight);
      json.member("actions", to_text(chosen.schedule.ranks[rank++]));
    });
  });
}

std::string answer_text(const ChosenSchedule& chosen, const Synthesis& s,
                        const ScheduleTiming& timing, const ScheduleCosts& costs, int width) {
  const auto time = [&](Time t) { return exact_decimal(t.count(), costs.per_unit); };
  std::vector<std::string> facts = facts_of(timing, costs);
  int64_t peak = 0;
  for (const RankTiming& rank : timing.ranks) peak = std::max(peak, rank.peak_in_flight);
  facts.push_back("lower bound " + time(s.lower_bound) + ", gap " + percent(s.gap));
  facts.push_back(fmt::format("in flight at most {}", peak));
  facts.push_back("begun with " + s.start + ", makespan " + time(s.start_time));
  return wrap(chosen.title + ": " + sizes_of(chosen.schedule), "", width) + flow(facts, width);
}

int schedule_synth_command(const Arguments& args, const Terminal& terminal) {
  const ScheduleArguments& a = args.schedule;
  const ScheduleCosts costs = parse_costs(a.costs, "", read_stages(a));
  const SynthesisProblem problem = problem_of(a, costs);
  if (const auto wrong = check_synthesis(problem)) usage_error("E205", wrong->message);
  const Synthesis synthesis = synthesize(problem);
  const ChosenSchedule chosen{synthesis.schedule, "auto", {}};
  const ScheduleTiming timing = time_schedule(chosen.schedule, costs, P2pStyle::async);
  if (!args.output.empty()) deliver(write_schedule_csv(chosen.schedule), args.output, args.force);
  if (args.output == "-") return 0;
  write_stdout(args.json ? answer_json(chosen, synthesis, timing, costs)
                         : answer_text(chosen, synthesis, timing, costs, terminal.out.width));
  return 0;
}

constexpr const char* kScheduleFooter =
    "SCHEDULE is a family or one of its other names (`stepcast presets schedules`), a schedule\n"
    "file in PyTorch's CSV format (- is standard input), or a scenario. A family needs --pp and\n"
    "--microbatches: stepcast schedule show zb-h1 --pp 4 --microbatches 8";

constexpr const char* kEvalFooter =
    "Times are in the unit of --costs.  makespan: from 0 to the last end; span: the largest time\n"
    "from the first start to the last end of a rank; ideal: the busy time of the busiest rank,\n"
    "which no order can beat; bubble: makespan - ideal, and bubble_share its share of the "
    "makespan.\n"
    "In flight: activations held between F and B or W (or, released at I, F and B or I).\n\n";

void add_sizes(CLI::App* sub, ScheduleArguments& a) {
  add_count(sub, "--pp", a.pp, 1, "pipeline ranks");
  add_count(sub, "--vpp", a.vpp, 1,
            "chunks of a rank; by default 1, or 2 where a family needs them");
  add_count(sub, "-m,--microbatches", a.microbatches, 1, "microbatches of a step");
}

void add_costs(CLI::App* sub, ScheduleArguments& a) {
  sub->add_option("--costs", a.costs,
                  "times of F, I, W (B takes tI + tW) and of a transfer, in any unit, by default\n"
                  "1,1,1,0; families that make their order for given times use them")
      ->option_text("tF,tI,tW,c");
}

void add_stages(CLI::App* sub, ScheduleArguments& a) {
  sub->add_option(
         "--stages", a.stages,
         "times of each stage instead: a line tF,tI,tW for every stage, then perhaps what\n"
         "it holds after F and after I, then tB; `explain --stages` writes such a file")
      ->option_text("FILE");
}

// What a command reads that is about one schedule.
void add_subject(CLI::App* sub, Arguments& args) {
  add_file(sub, args, "SCHEDULE", "family, schedule file or scenario");
  add_sizes(sub, args.schedule);
  sub->add_option("--param", args.schedule.params,
                  "of a family (`stepcast presets --show FAMILY`), as often as needed")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE");
  add_scenario_options(sub, args);
  add_costs(sub, args.schedule);
  sub->footer(kScheduleFooter);
}

// What its times depend on beside that.
void add_timing(CLI::App* sub, ScheduleArguments& a) {
  add_stages(sub, a);
  sub->add_option("--straggler", a.straggler,
                  "every action on this rank takes so many times as long: 2=1.5")
      ->option_text("RANK=FACTOR");
  std::vector<std::string_view> styles;
  for (const P2pStyle style : kAllP2pStyles) styles.push_back(name_of(style));
  add_choice(sub, "--p2p", std::move(styles), a.p2p,
             "how transfers block: async (the default), megatron, megatron-overlap,\n"
             "megatron-overlap-flush, dualpipe, deepspeed; docs/schedules.md has the rules",
             "STYLE");
}

void define_schedule_show(CLI::App& schedule, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(schedule, "show", "Draw a schedule, one lane a rank", chosen,
                              schedule_show_command);
  add_subject(sub, args);
  add_timing(sub, args.schedule);
  add_svg(sub, args, "write the drawing as a picture; - prints the picture");
  add_count(sub, "--width", args.schedule.columns, 40,
            "columns, from 40; by default those of the terminal, or 80");
  add_output(sub, args);
  add_common(sub, args);
}

void define_check(CLI::App& schedule, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(schedule, "check", "Prove a schedule complete and free of deadlock",
                              chosen, schedule_check_command);
  add_subject(sub, args);
  add_common(sub, args);
}

void define_export(CLI::App& schedule, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(schedule, "export", "Write a schedule as PyTorch's CSV", chosen,
                              schedule_export_command);
  add_subject(sub, args);
  add_choice(sub, "--format", {"compute", "compute-comms"}, args.schedule.format,
             "compute (the default), or compute-comms: with transfers", "FORMAT");
  add_output(sub, args);
  add_common(sub, args);
}

void define_eval(CLI::App& schedule, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(schedule, "eval", "Say how long a schedule takes, and what it holds",
                              chosen, schedule_eval_command);
  add_subject(sub, args);
  add_timing(sub, args.schedule);
  add_common(sub, args);
  sub->footer(std::string(kEvalFooter) + kScheduleFooter);
}

void define_synth(CLI::App& schedule, Arguments& args, Command& chosen) {
  ScheduleArguments& a = args.schedule;
  CLI::App* sub = add_command(schedule, "synth", "Build a schedule for given times and memory",
                              chosen, schedule_synth_command);
  add_sizes(sub, a);
  add_costs(sub, a);
  add_stages(sub, a);
  add_count(sub, "--memory-limit", a.memory_limit, 1,
            "what a rank may hold, in chunk activations or the unit of --stages;\n"
            "by default that of pp microbatches, as in 1f1b");
  add_choice(sub, "--placement", {"loop", "v"}, a.placement,
             "loop (stage s on rank s mod pp, the default) or v (two chunks a rank)", "loop|v");
  add_count(sub, "--effort", a.effort, 1,
            "orders to try; by default as many as a second or so takes");
  sub->footer(
      "What was found is printed; -o writes the schedule itself as PyTorch's CSV, which\n"
      "`stepcast schedule show FILE` and `schedule: {file: FILE}` of a scenario read. With -o -\n"
      "only the schedule is printed.");
  sub->add_option("-o,--output", args.output, "write the schedule; - is standard output")
      ->option_text("FILE");
  add_force(sub, args);
  add_common(sub, args);
}

}  // namespace

void add_schedule(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* schedule =
      app.add_subcommand("schedule", "Draw, check, write, time or build pipeline schedules");
  schedule->group("Commands")->require_subcommand(0, 1);
  for (const auto add :
       {define_schedule_show, define_check, define_export, define_eval, define_synth})
    add(*schedule, args, chosen);
}

}  // namespace stepcast::cli
