// SPDX-License-Identifier: Apache-2.0
// accuracy_runs PATH... --rules FILE [--markdown FILE] [--json FILE] [--scenarios FOLDER]
//               [--plots FOLDER] [--reached FILE] [--write-reached FILE] [--threads N]
//
// Predicts the measured runs of files and folders (run_record.h) and prints how far off it is.
// --scenarios writes each record's scenario, --plots pictures; --reached compares with a table of
// accuracy reached before, --write-reached writes it.  Exit status 1 if something is worse than
// there, 2 for wrong arguments or files.
#include <fmt/core.h>

#include <charconv>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/accuracy/plots.h"
#include "tests/accuracy/reached.h"
#include "tests/accuracy/run_report.h"

namespace stepcast::accuracy {
namespace {

struct Arguments {
  std::vector<std::string> paths;
  std::string rules, markdown, json, scenarios, plots, reached, write_reached;
  int threads = 2;
};

Arguments read_arguments(const std::vector<std::string>& words) {
  Arguments a;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!word.starts_with("--")) {
      a.paths.push_back(word);
      continue;
    }
    if (i + 1 == words.size()) throw std::invalid_argument(word + " needs a value");
    const std::string& value = words[++i];
    if (word == "--rules") {
      a.rules = value;
    } else if (word == "--markdown") {
      a.markdown = value;
    } else if (word == "--json") {
      a.json = value;
    } else if (word == "--scenarios") {
      a.scenarios = value;
    } else if (word == "--plots") {
      a.plots = value;
    } else if (word == "--reached") {
      a.reached = value;
    } else if (word == "--write-reached") {
      a.write_reached = value;
    } else if (word == "--threads") {
      const auto [end, error] =
          std::from_chars(value.data(), value.data() + value.size(), a.threads);
      if (error != std::errc{} || end != value.data() + value.size() || a.threads < 1 ||
          a.threads > 256)
        throw std::invalid_argument("--threads takes a number from 1 to 256");
    } else {
      throw std::invalid_argument("unknown option " + word);
    }
  }
  if (a.paths.empty() || a.rules.empty())
    throw std::invalid_argument(
        "usage: accuracy_runs PATH... --rules FILE [--markdown FILE] [--json FILE] "
        "[--scenarios FOLDER] [--plots FOLDER] [--reached FILE] [--write-reached FILE] "
        "[--threads N]");
  return a;
}

void write(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path);
}

std::string read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Exit status.
int run(const Arguments& a) {
  const std::vector<RunRow> rows =
      predict_all(read_run_records(a.paths), read_rules(a.rules), a.threads);
  if (!a.markdown.empty()) write(a.markdown, runs_markdown(rows));
  if (!a.json.empty()) write(a.json, runs_json(rows));
  if (!a.scenarios.empty()) {
    std::filesystem::create_directories(a.scenarios);
    for (const RunRow& row : rows)
      if (!row.scenario.empty()) write(a.scenarios + '/' + row.id + ".yaml", row.scenario);
  }
  if (!a.plots.empty()) {
    std::filesystem::create_directories(a.plots);
    write(a.plots + "/predicted.svg", scatter_svg(rows));
    write(a.plots + "/errors.svg", errors_svg(rows));
  }
  if (!a.write_reached.empty()) write(a.write_reached, reached_csv(rows));
  fmt::print("{}", runs_text(rows));
  if (a.reached.empty()) return 0;
  const std::string worse = worse_than_reached(read(a.reached), reached_csv(rows));
  if (!worse.empty()) fmt::print("\nWorse than {}:\n{}", a.reached, worse);
  return worse.empty() ? 0 : 1;
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
