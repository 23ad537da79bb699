// SPDX-License-Identifier: Apache-2.0
// The cells of a schedule file, one after the other.
//
// Lines end with LF or CRLF; cells are separated by commas; blanks and a pair of double quotes
// around a cell do not count, nor does a byte order mark.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {

// Without the empty lines at the end.
std::vector<std::string_view> csv_lines(std::string_view text);

struct CsvCell {
  std::string_view text;  // not empty
  size_t offset = 0;      // of its first byte in the line
};

// The next cell with something in it at or behind byte `from` of the line; `from` moves behind it.
std::optional<CsvCell> next_cell(std::string_view line, size_t& from);

// A diagnostic that points at a cell of line `row` (from 0).
Diagnostic cell_diagnostic(std::string_view code, std::string message, const std::string& file_name,
                           size_t row, std::string_view line, const CsvCell& cell);

}  // namespace stepcast
