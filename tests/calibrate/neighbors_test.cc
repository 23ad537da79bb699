// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/neighbors.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace stepcast::neighbors_test {
namespace {

Neighbor at(double x, double residual, bool derived = false) {
  return {{x, 0, 0, 0}, residual, derived};
}

Residual mean(const std::vector<Neighbor>& points, const Place& place, double prior) {
  std::array<Near, 8> near;
  const size_t count = NeighborIndex(points).nearest(place, near);
  return mean_residual(std::span(near).first(count), points, prior);
}

TEST(MeanResidual, OfNoPointsIsThePrior) {
  const Residual r = mean({}, {1, 2, 3, 4}, 0.25);
  EXPECT_EQ(r.value, 0.25);
  EXPECT_EQ(r.used, 0);
}

TEST(MeanResidual, AtAPointIsNearlyThatPoint) {
  EXPECT_NEAR(mean({at(0, 0.3), at(3, -0.5)}, {0, 0, 0, 0}, 0).value, 0.3, 0.001);
}

TEST(MeanResidual, BetweenEqualPointsIsBetweenThem) {
  EXPECT_NEAR(mean({at(-1, 0.2), at(1, 0.4)}, {0, 0, 0, 0}, 0.3).value, 0.3, 1e-12);
}

TEST(MeanResidual, FadesIntoThePrior) {
  EXPECT_GT(mean({at(0, 1)}, {1, 0, 0, 0}, 0).value, 0.95);
  EXPECT_LT(mean({at(0, 1)}, {30, 0, 0, 0}, 0).value, 0.05);
}

TEST(MeanResidual, IsDerivedIfDerivedPointsWeighMost) {
  EXPECT_FALSE(mean({at(1, 0), at(50, 0, true)}, {0, 0, 0, 0}, 0).derived);
  EXPECT_TRUE(mean({at(1, 0), at(0.5, 0, true)}, {0, 0, 0, 0}, 0).derived);
  EXPECT_FALSE(mean({}, {0, 0, 0, 0}, 0).derived);
}

// Many points on a lattice, so that there are ties, and some that are scattered.
std::vector<Neighbor> points_for_search() {
  std::vector<Neighbor> points;
  uint64_t state = 7;
  const auto next = [&](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  for (int i = 0; i < 3000; ++i) {
    const bool lattice = i % 3 != 0;
    Place p{};
    for (double& x : p) x = static_cast<double>(next(lattice ? 6 : 6000)) / (lattice ? 1 : 1000);
    points.push_back({p, 0, false});
  }
  return points;
}

TEST(NeighborIndex, FindsWhatLookingAtEveryPointFinds) {
  const std::vector<Neighbor> points = points_for_search();
  const NeighborIndex index(points);
  for (size_t q = 0; q < points.size(); q += 37) {
    const Place& place = points[q].at;
    const auto without = q % 2 == 0 ? NeighborIndex::kNone : static_cast<uint32_t>(q);
    std::vector<std::pair<double, uint32_t>> all;
    for (uint32_t i = 0; i < points.size(); ++i) {
      double d = 0;
      for (size_t k = 0; k < 4; ++k) {
        d += (points[i].at[k] - place[k]) * (points[i].at[k] - place[k]);
      }
      if (i != without) all.emplace_back(d, i);
    }
    std::sort(all.begin(), all.end());
    std::array<Near, 16> near;
    ASSERT_EQ(index.nearest(place, near, without), near.size());
    for (size_t i = 0; i < near.size(); ++i) {
      ASSERT_EQ(near[i].index, all[i].second) << q << " " << i;
      ASSERT_EQ(near[i].distance, all[i].first);
    }
  }
}

TEST(NeighborIndex, OfFewPointsYieldsThemAll) {
  const NeighborIndex index(std::vector{at(3, 0), at(1, 0), at(1, 0)});
  std::array<Near, 8> near;
  ASSERT_EQ(index.nearest({0, 0, 0, 0}, near), 3u);
  EXPECT_EQ(near[0].index, 1u);
  EXPECT_EQ(near[1].index, 2u);
  EXPECT_EQ(near[2].index, 0u);
  EXPECT_EQ(index.nearest({0, 0, 0, 0}, near, 1), 2u);
  EXPECT_EQ(index.nearest({0, 0, 0, 0}, std::span(near).first(0)), 0u);
  EXPECT_EQ(NeighborIndex().nearest({0, 0, 0, 0}, near), 0u);
}

}  // namespace
}  // namespace stepcast::neighbors_test
