// SPDX-License-Identifier: Apache-2.0
// stepcast calibrate plan|run|fit|merge|show|diff|runs: which shapes scenarios need, measuring
// them, cost tables of what was measured, and what whole runs say (calibrate_runs.h).
#include <fmt/format.h>

#include <sys/mman.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>

#include "calibrate/fit/fit_table.h"
#include "calibrate/price/plausible_times.h"
#include "calibrate/table/table_diff.h"
#include "calibrate/table/unite.h"
#include "calibrate/table/write_table.h"
#include "report/json/writer.h"
#include "scenarios/cluster_section.h"
#include "scenarios/forecast/calibration_plan.h"
#include "scenarios/presets.h"
#include "sim/system_error.h"
#include "sim/text.h"
#include "tools/command/calibrate/calibrate_input.h"
#include "tools/command/calibrate/calibrate_runs.h"
#include "tools/command/calibrate/calibrate_view.h"
#include "tools/command/options.h"
#include "tools/command/output.h"

namespace stepcast::cli {
namespace {

constexpr size_t kHeaviest = 10;  // shapes of the summary
constexpr const char* kProgram = "stepcast-measure";

CalibrationPlan plan_of(const Arguments& args) {
  std::vector<Scenario> scenarios;
  for (const std::string& file : args.files) scenarios.push_back(load(file, args));
  return calibration_plan(scenarios);
}

std::string as_json(const CalibrationPlan& plan) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    json.member("gpu", plan.text.gpu);
    json.values("scenarios", plan.text.scenarios);
    json.objects("rows", plan.text.rows, [&](const PlanRow& r) {
      json.member("row", plan_key(r));
      json.member("weight", r.weight);
      json.member("origin", name_of(r.origin));
    });
    json.objects("left_out", plan.left_out, [&](const auto& l) {
      json.member("what", l.first);
      json.member("weight", l.second);
    });
  });
}

std::string summary(const CalibrationPlan& plan, const TextStyle& style) {
  const std::vector<PlanRow>& rows = plan.text.rows;
  // Shares of all the scenarios' time.
  const auto share = [&](double weight) {
    return percent(weight / static_cast<double>(plan.text.scenarios.size()));
  };
  const size_t count = plan.text.scenarios.size();
  std::string s =
      fmt::format("{} shapes of {}{} on {}\n\n", grouped(static_cast<int64_t>(rows.size())), count,
                  count == 1 ? " scenario" : " scenarios", escape_text(plan.text.gpu));
  std::vector<std::vector<std::string>> table = {{"priced now", "shapes", "of the time"}};
  for (int o = 0; o < kOrigins; ++o) {
    int64_t shapes = 0;
    double weight = 0;
    for (const PlanRow& r : rows) {
      if (r.origin != static_cast<Origin>(o)) continue;
      ++shapes;
      weight += r.weight;
    }
    if (shapes > 0)
      table.push_back(
          {std::string(name_of(static_cast<Origin>(o))), grouped(shapes), share(weight)});
  }
  for (const auto& [what, weight] : plan.left_out)
    table.push_back({"no table: " + what, "", share(weight)});
  s += titled_table(table, "<>>", style) + '\n';
  table = {{"heaviest", "of the time", "priced now"}};
  for (size_t i = 0; i < std::min(kHeaviest, rows.size()); ++i)
    table.push_back(
        {plan_key(rows[i]), share(rows[i].weight), std::string(name_of(rows[i].origin))});
  return s + titled_table(table, "<><", style);
}

[[noreturn]] void measuring_error(std::string message) {
  usage_error("E342", std::move(message),
              "it is built with Stepcast where the CUDA toolkit (nvcc) is found: configure with "
              "-DSTEPCAST_CUDA=ON, build the target stepcast-measure, and put the program beside "
              "stepcast or on PATH");
}

bool is_program(const std::string& path) {
  return ::access(path.c_str(), X_OK) == 0;
}

// Beside this command, else on PATH.
std::string find_program() {
  std::array<char, PATH_MAX> self{};
  const ssize_t length = ::readlink("/proc/self/exe", self.data(), self.size());
  if (length > 0) {
    const std::string path(self.data(), static_cast<size_t>(length));
    const std::string beside = path.substr(0, path.rfind('/') + 1) + kProgram;
    if (is_program(beside)) return beside;
  }
  const char* folders = std::getenv("PATH");
  std::string_view rest = folders != nullptr ? folders : "";
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string path = std::string(rest.substr(0, end)) + '/' + kProgram;
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (is_program(path)) return path;
  }
  measuring_error(std::string(kProgram) + " is neither beside this command nor on PATH");
}

// A file without a name that the program started from here can read: nothing is left behind.
std::string pass_on(const std::string& text) {
  const int fd = ::memfd_create("plan", 0);
  if (fd < 0) measuring_error("cannot pass the plan on: " + system_error_text(errno));
  std::string_view rest = text;
  while (!rest.empty()) {
    const ssize_t n = ::write(fd, rest.data(), rest.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) measuring_error("cannot pass the plan on: " + system_error_text(errno));
    rest.remove_prefix(static_cast<size_t>(n));
  }
  ::lseek(fd, 0, SEEK_SET);
  return fmt::format("/proc/self/fd/{}", fd);
}

int calibrate_plan_command(const Arguments& args, const Terminal& terminal) {
  const std::string& output = args.output;
  const CalibrationPlan plan = plan_of(args);
  const bool to_file = !output.empty() && output != "-";
  if (to_file) deliver(write_plan(plan.text), output, args.force);
  write_stdout(args.json ? as_json(plan)
               : to_file ? summary(plan, terminal.out)
                         : write_plan(plan.text));
  return 0;
}

int calibrate_run_command(const Arguments& args, const Terminal&) {
  const CalibrateArguments& a = args.calibrate;
  if (!a.plan.empty() && !args.files.empty())
    usage_error("E004", "--plan and scenarios both say what to measure", "leave one of them out");
  if (args.output.empty() && !a.list)
    usage_error("E003", "-o TABLE is missing: where the measurements go");
  // Its own mistakes first: the program may be missing on the machine where a plan is tried out.
  std::string plan = a.plan;
  std::string text;
  if (!args.files.empty()) text = write_plan(plan_of(args).text);
  if (!plan.empty()) parse_plan_text(read_whole_file(plan), plan);
  const std::string program = find_program();
  if (!text.empty()) plan = pass_on(text);
  std::vector<std::string> words{kProgram};
  const auto add = [&](const char* option, const std::string& value) {
    if (value.empty()) return;
    words.emplace_back(option);
    words.push_back(value);
  };
  add("--plan", plan);
  add("--budget", a.budget);
  add("--grid", a.grid);
  add("--families", a.families);
  add("--gpu", args.gpu);
  add("--device", a.device);
  add("-o", args.output);
  if (a.list) words.emplace_back("--list");
  std::vector<char*> argv;
  for (std::string& w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  measuring_error("cannot start " + program + ": " + system_error_text(errno));
}

constexpr size_t kMostNotes = 12;  // of one input, on a terminal

// A scenario asks for the table of its GPU by the preset's name.
std::string remark_on_gpu(const std::string& gpu) {
  const std::vector<std::string_view> names = preset_names(PresetKind::gpu);
  if (std::find(names.begin(), names.end(), gpu) != names.end()) return {};
  const std::string near = did_you_mean(gpu, names);
  return "no GPU preset is called '" + gpu + '\'' + (near.empty() ? "" : "; " + near);
}

// A table that has nothing and takes nothing over answers nothing.
std::string remark_on_rows(const TableText& t) {
  const bool any = !t.gemms.empty() || !t.attentions.empty() || !t.memories.empty() ||
                   !t.collectives.empty() || !t.copies.empty() || t.launch_us ||
                   t.graph_launch_us || t.interference || !t.share_from.empty();
  return any ? "" : "no rows: a forecast with this table is one without measurements";
}

std::string summary(const TableView& view, std::span<const CalibrateInput> inputs,
                    const United& united, std::span<const std::string> remarks,
                    const TextStyle& style) {
  std::string s =
      paint(escape_text(view.gpu), Tone::strong, style) + '\n' + table_summary(view, style);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t dropped = united.dropped[i];
    if (dropped == 0 && inputs[i].notes.empty()) continue;
    s += '\n' + paint("  " + escape_text(inputs[i].name), Tone::dim, style) + '\n';
    if (dropped > 0)
      s += "  " + grouped(static_cast<int64_t>(dropped)) + (dropped == 1 ? " row" : " rows") +
           " left out: another input has the shape\n";
    for (size_t n = 0; n < std::min(kMostNotes, inputs[i].notes.size()); ++n)
      s += wrap(escape_text(inputs[i].notes[n]), "  ", style.width);
    if (inputs[i].notes.size() > kMostNotes)
      s += fmt::format("  and {} more\n", inputs[i].notes.size() - kMostNotes);
  }
  if (!remarks.empty()) s += '\n';
  for (const std::string& r : remarks) s += wrap(escape_text(r), "  ! ", style.width);
  return s;
}

std::string as_json(const TableView& view, const std::string& text, const std::string& output,
                    std::span<const CalibrateInput> inputs, const United& united,
                    std::span<const std::string> remarks) {
  return json_document([&](JsonWriter& json) {
    write_table_view(json, view);
    size_t i = 0;
    json.objects("inputs", inputs, [&](const CalibrateInput& in) {
      json.member("name", in.name);
      json.member("dropped", static_cast<int64_t>(united.dropped[i++]));
      json.values("notes", in.notes);
    });
    json.values("remarks", remarks);
    // Where the table did not go to a file it is here.
    if (output.empty()) json.member("table", text);
  });
}

// Times that the preset of their GPU cannot have; of GPUs without a preset nothing is known.
void check_times(const CalibrateInput& in, const std::string& gpu) {
  const std::vector<std::string_view> names = preset_names(PresetKind::gpu);
  if (std::find(names.begin(), names.end(), gpu) != names.end())
    check_plausible(in.table, preset_node("", gpu).gpu, in.name, in.text);
}

int make_table(const Arguments& args, const Terminal& terminal,
               const std::vector<CalibrateInput>& inputs) {
  if (args.json && args.output == "-")
    usage_error("E004", "--json and the table cannot both go to standard output",
                "-o FILE names a file for the table");
  std::vector<TableText> tables;
  for (const CalibrateInput& in : inputs) {
    check_times(in, args.gpu.empty() ? in.table.gpu : args.gpu);
    tables.push_back(in.table);
  }
  const United united = unite(tables, args.gpu);
  FittedTable fitted = fit_table(united.table);
  fitted.remarks.insert(fitted.remarks.begin(), united.remarks.begin(), united.remarks.end());
  for (std::string r : {remark_on_gpu(fitted.table.gpu), remark_on_rows(fitted.table)})
    if (!r.empty()) fitted.remarks.push_back(std::move(r));
  const std::string text = write_table(fitted.table);
  const TableView view = view_of(fitted.table, args.output, hex_of(hash_text(text)));
  if (!args.json || !args.output.empty()) deliver(text, args.output, args.force);
  if (args.json) {
    write_stdout(as_json(view, text, args.output, inputs, united, fitted.remarks));
  } else if (!args.quiet) {
    write_stderr(summary(view, inputs, united, fitted.remarks, terminal.err));
  }
  return 0;
}

// What `--gpu` is about in `fit`: files that do not say it.  A table does.
void refuse_other_gpus(const std::vector<CalibrateInput>& inputs, const std::string& gpu) {
  for (const CalibrateInput& in : inputs) {
    if (gpu.empty() || in.table.gpu == gpu) continue;
    throw file_error("E310", "the table is of " + in.table.gpu + ", not of " + gpu, in.name,
                     "`stepcast calibrate merge --gpu` carries rows over, as derived ones");
  }
}

int calibrate_fit_command(const Arguments& args, const Terminal& terminal) {
  std::vector<CalibrateInput> inputs;
  for (const std::string& input : args.files) inputs.push_back(read_measurements(input, args));
  refuse_other_gpus(inputs, args.gpu);
  return make_table(args, terminal, inputs);
}

int calibrate_merge_command(const Arguments& args, const Terminal& terminal) {
  std::vector<CalibrateInput> inputs;
  for (const std::string& input : args.files)
    inputs.push_back(read_table(input, args.calibrate.accept_edits));
  return make_table(args, terminal, inputs);
}

constexpr size_t kMostRows = 20;  // of a kind, in the text of a difference

std::string ratio_text(double ratio) {
  return fixed(ratio, 3);
}

std::string families_table(const TableDifference& d, const TextStyle& style) {
  std::vector<std::vector<std::string>> rows = {
      {"rows", "both", "changed", "only first", "only second", "median ratio", "90th, factor"}};
  const auto count = [](size_t n) { return grouped(static_cast<int64_t>(n)); };
  for (const FamilyDifference& f : d.families)
    rows.push_back({std::string(f.family), count(f.both), count(f.changed), count(f.only_before),
                    count(f.only_after), f.both > 0 ? ratio_text(f.median_ratio) : "-",
                    f.both > 0 ? ratio_text(f.p90_factor) : "-"});
  return titled_table(rows, "<>>>>>>", style);
}

std::string value_text(const RowDifference& r, double value) {
  return r.row.starts_with("fit") || r.row.starts_with("ratio") || r.row.starts_with("interference")
             ? fixed(value, 3)
             : micros_text(value);
}

std::string more_text(size_t all) {
  return all <= kMostRows ? ""
                          : "  and " + grouped(static_cast<int64_t>(all - kMostRows)) +
                                " more (--json has all)\n";
}

std::string changed_table(const TableDifference& d, const TextStyle& style) {
  if (d.changed.empty()) return "\n  what both have is equal\n";
  std::vector<std::vector<std::string>> rows = {
      {"largest differences", "first", "second", "ratio"}};
  for (size_t i = 0; i < std::min(kMostRows, d.changed.size()); ++i) {
    const RowDifference& r = d.changed[i];
    rows.push_back({r.row, value_text(r, r.before), value_text(r, r.after), ratio_text(r.ratio)});
  }
  return '\n' + titled_table(rows, "<>>>", style) + more_text(d.changed.size());
}

std::string only_list(const std::string& title, std::span<const std::string> all,
                      const TextStyle& style) {
  if (all.empty()) return "";
  std::string s = '\n' + paint("  " + title, Tone::dim, style) + '\n';
  for (size_t i = 0; i < std::min(kMostRows, all.size()); ++i)
    s += "  " + escape_text(all[i]) + '\n';
  return s + more_text(all.size());
}

std::string difference_json(const TableDifference& d, const CalibrateInput& a,
                            const CalibrateInput& b) {
  return json_document([&](JsonWriter& json) {
    json.member("schema_version", 1);
    for (const auto& [name, in] : {std::pair{"first", &a}, {"second", &b}})
      json.object(name, [&, in = in] {
        json.member("name", in->name);
        json.member("gpu", in->table.gpu);
        json.member("hash", hex_of(hash_text(in->text)));
      });
    json.objects("families", d.families, [&](const FamilyDifference& f) {
      json.member("family", f.family);
      json.member("both", static_cast<int64_t>(f.both));
      json.member("changed", static_cast<int64_t>(f.changed));
      json.member("only_first", static_cast<int64_t>(f.only_before));
      json.member("only_second", static_cast<int64_t>(f.only_after));
      json.member("median_ratio", f.median_ratio);
      json.member("p90_factor", f.p90_factor);
    });
    json.objects("changed", d.changed, [&](const RowDifference& r) {
      json.member("row", r.row);
      json.member("first", r.before);
      json.member("second", r.after);
      json.member("ratio", r.ratio);
    });
    json.values("only_first", d.only_before);
    json.values("only_second", d.only_after);
  });
}

int calibrate_show_command(const Arguments& args, const Terminal& terminal) {
  const bool csv = args.calibrate.csv;
  if (csv && args.json)
    usage_error("E004", "--csv and --json are two forms of the answer", "leave one of them out");
  const CalibrateInput in = read_table(args.file, false);
  const TableView view = view_of(in.table, in.name, hex_of(hash_text(in.text)));
  if (!args.svg.empty())
    deliver(fit_plots_svg("Cost table of " + in.table.gpu + ": measured against fit",
                          fit_plots(in.table)),
            args.svg, args.force);
  if (args.svg == "-") return 0;
  write_stdout(csv         ? table_csv(view)
               : args.json ? json_document([&](JsonWriter& json) { write_table_view(json, view); })
                           : table_text(view, terminal.out));
  return 0;
}

int calibrate_diff_command(const Arguments& args, const Terminal& terminal) {
  if (args.files.size() != 2)
    usage_error("E003", fmt::format("two tables are compared, not {}", args.files.size()));
  const CalibrateInput first = read_table(args.files[0], false),
                       second = read_table(args.files[1], false);
  const TableDifference d = difference(first.table, second.table);
  if (args.json) {
    write_stdout(difference_json(d, first, second));
    return 0;
  }
  const TextStyle& style = terminal.out;
  write_stdout("first   " + escape_text(first.name) + " (" + escape_text(first.table.gpu) +
               ")\nsecond  " + escape_text(second.name) + " (" + escape_text(second.table.gpu) +
               ")\n\n" + families_table(d, style) + changed_table(d, style) +
               only_list("only in the first", d.only_before, style) +
               only_list("only in the second", d.only_after, style));
  return 0;
}

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

void define_runs(CLI::App& calibrate, Arguments& args, Command& chosen) {
  CLI::App* sub = add_command(calibrate, "runs",
                              "Learn from runs of your own what their cluster adds to a step",
                              chosen, calibrate_runs_command);
  sub->footer(
      "The in-situ parameters that published runs gave (docs/trust.md) are the prior; your own\n"
      "runs make them those of your cluster: the rate of products and of memory, host calls and\n"
      "networks apart. RUN is a scenario that says under measured: what its step took, or a log\n"
      "of Megatron-LM, Megatron-Bridge, NeMo or torchtitan with its configuration; all on one\n"
      "generation of GPUs. A run that is off by more than a factor of two is named as doubtful,\n"
      "and not used. Without -o the file itself is printed; with it, what was learnt.\n\n"
      "  stepcast calibrate runs train.log run.yaml --preset dgx-h100 -o own.csv\n"
      "  stepcast run next.yaml -s calibration=[h100-sxm,own.csv]");
  add_files(sub, args, "RUN", "scenarios with measured:, logs of training; - is standard input");
  sub->add_option("--preset", args.preset,
                  "cluster that the runs of logs were on: a preset, by default dgx-h100")
      ->option_text("NAME");
  add_gpu(sub, args, "GPU preset of logs, if it is not that of the cluster preset");
  sub->add_option("--model", args.model, "config.json, for logs that do not say the model")
      ->option_text("FILE");
  add_output(sub, args);
  add_scenario_options(sub, args);
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
  CLI::App* calibrate = app.add_subcommand(
      "calibrate", "Make, show and compare the cost tables of GPUs, and learn from runs");
  calibrate->group("Commands")->require_subcommand(0, 1);
  for (const auto add :
       {define_plan, define_run, define_fit, define_merge, define_show, define_diff, define_runs})
    add(*calibrate, args, chosen);
}

}  // namespace stepcast::cli
