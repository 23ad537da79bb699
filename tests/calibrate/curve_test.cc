// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/curve.h"

#include <gtest/gtest.h>

#include "sim/check.h"

namespace stepcast::curve_test {
namespace {

const Curve kCurve{{1024, 10, false}, {4096, 20, false}, {16384, 80, true}};

TEST(Curve, GivesMeasuredPointsBack) {
  EXPECT_EQ(value_on(kCurve, 4096, 5).us, 20);
  EXPECT_EQ(value_on(kCurve, 4096, 5).origin, Origin::measured);
  EXPECT_EQ(value_on(kCurve, 16384, 5).us, 80);
  EXPECT_EQ(value_on(kCurve, 16384, 5).origin, Origin::extrapolated);  // a derived point
}

TEST(Curve, InterpolatesInLogarithms) {
  EXPECT_NEAR(value_on(kCurve, 2048, 5).us, 14.142135623730951, 1e-9);
  EXPECT_EQ(value_on(kCurve, 2048, 5).origin, Origin::interpolated);
  EXPECT_NEAR(value_on(kCurve, 8192, 5).us, 40, 1e-9);
  EXPECT_EQ(value_on(kCurve, 8192, 5).origin, Origin::extrapolated);  // beside a derived point
}

TEST(Curve, GoesOnAboveWithTheLastBandwidth) {
  // 60 us for the last 12288 bytes.
  const CurveValue v = value_on(kCurve, 16384 + 12288, 5);
  EXPECT_NEAR(v.us, 140, 1e-9);
  EXPECT_EQ(v.origin, Origin::extrapolated);
}

TEST(Curve, NeverGetsFreeAboveALastPointThatIsFasterThanTheOneBefore) {
  const Curve dip{{1000, 50, false}, {2000, 40, false}};
  EXPECT_NEAR(value_on(dip, 4000, 1).us, 40 + 2000 * 0.01, 1e-9);
}

TEST(Curve, FallsToTheFloorBelow) {
  EXPECT_NEAR(value_on(kCurve, 512, 5).us, 7.5, 1e-9);
  EXPECT_NEAR(value_on(kCurve, 1, 5).us, 5.005, 1e-2);
  EXPECT_NEAR(value_on(kCurve, 1, 1e9).us, 10, 1e-9);  // a floor above the first point
}

TEST(Curve, OfOnePointIsALine) {
  const Curve one{{1000, 12, false}};
  EXPECT_NEAR(value_on(one, 500, 2).us, 7, 1e-9);
  EXPECT_NEAR(value_on(one, 3000, 2).us, 36, 1e-9);
}

TEST(Curve, RefusesNothing) {
  EXPECT_THROW(value_on({}, 1, 0), InternalError);
  EXPECT_THROW(value_on(kCurve, 0, 0), InternalError);
}

}  // namespace
}  // namespace stepcast::curve_test
