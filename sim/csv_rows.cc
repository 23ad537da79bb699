// SPDX-License-Identifier: Apache-2.0
#include "sim/csv_rows.h"

#include <algorithm>

namespace stepcast {
namespace {

std::vector<std::string_view> cells_of(std::string_view line) {
  std::vector<std::string_view> cells;
  for (;;) {
    const size_t comma = line.find(',');
    cells.push_back(line.substr(0, comma));
    if (comma == line.npos) return cells;
    line.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<CsvRow> csv_rows(std::string_view text, std::string_view header) {
  const auto columns = static_cast<size_t>(std::count(header.begin(), header.end(), ',') + 1);
  std::vector<CsvRow> rows;
  bool named = false;
  int64_t number = 0;
  const auto expect = [&](bool is_so) {
    if (is_so) return;
    throw std::invalid_argument("line " + std::to_string(number) + ": " + std::string(header) +
                                " expected");
  };
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    if (!named) {
      expect(line == header);
      named = true;
      continue;
    }
    rows.push_back({number, cells_of(line)});
    expect(rows.back().cells.size() == columns);
  }
  ++number;
  expect(named);
  return rows;
}

}  // namespace stepcast
