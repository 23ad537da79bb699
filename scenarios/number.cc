// SPDX-License-Identifier: Apache-2.0
#include "scenarios/number.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "scenarios/decimal.h"
#include "sim/text.h"

namespace stepcast {
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
  return n && n->exact ? "write " + std::to_string(n->value) : std::string();
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

std::nullopt_t refuse_range(const NumberText& r) {
  return r.refuse("E123", r.quoted() + " is too large: " + r.written());
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
                    "at most " + std::to_string(highest));
  if (n->value < lowest)
    return r.refuse("E121", r.quoted() + " must be at least " + std::to_string(lowest) + ", not " +
                                r.written());
  return n->value;
}

std::optional<double> read_number(const Value& value, std::string_view name, Problems& problems,
                                  bool positive) {
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = parse_plain(r);
  if (!d || !sign_ok(r, *d, !positive)) return {};
  const double x = real(*d);
  if (!std::isfinite(x)) return refuse_range(r);
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
  if (!n) return refuse_range(r);
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
  if (!std::isfinite(x)) return refuse_range(r);
  if (x <= 0)
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not " + r.written());
  return Bandwidth{x};
}

std::optional<Time> read_time(const Value& value, std::string_view name, Problems& problems,
                              bool positive, Time highest) {
  struct Unit {
    std::string_view text;
    int64_t picoseconds;
  };
  static constexpr std::array<Unit, 8> kUnits{{{"ps", 1},
                                               {"ns", 1'000},
                                               {"us", 1'000'000},
                                               {"ms", 1'000'000'000},
                                               {"s", 1'000'000'000'000},
                                               {"min", 60'000'000'000'000},
                                               {"h", 3'600'000'000'000'000},
                                               {"d", 86'400'000'000'000'000}}};
  const NumberText r{value, name, problems};
  const std::optional<Decimal> d = read_decimal(r, true);
  if (!d || !sign_ok(r, *d, !positive)) return {};
  for (const Unit& u : kUnits) {
    if (u.text != d->unit) continue;
    const std::optional<Scaled> n = scaled(*d, u.picoseconds);
    if (!n || Time{n->value} > highest) return refuse_range(r);
    if (positive && n->value == 0)
      return r.refuse("E121", r.quoted() + " is less than a picosecond: " + r.written());
    return Time{n->value};
  }
  return refuse_unit(r, *d, {"us", "s", "units of time are ps, ns, us, ms, s, min, h and d"});
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
  if (!std::isfinite(x)) return refuse_range(r);
  if (x <= 0)
    return r.refuse("E121", r.quoted() + " must be a finite number above 0, not " + r.written());
  return FlopRate{x};
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
    if (!n) return refuse_range(r);
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

}  // namespace stepcast
