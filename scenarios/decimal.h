// SPDX-License-Identifier: Apache-2.0
// A number as it is written, before it is rounded to anything: number.h makes quantities of it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "scenarios/value.h"

namespace stepcast {

// What is to be a number: which value, of which key, and where problems go.
struct NumberText {
  const Value& value;
  std::string_view name;
  Problems& problems;

  std::string quoted() const;   // the name in quotes
  std::string written() const;  // the value, short enough for a message
  std::nullopt_t refuse(const char* code, std::string message, std::string help = {}) const;
};

// digits * 10^exponent, and the word behind it.
struct Decimal {
  bool negative = false;
  std::string digits;  // significant, without leading or trailing zeros; empty = 0
  int exponent = 0;
  std::string_view unit;  // of the value's text
  bool zero() const { return digits.empty(); }
};

// Splits the text into number and unit.  Adds E107, E121 or E124.  A number in quotes is text,
// unless a unit is expected.
std::optional<Decimal> read_decimal(const NumberText& text, bool unit_expected);

// d * multiplier rounded half up, or nothing if it does not fit.  REQUIRES: 0 < multiplier < 1e17.
struct Scaled {
  int64_t value = 0;
  bool exact = true;
};
std::optional<Scaled> scaled(const Decimal& d, int64_t multiplier);

// d * 10^power * factor, correctly rounded for factors that are powers of 2; infinity beyond the
// range.
double real(const Decimal& d, int power = 0, double factor = 1);

}  // namespace stepcast
