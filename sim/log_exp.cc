// SPDX-License-Identifier: Apache-2.0
#include "sim/log_exp.h"

#include <bit>
#include <cstdint>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr double kLn2 = 0.6931471805599453094;
constexpr double kTwoOverLn2 = 2.8853900817779268147;
constexpr int64_t kMantissaBits = 52;
constexpr int64_t kBias = 1023;

}  // namespace

double exact_log2(double x) {
  STEPCAST_CHECK(x > 0 && x <= 1.7976931348623157e308, "logarithm of a number out of range");
  int64_t exponent = 0;
  if (x < 2.2250738585072014e-308) {  // subnormal
    x *= 18014398509481984.0;         // 2^54
    exponent = -54;
  }
  const auto bits = std::bit_cast<uint64_t>(x);
  exponent += static_cast<int64_t>(bits >> kMantissaBits) - kBias;
  const uint64_t mantissa = bits & ((uint64_t{1} << kMantissaBits) - 1);
  double m = std::bit_cast<double>(mantissa | (static_cast<uint64_t>(kBias) << kMantissaBits));
  if (m > 1.4142135623730951) {  // to [1/sqrt 2, sqrt 2], where the series is shortest
    m *= 0.5;
    ++exponent;
  }
  // log2 m = 2 / ln 2 * (s + s^3/3 + s^5/5 + ...),  |s| <= 0.1716
  const double s = (m - 1) / (m + 1);
  const double q = s * s;
  double sum = 0;
  for (int i = 23; i >= 1; i -= 2) sum = sum * q + 1.0 / i;
  return static_cast<double>(exponent) + kTwoOverLn2 * s * sum;
}

double exact_exp2(double x) {
  STEPCAST_CHECK(x >= -1000 && x <= 1000, "exponent out of range");
  // 2^x = 2^n e^y,  n the nearest integer, |y| <= ln 2 / 2
  auto n = static_cast<int64_t>(x >= 0 ? x + 0.5 : x - 0.5);
  const double y = (x - static_cast<double>(n)) * kLn2;
  double sum = 1;
  for (int i = 14; i >= 1; --i) sum = 1 + sum * y / i;
  return sum * std::bit_cast<double>(static_cast<uint64_t>(n + kBias) << kMantissaBits);
}

}  // namespace stepcast
