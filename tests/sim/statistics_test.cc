// SPDX-License-Identifier: Apache-2.0
#include "sim/statistics.h"

#include <gtest/gtest.h>

#include "sim/units.h"

namespace stepcast::statistics_test {
namespace {

TEST(Quantiles, AreLinearBetweenSamplesTheNearestRankOrTheUpperSample) {
  const std::vector<double> samples{1, 2, 4, 8};
  EXPECT_EQ(interpolated_quantile(samples, 0.5), 3);
  EXPECT_EQ(interpolated_quantile(samples, 0.25), 1.75);
  EXPECT_EQ(interpolated_quantile(samples, 1), 8);
  EXPECT_EQ(upper_quantile({8, 1, 4, 2}, 0.5), 4);
  EXPECT_EQ(upper_quantile({8, 1, 4, 2}, 1), 8);
  EXPECT_EQ(median({8, 1, 4, 2}), 3);
  EXPECT_EQ(median({8, 1, 4}), 4);
  const std::vector<Time> times{Time{1}, Time{2}, Time{4}};
  EXPECT_EQ(nearest_rank<Time>(times, 50), Time{2});
  EXPECT_EQ(nearest_rank<Time>(times, 5), Time{1});
  EXPECT_EQ(nearest_rank<Time>(times, 95), Time{4});
}

TEST(Quantiles, OfWeightedSamplesCountTheWeight) {
  const std::vector<WeightedSample> samples{{1, 0.2}, {2, 0.3}, {3, 0.5}};
  EXPECT_EQ(weighted_quantile(samples, 0.5), 2);
  EXPECT_EQ(weighted_quantile(samples, 0.51), 3);
  EXPECT_EQ(weighted_quantile(samples, 0.1), 1);
}

TEST(Samples, AreSummedUpByMedianAndInterquartileRange) {
  const SampleSummary s = summarize_samples({4, 1, 2, 3, 5});
  EXPECT_EQ(s.median, 3);
  EXPECT_EQ(s.spread, 2.0 / 3);
  EXPECT_EQ(summarize_samples({7}).spread, 0);
}

}  // namespace
}  // namespace stepcast::statistics_test
