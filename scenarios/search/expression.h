// SPDX-License-Identifier: Apache-2.0
// Conditions on layouts, as `search.where` and `search.constraints` write them:
//
//   tp * cp <= 16 and (recompute != full or peak_memory < 60GiB)
//
// Numbers are decimal, with a unit where they are a quantity (bytes, seconds, a percentage); words
// are those that a name can be: recompute == none.  From loosest to tightest: or; and; not; one of
// == != < <= > >=; + and -; * / and % (the remainder); a sign.  What has no value (a division by
// zero) fulfils no comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stepcast {

// A name that conditions may use.
struct ExpressionName {
  std::string_view name;
  std::span<const std::string> words{};  // what it can be; empty: it is a number
};

// The value of a name lies between these, ends included.
struct ValueRange {
  double least = 0, most = 0;
};

class Expression {
 public:
  // The value of each name, in the order in which the names were given: a number, or the position
  // of the word.  REQUIRES: as many.
  bool holds(std::span<const double> values) const;
  // False only if it holds for no values within these ranges: by the rules of intervals, which take
  // a name that stands twice for two.  Words have one value.  REQUIRES: as many.
  bool may_hold(std::span<const ValueRange> ranges) const;
  // Whether it asks for the name of that position.
  bool uses(size_t name) const;
  const std::string& text() const { return text_; }

 private:
  friend class ExpressionReader;
  enum class Code : uint8_t {
    constant,
    name,
    negate,
    add,
    subtract,
    multiply,
    divide,
    remainder,
    equal,
    unequal,
    less,
    at_most,
    more,
    at_least,
    both,
    either,
    invert,
  };
  struct Step {
    Code code = Code::constant;
    double number = 0;  // constant
    size_t name = 0;
  };
  std::string text_;
  std::vector<Step> steps_;  // in the order of a stack machine
};

// What is wrong with a condition, and where.
struct ExpressionProblem {
  std::string message, help;
  size_t offset = 0, length = 1;  // bytes of the text
};

// Nothing if the text is no condition; `problem` then says why.  At most 1,000 characters and 50
// levels of brackets.
std::optional<Expression> parse_expression(std::string_view text,
                                           std::span<const ExpressionName> names,
                                           ExpressionProblem& problem);

}  // namespace stepcast
