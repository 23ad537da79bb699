// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/reached.h"

#include <fmt/core.h>

#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>

#include "tests/accuracy/summary.h"

namespace stepcast::accuracy {
namespace {

constexpr std::string_view kHeader =
    "source,predicted,time_median,time_p90,memory_median,memory_p90";
constexpr std::array<std::string_view, 5> kFigures{
    "runs predicted", "median error of step time", "p90 error of step time",
    "median error of peak memory", "p90 error of peak memory"};

using Figures = std::array<std::optional<double>, kFigures.size()>;

std::string errors_text(const Errors& e) {
  return e.count == 0 ? "," : fmt::format("{:.1f},{:.1f}", 100 * e.median, 100 * e.p90);
}

std::string row_text(const std::string& name, const PoolSummary& p) {
  return fmt::format("{},{},{},{}\n", name, p.predicted, errors_text(p.time),
                     errors_text(p.memory));
}

Figures read_figures(std::string_view cells) {
  Figures figures;
  for (size_t i = 0; i < figures.size(); ++i) {
    const size_t comma = cells.find(',');
    const bool last = i + 1 == figures.size();
    if ((comma == cells.npos) != last) throw std::invalid_argument("five figures a row");
    const std::string_view cell = cells.substr(0, comma);
    cells.remove_prefix(last ? cells.size() : comma + 1);
    if (cell.empty()) continue;
    double value = 0;
    const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
    if (error != std::errc{} || end != cell.data() + cell.size())
      throw std::invalid_argument("'" + std::string(cell) + "' is no number");
    figures[i] = value;
  }
  return figures;
}

std::map<std::string, Figures> read_table(std::string_view text) {
  std::map<std::string, Figures> table;
  bool header = false;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    if (!header) {
      if (line != kHeader) throw std::invalid_argument("the header is not " + std::string(kHeader));
      header = true;
      continue;
    }
    const size_t comma = line.find(',');
    if (comma == line.npos) throw std::invalid_argument("'" + std::string(line) + "' has one cell");
    table[std::string(line.substr(0, comma))] = read_figures(line.substr(comma + 1));
  }
  if (!header) throw std::invalid_argument("an empty table");
  return table;
}

}  // namespace

std::string reached_csv(const std::vector<RunRow>& rows) {
  std::string text =
      "# Accuracy of the shipped records by source, errors in %; nothing may become worse "
      "(reached.h).\n# tools/accuracy --write-reached rewrites this.\n" +
      std::string(kHeader) + '\n';
  for (const auto& [name, pool] : summarize_by(rows, &RunRow::source)) text += row_text(name, pool);
  return text + row_text("all", summarize_all(rows));
}

std::string worse_than_reached(const std::string& before, const std::string& now) {
  const std::map<std::string, Figures> current = read_table(now);
  std::string worse;
  for (const auto& [source, reached] : read_table(before)) {
    const auto found = current.find(source);
    for (size_t i = 0; i < reached.size(); ++i) {
      if (!reached[i]) continue;
      const std::optional<double> value = found == current.end() ? std::nullopt : found->second[i];
      const bool more_is_better = i == 0;
      if (value && (more_is_better ? *value >= *reached[i] : *value <= *reached[i])) continue;
      worse += fmt::format("{}: {} {}, was {}\n", source, kFigures[i],
                           value ? fmt::format("{}", *value) : "gone", *reached[i]);
    }
  }
  return worse;
}

}  // namespace stepcast::accuracy
