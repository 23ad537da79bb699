// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast schedule`.
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tools/options.h"
#include "tools/schedule.h"

namespace stepcast::cli {
namespace {

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
  sub->add_option("--pp", a.pp, "pipeline ranks")->option_text("N");
  sub->add_option("--vpp", a.vpp, "chunks of a rank; by default 1, or 2 where a family needs them")
      ->option_text("N");
  sub->add_option("-m,--microbatches", a.microbatches, "microbatches of a step")->option_text("N");
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
  sub->add_option("--p2p", a.p2p,
                  "how transfers block: async (the default), megatron, megatron-overlap,\n"
                  "megatron-overlap-flush, dualpipe, deepspeed; docs/schedules.md has the rules")
      ->option_text("STYLE");
}

void define_schedule_show(CLI::App& schedule, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(schedule, "show", "Draw a schedule, one lane a rank", chosen,
                              schedule_show_command);
  add_subject(sub, args);
  add_timing(sub, args.schedule);
  add_svg(sub, args, "write the drawing as a picture; - prints the picture");
  sub->add_option("--width", args.schedule.columns,
                  "columns, from 40; by default those of the terminal, or 80")
      ->option_text("N");
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
  sub->add_option("--format", args.schedule.format,
                  "compute (the default), or compute-comms: with transfers")
      ->option_text("FORMAT");
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
  sub->add_option("--memory-limit", a.memory_limit,
                  "what a rank may hold, in chunk activations or the unit of --stages;\n"
                  "by default that of pp microbatches, as in 1f1b")
      ->option_text("N");
  sub->add_option("--placement", a.placement,
                  "loop (stage s on rank s mod pp, the default) or v (two chunks a rank)")
      ->option_text("loop|v");
  sub->add_option("--effort", a.effort, "orders to try; by default as many as a second or so takes")
      ->option_text("N");
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
