// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit/fit.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/check.h"

namespace stepcast::fit_test {
namespace {

TEST(FitAlphaBeta, FindsTheLineItWasGiven) {
  std::vector<SizedTime> points;
  for (double bytes = 1024; bytes < 2e9; bytes *= 4) points.push_back({bytes, 12.5 + bytes / 2e5});
  const AlphaBeta f = fit_alpha_beta(points);
  EXPECT_NEAR(f.alpha_us, 12.5, 1e-8);
  EXPECT_NEAR(f.us_per_byte * 2e5, 1, 1e-9);
  EXPECT_LT(f.rms, 1e-12);
}

TEST(FitAlphaBeta, WeighsSmallSizesLikeLargeOnes) {
  // A bump of 20 % at the largest size must not move the latency by more than a few per cent.
  std::vector<SizedTime> points;
  for (double bytes = 1024; bytes < 2e9; bytes *= 4) points.push_back({bytes, 10 + bytes / 1e5});
  points.back().us *= 1.2;
  EXPECT_NEAR(fit_alpha_beta(points).alpha_us, 10, 0.3);
}

TEST(FitAlphaBeta, ReportsWhatItCannotExplain) {
  const std::vector<SizedTime> points{{1, 10}, {100, 20}, {10000, 10}};
  EXPECT_GT(fit_alpha_beta(points).rms, 0.1);
}

TEST(FitAlphaBeta, RefusesWhatIsNoLine) {
  EXPECT_THROW(fit_alpha_beta(std::vector<SizedTime>{{1, 1}}), InternalError);
  EXPECT_THROW(fit_alpha_beta(std::vector<SizedTime>{{7, 1}, {7, 2}}), InternalError);
  EXPECT_THROW(fit_alpha_beta(std::vector<SizedTime>{{1, 1}, {2, 0}}), InternalError);
}

TEST(FitAlphaBeta, OneOutlierByTenHardlyMovesTheLine) {
  for (size_t which = 0; which < 10; which += 3) {
    std::vector<SizedTime> points;
    for (double bytes = 1024; bytes < 1e9; bytes *= 4)
      points.push_back({bytes, (10 + bytes / 1e5) * (points.size() % 2 == 0 ? 1.01 : 0.99)});
    points[which].us *= 10;
    const AlphaBeta f = fit_alpha_beta(points);
    EXPECT_NEAR(f.alpha_us, 10, 0.2) << which;
    EXPECT_NEAR(f.us_per_byte * 1e5, 1, 0.03) << which;
    EXPECT_GT(f.rms, 0.2);  // the outlier is there all the same
  }
}

TEST(FitAlphaBeta, NeitherConstantIsNegative) {
  // Faster than in proportion: a line would begin below zero.
  const AlphaBeta rising = fit_alpha_beta(std::vector<SizedTime>{{100, 1}, {200, 3}, {300, 5}});
  EXPECT_EQ(rising.alpha_us, 0);
  EXPECT_GT(rising.us_per_byte, 0);
  const AlphaBeta falling = fit_alpha_beta(std::vector<SizedTime>{{100, 5}, {200, 4}, {300, 3}});
  EXPECT_EQ(falling.us_per_byte, 0);
  EXPECT_NEAR(falling.alpha_us, 4, 1);
  const AlphaBeta constant = fit_alpha_beta(std::vector<SizedTime>{{100, 5}, {200, 5}, {300, 5}});
  EXPECT_NEAR(constant.alpha_us, 5, 1e-9);
  EXPECT_NEAR(constant.us_per_byte, 0, 1e-12);
}

std::vector<KernelTime> smooth_points(double t0, double tflops, double gbs, double noise) {
  std::vector<KernelTime> points;
  int i = 0;
  for (double m = 64; m <= 16384; m *= 2) {
    for (double n = 1024; n <= 8192; n *= 2) {
      const double k = 4096;
      const double flops = 2 * m * n * k;
      const double bytes = 2 * (m * n + m * k + n * k);
      const double us = t0 + std::hypot(flops / tflops / 1e6, bytes / gbs / 1e3);
      points.push_back({flops, bytes, us * (i++ % 2 == 0 ? 1 + noise : 1 / (1 + noise))});
    }
  }
  return points;
}

TEST(FitSmoothRoofline, FindsTheConstantsItWasGiven) {
  const SmoothRoofline f = fit_smooth_roofline(smooth_points(5.3, 230, 1695, 0));
  EXPECT_NEAR(f.t0_us, 5.3, 1e-4);
  EXPECT_NEAR(f.tflops, 230, 1e-3);
  EXPECT_NEAR(f.gbs, 1695, 1e-2);
  EXPECT_LT(f.rms, 1e-6);
}

TEST(FitSmoothRoofline, AveragesNoiseAway) {
  const SmoothRoofline f = fit_smooth_roofline(smooth_points(5.7, 744, 3269, 0.05));
  EXPECT_NEAR(f.tflops / 744, 1, 0.02);
  EXPECT_NEAR(f.gbs / 3269, 1, 0.1);
  EXPECT_NEAR(f.rms, std::log(1.05), 0.005);
}

TEST(FitSmoothRoofline, KeepsConstantsPositiveWhereNothingDependsOnThem) {
  // Pure arithmetic, no overhead: bandwidth and t0 do not matter.
  std::vector<KernelTime> points;
  for (double flops = 1e10; flops < 1e14; flops *= 10) points.push_back({flops, 1, flops / 1e8});
  const SmoothRoofline f = fit_smooth_roofline(points);
  EXPECT_NEAR(f.tflops, 100, 0.1);
  EXPECT_GT(f.t0_us, 0);
  EXPECT_GT(f.gbs, 0);
}

TEST(FitSmoothRoofline, ErrorsTellWhichConstantsThePointsKnow) {
  const SmoothRoofline all = fit_smooth_roofline(smooth_points(5.3, 230, 1695, 0.02));
  EXPECT_LT(std::max({all.t0_error, all.tflops_error, all.gbs_error}), 0.1);
  std::vector<KernelTime> large;
  for (double flops = 1e12; flops < 1e14; flops *= 2)
    large.push_back({flops, flops / 1e4, flops / 1e8});
  const SmoothRoofline f = fit_smooth_roofline(large);
  EXPECT_GT(std::max(f.t0_error, f.gbs_error), 0.7);
}

TEST(FitKnownTerms, FitsWhatThePointsTellAndAssumesTheRest) {
  const SmoothRoofline all = fit_known_terms(smooth_points(5.3, 230, 1695, 0.02), {}, 2.5);
  EXPECT_NEAR(all.t0_us, 5.3, 0.5);
  EXPECT_NEAR(all.gbs / 1695, 1, 0.05);
  const SmoothRoofline one = fit_known_terms(std::vector<KernelTime>{{1e9, 1, 12.5}}, {}, 2.5);
  EXPECT_EQ(one.t0_us, 2.5);
  EXPECT_NEAR(one.tflops, 100, 1e-6);
  EXPECT_EQ(one.gbs, 0);
  // A kernel that takes less than what is assumed.
  const SmoothRoofline quick = fit_known_terms(std::vector<KernelTime>{{1e6, 1, 2}}, {}, 2.5);
  EXPECT_EQ(quick.t0_us, 1);
  EXPECT_NEAR(quick.tflops, 1, 1e-9);
  EXPECT_NEAR(fitted_us(one, {1e9, 1, 0}), 12.5, 1e-9);
}

TEST(FitSmoothRoofline, RefusesTooFewOrImpossiblePoints) {
  EXPECT_THROW(fit_smooth_roofline(std::vector<KernelTime>{{1, 1, 1}, {2, 2, 2}}), InternalError);
  EXPECT_THROW(fit_smooth_roofline(std::vector<KernelTime>{{1, 1, 1}, {2, 2, 2}, {3, 3, 0}}),
               InternalError);
}

}  // namespace
}  // namespace stepcast::fit_test
