// SPDX-License-Identifier: Apache-2.0
// A number is read in two steps: the text becomes digits, a power of ten and a unit (Decimal),
// exactly; then the function for a kind of quantity scales and rounds it once.  "2.5GiB" is the
// digits 25, the exponent -1 and the unit "GiB"; read_bytes multiplies 25 * 2^30 and divides by 10,
// half up.
#include "scenarios/document/number.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <string>

#include "scenarios/document/time_units.h"
#include "sim/text.h"

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
  const std::string text = fmt::format("{}e{}", d.digits, d.exponent + power);
  double x = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), x);
  if (error == std::errc::result_out_of_range)
    return d.exponent + power > 0 ? std::numeric_limits<double>::infinity() : 0.0;
  return x * factor;
}

// -------------------------------------------------------------------------------------- quantities

namespace {

int64_t power_of_10(int n) {
  int64_t p = 1;
  for (; n > 0; --n) p *= 10;
  return p;
}

// "write 40000000" for 40M.
std::string written_out(const Decimal& d) {
  constexpr std::string_view kThousands = "kMBT";
  const std::string_view unit = d.unit == "K" ? "k" : d.unit == "G" ? "B" : d.unit;
  const size_t power = unit.size() == 1 ? kThousands.find(unit[0]) : std::string_view::npos;
  if (power == std::string_view::npos) return {};
  const std::optional<Scaled> n = scaled(d, power_of_10(3 * (static_cast<int>(power) + 1)));
  return n && n->exact ? fmt::format("write {}", n->value) : std::string();
}

std::optional<Decimal> parse_plain(const NumberText& r) {
  const std::optional<Decimal> d = read_decimal(r, false);
  if (!d) return {};
  if (!d->unit.empty())
    return r.refuse("E107", r.quoted() + " must be a plain number, not '" + r.written() + '\'',
                    d->unit == "%" ? "write a fraction: 0.8 stands for 80%" : written_out(*d));
  return d;
}

// Refuses what is below 0, or 0 where it must be above.
bool sign_ok(const NumberText& r, const Decimal& d, bool zero_allowed) {
  if (d.negative && !d.zero()) {
    r.refuse("E122", r.quoted() + " must not be negative");
    return false;
  }
  if (d.zero() && !zero_allowed) {
    r.refuse("E121", r.quoted() + " must be above 0, not 0");
    return false;
  }
  return true;
}

struct Prefix {
  std::string_view text;
  int power = 0;   // of 10
  int binary = 0;  // of 2
};
constexpr std::array<Prefix, 12> kPrefixes{{{"Ki", 0, 10},
                                            {"Mi", 0, 20},
                                            {"Gi", 0, 30},
                                            {"Ti", 0, 40},
                                            {"Pi", 0, 50},
                                            {"k", 3, 0},
                                            {"K", 3, 0},
                                            {"M", 6, 0},
                                            {"G", 9, 0},
                                            {"T", 12, 0},
                                            {"P", 15, 0},
                                            {"", 0, 0}}};

// The prefix of "GiB" for the base "B".
std::optional<Prefix> prefix_of(std::string_view unit, std::string_view base) {
  if (!unit.ends_with(base)) return {};
  unit.remove_suffix(base.size());
  for (const Prefix& p : kPrefixes)
    if (unit == p.text) return p;
  return {};
}

// What to write instead when the unit is missing or wrong.
struct UnitAdvice {
  std::string_view first, second, why;  // units; `second` may be empty
};

std::nullopt_t refuse_unit(const NumberText& r, const Decimal& d, const UnitAdvice& advice) {
  std::string number = r.value.text.substr(0, r.value.text.size() - d.unit.size());
  while (number.ends_with(' ')) number.pop_back();
  constexpr size_t kLongest = 24;
  if (number.size() > kLongest) number = "...";
  std::string help = "write " + number + std::string(advice.first);
  if (!advice.second.empty()) help += " or " + number + std::string(advice.second);
  if (!advice.why.empty()) help += "; " + std::string(advice.why);
  if (d.unit.empty()) return r.refuse("E120", r.quoted() + " needs a unit", std::move(help));
  return r.refuse("E120", r.quoted() + " cannot be in '" + std::string(d.unit.substr(0, 24)) + '\'',
                  std::move(help));
}

constexpr int64_t kLargestWhole = std::numeric_limits<int64_t>::max();

// `most`: with its unit.
std::nullopt_t refuse_range(const NumberText& r, const std::string& most) {
  return r.refuse("E123", r.quoted() + " is too large: " + r.written(), "at most " + most);
}

std::nullopt_t refuse_infinite(const NumberText& r) {
  return refuse_range(r, fmt::format("{:.2g}", std::numeric_limits<double>::max()));
}

}  // namespace

std::optional<int64_t> read_whole(const Value& value, std::string_view name, Problems& problems,
                                  int64_t lowest, int64_t highest) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = parse_plain(r);
  if (!d) return {};
  if (!sign_ok(r, *d, lowest <= 0)) return {};
  const std::optional<Scaled> n = scaled(*d, 1);
  if (n && !n->exact)
    return r.refuse("E123", r.quoted() + " must be a whole number, not " + r.written());
  if (!n || n->value > highest)
    return r.refuse("E123", r.quoted() + " is too large: " + r.written(),
                    fmt::format("at most {}", highest));
  if (n->value < lowest)
    return r.refuse("E121",
                    fmt::format("{} must be at least {}, not {}", r.quoted(), lowest, r.written()));
  return n->value;
}

std::optional<double> read_number(const Value& value, std::string_view name, Problems& problems,
                                  bool positive) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = parse_plain(r);
  if (!d || !sign_ok(r, *d, !positive)) return {};
  const double x = real(*d);
  if (!std::isfinite(x)) return refuse_infinite(r);
  if (positive && x <= 0)
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not " + r.written());
  return x;
}

std::optional<Bytes> read_bytes(const Value& value, std::string_view name, Problems& problems,
                                bool zero_allowed) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, true);
  if (!d || !sign_ok(r, *d, zero_allowed)) return {};
  const std::optional<Prefix> p = prefix_of(d->unit, "B");
  if (!p) return refuse_unit(r, *d, {"GB", "GiB", "1 GiB is 1.074 GB"});
  const std::optional<Scaled> n = scaled(*d, power_of_10(p->power) << p->binary);
  if (!n) return refuse_range(r, fmt::format("{} bytes", kLargestWhole));
  if (n->value == 0 && !d->zero())
    return r.refuse("E121", r.quoted() + " is less than a byte: " + r.written());
  return Bytes{n->value};
}

std::optional<Bandwidth> read_bandwidth(const Value& value, std::string_view name,
                                        Problems& problems) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, true);
  if (!d || !sign_ok(r, *d, false)) return {};
  const std::optional<Prefix> bytes = prefix_of(d->unit, "B/s"), bits = prefix_of(d->unit, "b/s");
  const bool has_prefix = d->unit.starts_with('M') || d->unit.starts_with('T');
  if (!bytes && !bits)
    return refuse_unit(r, *d,
                       has_prefix && d->unit[0] == 'T'
                           ? UnitAdvice{"Tb/s (bits)", "TB/s (bytes)", "they differ by 8"}
                           : UnitAdvice{"Gb/s (bits)", "GB/s (bytes)", "they differ by 8"});
  const Prefix& p = bytes ? *bytes : *bits;
  const double factor = static_cast<double>(int64_t{1} << p.binary) / (bytes ? 1 : 8);
  const double x = real(*d, p.power, factor);
  if (!std::isfinite(x)) return refuse_infinite(r);
  if (x <= 0)
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not " + r.written());
  return Bandwidth{x};
}

std::optional<Time> read_time(const Value& value, std::string_view name, Problems& problems,
                              bool positive, Time highest) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, true);
  if (!d || !sign_ok(r, *d, !positive)) return {};
  if (const TimeUnit* unit = find_time_unit(d->unit)) {
    const std::optional<Scaled> n = scaled(*d, unit->picoseconds);
    if (!n || Time{n->value} > highest)
      return refuse_range(r, fmt::format("{:.6g} s", to_seconds(highest)));
    if (positive && n->value == 0)
      return r.refuse("E121", r.quoted() + " is less than a picosecond: " + r.written());
    return Time{n->value};
  }
  const TimeUnit* const meant = time_unit_of_word(d->unit);
  return refuse_unit(r, *d,
                     {meant != nullptr ? meant->text : "us", meant != nullptr ? "" : "s",
                      "units of time are ps, ns, us, ms, s, min, h and d"});
}

std::optional<FlopRate> read_flop_rate(const Value& value, std::string_view name,
                                       Problems& problems) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, true);
  if (!d || !sign_ok(r, *d, false)) return {};
  std::optional<Prefix> p = prefix_of(d->unit, "FLOP/s");
  if (!p) p = prefix_of(d->unit, "FLOPS");
  if (!p || p->binary != 0) return refuse_unit(r, *d, {"TFLOP/s", "", "dense, without sparsity"});
  const double x = real(*d, p->power);
  if (!std::isfinite(x)) return refuse_infinite(r);
  if (x <= 0)
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not " + r.written());
  return FlopRate{x};
}

std::optional<Power> read_power(const Value& value, std::string_view name, Problems& problems) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, true);
  if (!d || !sign_ok(r, *d, false)) return {};
  const std::optional<Prefix> p = prefix_of(d->unit, "W");
  if (!p || p->binary != 0) return refuse_unit(r, *d, {"W", "", "of one GPU"});
  const double x = real(*d, p->power);
  if (!std::isfinite(x)) return refuse_infinite(r);
  if (x <= 0)
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not " + r.written());
  constexpr double kMostWatts = 1e6;
  if (x > kMostWatts)
    return r.refuse("E123", r.quoted() + " is too large: " + r.written() + "; at most 1MW");
  return Power{x};
}

std::optional<double> read_share(const Value& value, std::string_view name, Problems& problems) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, !value.text.empty() && value.text.back() == '%');
  if (!d || !sign_ok(r, *d, true)) return {};
  if (!d->unit.empty() && d->unit != "%")
    return r.refuse("E120", r.quoted() + " is a share: '" + r.written() + "' is not",
                    "write it as 5% or 0.05");
  const double x = real(*d, d->unit.empty() ? 0 : -2);
  if (!(x <= 1))
    return r.refuse("E123", r.quoted() + " must be a share of at most 1 (100%), not " + r.written(),
                    d->unit.empty() ? "5% is written 5% or 0.05" : "");
  return x;
}

std::optional<int64_t> read_tokens(const Value& value, std::string_view name, Problems& problems) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, false);
  if (!d || !sign_ok(r, *d, false)) return {};
  static constexpr std::array<Prefix, 7> kUnits{{{"", 0, 0},
                                                 {"K", 3, 0},
                                                 {"M", 6, 0},
                                                 {"B", 9, 0},
                                                 {"T", 12, 0},
                                                 {"Ki", 0, 10},
                                                 {"Mi", 0, 20}}};
  for (const Prefix& u : kUnits) {
    if (u.text != d->unit) continue;
    const std::optional<Scaled> n = scaled(*d, power_of_10(u.power) << u.binary);
    if (!n) return refuse_range(r, fmt::to_string(kLargestWhole));
    if (!n->exact)
      return r.refuse("E123", r.quoted() + " must be a whole number, not " + r.written());
    return n->value;
  }
  std::string help = "write a whole number; K, M, B and T are powers of 1000, Ki and Mi of 1024";
  if (d->unit == "k") {  // which may mean either
    const auto of = [&](int64_t unit) {
      const std::optional<Scaled> n = scaled(*d, unit);
      return n && n->exact ? std::to_string(n->value) : "";
    };
    const std::string number(value.text, 0, value.text.size() - 1), k = of(1000), ki = of(1024);
    if (!k.empty() && !ki.empty()) help = number + "K is " + k + "; " + number + "Ki is " + ki;
  }
  return r.refuse("E120", r.quoted() + " is a count: '" + r.written() + "' is not",
                  std::move(help));
}

std::optional<bool> read_flag(const Value& value, std::string_view name, Problems& problems) {
  const NumberText r{value, name, problems};
  if (value.is_scalar() && !value.quoted) {
    if (value.text == "true") return true;
    if (value.text == "false") return false;
  }
  const std::string low = lower_case(value.text);
  const bool yes = low == "yes" || low == "on" || low == "1" || low == "true";
  const bool no = low == "no" || low == "off" || low == "0" || low == "false";
  return r.refuse("E107",
                  r.quoted() + " must be true or false" +
                      (value.is_scalar() ? ", not '" + r.written() + '\'' : ""),
                  yes  ? "write true"
                  : no ? "write false"
                       : "");
}

std::optional<std::string> read_text(const Value& value, std::string_view name,
                                     Problems& problems) {
  const NumberText r{value, name, problems};
  if (!value.is_scalar()) return r.refuse("E107", r.quoted() + " must be text");
  return value.text;
}

std::optional<double> read_price(const Value& value, Problems& problems) {
  bool free = false;
  std::string_view text = value.text;
  const bool sign_first = text.starts_with('$');
  const std::string_view unit = sign_first ? "/GPUh" : "USD/GPUh";
  if (value.is_scalar() && text.ends_with(unit)) {
    text.remove_suffix(unit.size());
    if (sign_first) text.remove_prefix(1);
    const auto price = parse_number<double>(trim(text, " "));
    if (price && *price > 0 && *price < 1e9) return price;
    free = price && *price == 0;
  }
  problems.add("E120", '\'' + escape_text(value.text) + "' is no price of a GPU", value.mark,
               std::max(1, static_cast<int>(value.text.size())), {},
               free ? "above 0; where GPUs cost nothing no price is stated, and GPU-hours tell"
                    : "US dollars for a GPU and hour: 2.5USD/GPUh");
  return {};
}

std::optional<int64_t> parse_index(std::string_view text) {
  int64_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  if (error != std::errc{} || end != text.data() + text.size() || n < 0) return {};
  return n;
}

std::optional<IndexRange> parse_range(std::string_view text) {
  const size_t dash = text.find('-');
  const std::optional<int64_t> first = parse_index(text.substr(0, dash));
  const std::optional<int64_t> last =
      dash == std::string_view::npos ? first : parse_index(text.substr(dash + 1));
  if (!first || !last) return {};
  return IndexRange{*first, *last};
}

std::string gigabytes(Bandwidth bandwidth, int most_decimals) {
  return short_decimal(bandwidth.value / 1e9, most_decimals) + "GB/s";
}

std::string divisors(int64_t n, int64_t most) {
  constexpr size_t kMostListed = 12;
  std::vector<std::string> all;
  for (int64_t i = 1; i <= std::min(n, most) && all.size() < kMostListed; ++i)
    if (n % i == 0) all.push_back(std::to_string(i));
  return or_list(all);
}

std::string nearest_divisors(int64_t whole, int64_t n) {
  int64_t below = n, above = n;
  while (whole % below != 0) --below;
  while (whole % above != 0) ++above;
  return fmt::format("{} or {}", below, above);
}

std::string nearest_multiples(int64_t n, int64_t unit) {
  const int64_t below = n / unit * unit, above = below + unit;
  return below == 0 ? fmt::format("the smallest is {}", above)
                    : fmt::format("the nearest are {} and {}", below, above);
}

}  // namespace stepcast
