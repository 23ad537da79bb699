// SPDX-License-Identifier: Apache-2.0
#include "sim/log_exp.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "sim/check.h"

namespace stepcast::log_exp_test {
namespace {

// Numbers spread evenly over the logarithm, from a linear congruential generator.
template <class F>
void for_many(double low_exponent, double high_exponent, F f) {
  uint64_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double u = static_cast<double>(state >> 11) * 0x1p-53;
    f(low_exponent + (high_exponent - low_exponent) * u);
  }
}

TEST(ExactLog2, AgreesWithLibm) {
  for_many(-300, 300, [](double e) {
    const double x = std::exp2(e);
    EXPECT_NEAR(exact_log2(x), std::log2(x), 1e-13 * std::max(1.0, std::fabs(e))) << x;
  });
  for_many(-0.6, 0.6, [](double e) {
    const double x = std::exp2(e);
    EXPECT_NEAR(exact_log2(x), std::log2(x), 1e-14) << x;
  });
}

TEST(ExactLog2, IsExactAtPowersOfTwo) {
  for (int e = -1074; e <= 1023; ++e) EXPECT_EQ(exact_log2(std::ldexp(1.0, e)), e);
}

TEST(ExactLog2, GrowsWithItsArgumentAcrossTheSwitchOfReduction) {
  const double border = 1.4142135623730951;
  double x = border - 1e-14;
  double last = exact_log2(x);
  for (int i = 0; i < 100; ++i) {
    x += 2.3e-16;
    EXPECT_GE(exact_log2(x) - last, -2e-16);
    last = exact_log2(x);
  }
}

TEST(ExactExp2, AgreesWithLibm) {
  for_many(-999, 999, [](double x) { EXPECT_NEAR(exact_exp2(x) / std::exp2(x), 1, 1e-13) << x; });
  for_many(-2, 2, [](double x) { EXPECT_NEAR(exact_exp2(x) / std::exp2(x), 1, 1e-15) << x; });
}

TEST(ExactExp2, IsExactAtWholeNumbers) {
  for (int e = -1000; e <= 1000; ++e) EXPECT_EQ(exact_exp2(e), std::ldexp(1.0, e));
}

TEST(ExactExp2, InvertsLog2) {
  for_many(-50, 50, [](double e) {
    const double x = std::exp2(e);
    EXPECT_NEAR(exact_exp2(exact_log2(x)) / x, 1, 1e-12);
  });
}

constexpr double kLog2Of3 = 0x1.95c01a39fbd68p+0;
constexpr double kLog2Of12288 = 0x1.b2b803473f7adp+3;
constexpr double kExp2Of03 = 0x1.3b2c47bff8329p+0;
constexpr double kExp2OfM777 = 0x1.2c3ee9468e86ap-8;

// The same bits from every compiler and at every optimisation level.
TEST(ExactLogExp, HaveTheseBits) {
  EXPECT_EQ(std::bit_cast<uint64_t>(exact_log2(3.0)), std::bit_cast<uint64_t>(kLog2Of3));
  EXPECT_EQ(std::bit_cast<uint64_t>(exact_log2(12288.0)), std::bit_cast<uint64_t>(kLog2Of12288));
  EXPECT_EQ(std::bit_cast<uint64_t>(exact_exp2(0.3)), std::bit_cast<uint64_t>(kExp2Of03));
  EXPECT_EQ(std::bit_cast<uint64_t>(exact_exp2(-7.77)), std::bit_cast<uint64_t>(kExp2OfM777));
}

TEST(ExactLogExp, RefuseWhatHasNoValue) {
  EXPECT_THROW(exact_log2(0), InternalError);
  EXPECT_THROW(exact_log2(-1), InternalError);
  EXPECT_THROW(exact_log2(std::nan("")), InternalError);
  EXPECT_THROW(exact_log2(std::numeric_limits<double>::infinity()), InternalError);
  EXPECT_THROW(exact_exp2(1001), InternalError);
  EXPECT_THROW(exact_exp2(std::nan("")), InternalError);
}

}  // namespace
}  // namespace stepcast::log_exp_test
