// SPDX-License-Identifier: Apache-2.0
// Tables of measured facts: comma-separated, a cell in quotes may hold commas; lines that begin
// with # are remarks, the first other line names the columns.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace stepcast::testing {

using Row = std::map<std::string, std::string>;

inline std::vector<std::string> csv_cells(const std::string& line) {
  std::vector<std::string> cells(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '"') {
      quoted = !quoted;
    } else if (c == ',' && !quoted) {
      cells.emplace_back();
    } else if (c != '\r') {
      cells.back() += c;
    }
  }
  return cells;
}

// Throws std::runtime_error if there is no such file or a line has too few or too many cells.
inline std::vector<Row> read_rows(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error("no file " + path);
  std::vector<std::string> names;
  std::vector<Row> rows;
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    const std::vector<std::string> cells = csv_cells(line);
    if (names.empty()) {
      names = cells;
      continue;
    }
    if (cells.size() != names.size()) throw std::runtime_error(path + ": " + line);
    Row row;
    for (size_t i = 0; i < cells.size(); ++i) row[names[i]] = cells[i];
    rows.push_back(std::move(row));
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
