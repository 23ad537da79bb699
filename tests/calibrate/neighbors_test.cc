// SPDX-License-Identifier: Apache-2.0
#include "calibrate/neighbors.h"

#include <gtest/gtest.h>

#include <vector>

namespace stepcast {
namespace {

Neighbor at(double x, double residual, bool derived = false) {
  return {{x, 0, 0, 0}, residual, derived};
}

TEST(NearestResidual, OfNoPointsIsThePrior) {
  const Residual r = nearest_residual({}, {1, 2, 3, 4}, Falloff::square, 0.25);
  EXPECT_EQ(r.value, 0.25);
  EXPECT_EQ(r.used, 0);
}

TEST(NearestResidual, AtAPointIsNearlyThatPoint) {
  const std::vector<Neighbor> points{at(0, 0.3), at(3, -0.5)};
  EXPECT_NEAR(nearest_residual(points, {0, 0, 0, 0}, Falloff::square, 0).value, 0.3, 0.01);
  EXPECT_NEAR(nearest_residual(points, {0, 0, 0, 0}, Falloff::fourth, 0).value, 0.3, 0.001);
}

TEST(NearestResidual, BetweenEqualPointsIsBetweenThem) {
  const std::vector<Neighbor> points{at(-1, 0.2), at(1, 0.4)};
  EXPECT_NEAR(nearest_residual(points, {0, 0, 0, 0}, Falloff::square, 0.3).value, 0.3, 1e-12);
}

TEST(NearestResidual, FadesIntoThePrior) {
  const std::vector<Neighbor> points{at(0, 1)};
  const double near = nearest_residual(points, {1, 0, 0, 0}, Falloff::square, 0).value;
  const double far = nearest_residual(points, {30, 0, 0, 0}, Falloff::square, 0).value;
  EXPECT_GT(near, 0.85);
  EXPECT_LT(far, 0.05);
}

TEST(NearestResidual, UsesTheEightNearestWhateverTheirOrder) {
  std::vector<Neighbor> points;
  for (int i = 20; i >= 1; --i) points.push_back(at(i, i > 8 ? 100 : 0.1));
  const Residual down = nearest_residual(points, {0, 0, 0, 0}, Falloff::square, 0.1);
  std::vector<Neighbor> turned(points.rbegin(), points.rend());
  const Residual up = nearest_residual(turned, {0, 0, 0, 0}, Falloff::square, 0.1);
  EXPECT_EQ(down.used, 8);
  EXPECT_NEAR(down.value, 0.1, 1e-12);
  EXPECT_EQ(up.value, down.value);
  EXPECT_EQ(down.nearest, 1);
}

TEST(NearestResidual, SaysIfADerivedPointEntered) {
  std::vector<Neighbor> points;
  for (int i = 1; i <= 8; ++i) points.push_back(at(i, 0));
  points.push_back(at(50, 0, true));  // ninth: too far to enter
  EXPECT_FALSE(nearest_residual(points, {0, 0, 0, 0}, Falloff::square, 0).derived);
  points.push_back(at(0.5, 0, true));
  EXPECT_TRUE(nearest_residual(points, {0, 0, 0, 0}, Falloff::square, 0).derived);
}

}  // namespace
}  // namespace stepcast
