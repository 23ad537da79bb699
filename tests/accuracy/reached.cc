// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/reached.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>

#include "sim/csv.h"
#include "tests/accuracy/summary.h"

namespace stepcast::accuracy {
namespace {

struct Column {
  std::string_view key, name;
  enum class Kind : uint8_t { more_is_better, less_is_better, nearer_to_zero, share } kind;
};
using Kind = Column::Kind;

constexpr std::array<Column, 13> kColumns{{
    {"predicted", "runs predicted", Kind::more_is_better},
    {"time_median", "median error of step time", Kind::less_is_better},
    {"time_p90", "p90 error of step time", Kind::less_is_better},
    {"time_bias", "bias of step time", Kind::nearer_to_zero},
    {"memory_median", "median error of peak memory", Kind::less_is_better},
    {"memory_p90", "p90 error of peak memory", Kind::less_is_better},
    {"ratio", "error of speeds within groups", Kind::less_is_better},
    {"winners", "winners of groups named right", Kind::more_is_better},
    {"oom_found", "runs out of memory called so", Kind::more_is_better},
    {"false_alarms", "false alarms of out of memory", Kind::less_is_better},
    {"covered", "times in their intervals", Kind::share},
    {"profiled_median", "median error from stage times", Kind::less_is_better},
    {"profiled_worst", "worst error from stage times", Kind::less_is_better},
}};

using Figures = std::array<std::optional<double>, kColumns.size()>;

std::string header() {
  std::string text = "source";
  for (const Column& column : kColumns) text += ',' + std::string(column.key);
  return text;
}

// "-20.1": what is shown, so that it is what is compared.
std::string rounded(double percent) {
  const std::string text = fmt::format("{:.1f}", percent);
  return text == "-0.0" ? "0.0" : text;
}

std::string row_text(const std::string& name, const PoolSummary& p, bool of_all) {
  const auto error = [](const Errors& e, double Errors::*figure) {
    return e.count == 0 ? "" : rounded(100 * e.*figure);
  };
  const auto count = [](bool known, size_t n) { return known ? std::to_string(n) : ""; };
  const Errors none;
  std::string text = name + ',' + std::to_string(p.predicted);
  for (const std::string& cell :
       {error(p.time, &Errors::median), error(p.time, &Errors::p90), error(p.time, &Errors::bias),
        error(p.memory, &Errors::median), error(p.memory, &Errors::p90),
        error(p.rankings.ratio, &Errors::median), count(p.rankings.groups > 0, p.rankings.winners),
        count(p.oom.hit + p.oom.missed > 0, p.oom.hit),
        count(p.oom.fits + p.oom.alarms > 0, p.oom.alarms),
        of_all && p.coverage.runs > 0 ? rounded(100.0 * static_cast<double>(p.coverage.inside) /
                                                static_cast<double>(p.coverage.runs))
                                      : "",
        error(of_all ? p.profiled : none, &Errors::median),
        error(of_all ? p.profiled : none, &Errors::worst)})
    text += ',' + cell;
  return text + '\n';
}

bool is_worse(Kind kind, double now, double before) {
  constexpr double kWanted = 80, kSlack = 5;
  switch (kind) {
    case Kind::more_is_better: return now < before;
    case Kind::less_is_better: return now > before;
    case Kind::nearer_to_zero: return std::abs(now) > std::abs(before);
    case Kind::share: break;
  }
  return std::abs(now - kWanted) > std::max(kSlack, std::abs(before - kWanted));
}

std::map<std::string, Figures> read_table(std::string_view text) {
  std::map<std::string, Figures> table;
  for (const CsvRow& row : csv_rows(text, header())) {
    Figures& figures = table[std::string(row.cells[0])];
    for (size_t i = 0; i < figures.size(); ++i)
      if (!row.cells[i + 1].empty()) figures[i] = row.number(i + 1);
  }
  return table;
}

}  // namespace

std::string reached_csv(const std::vector<RunRow>& rows) {
  std::string text =
      "# Accuracy of the shipped records by source, errors in %; nothing may become worse "
      "(reached.h).\n# tools/accuracy --update rewrites this.\n" +
      header() + '\n';
  for (const auto& [name, pool] : pools_by(rows, &RunRow::source))
    text += row_text(name, summarize(pool), false);
  return text + row_text("all", summarize(all_of(rows)), true);
}

std::string worse_than_reached(const std::string& before, const std::string& now) {
  const std::map<std::string, Figures> current = read_table(now);
  std::string worse;
  for (const auto& [source, reached] : read_table(before)) {
    const auto found = current.find(source);
    for (size_t i = 0; i < reached.size(); ++i) {
      if (!reached[i]) continue;
      const std::optional<double> value = found == current.end() ? std::nullopt : found->second[i];
      if (value && !is_worse(kColumns[i].kind, *value, *reached[i])) continue;
      worse += fmt::format("{}: {} {}, was {}\n", source, kColumns[i].name,
                           value ? fmt::format("{}", *value) : "gone", *reached[i]);
    }
  }
  return worse;
}

}  // namespace stepcast::accuracy
