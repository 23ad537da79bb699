// SPDX-License-Identifier: Apache-2.0
// Internal to the readers of cost tables and calibration plans, which are texts of rows: lines that
// begin with '#' hold a key and a value or a remark, other lines are rows of fields between commas.
// Mistakes are collected, each with its place.
//
// This is not sim/csv.h, on purpose: programs write these files and checksums cover them, so a
// blank or a quote in a row is a mistake here, whereas files that people write may have them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/diagnostic.h"

namespace stepcast {

// The value of an enumeration whose name_of is `text`; `last` is its last value.
template <class Enum>
std::optional<Enum> named(std::string_view text, Enum last) {
  for (int i = 0; i <= static_cast<int>(last); ++i) {
    if (name_of(static_cast<Enum>(i)) == text) return static_cast<Enum>(i);
  }
  return std::nullopt;
}

// A reader stops collecting problems here.
constexpr size_t kMostProblems = 20;

// Which numbers a field may have: from 0, or above kLeastTime; kMostNumber at most.
enum class NumberRange : uint8_t { from_zero, positive };

class RowReader {
 public:
  // The two codes are those of problems with numbers and with words.
  RowReader(std::string_view text, std::string file, std::string number_code,
            std::string word_code);

  // Goes on to the next line; false after the last one.
  bool next();
  std::string_view line;  // without its end
  int line_number = 0;    // from 1

  // Of a '#' line; nothing if it is a remark.
  std::optional<std::pair<std::string_view, std::string_view>> key_and_value() const;

  // Puts the fields of the line into `fields` and returns how many there are, even if they are more
  // than fit.
  size_t split();
  std::array<std::string_view, 13> fields;

  // Adds one problem, of the first 20.  `at`: a part of the line; its beginning if empty.
  void problem(std::string code, std::string_view at, std::string message, std::string help = "");
  bool has_problems() const { return !problems_.empty(); }
  void throw_if_any();  // InputError

  // The value of a field.  If the field has none of this kind, that is added to the problems, and
  // the value returned is any legal one.
  int64_t whole(std::string_view field, std::string_view what, int64_t least = 1);  // up to 2^50
  double number(std::string_view field, std::string_view what, NumberRange range);
  template <class Enum>
  Enum word(std::string_view field, Enum last, const std::string& what, std::string help = "") {
    const std::optional<Enum> found = named(field, last);
    if (!found)
      problem(word_code_, field, "unknown " + what + " '" + std::string(field) + '\'',
              std::move(help));
    return found.value_or(last);
  }

 private:
  std::string_view text_;
  std::string file_, number_code_, word_code_;
  size_t position_ = 0;
  std::vector<Diagnostic> problems_;
};

}  // namespace stepcast
