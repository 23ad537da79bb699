// SPDX-License-Identifier: Apache-2.0
#include "sim/units.h"

#include <gtest/gtest.h>

#include <limits>
#include <stdexcept>

#include "sim/check.h"

namespace stepcast::units_test {
namespace {

using namespace literals;

TEST(Units, RoundSecondsToPicosecondsHalfUp) {
  EXPECT_EQ(time_from_seconds(0), 0_ps);
  EXPECT_EQ(time_from_seconds(1e-12), 1_ps);
  EXPECT_EQ(time_from_seconds(1.5e-12), 2_ps);
  EXPECT_EQ(time_from_seconds(2.5e-12), 3_ps);
  EXPECT_EQ(time_from_seconds(2.499e-12), 2_ps);
  EXPECT_EQ(time_from_seconds(-1.5e-12), Time{-1});
  EXPECT_EQ(time_from_seconds(3.25), Time{3'250'000'000'000});
}

TEST(Units, RefuseTimesThatAreNotFiniteOrTooLong) {
  EXPECT_THROW(time_from_seconds(std::numeric_limits<double>::quiet_NaN()), InternalError);
  EXPECT_THROW(time_from_seconds(std::numeric_limits<double>::infinity()), TimeTooLong);
  EXPECT_THROW(time_from_seconds(9.2e6), TimeTooLong);
  EXPECT_THROW(time_from_seconds(-9.2e6), TimeTooLong);
  EXPECT_NO_THROW(time_from_seconds(9.1e6));
}

TEST(Units, DivideAmountsByRates) {
  EXPECT_EQ(Bytes{50'000'000'000} / Bandwidth{50e9}, 1'000'000_us);
  EXPECT_EQ(Bytes{3} / Bandwidth{2e12}, 2_ps);  // 1.5 ps
  EXPECT_EQ(Flops{312e12} / FlopRate{312e12}, 1'000'000_us);
}

TEST(Units, RefuseAZeroRate) {
  EXPECT_THROW(Bytes{1} / Bandwidth{0}, InternalError);
  EXPECT_THROW(Flops{0} / FlopRate{0}, InternalError);
}

TEST(Units, TurnPicosecondsIntoSeconds) {
  EXPECT_DOUBLE_EQ(to_seconds(1_us), 1e-6);
  EXPECT_DOUBLE_EQ(to_seconds(Time{-2'000'000'000'000}), -2.0);
}

TEST(Units, QuantitiesAddScaleAndCompare) {
  Bytes b = 512_B;
  b += 8_B;
  b -= 20_B;
  EXPECT_EQ(b, 500_B);
  EXPECT_EQ(b * 3 - 2 * b, b);
  EXPECT_EQ(-b + b, Bytes{});
  EXPECT_EQ(b / int64_t{3}, 166_B);
  EXPECT_EQ(1000_B / b, 2);
  EXPECT_LT(b, 501_B);
}

}  // namespace
}  // namespace stepcast::units_test
