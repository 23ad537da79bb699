// SPDX-License-Identifier: Apache-2.0
#include "sim/csv.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/text.h"

namespace stepcast {
namespace {

constexpr size_t kLongestSourceLine = 20'000;  // bytes; each diagnostic carries a copy
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

CsvField trimmed_field(std::string_view line, size_t begin, size_t end) {
  const std::string_view text = trim(line.substr(begin, end - begin), " \t");
  // The place of a cell without text is where its text would begin.
  return {text, text.empty() ? begin : static_cast<size_t>(text.data() - line.data())};
}

// Calls visit(line number, line) for every line that is neither blank nor a remark, and returns how
// many lines there are.
template <class Visit>
int64_t for_each_row(std::string_view text, const Visit& visit) {
  int64_t number = 0;
  for (const std::string_view line : split_csv_lines(text)) {
    ++number;
    if (line.empty() || line.starts_with('#')) continue;
    visit(number, line);
  }
  return number;
}

}  // namespace

std::vector<std::string_view> split_csv_lines(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string_view> lines = split_lines(text);
  while (!lines.empty() && trim(lines.back(), " \t").empty()) lines.pop_back();
  return lines;
}

std::optional<CsvField> next_field(std::string_view line, CsvPlace& place) {
  if (place.from > line.size()) return std::nullopt;
  const size_t begin = place.from;
  const size_t quote = std::min(line.find_first_not_of(" \t", begin), line.size());
  if (place.closes && quote < line.size() && line[quote] == '"') {
    // A quote closes the cell if nothing but blanks follows up to the next comma.
    for (size_t close = line.find('"', quote + 1); close != line.npos;
         close = line.find('"', close + 1)) {
      const size_t after = std::min(line.find_first_not_of(" \t", close + 1), line.size());
      if (after < line.size() && line[after] != ',') continue;
      place.from = after + 1;
      return trimmed_field(line, quote + 1, close);
    }
    place.closes = false;
  }
  const size_t end = std::min(line.find(',', begin), line.size());
  place.from = end + 1;
  return trimmed_field(line, begin, end);
}

std::string csv_cell(std::string_view text) {
  if (text.find_first_of(",\"\n\r") == std::string_view::npos) return std::string(text);
  std::string s = "\"";
  for (const char c : text) s += c == '"' ? std::string("\"\"") : std::string(1, c);
  return s + '"';
}

std::vector<std::string_view> csv_fields(std::string_view line) {
  std::vector<std::string_view> cells;
  CsvPlace place;
  while (const std::optional<CsvField> cell = next_field(line, place)) cells.push_back(cell->text);
  return cells;
}

Diagnostic field_diagnostic(std::string_view code, std::string message,
                            const std::string& file_name, size_t line_number, std::string_view line,
                            const CsvField& cell) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.file = file_name;
  d.line = static_cast<int>(line_number);
  d.column = static_cast<int>(cell.offset) + 1;
  d.length = static_cast<int>(cell.text.size());
  if (line.size() <= kLongestSourceLine) d.source_line = line;
  return d;
}

template <class Number>
Number CsvRow::number(size_t column) const {
  const std::optional<Number> value = parse_number<Number>(cells[column]);
  if (!value) refuse(fmt::format("line {}: '{}' is no number", line, cells[column]));
  return *value;
}

template double CsvRow::number<double>(size_t) const;
template int64_t CsvRow::number<int64_t>(size_t) const;

std::vector<CsvRow> csv_rows(std::string_view text, std::string_view header) {
  const size_t columns = csv_fields(header).size();
  std::vector<CsvRow> rows;
  bool has_header = false;
  const auto expect = [&](bool is_so, int64_t line) {
    if (!is_so) refuse(fmt::format("line {}: {} expected", line, header));
  };
  const int64_t lines = for_each_row(text, [&](int64_t number, std::string_view line) {
    if (!std::exchange(has_header, true)) return expect(line == header, number);
    rows.push_back({number, csv_fields(line)});
    expect(rows.back().cells.size() == columns, number);
  });
  expect(has_header, lines + 1);
  return rows;
}

std::vector<std::map<std::string, std::string, std::less<>>> csv_records(std::string_view text) {
  std::vector<std::string_view> names;
  std::vector<std::map<std::string, std::string, std::less<>>> records;
  for_each_row(text, [&](int64_t number, std::string_view line) {
    const std::vector<std::string_view> cells = csv_fields(line);
    if (names.empty()) {
      names = cells;
      return;
    }
    if (cells.size() != names.size())
      refuse(fmt::format("line {}: {} cells expected", number, names.size()));
    auto& record = records.emplace_back();
    for (size_t i = 0; i < cells.size(); ++i) record.emplace(names[i], cells[i]);
  });
  return records;
}

}  // namespace stepcast
