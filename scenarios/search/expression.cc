// SPDX-License-Identifier: Apache-2.0
// A condition is read by descent, one function a level of binding, and written down in the order of
// a stack machine: "tp * 2 <= 16" becomes tp, 2, multiply, 16, at_most.  Each function returns what
// kind of value it has read, so that "tp and 3" is refused where it stands.
#include "scenarios/search/expression.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <tuple>
#include <utility>

#include <fmt/format.h>

#include "scenarios/document/time_units.h"
#include "sim/text.h"

namespace stepcast {
namespace {

constexpr size_t kLongestExpression = 1000;
constexpr int kMostLevels = 50;

struct Unit {
  std::string_view text;
  double factor = 1;
};
// What numbers of a condition may be followed by, beside units of time: shares, bytes, counts,
// dollars.
constexpr std::array<Unit, 17> kUnits{{{"%", 0.01},
                                       {"USD", 1},
                                       {"kUSD", 1e3},
                                       {"MUSD", 1e6},
                                       {"B", 1},
                                       {"kB", 1e3},
                                       {"MB", 1e6},
                                       {"GB", 1e9},
                                       {"TB", 1e12},
                                       {"KiB", 1024},
                                       {"MiB", 1048576},
                                       {"GiB", 1073741824},
                                       {"TiB", 1099511627776.0},
                                       {"K", 1e3},
                                       {"M", 1e6},
                                       {"Ki", 1024},
                                       {"Mi", 1048576}}};

// What a value in that unit is multiplied by, seconds for times.
std::optional<double> factor_of(std::string_view unit) {
  if (const TimeUnit* time = find_time_unit(unit))
    return static_cast<double>(time->picoseconds) / 1e12;
  for (const Unit& u : kUnits)
    if (u.text == unit) return u.factor;
  return {};
}

bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

}  // namespace

class ExpressionReader {
 public:
  ExpressionReader(std::string_view text, std::span<const ExpressionName> names,
                   ExpressionProblem& problem)
      : text_(text), names_(names), problem_(problem) {}

  std::optional<Expression> read() {
    if (text_.size() > kLongestExpression) {
      refuse(fmt::format("a condition has at most {} characters", kLongestExpression),
             "several conditions can stand in a list", 0, 1);
      return {};
    }
    const Kind kind = either();
    skip();
    if (!failed_ && at_ < text_.size())
      refuse(fmt::format("'{}' is not understood here", shown_rest()),
             "operators are + - * / %, == != < <= > >=, and, or, not", at_, 1);
    if (!failed_ && kind != Kind::truth)
      refuse("this is a value, not a condition", "compare it with another: tp <= 8", 0,
             text_.size());
    if (failed_) return {};
    out_.text_ = std::string(text_);
    return std::move(out_);
  }

 private:
  using Code = Expression::Code;
  enum class Kind : uint8_t { number, truth, word };

  void refuse(std::string message, std::string help, size_t at, size_t length) {
    if (failed_) return;
    failed_ = true;
    problem_ = {std::move(message), std::move(help), at, std::max<size_t>(1, length)};
  }

  std::string shown_rest() const {
    return escape_text(text_.substr(at_, std::min<size_t>(12, text_.size() - at_)));
  }

  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n'))
      ++at_;
  }

  bool take(std::string_view symbol) {
    skip();
    if (!text_.substr(at_).starts_with(symbol)) return false;
    at_ += symbol.size();
    return true;
  }

  bool take_word(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    const size_t end = at_ + word.size();
    if (end < text_.size() && (is_name_start(text_[end]) || is_digit(text_[end]))) return false;
    at_ = end;
    return true;
  }

  void emit(Code code, double number = 0, size_t name = 0) {
    out_.steps_.push_back({code, number, name});
  }

  Kind combine(Code code, Kind a, Kind b, Kind wanted, Kind result, size_t from) {
    if (a != wanted || b != wanted)
      refuse(wanted == Kind::truth ? "'and' and 'or' join conditions, not values"
                                   : "only numbers are added, multiplied and ordered",
             wanted == Kind::truth ? "tp <= 8 and pp >= 2" : "words are == or != another", from,
             at_ - from);
    emit(code);
    return result;
  }

  Kind either() {
    if (++level_ > kMostLevels) {
      refuse(fmt::format("more than {} brackets in one another", kMostLevels), {}, at_, 1);
      return Kind::truth;
    }
    const size_t from = at_;
    Kind kind = both();
    while (!failed_ && take_word("or"))
      kind = combine(Code::either, kind, both(), Kind::truth, Kind::truth, from);
    --level_;
    return kind;
  }

  Kind both() {
    const size_t from = at_;
    Kind kind = inverted();
    while (!failed_ && take_word("and"))
      kind = combine(Code::both, kind, inverted(), Kind::truth, Kind::truth, from);
    return kind;
  }

  Kind inverted() {
    bool invert = false;
    const size_t from = at_;
    while (take_word("not")) invert = !invert;
    const Kind kind = compared();
    if (!invert) return kind;
    if (kind != Kind::truth)
      refuse("'not' stands before a condition, not a value", "not (tp > 8)", from, at_ - from);
    emit(Code::invert);
    return Kind::truth;
  }

  Kind compared() {
    skip();
    const size_t from = at_;
    const Kind left = sum();
    constexpr std::array<std::pair<std::string_view, Code>, 6> kOperators{{{"==", Code::equal},
                                                                           {"!=", Code::unequal},
                                                                           {"<=", Code::at_most},
                                                                           {">=", Code::at_least},
                                                                           {"<", Code::less},
                                                                           {">", Code::more}}};
    for (const auto& [symbol, code] : kOperators) {
      if (failed_ || !take(symbol)) continue;
      if (left == Kind::word) return compare_words(code, from);
      const Kind right = sum();
      return combine(code, left, right, Kind::number, Kind::truth, from);
    }
    skip();
    if (!failed_ && text_.substr(at_).starts_with("="))
      refuse("'=' sets a value", "a comparison is ==", at_, 1);
    return left;
  }

  // The word after a name that is one of several: it is no name itself.
  Kind compare_words(Code code, size_t from) {
    const ExpressionName& name = names_[out_.steps_.back().name];
    if (code != Code::equal && code != Code::unequal)
      refuse("words are == or != another, and have no order", {}, from, at_ - from);
    skip();
    const size_t begin = at_;
    const char quote = at_ < text_.size() ? text_[at_] : '\0';
    std::string_view word;
    if (quote == '\'' || quote == '"') {
      const size_t end = text_.find(quote, at_ + 1);
      if (end == std::string_view::npos) {
        refuse("a quotation mark is missing", {}, begin, 1);
        return Kind::truth;
      }
      word = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else {
      while (at_ < text_.size() &&
             (is_name_start(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '-'))
        ++at_;
      word = text_.substr(begin, at_ - begin);
    }
    const auto found = std::find(name.words.begin(), name.words.end(), word);
    if (found == name.words.end())
      refuse(fmt::format("'{}' cannot be '{}'", name.name, escape_text(word)),
             "it can be " + or_list(std::vector<std::string>(name.words.begin(), name.words.end())),
             begin, at_ - begin);
    else
      emit(Code::constant, static_cast<double>(found - name.words.begin()));
    emit(code);
    return Kind::truth;
  }

  Kind sum() {
    skip();
    const size_t from = at_;
    Kind kind = product();
    for (;;) {
      if (failed_) return kind;
      if (take("+"))
        kind = combine(Code::add, kind, product(), Kind::number, Kind::number, from);
      else if (take("-"))
        kind = combine(Code::subtract, kind, product(), Kind::number, Kind::number, from);
      else
        return kind;
    }
  }

  Kind product() {
    skip();
    const size_t from = at_;
    Kind kind = signed_value();
    for (;;) {
      if (failed_) return kind;
      if (take("*"))
        kind = combine(Code::multiply, kind, signed_value(), Kind::number, Kind::number, from);
      else if (take("/"))
        kind = combine(Code::divide, kind, signed_value(), Kind::number, Kind::number, from);
      else if (take("%"))
        kind = combine(Code::remainder, kind, signed_value(), Kind::number, Kind::number, from);
      else
        return kind;
    }
  }

  Kind signed_value() {
    bool negative = false;
    while (take("-")) negative = !negative;
    const size_t from = at_;
    const Kind kind = value();
    if (!negative) return kind;
    if (kind != Kind::number) refuse("only numbers have a sign", {}, from, at_ - from);
    emit(Code::negate);
    return Kind::number;
  }

  Kind value() {
    skip();
    if (failed_) return Kind::number;
    if (at_ == text_.size()) {
      refuse("the condition ends where a value is due", {}, text_.empty() ? 0 : text_.size() - 1,
             1);
      return Kind::number;
    }
    if (take("(")) {
      const size_t open = at_ - 1;
      const Kind kind = either();
      if (!failed_ && !take(")")) refuse("a bracket is not closed", {}, open, 1);
      return kind;
    }
    if (is_digit(text_[at_]) || text_[at_] == '.') return number();
    if (is_name_start(text_[at_])) return name();
    refuse(fmt::format("'{}' is no value", shown_rest()), "a number, a name or a bracket", at_, 1);
    return Kind::number;
  }

  Kind number() {
    const size_t from = at_;
    double read = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] =
        std::from_chars(begin, text_.data() + text_.size(), read, std::chars_format::fixed);
    if (error != std::errc{}) {
      refuse("this is no number", "plain decimals: 16, 0.9", from, 1);
      return Kind::number;
    }
    at_ += static_cast<size_t>(end - begin);
    const size_t unit = at_;
    // A '%' is a share where no value follows, else the remainder.
    if (at_ < text_.size() && text_[at_] == '%') {
      size_t next = at_ + 1;
      while (next < text_.size() && text_[next] == ' ') ++next;
      const bool operand = next < text_.size() && (is_digit(text_[next]) || text_[next] == '(' ||
                                                   is_name_start(text_[next]));
      const std::string_view after = text_.substr(std::min(next, text_.size()));
      if (!operand || after.starts_with("and") || after.starts_with("or")) {
        ++at_;
        read *= 0.01;
      }
    } else {
      while (at_ < text_.size() && is_name_start(text_[at_])) ++at_;
      const std::string_view written = text_.substr(unit, at_ - unit);
      const std::optional<double> factor = factor_of(written);
      if (!written.empty() && !factor)
        refuse(
            fmt::format("there is no unit '{}'", escape_text(written)),
            "units are B, kB to TB (bytes), KiB to TiB, ps, ns, us, ms, s, min, h, d, USD, kUSD, "
            "MUSD, % and K, M, Ki, Mi; words that begin with a digit stand in quotes",
            from, at_ - from);
      if (factor) read *= *factor;
    }
    emit(Code::constant, read);
    return Kind::number;
  }

  Kind name() {
    const size_t from = at_;
    while (at_ < text_.size() &&
           (is_name_start(text_[at_]) || is_digit(text_[at_]) || text_[at_] == '.'))
      ++at_;
    const std::string_view word = text_.substr(from, at_ - from);
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i].name != word) continue;
      emit(Code::name, 0, i);
      return names_[i].words.empty() ? Kind::number : Kind::word;
    }
    std::vector<std::string_view> known;
    std::vector<std::string> list;
    for (const ExpressionName& n : names_) {
      known.push_back(n.name);
      list.emplace_back(n.name);
    }
    const std::string near = did_you_mean(word, known);
    refuse(fmt::format("there is no '{}' in a condition", escape_text(word)),
           near.empty() ? "names are " + or_list(list) : near, from, at_ - from);
    return Kind::number;
  }

  std::string_view text_;
  std::span<const ExpressionName> names_;
  ExpressionProblem& problem_;
  Expression out_;
  size_t at_ = 0;
  int level_ = 0;
  bool failed_ = false;
};

bool Expression::uses(size_t name) const {
  return std::ranges::any_of(steps_,
                             [&](const Step& s) { return s.code == Code::name && s.name == name; });
}

bool Expression::holds(std::span<const double> values) const {
  std::vector<double> stack;
  const auto two = [&](auto operation) {
    const double b = stack.back();
    stack.pop_back();
    stack.back() = operation(stack.back(), b);
  };
  const auto truth = [](bool b) { return b ? 1.0 : 0.0; };
  for (const Step& s : steps_) {
    switch (s.code) {
      case Code::constant: stack.push_back(s.number); break;
      case Code::name: stack.push_back(values[s.name]); break;
      case Code::negate: stack.back() = -stack.back(); break;
      case Code::invert: stack.back() = truth(stack.back() == 0); break;
      case Code::add: two([](double a, double b) { return a + b; }); break;
      case Code::subtract: two([](double a, double b) { return a - b; }); break;
      case Code::multiply: two([](double a, double b) { return a * b; }); break;
      case Code::divide:
        two([](double a, double b) { return b == 0 ? std::nan("") : a / b; });
        break;
      case Code::remainder:
        two([](double a, double b) { return b == 0 ? std::nan("") : std::fmod(a, b); });
        break;
      case Code::equal: two([&](double a, double b) { return truth(a == b); }); break;
      case Code::unequal: two([&](double a, double b) { return truth(a < b || a > b); }); break;
      case Code::less: two([&](double a, double b) { return truth(a < b); }); break;
      case Code::at_most: two([&](double a, double b) { return truth(a <= b); }); break;
      case Code::more: two([&](double a, double b) { return truth(a > b); }); break;
      case Code::at_least: two([&](double a, double b) { return truth(a >= b); }); break;
      case Code::both: two([&](double a, double b) { return truth(a != 0 && b != 0); }); break;
      case Code::either: two([&](double a, double b) { return truth(a != 0 || b != 0); }); break;
    }
  }
  return stack.back() != 0;
}

namespace {

// What a part of an expression can be; of a condition 0 and 1 stand for false and true.
struct PartRange {
  double least = 0, most = 0;
  bool none = false;  // it may have no value, which fulfils no comparison
};

constexpr double kInfinite = std::numeric_limits<double>::infinity();

PartRange of_ends(const PartRange& a, const PartRange& b, std::initializer_list<double> ends) {
  const bool finite = std::ranges::all_of(std::array{a.least, a.most, b.least, b.most},
                                          [](double x) { return std::isfinite(x); });
  const bool known = std::ranges::none_of(ends, [](double x) { return std::isnan(x); });
  PartRange i{-kInfinite, kInfinite, a.none || b.none || !finite || !known};
  if (known) std::tie(i.least, i.most) = std::pair(std::min(ends), std::max(ends));
  return i;
}

PartRange product(const PartRange& a, const PartRange& b) {
  return of_ends(a, b, {a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
}

PartRange quotient(const PartRange& a, const PartRange& b) {
  if (b.least <= 0 && b.most >= 0) return {-kInfinite, kInfinite, true};
  return of_ends(a, b, {a.least / b.least, a.least / b.most, a.most / b.least, a.most / b.most});
}

PartRange condition(bool certain, bool possible) {
  return {certain ? 1.0 : 0.0, possible ? 1.0 : 0.0, false};
}

PartRange is_less(const PartRange& a, const PartRange& b) {
  return condition(!a.none && !b.none && a.most < b.least, a.least < b.most);
}
PartRange is_at_most(const PartRange& a, const PartRange& b) {
  return condition(!a.none && !b.none && a.most <= b.least, a.least <= b.most);
}
PartRange is_equal(const PartRange& a, const PartRange& b) {
  const bool one = a.least == a.most && b.least == b.most && a.least == b.least;
  return condition(!a.none && !b.none && one, a.least <= b.most && b.least <= a.most);
}
PartRange is_unequal(const PartRange& a, const PartRange& b) {
  const bool apart = a.most < b.least || b.most < a.least;
  const bool one = a.least == a.most && b.least == b.most && a.least == b.least;
  return condition(!a.none && !b.none && apart, !one);
}

}  // namespace

bool Expression::may_hold(std::span<const ValueRange> ranges) const {
  std::vector<PartRange> stack;
  const auto two = [&](auto operation) {
    const PartRange b = stack.back();
    stack.pop_back();
    stack.back() = operation(stack.back(), b);
  };
  for (const Step& s : steps_) {
    switch (s.code) {
      case Code::constant: stack.push_back({s.number, s.number}); break;
      case Code::name: stack.push_back({ranges[s.name].least, ranges[s.name].most}); break;
      case Code::negate:
        stack.back() = {-stack.back().most, -stack.back().least, stack.back().none};
        break;
      case Code::invert: stack.back() = {1 - stack.back().most, 1 - stack.back().least}; break;
      case Code::add:
        two([](const PartRange& a, const PartRange& b) {
          return of_ends(a, b, {a.least + b.least, a.most + b.most});
        });
        break;
      case Code::subtract:
        two([](const PartRange& a, const PartRange& b) {
          return of_ends(a, b, {a.least - b.most, a.most - b.least});
        });
        break;
      case Code::multiply: two(product); break;
      case Code::divide: two(quotient); break;
      case Code::remainder:
        two([](const PartRange& a, const PartRange& b) {
          const bool one = a.least == a.most && b.least == b.most && b.least != 0;
          const double rest = one ? std::fmod(a.least, b.least) : std::nan("");
          return of_ends(a, b, {rest});
        });
        break;
      case Code::equal: two(is_equal); break;
      case Code::unequal: two(is_unequal); break;
      case Code::less: two(is_less); break;
      case Code::at_most: two(is_at_most); break;
      case Code::more:
        two([](const PartRange& a, const PartRange& b) { return is_less(b, a); });
        break;
      case Code::at_least:
        two([](const PartRange& a, const PartRange& b) { return is_at_most(b, a); });
        break;
      case Code::both:
        two([](const PartRange& a, const PartRange& b) {
          return PartRange{std::min(a.least, b.least), std::min(a.most, b.most)};
        });
        break;
      case Code::either:
        two([](const PartRange& a, const PartRange& b) {
          return PartRange{std::max(a.least, b.least), std::max(a.most, b.most)};
        });
        break;
    }
  }
  return stack.back().most != 0;
}

std::optional<Expression> parse_expression(std::string_view text,
                                           std::span<const ExpressionName> names,
                                           ExpressionProblem& problem) {
  return ExpressionReader(text, names, problem).read();
}

}  // namespace stepcast
