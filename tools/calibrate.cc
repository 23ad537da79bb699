// SPDX-License-Identifier: Apache-2.0
#include "tools/calibrate.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tools/calibrate_input.h"

namespace stepcast::cli {
namespace {

constexpr const char* kInputs =
    "TABLE is a file, or the name of a GPU whose table is shipped: h100-sxm.\n\n";
constexpr const char* kFitFooter =
    "INPUT is a cost table (a file, or the name of a GPU whose table is shipped), or what another\n"
    "tool wrote: nccl-tests (text or JSON), mamf-finder, the PyTorch profiler (Kineto), or a "
    "system\n"
    "file of SimuMax or calculon; which of them is seen from what is in it. Where two inputs have\n"
    "one shape a measured row beats a derived one, then the earlier input wins.\n\n"
    "The table is written, a summary goes to standard error.";

CLI::App* add_sub(CLI::App* calibrate, Command& command, const char* name, const char* summary,
                  Command function) {
  CLI::App* sub = calibrate->add_subcommand(name, summary);
  sub->callback([&command, function] { command = function; });
  return sub;
}

void add_inputs(CLI::App* sub, CalibrateArguments& a, const char* name, const char* summary,
                bool required = true) {
  sub->add_option(name, a.inputs, summary)->required(required)->option_text("...");
}

void add_output(CLI::App* sub, Arguments& args, const char* what) {
  sub->add_option("-o,--output", args.calibrate.output, what)->option_text("FILE");
  sub->add_flag("--force", args.force, "overwrite existing outputs");
}

void add_scenario_options(CLI::App* sub, Arguments& args) {
  sub->add_option("-s,--set", args.set, "set a value, as often as needed: -s parallel.tp=4")
      ->allow_extra_args(false)
      ->option_text("PATH=VALUE");
  sub->add_option("--root", args.root, "directory that `extends` may not leave")
      ->option_text("DIR");
}

void add_accept_edits(CLI::App* sub, CalibrateArguments& a) {
  sub->add_flag("--accept-edits", a.accept_edits,
                "read tables that were edited by hand or never finished");
}

void add_plan(CLI::App* calibrate, Arguments& args, Command& command) {
  CLI::App* sub = add_sub(calibrate, command, "plan", "List the shapes that scenarios need",
                          calibrate_plan_command);
  sub->footer(
      "The shapes with the largest share of the steps come first, with how they are priced now.\n"
      "Without -o the plan itself is printed; with it, a summary.");
  add_inputs(sub, args.calibrate, "SCENARIO", "scenarios of one GPU; - is standard input");
  add_output(sub, args, "write the plan to a file");
  add_scenario_options(sub, args);
  add_common(sub, args);
}

void add_run(CLI::App* calibrate, Arguments& args, Command& command) {
  CalibrateArguments& a = args.calibrate;
  CLI::App* sub =
      add_sub(calibrate, command, "run", "Measure this machine's GPUs: starts stepcast-measure",
              calibrate_run_command);
  sub->footer(
      "The shapes of the scenarios, or of the plan, are measured first, those with the largest\n"
      "share of the step before others; then a grid. A run that was interrupted goes on where it\n"
      "stopped when it is started again with the same table. `stepcast calibrate fit` makes the\n"
      "result a table to forecast with.");
  add_inputs(sub, a, "SCENARIO", "scenarios of one GPU; - is standard input", false);
  sub->add_option("--plan", a.plan, "a plan instead of scenarios")->option_text("FILE");
  sub->add_option("--budget", a.budget, "time to spend: 5min")->option_text("TIME");
  sub->add_option("--grid", a.grid, "shapes beside the plan's: none, small or full")
      ->option_text("SIZE");
  sub->add_option("--families", a.families, "what to measure: gemm,attention,memory,...")
      ->option_text("NAME,...");
  sub->add_option("--gpu", a.gpu, "preset of the GPU, if its name does not tell")
      ->option_text("NAME");
  sub->add_option("--device", a.device, "number of the GPU")->option_text("N");
  sub->add_flag("--list", a.list, "say what would be measured, in order; needs no GPU");
  sub->add_option("-o,--output", a.output, "the table; one that is there is continued")
      ->option_text("TABLE");
  add_scenario_options(sub, args);
  add_common(sub, args);
}

void add_fit_and_merge(CLI::App* calibrate, Arguments& args, Command& command) {
  CalibrateArguments& a = args.calibrate;
  CLI::App* fit = add_sub(calibrate, command, "fit", "Make a cost table of measurements",
                          calibrate_fit_command);
  fit->footer(kFitFooter);
  add_inputs(fit, a, "INPUT", "tables and files of other tools; - is standard input");
  fit->add_option("--gpu", a.gpu, "preset of the GPU that was measured; needed where no input says")
      ->option_text("NAME");
  add_accept_edits(fit, a);
  fit->add_option("--as", a.kind, "kind of the inputs that are no tables")->option_text("KIND");
  add_measurement_options(fit, a);
  add_output(fit, args, "write the table to a file");
  add_common(fit, args);

  CLI::App* merge = add_sub(calibrate, command, "merge", "Put several cost tables into one",
                            calibrate_merge_command);
  merge->footer(
      std::string(kInputs) +
      "As `stepcast calibrate fit`, for tables alone: where two have one shape a measured\n"
      "row beats a derived one, then the earlier table wins; the fits are made anew.");
  add_inputs(merge, a, "TABLE", "cost tables; - is standard input");
  merge->add_option("--gpu", a.gpu, "GPU of the result; rows of others become derived")
      ->option_text("NAME");
  add_accept_edits(merge, a);
  add_output(merge, args, "write the table to a file");
  add_common(merge, args);
}

void add_show_and_diff(CLI::App* calibrate, Arguments& args, Command& command) {
  CalibrateArguments& a = args.calibrate;
  CLI::App* show =
      add_sub(calibrate, command, "show",
              "Say what a cost table covers, and how well its fits hold", calibrate_show_command);
  show->footer(std::string(kInputs) +
               "Errors of fits are those of the fitted rows. A forecast asks the rows first and\n"
               "uses a fit where they leave gaps: docs/costs.md.");
  add_inputs(show, a, "TABLE", "a cost table; - is standard input");
  show->add_option("--svg", a.svg, "write a picture: measured against fit")->option_text("FILE");
  show->add_flag("--csv", a.csv, "one line for each row, with the fit beside it");
  show->add_flag("--force", args.force, "overwrite existing outputs");
  add_common(show, args);

  CLI::App* diff = add_sub(calibrate, command, "diff", "Put two cost tables side by side",
                           calibrate_diff_command);
  diff->footer(std::string(kInputs) + "Ratios are those of the second over the first.");
  add_inputs(diff, a, "TABLE", "two cost tables; - is standard input");
  add_common(diff, args);
}

}  // namespace

void add_calibrate(CLI::App& app, Arguments& args, Command& command) {
  CLI::App* calibrate =
      app.add_subcommand("calibrate", "Make, show and compare the cost tables of GPUs");
  calibrate->require_subcommand(0, 1);
  add_plan(calibrate, args, command);
  add_run(calibrate, args, command);
  add_fit_and_merge(calibrate, args, command);
  add_show_and_diff(calibrate, args, command);
}

}  // namespace stepcast::cli
