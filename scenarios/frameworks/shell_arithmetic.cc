// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/shell_arithmetic.h"

#include <array>
#include <charconv>
#include <utility>

namespace stepcast {
namespace {

using Names = std::function<std::optional<std::string>(const std::string& name)>;
using Number = std::optional<int64_t>;

class ShellArithmetic {
 public:
  ShellArithmetic(std::string_view text, const Names& names, int depth, int64_t& left)
      : text_(text), names_(names), depth_(depth), left_(left) {}

  Number read() {
    const Number value = choice();
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  static constexpr int kMostNested = 60;

  void skip() {
    while (at_ < text_.size() &&
           (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n' || text_[at_] == '\r'))
      ++at_;
  }
  bool take(std::string_view op) {
    skip();
    if (!text_.substr(at_).starts_with(op)) return false;
    at_ += op.size();
    return true;
  }

  Number choice() {
    if (++depth_ > kMostNested) return {};
    const Number asked = binary(0);
    Number result = asked;
    if (take("?")) {
      const Number yes = choice();
      if (!take(":")) return {};
      const Number no = choice();
      result = !asked ? std::nullopt : *asked != 0 ? yes : no;
    }
    --depth_;
    return result;
  }

  // Operators by how strongly they bind, the weakest first; longer ones before their beginnings.
  static constexpr std::array<std::pair<std::string_view, int>, 17> kOperators{{{"||", 0},
                                                                                {"&&", 1},
                                                                                {"==", 5},
                                                                                {"!=", 5},
                                                                                {"<<", 7},
                                                                                {">>", 7},
                                                                                {"<=", 6},
                                                                                {">=", 6},
                                                                                {"**", 10},
                                                                                {"<", 6},
                                                                                {">", 6},
                                                                                {"+", 8},
                                                                                {"-", 8},
                                                                                {"*", 9},
                                                                                {"/", 9},
                                                                                {"%", 9},
                                                                                {"&", 4}}};

  Number binary(int weakest) {
    if (++depth_ > kMostNested) return {};
    Number left = unary();
    while (true) {
      skip();
      std::string_view op;
      int strength = -1;
      for (const auto& [text, s] : kOperators) {
        if (!text_.substr(at_).starts_with(text)) continue;
        op = text;
        strength = s;
        break;
      }
      if (strength < weakest) break;
      at_ += op.size();
      left = apply(op, left, binary(strength + 1));
    }
    --depth_;
    return left;
  }

  static Number apply(std::string_view op, Number a, Number b) {
    if (!a || !b) return {};
    int64_t r = 0;
    if (op == "+") return __builtin_add_overflow(*a, *b, &r) ? Number() : Number(r);
    if (op == "-") return __builtin_sub_overflow(*a, *b, &r) ? Number() : Number(r);
    if (op == "*") return __builtin_mul_overflow(*a, *b, &r) ? Number() : Number(r);
    if (op == "/" || op == "%") {
      if (*b == 0 || (*a == INT64_MIN && *b == -1)) return {};
      return op == "/" ? *a / *b : *a % *b;
    }
    if (op == "**") {
      r = 1;
      if (*b < 0 || *b > 64) return {};
      for (int64_t i = 0; i < *b; ++i)
        if (__builtin_mul_overflow(r, *a, &r)) return {};
      return r;
    }
    if (op == "<<" || op == ">>") {
      if (*b < 0 || *b > 62 || *a < 0 || *a > (INT64_MAX >> *b)) return {};
      return op == "<<" ? *a << *b : *a >> *b;
    }
    if (op == "||") return *a != 0 || *b != 0;
    if (op == "&&") return *a != 0 && *b != 0;
    if (op == "==") return *a == *b;
    if (op == "!=") return *a != *b;
    if (op == "<=") return *a <= *b;
    if (op == ">=") return *a >= *b;
    if (op == "<") return *a < *b;
    if (op == ">") return *a > *b;
    return *a & *b;
  }

  Number unary() {
    if (++depth_ > kMostNested) return {};
    Number value = primary();
    --depth_;
    return value;
  }

  Number primary() {
    if (take("!")) {
      const Number v = unary();
      return v ? Number(*v == 0) : v;
    }
    if (take("-")) return apply("-", 0, unary());
    if (take("+")) return unary();
    if (take("(")) {
      const Number v = choice();
      return take(")") ? v : std::nullopt;
    }
    skip();
    const size_t begin = at_;
    const auto is_word = [&](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c >= '0' && c <= '9');
    };
    while (at_ < text_.size() && is_word(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return {};
    if (word[0] >= '0' && word[0] <= '9') {
      int64_t v = 0;
      const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), v);
      if (error != std::errc() || stop != word.data() + word.size()) return {};
      return v;
    }
    if (left_ <= 0) return {};
    const auto value = names_ ? names_(std::string(word)) : std::nullopt;
    left_ -= value ? static_cast<int64_t>(value->size()) + 1 : 1;
    if (!value || left_ < 0) return {};
    // A variable may hold "1 + 1" or the name of another one.
    return ShellArithmetic(*value, names_, depth_ + 1, left_).read();
  }

  std::string_view text_;
  const Names& names_;
  int depth_;
  int64_t& left_;  // characters that may still be read
  size_t at_ = 0;
};

}  // namespace

Number shell_number(std::string_view text, const Names& value_of) {
  int64_t left = 10'000 - static_cast<int64_t>(text.size());
  return left < 0 ? std::nullopt : ShellArithmetic(text, value_of, 0, left).read();
}

}  // namespace stepcast
