// SPDX-License-Identifier: Apache-2.0
#include "scenarios/decimal.h"

#include <algorithm>
#include <charconv>
#include <limits>

#include "sim/text.h"

namespace stepcast {
namespace {

__extension__ using Wide = __int128;

size_t digits_at(std::string_view text, size_t pos) {
  size_t n = 0;
  while (pos + n < text.size() && is_digit(text[pos + n])) ++n;
  return n;
}

// Forms of number that other readers of YAML know: what one of them would make of it.
std::string other_reading(std::string_view text) {
  std::string_view t = text;
  if (t.starts_with('+') || t.starts_with('-')) t.remove_prefix(1);
  const auto based = [&](std::string_view digits, int base) -> std::string {
    uint64_t n = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), n, base);
    if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return {};
    return std::to_string(n);
  };
  if (t.starts_with("0x") || t.starts_with("0X")) {
    const std::string n = based(t.substr(2), 16);
    return n.empty() ? n : "hexadecimal; write " + n;
  }
  if (t.starts_with("0o") || t.starts_with("0O")) {
    const std::string n = based(t.substr(2), 8);
    return n.empty() ? n : "octal; write " + n;
  }
  if (t.size() > 1 && t[0] == '0' && is_digit(t[1])) {
    const std::string octal = based(t.substr(1), 8), decimal = based(t, 10);
    if (decimal.empty()) return "a number with leading zeros; leave them out";
    return octal.empty() ? "a number with leading zeros; write " + decimal
                         : "octal " + octal + " to YAML 1.1; write " + decimal + " or " + octal;
  }
  const size_t head = digits_at(t, 0), colon = t.find(':');
  if (head > 0 && colon == head && digits_at(t, colon + 1) > 0)
    return "base 60 to YAML 1.1; write one number and its unit, as in 90s";
  if (head > 0 && head < t.size() && (t[head] == '_' || t[head] == ','))
    return "a number with separators; leave them out";
  return {};
}

}  // namespace

std::string NumberText::quoted() const {
  return '\'' + std::string(name) + '\'';
}

std::string NumberText::written() const {
  constexpr size_t kLongest = 40;
  return value.text.size() <= kLongest ? value.text : value.text.substr(0, kLongest) + "...";
}

std::nullopt_t NumberText::refuse(const char* code, std::string message, std::string help) const {
  const int length = value.is_scalar() ? static_cast<int>(value.text.size()) : 1;
  problems.add(code, std::move(message), value.mark, length, {}, std::move(help));
  return std::nullopt;
}

std::optional<Decimal> read_decimal(const NumberText& r, bool unit_expected) {
  if (r.value.kind == Value::Kind::sequence)
    return r.refuse("E107", r.quoted() + " must be one number, not a list",
                    "several values are the cases of `compare`");
  if (!r.value.is_scalar()) return r.refuse("E107", r.quoted() + " must be a number");
  const std::string_view text = r.value.text;
  if (r.value.quoted && !unit_expected)
    return r.refuse("E107", r.quoted() + " must be a number, not the text \"" + r.written() + '"',
                    "leave the quotes out");
  const std::string low =
      lower_case(text.starts_with('+') || text.starts_with('-') ? text.substr(1) : text);
  if (low == ".nan" || low == "nan")
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not NaN");
  if (low == ".inf" || low == "inf" || low == "infinity")
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not infinity");
  if (const std::string reading = other_reading(text); !reading.empty())
    return r.refuse("E124", r.quoted() + " must be a plain decimal number, not " + r.written(),
                    r.written() + " is " + reading);

  Decimal d;
  size_t pos = 0;
  if (pos < text.size() && (text[pos] == '-' || text[pos] == '+')) d.negative = text[pos++] == '-';
  const size_t whole = digits_at(text, pos);
  d.digits = text.substr(pos, whole);
  pos += whole;
  if (pos + 1 < text.size() && text[pos] == '.' && is_digit(text[pos + 1])) {
    const size_t fraction = digits_at(text, pos + 1);
    d.digits += text.substr(pos + 1, fraction);
    d.exponent = -static_cast<int>(fraction);
    pos += 1 + fraction;
  }
  if (whole == 0)
    return r.refuse("E107", r.quoted() + " must be a number, not " +
                                (text.empty() ? "empty" : '\'' + r.written() + '\''));
  // An exponent, if digits follow: "1e12".
  if (pos < text.size() && (text[pos] == 'e' || text[pos] == 'E')) {
    size_t at = pos + 1;
    const bool down = at < text.size() && text[at] == '-';
    if (at < text.size() && (text[at] == '-' || text[at] == '+')) ++at;
    if (const size_t n = digits_at(text, at); n > 0) {
      int e = 99999;  // beyond every range
      if (n <= 4) std::from_chars(text.data() + at, text.data() + at + n, e);
      d.exponent += down ? -e : e;
      pos = at + n;
    }
  }
  while (pos < text.size() && text[pos] == ' ') ++pos;
  d.unit = text.substr(pos);
  d.digits.erase(0, d.digits.find_first_not_of('0'));
  while (!d.digits.empty() && d.digits.back() == '0') {
    d.digits.pop_back();
    ++d.exponent;
  }
  return d;
}

std::optional<Scaled> scaled(const Decimal& d, int64_t multiplier) {
  if (d.zero()) return Scaled{};
  constexpr size_t kMostDigits = 18;  // so that digits * multiplier fits 128 bits
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  const size_t used = std::min(d.digits.size(), kMostDigits);
  int exponent = d.exponent + static_cast<int>(d.digits.size() - used);
  bool exact = used == d.digits.size();
  int64_t mantissa = 0;
  std::from_chars(d.digits.data(), d.digits.data() + used, mantissa);
  Wide n = static_cast<Wide>(mantissa) * multiplier;
  for (; exponent > 0 && n <= kMost; --exponent) n *= 10;
  if (n > kMost && exponent >= 0) return {};
  int dropped = 0;  // the digit behind the last one kept decides the rounding
  for (; exponent < 0 && (n > 0 || dropped > 0); ++exponent) {
    dropped = static_cast<int>(n % 10);
    n /= 10;
    exact = exact && dropped == 0;
  }
  if (dropped >= 5) ++n;
  if (n > kMost) return {};
  return Scaled{static_cast<int64_t>(n), exact};
}

double real(const Decimal& d, int power, double factor) {
  if (d.zero()) return 0;
  const std::string text = d.digits + 'e' + std::to_string(d.exponent + power);
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error == std::errc::result_out_of_range)
    return d.exponent + power > 0 ? std::numeric_limits<double>::infinity() : 0.0;
  return x * factor;
}

}  // namespace stepcast
