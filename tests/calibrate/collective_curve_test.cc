// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/collective_price.h"

#include <gtest/gtest.h>

#include "tests/topology/clusters.h"
#include "topology/nccl/collectives.h"

namespace stepcast::collective_curve_test {
namespace {

constexpr int64_t kMiB = 1 << 20;

double modelled_us(const Cluster& c, WorkKind kind, int64_t bytes, const GroupShape& s) {
  return 1e6 * to_seconds(collective_cost(c, kind, {bytes}, s).time);
}

GroupShape node_of_eight() {
  return {.ranks = 8, .nodes = 1, .ranks_per_node = 8, .tier = -1};
}

TEST(CollectiveCurve, AMachineOfAnotherLatencyAndBandwidthNeedsTwoPoints) {
  const Cluster c = test::dgx_h100(1);
  const GroupShape s = node_of_eight();
  const auto measured = [&](int64_t bytes) {
    return 12 + 1.3 * modelled_us(c, WorkKind::all_reduce, bytes, s);
  };
  const Curve curve{{kMiB, measured(kMiB)}, {kMiB << 10, measured(kMiB << 10)}};
  for (int64_t bytes = kMiB; bytes <= kMiB << 10; bytes *= 2) {
    const CurveValue v = collective_on(curve, WorkKind::all_reduce, {bytes}, s, c);
    EXPECT_NEAR(v.us / measured(bytes), 1, 1e-6) << bytes;
    EXPECT_EQ(v.origin,
              bytes == kMiB || bytes == kMiB << 10 ? Origin::measured : Origin::interpolated);
  }
}

TEST(CollectiveCurve, StaysBetweenItsNeighbours) {
  const Cluster c = test::dgx_h100(1);
  const Curve curve{{kMiB, 30}, {16 * kMiB, 200}, {64 * kMiB, 150}};
  double last = 30;
  for (int64_t bytes = kMiB; bytes < 16 * kMiB; bytes += kMiB / 2) {
    const double us = collective_on(curve, WorkKind::all_gather, {bytes}, node_of_eight(), c).us;
    EXPECT_GE(us, last);
    EXPECT_LE(us, 200);
    last = us;
  }
  const double falling =
      collective_on(curve, WorkKind::all_gather, {32 * kMiB}, node_of_eight(), c).us;
  EXPECT_GT(falling, 150);
  EXPECT_LT(falling, 200) << "measured times may fall where NCCL changes its algorithm";
}

// Outside the sizes that were measured the model goes on from the last one.
TEST(CollectiveCurve, MeetsTheModelWhereItEnds) {
  const Cluster c = test::dgx_h100(1);
  const GroupShape s = node_of_eight();
  const auto modelled = [&](int64_t bytes) {
    return modelled_us(c, WorkKind::all_reduce, bytes, s);
  };
  const Curve curve{{32 << 10, 1.5 * modelled(32 << 10)}, {64 * kMiB, 0.8 * modelled(64 * kMiB)}};
  const auto at = [&](int64_t bytes) {
    const CurveValue v = collective_on(curve, WorkKind::all_reduce, {bytes}, s, c);
    EXPECT_EQ(v.origin, Origin::extrapolated);
    return v.us;
  };
  for (int64_t bytes = 256; bytes < 32 << 10; bytes *= 4)
    EXPECT_NEAR(at(bytes) / modelled(bytes), 1.5, 1e-6) << bytes;
  EXPECT_NEAR(at((32 << 10) - 1) / curve[0].us, 1, 1e-3);
  for (int64_t bytes = 128 * kMiB; bytes <= 4096 * kMiB; bytes *= 4)
    EXPECT_NEAR(at(bytes) / modelled(bytes), 0.8, 1e-6) << bytes;
}

// What large messages take says nothing about latency, which stays the model's.
TEST(CollectiveCurve, OfLargeMessagesAloneFallsToTheModelsLatency) {
  const Cluster c = test::dgx_h100(1);
  const GroupShape s = node_of_eight();
  const double latency = modelled_us(c, WorkKind::all_reduce, 0, s);
  for (const double factor : {0.1, 0.7, 2.0}) {
    const Curve curve{{16 * kMiB, factor * modelled_us(c, WorkKind::all_reduce, 16 * kMiB, s)}};
    double last = curve[0].us;
    for (int64_t bytes = 16 * kMiB - 1; bytes > 8; bytes /= 2) {
      const double us = collective_on(curve, WorkKind::all_reduce, {bytes}, s, c).us;
      EXPECT_LE(us, last) << bytes;
      if (bytes > 15 * kMiB) {
        EXPECT_NEAR(us / last, 1, 1e-3);
      }
      last = us;
    }
    EXPECT_NEAR(last / std::min(latency, curve[0].us), 1, 1e-2) << factor;
  }
}

// Exchanges of 8 ranks go over to another protocol above 4 MiB, and get faster.
TEST(CollectiveCurve, FollowsTheModelThroughAChangeOfProtocol) {
  const Cluster c = test::dgx_h100(1);
  const GroupShape s = node_of_eight();
  const auto twice = [&](int64_t bytes) {
    return 2 * modelled_us(c, WorkKind::all_to_all, bytes, s);
  };
  const int64_t last_ll = 4 * kMiB, next = last_ll + kMiB / 4;
  ASSERT_LT(twice(next), twice(last_ll));
  const Curve curve{{last_ll, twice(last_ll)}, {next, twice(next)}};
  const int64_t between = last_ll + kMiB / 8;
  EXPECT_NEAR(collective_on(curve, WorkKind::all_to_all, {between}, s, c).us / twice(between), 1,
              1e-6);
}

}  // namespace
}  // namespace stepcast::collective_curve_test
