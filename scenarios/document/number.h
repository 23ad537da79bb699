// SPDX-License-Identifier: Apache-2.0
// Numbers and quantities as scenarios write them, read strictly.
//
// Decimal only: no hexadecimal, no leading zeros, no 1:30, no .nan or .inf.  A scalar with a unit
// must state it; decimal (k M G T P) and binary (Ki Mi Gi Ti Pi) prefixes, bits `b` and bytes `B`
// are never guessed.  Text in quotes is no number, but may be a quantity with its unit (JSON has no
// other way to write one).
//
// Every function reads `value` for the key `name` (the last word of its path: it appears in the
// messages).  What is wrong is added to `problems` at the value's place and nothing is returned:
//   E107 not a number at all              E121 not finite, or not above 0
//   E120 unit missing or not understood   E122 negative
//   E124 a form of number we do not read  E123 too large, or not whole
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>

#include "scenarios/document/value.h"
#include "sim/units.h"

namespace stepcast {

// A whole number, lowest..highest, no unit.
std::optional<int64_t> read_whole(const Value& value, std::string_view name, Problems& problems,
                                  int64_t lowest = 0,
                                  int64_t highest = std::numeric_limits<int64_t>::max());

// A number >= 0 without unit; above 0 if `positive`.
std::optional<double> read_number(const Value& value, std::string_view name, Problems& problems,
                                  bool positive = false);

// "80GiB", "80 GB", "512B": rounded half up to bytes, above 0 unless `zero_allowed`.
std::optional<Bytes> read_bytes(const Value& value, std::string_view name, Problems& problems,
                                bool zero_allowed = false);

// "400Gb/s" (bits) or "50GB/s" (bytes), above 0: the same Bandwidth to the last bit.
std::optional<Bandwidth> read_bandwidth(const Value& value, std::string_view name,
                                        Problems& problems);

// "2.5us", "13.75s"; ps ns us ms s min h d; rounded half up to picoseconds.  Above 0 if `positive`,
// at most `highest`.
std::optional<Time> read_time(const Value& value, std::string_view name, Problems& problems,
                              bool positive = false, Time highest = Time::max());

// "989TFLOP/s" (or FLOPS), above 0.
std::optional<FlopRate> read_flop_rate(const Value& value, std::string_view name,
                                       Problems& problems);

// "700W", above 0.
std::optional<Power> read_power(const Value& value, std::string_view name, Problems& problems);

// "5%" or 0.05, 0..1.
std::optional<double> read_share(const Value& value, std::string_view name, Problems& problems);

// A count that may be large: 2048, "4M", "15.6T" (powers of 1000), "8Ki", "1Mi" (of 1024); a whole
// number above 0.
std::optional<int64_t> read_tokens(const Value& value, std::string_view name, Problems& problems);

// "2.5USD/GPUh" or "$2.5/GPUh": US dollars for a GPU and hour, above 0.  Adds E120.
std::optional<double> read_price(const Value& value, Problems& problems);

// true or false; yes, no, on and off are words.
std::optional<bool> read_flag(const Value& value, std::string_view name, Problems& problems);

// Any scalar, as written.
std::optional<std::string> read_text(const Value& value, std::string_view name, Problems& problems);

// A whole number from 0 without sign: a rank, a node.  Nothing for any other text.
std::optional<int64_t> parse_index(std::string_view text);

// "3", or "8-15", both included; `last` may be smaller than `first`.  Nothing for any other text.
struct IndexRange {
  int64_t first = 0, last = 0;
};
std::optional<IndexRange> parse_range(std::string_view text);

// "62.5GB/s": without zeros at the end.
std::string gigabytes(Bandwidth bandwidth, int most_decimals = 2);

// For help lines, the numbers that would have been legal.  "1, 2, 4 or 8": the divisors of n up to
// `most`, at most a dozen of them.  REQUIRES: n >= 1.
std::string divisors(int64_t n, int64_t most = 1'000'000);

// "4 or 8": the divisors of `whole` around n.  REQUIRES: 1 <= n <= whole.
std::string nearest_divisors(int64_t whole, int64_t n);

// "the nearest are 24 and 32": the multiples of `unit` around n.
std::string nearest_multiples(int64_t n, int64_t unit);

}  // namespace stepcast
