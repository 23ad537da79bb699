// SPDX-License-Identifier: Apache-2.0
// stepcast_accuracy runs|estimate|own-runs|recipes|collectives|held-out: what was measured beside
// what is forecast. Each command prints its figures, or writes them between its marks in a page
// (--report); `--help` has the options. tools/accuracy is the first of them for everybody.
//
// Exit status 1 if something is worse than was reached before, or a shipped table stale; 2 for
// wrong arguments, and for files that cannot be read: what can is predicted all the same.
#include <fmt/core.h>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "calibrate/runs/rules.h"
#include "calibrate/runs/run_record.h"
#include "tools/runs/collectives.h"
#include "tools/runs/estimate.h"
#include "tools/runs/held_out.h"
#include "tools/runs/observed.h"
#include "tools/runs/observed_memory.h"
#include "tools/runs/own_run_study.h"
#include "tools/runs/plots.h"
#include "tools/runs/recipes.h"
#include "tools/runs/run_report.h"
#include "tools/runs/summary.h"
#include "tools/runs/text_file.h"

namespace stepcast::accuracy {
namespace {

constexpr int kWorse = 1, kUsage = 2;

// ---- runs

struct RunArguments {
  std::vector<std::string> paths;
  std::string rules, causes, markdown, json, scenarios, plots, report, reached, write_reached,
      observed, write_observed, memory_errors, write_memory_errors, write_highest_mfu, left_out;
  int threads = 2;
};

void add_options(CLI::App& command, RunArguments& a) {
  command.add_option("PATH", a.paths, "files and folders of records (calibrate/runs)")->required();
  command.add_option("--rules", a.rules, "what words of records stand for (rules.yaml)")
      ->required();
  command.add_option("--causes", a.causes, "why forecasts of some are off (known_causes.yaml)");
  command.add_option("--markdown", a.markdown, "write a document");
  command.add_option("--json", a.json, "write a list with one object for each record");
  command.add_option("--scenarios", a.scenarios, "write each record's scenario into this folder");
  command.add_option("--plots", a.plots, "write pictures into this folder");
  command.add_option("--report", a.report, "put the document between the marks \"runs\" of a page");
  command.add_option("--reached", a.reached, "compare with the accuracy reached before");
  command.add_option("--write-reached", a.write_reached, "write that table");
  command.add_option("--observed", a.observed,
                     "compare with the errors by class that intervals are made of");
  command.add_option("--write-observed", a.write_observed, "write that table");
  command.add_option("--memory-errors", a.memory_errors,
                     "compare with the errors of memory that its intervals are made of");
  command.add_option("--write-memory-errors", a.write_memory_errors, "write that table");
  command.add_option("--write-highest-mfu", a.write_highest_mfu,
                     "write the highest utilization that was measured, by GPU and format");
  command.add_option("--left-out", a.left_out,
                     "in-situ parameters by all sources but one (tools/runs/in_situ_left_out.csv)");
  command.add_option("--threads", a.threads)->check(CLI::Range(1, 256))->capture_default_str();
}

// An id as the name of a file: it may hold anything.
std::string file_name(std::string id) {
  for (char& c : id) {
    const bool plain = ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || ('0' <= c && c <= '9') ||
                       c == '-' || c == '_' || c == '.';
    if (!plain) c = '_';
  }
  return id.starts_with('.') ? '_' + id : id;
}

void write_scenarios(const std::string& folder, const std::vector<RunRow>& rows) {
  std::filesystem::create_directories(folder);
  for (const RunRow& row : rows)
    if (!row.scenario.empty())
      write_text_file(fmt::format("{}/{}.yaml", folder, file_name(row.id)), scenario_text(row));
}

void write_outputs(const RunArguments& a, const std::vector<RunRow>& rows) {
  if (!a.markdown.empty())
    write_text_file(a.markdown,
                    "# Predicted against measured runs\n\n" + runs_markdown(rows, "##"));
  if (!a.json.empty()) write_text_file(a.json, runs_json(rows));
  if (!a.scenarios.empty()) write_scenarios(a.scenarios, rows);
  if (!a.plots.empty()) {
    std::filesystem::create_directories(a.plots);
    write_text_file(a.plots + "/predicted.svg", scatter_svg(rows));
    write_text_file(a.plots + "/errors.svg", errors_svg(rows));
    write_text_file(a.plots + "/sizes.svg", sizes_svg(rows));
  }
  if (!a.report.empty())
    put_between_marks(a.report, "runs", runs_markdown(rows, "###", "accuracy"));
  if (!a.write_reached.empty()) write_text_file(a.write_reached, reached_csv(rows));
  if (!a.write_highest_mfu.empty()) write_text_file(a.write_highest_mfu, highest_mfu_csv(rows));
  if (!a.write_observed.empty())
    write_text_file(a.write_observed, observed_csv(observed_runs(rows)));
  if (!a.write_memory_errors.empty())
    write_text_file(a.write_memory_errors, memory_csv(observed_memories(rows)));
}

std::vector<RunRow> rows_of(const RunArguments& a, const std::vector<RunRecord>& records) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  LeftOut left_out;
  if (!a.left_out.empty()) {
    const std::span<const InSituParameter> shipped = in_situ_parameters();
    left_out = parse_left_out(read_text_file(a.left_out), {shipped.begin(), shipped.end()});
  }
  std::vector<RunRow> rows = predict_all(records, read_run_rules(a.rules), a.threads, left_out);
  if (!a.causes.empty()) {
    const std::vector<KnownCause> causes = read_known_causes(a.causes);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].cause = cause_of(records[i], causes);
  }
  fmt::print(stderr, "{} records in {:.1f} s on {} threads\n", rows.size(),
             std::chrono::duration<double>(Clock::now() - begin).count(), a.threads);
  return rows;
}

int run(const RunArguments& a) {
  const RunRecords read = read_run_records(a.paths);
  for (const std::string& problem : read.problems) fmt::print(stderr, "{}\n", problem);
  if (read.records.empty()) {
    fmt::print(stderr, "there are no records\n");
    return kUsage;
  }
  const std::vector<RunRow> rows = rows_of(a, read.records);
  write_outputs(a, rows);
  fmt::print("{}", runs_text(rows));
  std::string worse;
  if (!a.reached.empty()) worse = worse_than_reached(read_text_file(a.reached), reached_csv(rows));
  if (!worse.empty()) fmt::print("\nWorse than {}:\n{}", a.reached, worse);
  std::string stale;
  if (!a.observed.empty())
    stale = stale_errors(read_text_file(a.observed), observed_csv(observed_runs(rows)));
  if (!stale.empty()) fmt::print("\n{} is stale (--write-observed):\n{}", a.observed, stale);
  std::string stale_memory;
  if (!a.memory_errors.empty())
    stale_memory =
        stale_memory_errors(read_text_file(a.memory_errors), memory_csv(observed_memories(rows)));
  if (!stale_memory.empty())
    fmt::print("\n{} is stale (--write-memory-errors):\n{}", a.memory_errors, stale_memory);
  if (!read.problems.empty()) return kUsage;
  return worse.empty() && stale.empty() && stale_memory.empty() ? 0 : kWorse;
}

// ---- in-situ parameters

struct EstimateArguments {
  std::vector<std::string> paths;
  std::string rules, parameters, write, write_left_out, write_runs;
  bool check = false;
  int threads = 2;
};

void add_options(CLI::App& command, EstimateArguments& a) {
  command.add_option("PATH", a.paths, "files and folders of records (calibrate/runs)")->required();
  command.add_option("--rules", a.rules, "what words of records stand for (rules.yaml)")
      ->required();
  command.add_option("--parameters", a.parameters,
                     "which there are, with their priors; default: the shipped file");
  command.add_option("--write", a.write, "write the parameters (calibrate/in_situ.csv)");
  command.add_option("--write-left-out", a.write_left_out,
                     "write what they are without each source (tools/runs/in_situ_left_out.csv)");
  command.add_flag("--check", a.check, "exit with 1 if the shipped values are others");
  command.add_option("--write-runs", a.write_runs,
                     "write the times of each run, measured and forecast, and the derivatives of "
                     "their logarithms by the parameters");
  command.add_option("--threads", a.threads)->check(CLI::Range(1, 256))->capture_default_str();
}

int run_estimate(const EstimateArguments& a) {
  const RunRecords read = read_run_records(a.paths);
  for (const std::string& problem : read.problems) fmt::print(stderr, "{}\n", problem);
  const std::span<const InSituParameter> shipped = in_situ_parameters();
  const std::vector<InSituParameter> start = a.parameters.empty()
                                                 ? std::vector(shipped.begin(), shipped.end())
                                                 : parse_in_situ(read_text_file(a.parameters));
  const std::vector<ModelledRun> runs =
      modelled_runs(read.records, read_run_rules(a.rules), a.threads);
  fmt::print(stderr, "{} runs are lowered and priced\n", runs.size());
  const Estimate result = estimate(runs, start, a.threads);
  fmt::print("{}", estimate_text(result));
  if (!a.write.empty()) write_text_file(a.write, in_situ_csv(result.parameters));
  if (!a.write_left_out.empty()) write_text_file(a.write_left_out, left_out_csv(result));
  if (!a.write_runs.empty()) write_text_file(a.write_runs, estimated_runs_csv(result));
  if (!read.problems.empty()) return kUsage;
  const std::string stale = a.check ? stale_in_situ(shipped, result.parameters) : "";
  if (!stale.empty()) fmt::print("\nthe shipped parameters are stale:\n{}", stale);
  return stale.empty() ? 0 : kWorse;
}

// ---- own runs

struct OwnRunArguments {
  std::vector<std::string> paths;
  std::string rules, left_out, report, write_errors;
  int64_t draws = 100;
  int threads = 2;
};

void add_options(CLI::App& command, OwnRunArguments& a) {
  command.add_option("PATH", a.paths, "files and folders of records (calibrate/runs)")->required();
  command.add_option("--rules", a.rules, "what words of records stand for (rules.yaml)")
      ->required();
  command
      .add_option("--left-out", a.left_out,
                  "in-situ parameters by all sources but one (tools/runs/in_situ_left_out.csv)")
      ->required();
  command.add_option("--draws", a.draws, "of each source")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  command.add_option("--report", a.report,
                     "put the tables between the marks \"own runs\" of a page");
  command.add_option("--write-errors", a.write_errors,
                     "write the errors that intervals with own runs are made of "
                     "(scenarios/own_run_errors.csv)");
  command.add_option("--threads", a.threads)->check(CLI::Range(1, 256))->capture_default_str();
}

int run_own_runs(const OwnRunArguments& a) {
  const RunRecords read = read_run_records(a.paths);
  for (const std::string& problem : read.problems) fmt::print(stderr, "{}\n", problem);
  const std::span<const InSituParameter> shipped = in_situ_parameters();
  const LeftOut left_out =
      parse_left_out(read_text_file(a.left_out), {shipped.begin(), shipped.end()});
  const std::vector<RunRule> rules = read_run_rules(a.rules);
  const std::vector<RunRow> rows = predict_all(read.records, rules, a.threads);
  const std::vector<ModelledRun> runs = modelled_runs(read.records, rules, a.threads);
  fmt::print(stderr, "{} runs are lowered and priced\n", runs.size());
  const OwnRunStudy study = own_run_study(runs, rows, left_out, a.draws, a.threads);
  const std::string text = own_runs_markdown(study);
  if (a.report.empty()) fmt::print("{}", text);
  if (!a.report.empty()) put_between_marks(a.report, "own runs", text);
  if (!a.write_errors.empty()) write_text_file(a.write_errors, own_run_errors_csv(study));
  return read.problems.empty() ? 0 : kUsage;
}

// ---- recipes

struct RecipeArguments {
  std::vector<std::string> paths, scenarios;
  std::string rules, report;
  double seconds = 60;
  int threads = 2;
};

void add_options(CLI::App& command, RecipeArguments& a) {
  command.add_option("PATH", a.paths, "files and folders of records (calibrate/runs)")->required();
  command.add_option("--rules", a.rules, "what words of records stand for (rules.yaml)")
      ->required();
  command.add_option("--scenario", a.scenarios,
                     "scenarios with a layout and a measured step, as further recipes");
  command.add_option("--report", a.report,
                     "put the tables between the marks \"recipes\" of a page");
  command.add_option("--seconds", a.seconds, "for the search of one recipe")->capture_default_str();
  command.add_option("--threads", a.threads)->check(CLI::Range(1, 256))->capture_default_str();
}

int run_recipes(const RecipeArguments& a) {
  const RunRecords read = read_run_records(a.paths);
  for (const std::string& problem : read.problems) fmt::print(stderr, "{}\n", problem);
  const std::string text = recipes_markdown(
      find_recipes(read.records, read_run_rules(a.rules), a.scenarios, a.threads, a.seconds));
  if (a.report.empty()) fmt::print("{}", text);
  if (!a.report.empty()) put_between_marks(a.report, "recipes", text);
  return read.problems.empty() ? 0 : kUsage;
}

// ---- collectives and rows held out

void print_or_put(const std::string& text, const std::string& page, const char* marks) {
  if (page.empty()) {
    fmt::print("{}", text);
  } else {
    put_between_marks(page, marks, text);
  }
}

struct FolderArguments {
  std::string folder, report, corrections;
};

int run_collectives(const FolderArguments& a) {
  const std::vector<Log> logs = read_logs(a.folder);
  if (!a.corrections.empty())
    write_text_file(a.corrections, corrections_file(fit(observe(logs), logs, logs.size()), logs));
  print_or_put(collectives_report(study(logs), logs), a.report, "collectives");
  return 0;
}

int run_held_out(const FolderArguments& a) {
  const std::vector<Log> logs = read_logs(a.folder + "/collectives");
  print_or_put(held_out_report(a.folder) + "\n" + held_out_logs(study(logs), logs), a.report,
               "held out");
  return 0;
}

int run_command(int argc, char** argv) {
  CLI::App app("What was measured beside what is forecast.", "stepcast_accuracy");
  app.require_subcommand(1);
  RunArguments of_runs;
  CLI::App& runs = *app.add_subcommand("runs", "training runs");
  add_options(runs, of_runs);
  EstimateArguments of_parameters;
  CLI::App& parameters = *app.add_subcommand(
      "estimate", "in-situ parameters from training runs, judged on sources left out");
  add_options(parameters, of_parameters);
  OwnRunArguments of_own;
  CLI::App& own =
      *app.add_subcommand("own-runs", "what one or three runs of a source say of its others");
  add_options(own, of_own);
  RecipeArguments of_recipes;
  CLI::App& recipes =
      *app.add_subcommand("recipes", "layouts that people chose, among all that a search knows");
  add_options(recipes, of_recipes);
  FolderArguments of_collectives;
  CLI::App& collectives = *app.add_subcommand(
      "collectives", "the collective model, each log by factors fitted to the others");
  collectives.add_option("FOLDER", of_collectives.folder, "logs, with a manifest.csv")->required();
  collectives.add_option("--report", of_collectives.report,
                         "put the tables between the marks \"collectives\" of a page");
  collectives.add_option("--corrections", of_collectives.corrections,
                         "write the factors fitted to all logs");
  FolderArguments of_rows;
  CLI::App& held_out = *app.add_subcommand("held-out", "rows held out of the shipped cost tables");
  held_out.add_option("DATA", of_rows.folder, "the folder tests/data")->required();
  held_out.add_option("--report", of_rows.report,
                      "put the tables between the marks \"held out\" of a page");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? 0 : kUsage;
  }
  if (runs.parsed()) return run(of_runs);
  if (parameters.parsed()) return run_estimate(of_parameters);
  if (own.parsed()) return run_own_runs(of_own);
  if (recipes.parsed()) return run_recipes(of_recipes);
  return collectives.parsed() ? run_collectives(of_collectives) : run_held_out(of_rows);
}

}  // namespace
}  // namespace stepcast::accuracy

int main(int argc, char** argv) {
  try {
    return stepcast::accuracy::run_command(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
