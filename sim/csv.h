// SPDX-License-Identifier: Apache-2.0
// Comma-separated values: the cells of a line with their places, and small tables of facts and
// figures.
//
// Lines end with LF or CRLF, and a byte order mark before the first does not count.  A cell is what
// stands between two commas, without the blanks around it; in double quotes it may hold commas.
// Quotes inside a cell are part of it, and no cell spans two lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {

struct CsvField {
  std::string_view text;  // without blanks and quotes around it; may be empty
  size_t offset = 0;      // of its first byte in the line
};

// The lines of a text without their ends, and without those at the end that are blank.
std::vector<std::string_view> split_csv_lines(std::string_view text);

// How far a line is read.
struct CsvPlace {
  size_t from = 0;     // where the next cell begins
  bool closes = true;  // a quote that closes a cell may still follow
};

// The cell at `place` of the line; `place` moves behind the comma after it.  Nothing after the last
// cell.  Start with {}; an empty line has one empty cell.  O(line) for all cells together.
std::optional<CsvField> next_field(std::string_view line, CsvPlace& place);

// A cell as it is written: in double quotes if it has to be (RFC 4180).
std::string csv_cell(std::string_view text);

// The texts of all cells of a line.
std::vector<std::string_view> csv_fields(std::string_view line);

// A problem whose place is a cell of line `line_number` (from 1).  Very long lines are not copied.
Diagnostic field_diagnostic(std::string_view code, std::string message,
                            const std::string& file_name, size_t line_number, std::string_view line,
                            const CsvField& cell);

// One row of a table.
struct CsvRow {
  int64_t line = 0;  // of the text, from 1
  std::vector<std::string_view> cells;

  // A number that takes up a whole cell.  Number: double or int64_t.  Throws InputError, "line 3:
  // 'x' is no number".  REQUIRES: column < cells.size().
  template <class Number = double>
  Number number(size_t column) const;
};

// The rows of a table whose columns are known: lines that begin with '#' are remarks (where sources
// stand), blank ones are nothing, the first other line must be `header`, letter for letter.  Throws
// InputError, "line 3: a,b,c expected", if the header is another or missing, or a row has more or
// fewer cells.
std::vector<CsvRow> csv_rows(std::string_view text, std::string_view header);

// The same for a table whose first line may name any columns: each row as column -> cell.  Throws
// InputError, "line 3: 4 cells expected".
std::vector<std::map<std::string, std::string, std::less<>>> csv_records(std::string_view text);

}  // namespace stepcast
