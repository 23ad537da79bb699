// SPDX-License-Identifier: Apache-2.0
#include "tools/schedule_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

namespace stepcast::cli {
namespace {

constexpr const char* kFooter =
    "SCHEDULE is a family or one of its other names (`stepcast presets schedules`), a schedule\n"
    "file in PyTorch's CSV format (- is standard input), or a scenario.";

constexpr const char* kEvalFooter =
    "Styles of transfers: async, megatron, megatron-overlap, megatron-overlap-flush, dualpipe,\n"
    "deepspeed; docs/schedules.md has the rule of each.\n\n"
    "Times are in the unit of --costs.  makespan: from 0 to the last end; span: the largest time\n"
    "from the first start to the last end of a rank; ideal: the busy time of the busiest rank,\n"
    "which no order can beat; bubble: makespan - ideal, and bubble_share its share of the "
    "makespan.\n"
    "In flight: activations held between F and B or W (or, released at I, F and B or I).\n";

void add_subject(CLI::App* sub, ScheduleArguments& a) {
  sub->add_option("SCHEDULE", a.subject, "family, schedule file or scenario")
      ->required()
      ->option_text(" ");
}

void add_sizes(CLI::App* sub, ScheduleArguments& a) {
  sub->add_option("--pp", a.pp, "pipeline ranks")->option_text("N");
  sub->add_option("--vpp", a.vpp, "chunks of a rank, by default 1")->option_text("N");
  sub->add_option("-m,--microbatches", a.microbatches, "microbatches")->option_text("N");
}

void add_params(CLI::App* sub, Arguments& args) {
  sub->add_option("--param", args.schedule.params,
                  "of a family (`stepcast presets --show FAMILY`), as often as needed")
      ->allow_extra_args(false)
      ->option_text("KEY=VALUE");
  sub->add_option("-s,--set", args.set, "of a scenario, as often as needed")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
}

void add_costs(CLI::App* sub, ScheduleArguments& a) {
  sub->add_option("--costs", a.costs,
                  "times of F, I, W (B takes tI + tW) and of a transfer; by default 1,1,1,0")
      ->option_text("tF,tI,tW,c");
}

void add_stages(CLI::App* sub, ScheduleArguments& a) {
  sub->add_option("--stages", a.stages,
                  "times of each stage: a line tF,tI,tW for every stage, and what it holds after F "
                  "and after I if that differs")
      ->option_text("FILE");
}

void add_timing(CLI::App* sub, ScheduleArguments& a) {
  add_costs(sub, a);
  add_stages(sub, a);
  sub->add_option("--straggler", a.straggler, "every action on this rank takes that much longer")
      ->option_text("RANK=FACTOR");
  sub->add_option("--p2p", a.p2p,
                  "how transfers block: async (the default), megatron, deepspeed, ...")
      ->option_text("STYLE");
}

void add_output(CLI::App* sub, Arguments& args) {
  sub->add_option("-o,--output", args.schedule.output, "file instead of standard output")
      ->option_text("FILE");
  sub->add_flag("--force", args.force, "overwrite existing outputs");
}

void add_synth(CLI::App* sub, Arguments& args) {
  ScheduleArguments& a = args.schedule;
  add_sizes(sub, a);
  add_costs(sub, a);
  add_stages(sub, a);
  sub->add_option("--memory-limit", a.memory_limit,
                  "what a rank may hold, in chunk activations or the unit of --stages; by default "
                  "that of pp microbatches, as in 1f1b")
      ->option_text("N");
  sub->add_option("--placement", a.placement,
                  "loop (stage s on rank s mod pp, the default) or v (two chunks a rank)")
      ->option_text("loop|v");
  sub->add_option("--effort", a.effort, "orders to try; more take longer")->option_text("N");
  sub->add_option("-o,--csv", a.output, "write the schedule, - is standard output")
      ->option_text("FILE");
  sub->add_flag("--force", args.force, "overwrite existing outputs");
  add_common(sub, args);
}

}  // namespace

void add_common(CLI::App* sub, Arguments& args) {
  sub->add_flag("--json", args.json, "print JSON, errors included");
  sub->add_option("--color", args.color, "colours: auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->option_text("WHEN");
  sub->add_flag("-q,--quiet", args.quiet, "say nothing on standard error but errors");
}

void add_schedule(CLI::App& app, Arguments& args, Command& command) {
  CLI::App* schedule =
      app.add_subcommand("schedule", "Show, check, export, time or build pipeline schedules");
  schedule->require_subcommand(0, 1);
  ScheduleArguments& a = args.schedule;
  const auto add = [&](const char* name, const char* summary, Command function) {
    CLI::App* sub = schedule->add_subcommand(name, summary);
    sub->callback([&command, function] { command = function; });
    sub->footer(kFooter);
    return sub;
  };
  CLI::App* show = add("show", "Draw a schedule, one lane a rank", schedule_show_command);
  add_subject(show, a);
  add_sizes(show, a);
  add_params(show, args);
  add_timing(show, a);
  show->add_option("--svg", a.svg, "write the drawing as SVG")->option_text("FILE");
  show->add_option("--width", a.columns, "columns; by default those of the terminal, or 80")
      ->option_text("N");
  add_output(show, args);
  add_common(show, args);

  CLI::App* check =
      add("check", "Prove a schedule complete and free of deadlock", schedule_check_command);
  add_subject(check, a);
  add_sizes(check, a);
  add_params(check, args);
  add_costs(check, a);
  add_common(check, args);

  CLI::App* write = add("export", "Print a schedule as PyTorch's CSV", schedule_export_command);
  add_subject(write, a);
  add_sizes(write, a);
  add_params(write, args);
  add_costs(write, a);
  write->add_option("--format", a.format, "compute (default), or compute-comms: with transfers")
      ->option_text("FORMAT");
  add_output(write, args);
  add_common(write, args);

  CLI::App* eval =
      add("eval", "How long a schedule takes, and what it holds", schedule_eval_command);
  add_subject(eval, a);
  add_sizes(eval, a);
  add_params(eval, args);
  add_timing(eval, a);
  add_common(eval, args);
  eval->footer(std::string(kEvalFooter) + '\n' + kFooter);

  CLI::App* synth =
      add("synth", "Build a schedule for given times and memory", schedule_synth_command);
  synth->footer("");
  add_synth(synth, args);
}

}  // namespace stepcast::cli
