// SPDX-License-Identifier: Apache-2.0
// accuracy_runs PATH... --rules FILE [--causes FILE] [--markdown FILE] [--json FILE]
//               [--scenarios FOLDER] [--plots FOLDER] [--report FILE] [--reached FILE]
//               [--write-reached FILE] [--observed FILE] [--write-observed FILE] [--threads N]
//
// Predicts the measured runs of files and folders (run_record.h) and prints how far off it is.
// --causes says why some are (known_causes.h); --scenarios writes each record's scenario, --plots
// pictures; --report puts the document of --markdown between the marks "runs" of a file
// (docs/accuracy.md); --reached compares with a table of accuracy reached before, --write-reached
// writes it; --observed compares with the table of errors by class that intervals are made of
// (observed.h), --write-observed writes it.  Exit status 1 if something is worse than there or
// stale, 2 for wrong arguments, and for files that cannot be read: what can is predicted all the
// same.
#include <fmt/core.h>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/accuracy/known_causes.h"
#include "tests/accuracy/observed.h"
#include "tests/accuracy/plots.h"
#include "tests/accuracy/reached.h"
#include "tests/accuracy/run_markdown.h"
#include "tests/accuracy/run_report.h"
#include "tests/accuracy/text_file.h"

namespace stepcast::accuracy {
namespace {

constexpr int kWorse = 1, kUsage = 2;

struct Arguments {
  std::vector<std::string> paths;
  std::string rules, causes, markdown, json, scenarios, plots, report, reached, write_reached,
      observed, write_observed;
  int threads = 2;
};

// Options that name a file or a folder.
constexpr std::array<std::pair<std::string_view, std::string Arguments::*>, 11> kPaths{{
    {"--rules", &Arguments::rules},
    {"--causes", &Arguments::causes},
    {"--markdown", &Arguments::markdown},
    {"--json", &Arguments::json},
    {"--scenarios", &Arguments::scenarios},
    {"--plots", &Arguments::plots},
    {"--report", &Arguments::report},
    {"--reached", &Arguments::reached},
    {"--write-reached", &Arguments::write_reached},
    {"--observed", &Arguments::observed},
    {"--write-observed", &Arguments::write_observed},
}};

int read_threads(const std::string& text) {
  int threads = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), threads);
  if (error != std::errc{} || end != text.data() + text.size() || threads < 1 || threads > 256)
    throw std::invalid_argument("--threads takes a number from 1 to 256");
  return threads;
}

void read_option(const std::string& word, const std::string& value, Arguments& a) {
  if (word == "--threads") {
    a.threads = read_threads(value);
    return;
  }
  for (const auto& [name, member] : kPaths) {
    if (word != name) continue;
    a.*member = value;
    return;
  }
  throw std::invalid_argument("unknown option " + word);
}

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments a;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      a.paths.push_back(word);
      continue;
    }
    if (i + 1 == words.size()) throw std::invalid_argument(word + " needs a value");
    read_option(word, words[++i], a);
  }
  if (a.paths.empty() || a.rules.empty())
    throw std::invalid_argument(
        "usage: accuracy_runs PATH... --rules FILE [--causes FILE] [--markdown FILE] [--json FILE] "
        "[--scenarios FOLDER] [--plots FOLDER] [--report FILE] [--reached FILE] "
        "[--write-reached FILE] [--observed FILE] [--write-observed FILE] [--threads N]");
  return a;
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
      write_text_file(folder + '/' + file_name(row.id) + ".yaml", scenario_text(row));
}

void write_outputs(const Arguments& a, const std::vector<RunRow>& rows) {
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
  if (!a.write_observed.empty())
    write_text_file(a.write_observed, observed_csv(observed_runs(rows)));
}

std::vector<RunRow> rows_of(const Arguments& a, const std::vector<RunRecord>& records) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  std::vector<RunRow> rows = predict_all(records, read_rules(a.rules), a.threads);
  if (!a.causes.empty()) {
    const std::vector<KnownCause> causes = read_known_causes(a.causes);
    for (size_t i = 0; i < rows.size(); ++i) rows[i].cause = cause_of(records[i], causes);
  }
  fmt::print(stderr, "{} records in {:.1f} s on {} threads\n", rows.size(),
             std::chrono::duration<double>(Clock::now() - begin).count(), a.threads);
  return rows;
}

// Exit status.
int run(const Arguments& a) {
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
  if (!read.problems.empty()) return kUsage;
  return worse.empty() && stale.empty() ? 0 : kWorse;
}

}  // namespace
}  // namespace stepcast::accuracy

int main(int argc, char** argv) {
  try {
    return stepcast::accuracy::run(
        stepcast::accuracy::read_arguments(std::vector<std::string>(argv + 1, argv + argc)));
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 2;
  }
}
