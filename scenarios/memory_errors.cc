// SPDX-License-Identifier: Apache-2.0
#include "scenarios/memory_errors.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include <embedded/memory_error_files.h>

#include "sim/check.h"
#include "sim/csv.h"
#include "sim/diagnostic.h"

namespace stepcast {

namespace {

std::string memory_errors_header() {
  std::string header = "class,runs,sources";
  for (const double share : kMemoryShares) header += fmt::format(",{:.0f} %", 100 * share);
  return header;
}

MemoryErrors read_memory_errors(const CsvRow& row) {
  MemoryErrors e;
  e.name = row.cells[0];
  e.runs = row.number<int64_t>(1);
  e.sources = row.number<int64_t>(2);
  for (size_t i = 0; i < e.ratios.size(); ++i) e.ratios[i] = row.number(3 + i);
  const bool counted = e.runs >= 1 && e.sources >= 1 && e.sources <= e.runs;
  if (e.name.empty() || !counted || !(e.ratios.front() > 0) || !std::isfinite(e.ratios.back()) ||
      !std::ranges::is_sorted(e.ratios))
    refuse("'" + e.name + "': figures that no runs have");
  return e;
}

double ratio_at(const MemoryErrors& errors, double share) {
  const auto at = std::ranges::find(kMemoryShares, share);
  STEPCAST_CHECK(at != kMemoryShares.end(), "a share of the table");
  return errors.ratios[static_cast<size_t>(at - kMemoryShares.begin())];
}

}  // namespace

std::vector<MemoryErrors> parse_memory_errors(std::string_view text) {
  std::vector<MemoryErrors> table;
  for (const CsvRow& row : csv_rows(text, memory_errors_header()))
    table.push_back(read_memory_errors(row));
  return table;
}

std::string memory_errors_csv(std::span<const MemoryErrors> table, std::string_view remark) {
  std::string text = std::string(remark) + memory_errors_header() + '\n';
  for (const MemoryErrors& e : table) {
    text += fmt::format("{},{},{}", e.name, e.runs, e.sources);
    for (const double ratio : e.ratios) text += fmt::format(",{:.3f}", ratio);
    text += '\n';
  }
  return text;
}

std::span<const MemoryErrors> memory_errors() {
  static const std::vector<MemoryErrors> table =
      parse_memory_errors(memory_error_files()[0].second);
  return table;
}

const MemoryErrors* memory_errors_like(std::span<const MemoryErrors> table, std::string_view name) {
  for (const std::string_view one : {name, kAnyMemory})
    for (const MemoryErrors& e : table)
      if (e.name == one) return &e;
  return nullptr;
}

MemoryInterval make_memory_interval(Bytes forecast, const MemoryErrors& like) {
  MemoryInterval i;
  i.like = like.name;
  i.runs = like.runs;
  i.sources = like.sources;
  i.like_low = std::min(1.0, ratio_at(like, 0.1));
  i.like_high = std::max(1.0, ratio_at(like, 0.9));
  const auto times = [&](double ratio) {
    return Bytes{static_cast<int64_t>(static_cast<double>(forecast.value) * ratio)};
  };
  i.low = times(i.like_low);
  i.high = times(i.like_high);
  return i;
}

double share_that_fits(const MemoryErrors& like, double room) {
  size_t at = 0;
  while (at < like.ratios.size() && like.ratios[at] <= room) ++at;
  if (at == 0) return kMemoryShares.front();
  if (at == like.ratios.size()) return kMemoryShares.back();
  const double low = like.ratios[at - 1], high = like.ratios[at];
  return kMemoryShares[at - 1] +
         (kMemoryShares[at] - kMemoryShares[at - 1]) * (room - low) / (high - low);
}

}  // namespace stepcast
