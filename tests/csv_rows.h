// SPDX-License-Identifier: Apache-2.0
// Tables of measured facts (sim/csv.h) from files, each row as column -> cell.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "sim/csv.h"

namespace stepcast::testing {

using Row = std::map<std::string, std::string, std::less<>>;

inline std::vector<std::string> csv_cells(const std::string& line) {
  const std::vector<std::string_view> fields = csv_fields(line);
  return {fields.begin(), fields.end()};
}

// The first line that is no remark names the columns.  Throws std::runtime_error if there is no
// such file, or a line has too few or too many cells.
inline std::vector<Row> read_rows(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("no file " + path);
  const std::string text(std::istreambuf_iterator<char>(in), {});
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (const std::string_view line : split_csv_lines(text)) {
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string> cells = csv_cells(std::string(line));
    if (names.empty()) {
      names = cells;
      continue;
    }
    if (cells.size() != names.size())
      throw std::runtime_error(path + ": cells for each column expected: " + std::string(line));
    Row& row = rows.emplace_back();
    for (size_t i = 0; i < cells.size(); ++i) row.emplace(names[i], cells[i]);
  }
  return rows;
}

inline int64_t whole(const Row& row, const char* key) {
  return std::stoll(row.at(key));
}
inline double number(const Row& row, const char* key) {
  return std::stod(row.at(key));
}

}  // namespace stepcast::testing
