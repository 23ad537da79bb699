// SPDX-License-Identifier: Apache-2.0
// Tables of measured facts (sim/csv.h) from files, each row as column -> cell.
#pragma once

#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "sim/csv.h"

namespace stepcast::testing {

using Row = std::map<std::string, std::string, std::less<>>;

inline std::vector<std::string> csv_cells(const std::string& line) {
  const std::vector<std::string_view> fields = csv_fields(line);
  return {fields.begin(), fields.end()};
}

// Throws std::runtime_error if there is no such file, InputError if a line has too few or too many
// cells.
inline std::vector<Row> read_rows(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw std::runtime_error("no file " + path);
  return csv_records(std::string(std::istreambuf_iterator<char>(in), {}));
}

inline int64_t whole(const Row& row, const char* key) {
  return std::stoll(row.at(key));
}
inline double number(const Row& row, const char* key) {
  return std::stod(row.at(key));
}

}  // namespace stepcast::testing
