// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/row_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "calibrate/table/table_text.h"
#include "sim/text.h"

namespace stepcast {

RowReader::RowReader(std::string_view text, std::string file, std::string number_code,
                     std::string word_code)
    : text_(text),
      file_(std::move(file)),
      number_code_(std::move(number_code)),
      word_code_(std::move(word_code)) {}

bool RowReader::next() {
  if (position_ >= text_.size()) return false;
  const size_t end = std::min(text_.find('\n', position_), text_.size());
  line = text_.substr(position_, end - position_);
  if (line.ends_with('\r')) line.remove_suffix(1);
  position_ = end + 1;
  ++line_number;
  return true;
}

std::optional<std::pair<std::string_view, std::string_view>> RowReader::key_and_value() const {
  std::string_view rest = line.substr(1);
  if (rest.starts_with(' ')) rest.remove_prefix(1);
  const size_t colon = rest.find(": ");
  if (colon == std::string_view::npos) return std::nullopt;
  return std::pair(rest.substr(0, colon), rest.substr(colon + 2));
}

size_t RowReader::split() {
  size_t count = 0;
  size_t begin = 0;
  while (true) {
    const size_t end = std::min(line.find(',', begin), line.size());
    if (count < fields.size()) fields[count] = line.substr(begin, end - begin);
    ++count;
    if (end == line.size()) return count;
    begin = end + 1;
  }
}

void RowReader::problem(std::string code, std::string_view at, std::string message,
                        std::string help) {
  if (problems_.size() >= kMostProblems) return;
  Diagnostic d;
  d.code = std::move(code);
  d.message = std::move(message);
  d.file = file_;
  d.line = line_number;
  d.column = at.data() == nullptr ? 1 : static_cast<int>(at.data() - line.data()) + 1;
  d.length = std::max(1, static_cast<int>(at.size()));
  d.source_line = std::string(line);
  d.help = std::move(help);
  problems_.push_back(std::move(d));
}

void RowReader::throw_if_any() {
  if (!problems_.empty()) throw InputError(problems_);
}

int64_t RowReader::whole(std::string_view field, std::string_view what, int64_t least) {
  const std::optional<int64_t> value = parse_number<int64_t>(field);
  if (value && *value >= least && *value <= kMostSize) return *value;
  problem(number_code_, field, fmt::format("{} must be a whole number, not '{}'", what, field),
          fmt::format("from {} to 2^50", least));
  return std::max<int64_t>(1, least);
}

double RowReader::number(std::string_view field, std::string_view what, NumberRange range) {
  const bool positive = range == NumberRange::positive;
  const std::optional<double> value = parse_number<double>(field);
  if (value && *value <= kMostNumber && (positive ? *value > kLeastTime : *value >= 0))
    return *value;
  problem(number_code_, field,
          fmt::format("{} must be a {}number, not '{}'", what, positive ? "positive " : "", field),
          positive
              ? "above 0.000001 and up to 10^15, in microseconds or the unit of the column's name"
              : "from 0 to 10^15");
  return 1;
}

}  // namespace stepcast
