// SPDX-License-Identifier: Apache-2.0
// Small tables of facts and figures as text: cells end at commas, none is in quotes.  Lines that
// begin with '#' are remarks (where sources stand) and empty ones are nothing; the first other line
// names the columns.
#pragma once

#include <charconv>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

struct CsvRow {
  int64_t line = 0;  // of the text, from 1
  std::vector<std::string_view> cells;

  // A number that takes up a whole cell.  Throws std::invalid_argument, "line 3: 'x' is no number".
  // REQUIRES: column < cells.size().
  template <class Number = double>
  Number number(size_t column) const {
    const std::string_view text = cells[column];
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size())
      throw std::invalid_argument("line " + std::to_string(line) + ": '" + std::string(text) +
                                  "' is no number");
    return value;
  }
};

// The rows behind the header, whose cells are parts of `text`.  Throws std::invalid_argument, "line
// 3: a,b,c expected", if the header is another or missing, or a row has more or fewer cells.
std::vector<CsvRow> csv_rows(std::string_view text, std::string_view header);

}  // namespace stepcast
