// SPDX-License-Identifier: Apache-2.0
#include "schedules/csv_cells.h"

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

constexpr size_t kLongestSourceLine = 20'000;  // bytes; each diagnostic carries a copy
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

CsvCell without(const CsvCell& cell, std::string_view around) {
  const size_t begin = std::min(cell.text.find_first_not_of(around), cell.text.size());
  const std::string_view rest = cell.text.substr(begin);
  return {rest.substr(0, rest.find_last_not_of(around) + 1), cell.offset + begin};
}

}  // namespace

std::vector<std::string_view> csv_lines(std::string_view text) {
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  while (!lines.empty() && lines.back().find_first_not_of(" \t") == std::string_view::npos)
    lines.pop_back();
  return lines;
}

std::optional<CsvCell> next_cell(std::string_view line, size_t& from) {
  while (from < line.size()) {
    const size_t end = std::min(line.find(',', from), line.size());
    CsvCell cell = without({line.substr(from, end - from), from}, " \t");
    from = end + 1;
    if (cell.text.size() >= 2 && cell.text.front() == '"' && cell.text.back() == '"')
      cell = without({cell.text.substr(1, cell.text.size() - 2), cell.offset + 1}, " \t");
    if (!cell.text.empty()) return cell;
  }
  return std::nullopt;
}

Diagnostic cell_diagnostic(std::string_view code, std::string message, const std::string& file_name,
                           size_t row, std::string_view line, const CsvCell& cell) {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.file = file_name;
  d.line = static_cast<int>(row) + 1;
  d.column = static_cast<int>(cell.offset) + 1;
  d.length = static_cast<int>(cell.text.size());
  if (line.size() <= kLongestSourceLine) d.source_line = line;
  return d;
}

}  // namespace stepcast
