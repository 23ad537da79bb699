// SPDX-License-Identifier: Apache-2.0
// The command line of `stepcast calibrate`.
#include "tools/calibrate.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tools/calibrate_input.h"
#include "tools/options.h"

namespace stepcast::cli {
namespace {

constexpr const char* kInputs =
    "TABLE is a file, or the name of a GPU whose table is shipped: h100-sxm.\n\n";
constexpr const char* kFitFooter =
    "INPUT is a cost table (a file, or the name of a GPU whose table is shipped), or what another\n"
    "tool wrote: nccl-tests (text or JSON), mamf-finder or the PyTorch profiler (Kineto); which "
    "of\n"
    "them is seen from what is in it. Where two inputs have one shape a measured row beats a\n"
    "derived one, then the earlier input wins.\n\n"
    "The table is written, a summary goes to standard error.";

void add_accept_edits(CLI::App* sub, CalibrateArguments& a) {
  sub->add_flag("--accept-edits", a.accept_edits,
                "read tables that were edited by hand or never finished");
}

void define_plan(CLI::App& calibrate, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(calibrate, "plan", "List the shapes that scenarios need", chosen,
                              calibrate_plan_command);
  sub->footer(
      "The shapes with the largest share of the steps come first, with how they are priced now.\n"
      "Without -o the plan itself is printed; with it, a summary.");
  add_files(sub, args, "FILE", "scenarios of one GPU; - is standard input");
  add_output(sub, args);
  add_scenario_options(sub, args);
  add_common(sub, args);
}

void define_run(CLI::App& calibrate, Arguments& args, Command& chosen) {
  CalibrateArguments& a = args.calibrate;
  CLI::App* sub =
      add_command(calibrate, "run", "Measure this machine's GPUs: starts stepcast-measure", chosen,
                  calibrate_run_command);
  sub->footer(
      "The shapes of the scenarios, or of the plan, are measured first, those with the largest\n"
      "share of the step before others; then a grid. A run that was interrupted goes on where it\n"
      "stopped when it is started again with the same table. `stepcast calibrate fit` makes the\n"
      "result a table to forecast with.");
  add_files(sub, args, "FILE", "scenarios of one GPU; - is standard input")->required(false);
  sub->add_option("--plan", a.plan, "a plan instead of scenarios")->option_text("FILE");
  sub->add_option("--budget", a.budget,
                  "time to spend, or none for as long as it takes; by default 5min")
      ->option_text("TIME");
  sub->add_option("--grid", a.grid, "shapes beside the plan's: none, small (the default) or full")
      ->option_text("SIZE");
  sub->add_option(
         "--families", a.families,
         "what to measure: gemm, attention, memory, launch, copy, collective, interference; by\n"
         "default all")
      ->option_text("NAME,...");
  add_gpu(sub, args, "preset of the GPU, if its name does not tell");
  sub->add_option("--device", a.device, "number of the GPU, from 0 (the default)")
      ->option_text("N");
  sub->add_flag("--list", a.list, "say what would be measured, in order; needs no GPU");
  sub->add_option("-o,--output", args.output, "the table; one that is there is continued")
      ->option_text("FILE");
  add_scenario_options(sub, args);
  add_common(sub, args);
}

void define_fit(CLI::App& calibrate, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(calibrate, "fit", "Make a cost table of measurements", chosen,
                              calibrate_fit_command);
  sub->footer(kFitFooter);
  add_files(sub, args, "INPUT", "tables and files of other tools; - is standard input");
  add_gpu(sub, args, "preset of the GPU that was measured; needed where no input says");
  add_accept_edits(sub, args.calibrate);
  sub->add_option("--kind", args.kind,
                  "of the inputs that are no tables: nccl-tests, mamf or kineto")
      ->option_text("KIND");
  add_measurement_options(sub, args.measured);
  add_output(sub, args);
  add_common(sub, args);
}

void define_merge(CLI::App& calibrate, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(calibrate, "merge", "Put several cost tables into one", chosen,
                              calibrate_merge_command);
  sub->footer(std::string(kInputs) +
              "As `stepcast calibrate fit`, for tables alone: where two have one shape a measured\n"
              "row beats a derived one, then the earlier table wins; the fits are made anew.");
  add_files(sub, args, "TABLE", "cost tables; - is standard input");
  add_gpu(sub, args, "preset of the result's GPU; rows of others become derived");
  add_accept_edits(sub, args.calibrate);
  add_output(sub, args);
  add_common(sub, args);
}

void define_show(CLI::App& calibrate, Arguments& args, Command& chosen) {
  CLI::App* sub =
      add_command(calibrate, "show", "Say what a cost table covers, and how well its fits hold",
                  chosen, calibrate_show_command);
  sub->footer(std::string(kInputs) +
              "Errors of fits are those of the fitted rows. A forecast asks the rows first and\n"
              "uses a fit where they leave gaps: docs/costs.md.");
  add_file(sub, args, "TABLE", "a cost table; - is standard input");
  add_svg(sub, args, "write a picture, measured against fit; - prints the picture alone");
  sub->add_flag("--csv", args.calibrate.csv, "one line for each row, with the fit beside it");
  add_force(sub, args);
  add_common(sub, args);
}

void define_diff(CLI::App& calibrate, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(calibrate, "diff", "Put two cost tables side by side", chosen,
                              calibrate_diff_command);
  sub->footer(std::string(kInputs) + "Ratios are those of the second over the first.");
  add_files(sub, args, "TABLE", "two cost tables; - is standard input");
  add_common(sub, args);
}

}  // namespace

void add_calibrate(CLI::App& app, Arguments& args, Command& chosen) {
  CLI::App* calibrate =
      app.add_subcommand("calibrate", "Make, show and compare the cost tables of GPUs");
  calibrate->group("Commands")->require_subcommand(0, 1);
  for (const auto add :
       {define_plan, define_run, define_fit, define_merge, define_show, define_diff})
    add(*calibrate, args, chosen);
}

}  // namespace stepcast::cli
