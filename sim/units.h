// SPDX-License-Identifier: Apache-2.0
// Physical quantities of the simulator.
//
// Time inside the engine is an integer number of picoseconds (about +-106 days), so that sums and
// maxima are exact and results are bit-identical on every machine.  Everything that is computed in
// floating point (a cost, a bandwidth) becomes a Time exactly once, here, rounded half up.
//
// Bandwidth is bytes per second in ONE direction; Flops and FlopRate are double because they never
// enter the engine.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

#include "sim/diagnostic.h"

namespace stepcast {

using Time = std::chrono::duration<int64_t, std::pico>;

// A number with a dimension: only sums, differences, scaling and ratios of equal dimensions make
// sense.
template <class Tag, class Rep>
struct Quantity {
  Rep value{};

  constexpr auto operator<=>(const Quantity&) const = default;
  constexpr Quantity& operator+=(Quantity o) {
    value += o.value;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity o) {
    value -= o.value;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return {a.value + b.value}; }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return {a.value - b.value}; }
  friend constexpr Quantity operator-(Quantity a) { return {-a.value}; }
  friend constexpr Quantity operator*(Quantity a, Rep k) { return {a.value * k}; }
  friend constexpr Quantity operator*(Rep k, Quantity a) { return {a.value * k}; }
  friend constexpr Quantity operator/(Quantity a, Rep k) { return {a.value / k}; }
  friend constexpr Rep operator/(Quantity a, Quantity b) { return a.value / b.value; }
};

using Bytes = Quantity<struct BytesTag, int64_t>;
using Flops = Quantity<struct FlopsTag, double>;          // a multiply-add counts two
using Bandwidth = Quantity<struct BandwidthTag, double>;  // bytes per second, one direction
using FlopRate = Quantity<struct FlopRateTag, double>;    // floating-point operations per second
using Power = Quantity<struct PowerTag, double>;          // watts

// A price or a sum that no Time can hold: the user gave a rate that is far too low, or far too much
// work.
struct TimeTooLong : InputError {
  TimeTooLong();
};

// Seconds to picoseconds, rounded half up.  Throws TimeTooLong from 9.2e6 seconds (106 days) on, up
// or down.  REQUIRES: a number.
Time time_from_seconds(double seconds);

// Counts in formulas with rates.
constexpr double real(int64_t n) {
  return static_cast<double>(n);
}

constexpr double kSecondsOfADay = 86400;

constexpr double to_seconds(Time t) {
  return static_cast<double>(t.count()) * 1e-12;
}

// How long `bytes` take at `bandwidth`, `work` at `rate`; rounded half up.  Throws TimeTooLong.
// REQUIRES: bandwidth, rate > 0.
Time operator/(Bytes bytes, Bandwidth bandwidth);
Time operator/(Flops work, FlopRate rate);

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) {
  return {static_cast<int64_t>(n)};
}
constexpr Time operator""_ps(unsigned long long n) {
  return Time{static_cast<int64_t>(n)};
}
constexpr Time operator""_us(unsigned long long n) {
  return Time{static_cast<int64_t>(n) * 1'000'000};
}
}  // namespace literals

}  // namespace stepcast
