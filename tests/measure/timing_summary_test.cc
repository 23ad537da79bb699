// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/timing_summary.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sim/check.h"

namespace stepcast::measure::timing_summary_test {
namespace {

TEST(TimingSummary, IsTheMedianAndTheSpreadOfTheMiddleHalf) {
  const std::array us{10.0, 14.0, 11.0, 13.0, 12.0};
  const Timing t = summarize(us);
  EXPECT_DOUBLE_EQ(t.us, 12);
  EXPECT_DOUBLE_EQ(t.spread, (13.0 - 11.0) / 12);
  EXPECT_EQ(t.samples, 5);
}

TEST(TimingSummary, DoesNotMoveWithASingleOutlier) {
  const std::array us{10.0, 10.0, 10.0, 10.0, 10.0, 1000.0};
  EXPECT_DOUBLE_EQ(summarize(us).us, 10);
  EXPECT_DOUBLE_EQ(summarize(us).spread, 0);
}

TEST(TimingSummary, HoldsOneSampleAndRefusesNone) {
  EXPECT_DOUBLE_EQ(summarize(std::array{7.0}).us, 7);
  EXPECT_DOUBLE_EQ(summarize(std::array{7.0}).spread, 0);
  EXPECT_THROW(summarize({}), InternalError);
}

TEST(TimingSummary, IsStableOnceTwoBatchesInTurnAgree) {
  EXPECT_FALSE(is_stable(std::array{10.0}));
  EXPECT_FALSE(is_stable(std::array{10.0, 9.0}));
  EXPECT_TRUE(is_stable(std::array{20.0, 10.0, 9.9}));
  EXPECT_FALSE(is_stable(std::array{9.9, 9.9, 8.0}));
}

TEST(TimingSummary, BatchesShortCallsAndNotLongOnes) {
  EXPECT_EQ(calls_in_a_batch(0, 500), 500);
  EXPECT_EQ(calls_in_a_batch(0.5, 500), 500);
  EXPECT_EQ(calls_in_a_batch(10, 500), 50);
  EXPECT_EQ(calls_in_a_batch(499, 500), 1);
  EXPECT_EQ(calls_in_a_batch(1e6, 500), 1);
}

TEST(TimingSummary, TakesFewerSamplesOfLongCallsButFiveAtLeast) {
  const TimingOptions options{.samples = 20, .limit_seconds = 2};
  EXPECT_EQ(samples_within(500, options), 20);
  EXPECT_EQ(samples_within(200'000, options), 10);
  EXPECT_EQ(samples_within(10'000'000, options), 5);
  EXPECT_EQ(samples_within(0, options), 20);
  EXPECT_EQ(samples_within(10'000'000, {.samples = 3, .limit_seconds = 2}), 3);
}

}  // namespace
}  // namespace stepcast::measure::timing_summary_test
