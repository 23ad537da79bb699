// SPDX-License-Identifier: Apache-2.0
#include "scenarios/frameworks/shell/arithmetic.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "scenarios/frameworks/shell/syntax.h"

namespace stepcast {
namespace {

using Names = std::function<std::optional<std::string>(const std::string& name)>;
using Number = std::optional<int64_t>;

class ShellArithmetic {
 public:
  ShellArithmetic(std::string_view text, const Names& names, int depth, int64_t& left,
                  NumberRules rules)
      : text_(text), names_(names), depth_(depth), left_(left), rules_(rules) {}

  Number read() {
    const Number value = choice();
    skip();
    return at_ == text_.size() ? value : std::nullopt;
  }

 private:
  static constexpr int kMostNested = 60;

  void skip() {
    while (at_ < text_.size() && is_shell_space(text_[at_])) ++at_;
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
      const bool is_python = rules_ == NumberRules::python;
      if (is_python && strength < 8) return {};  // no number comes of it
      if (is_python && text_.substr(at_).starts_with("//")) op = "//";
      at_ += op.size();
      left = apply(op, left, binary(op == "**" ? strength : strength + 1));
    }
    --depth_;
    return left;
  }

  Number apply(std::string_view op, Number a, Number b) const {
    if (!a || !b) return {};
    int64_t r = 0;
    if (op == "+") return __builtin_add_overflow(*a, *b, &r) ? Number() : Number(r);
    if (op == "-") return __builtin_sub_overflow(*a, *b, &r) ? Number() : Number(r);
    if (op == "*") return __builtin_mul_overflow(*a, *b, &r) ? Number() : Number(r);
    if (op == "/" || op == "%") {
      if (*b == 0 || (*a == INT64_MIN && *b == -1)) return {};
      // Python's / has a point behind what is left, and % takes the sign of the divisor.
      if (rules_ == NumberRules::python && *a % *b != 0)
        return op == "/" ? Number() : Number(*a % *b + ((*a < 0) != (*b < 0) ? *b : 0));
      return op == "/" ? *a / *b : *a % *b;
    }
    if (op == "//") {
      if (*b == 0 || (*a == INT64_MIN && *b == -1)) return {};
      return *a / *b - (*a % *b != 0 && (*a < 0) != (*b < 0) ? 1 : 0);
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

  Number literal(std::string_view digits) const {
    int base = 10;
    if (digits.size() > 1 && digits[0] == '0' && rules_ != NumberRules::decimal) {
      if (rules_ == NumberRules::python) return {};
      const bool is_hex = digits[1] == 'x' || digits[1] == 'X';
      base = is_hex ? 16 : 8;
      digits.remove_prefix(is_hex ? 2 : 1);
    }
    int64_t v = 0;
    const char* end = digits.data() + digits.size();
    const auto [stop, error] = std::from_chars(digits.data(), end, v, base);
    return error != std::errc() || stop != end ? Number() : Number(v);
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
    // In Python -2**2 is -4.
    const auto operand = [&] { return rules_ == NumberRules::python ? binary(10) : unary(); };
    if (take("-")) return apply("-", 0, operand());
    if (take("+")) return operand();
    if (take("(")) {
      const Number v = choice();
      return take(")") ? v : std::nullopt;
    }
    skip();
    const size_t begin = at_;
    while (at_ < text_.size() && is_shell_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    if (word.empty()) return {};
    if (word[0] >= '0' && word[0] <= '9') {
      return literal(word);
    }
    if (left_ <= 0) return {};
    const auto value = names_ ? names_(std::string(word)) : std::nullopt;
    left_ -= value ? static_cast<int64_t>(value->size()) + 1 : 1;
    if (!value || left_ < 0) return {};
    // A variable may hold "1 + 1" or the name of another one.
    return ShellArithmetic(*value, names_, depth_ + 1, left_, rules_).read();
  }

  std::string_view text_;
  const Names& names_;
  int depth_;
  int64_t& left_;  // characters that may still be read
  NumberRules rules_;
  size_t at_ = 0;
};

std::string_view without_blanks(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const size_t first = std::min(text.find_first_not_of(kBlank), text.size());
  return text.substr(first, text.find_last_not_of(kBlank) + 1 - first);
}

}  // namespace

Number shell_number(std::string_view text, const Names& value_of, NumberRules rules) {
  int64_t left = 10'000 - static_cast<int64_t>(text.size());
  return left < 0 ? std::nullopt : ShellArithmetic(text, value_of, 0, left, rules).read();
}

ShellAssigned shell_assigned(std::string_view text) {
  text = without_blanks(text);
  ShellAssigned all;
  size_t places = 0;
  const auto add = [&](std::string_view name) {
    if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
    all.names.emplace_back(name);
    return ++places == 1;
  };
  const auto name_before = [&](size_t at) {
    while (at > 0 && (text[at - 1] == ' ' || text[at - 1] == '\t')) --at;
    size_t begin = at;
    while (begin > 0 && is_shell_name(text[begin - 1])) --begin;
    return text.substr(begin, at - begin);
  };
  const auto name_behind = [&](size_t at) {
    while (at < text.size() && (text[at] == ' ' || text[at] == '\t')) ++at;
    size_t end = at;
    while (end < text.size() && is_shell_name(text[end])) ++end;
    return text.substr(at, end - at);
  };
  for (size_t at = 0; at < text.size(); ++at) {
    const std::string_view rest = text.substr(at);
    if (rest.starts_with("++") || rest.starts_with("--")) {
      const std::string_view before = name_before(at), behind = name_behind(at + 2);
      const bool is_post = !before.empty();
      const std::string_view name = is_post ? before : behind;
      if (add(name) && name.size() + 2 == text.size()) {
        all.value = std::string(name) + rest[0] + "1";
        all.is_before = is_post;
      }
      ++at;
    } else if (rest.starts_with("==") || rest.starts_with("!=") || rest.starts_with("<=") ||
               rest.starts_with(">=")) {
      ++at;
    } else if (rest[0] == '=') {
      const size_t first = text.find_last_not_of("*/%+-<>&^|", at == 0 ? 0 : at - 1);
      const size_t op = first == text.npos ? 0 : first + 1;
      const std::string_view name = name_before(op);
      if (add(name) && name.data() == text.data() && text.find(',') == text.npos) {
        all.value = op == at ? std::string(text.substr(at + 1))
                             : std::string(name) + std::string(text.substr(op, at - op)) + '(' +
                                   std::string(text.substr(at + 1)) + ')';
      }
    }
  }
  if (places != 1) all.value.reset();
  return all;
}

}  // namespace stepcast
