// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/collectives/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace stepcast::measure::collectives_plan_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// `per_node[i]` ranks on node i, one process each.
std::vector<RankPlace> ranks_on(const std::vector<int>& per_node) {
  std::vector<RankPlace> ranks;
  for (size_t node = 0; node < per_node.size(); ++node) {
    for (int i = 0; i < per_node[node]; ++i) {
      ranks.push_back({static_cast<int>(ranks.size()), i, static_cast<int>(node)});
    }
  }
  return ranks;
}

TEST(CollectivesPlan, OneNodeIsMeasuredInPowersOfTwoAndWhole) {
  EXPECT_THAT(rank_groups(ranks_on({8})),
              ElementsAre(RankGroup{1, 8}, RankGroup{1, 4}, RankGroup{1, 2}));
  EXPECT_THAT(rank_groups(ranks_on({6})),
              ElementsAre(RankGroup{1, 6}, RankGroup{1, 4}, RankGroup{1, 2}));
}

TEST(CollectivesPlan, OneGpuHasNothingToMeasure) {
  EXPECT_THAT(rank_groups(ranks_on({1})), IsEmpty());
  EXPECT_THAT(rank_groups({}), IsEmpty());
  EXPECT_THAT(collective_points(1, true), IsEmpty());
  EXPECT_THAT(collective_points(0, true), IsEmpty());
}

TEST(CollectivesPlan, GroupsSpanNodesWithOneRankAndMoreOfEach) {
  EXPECT_THAT(rank_groups(ranks_on({2, 2, 2})),
              ElementsAre(RankGroup{3, 2}, RankGroup{2, 2}, RankGroup{3, 1}, RankGroup{2, 1},
                          RankGroup{1, 2}));
}

TEST(CollectivesPlan, UnequalNodesCountAsTheSmallest) {
  EXPECT_THAT(rank_groups(ranks_on({8, 2})),
              ElementsAre(RankGroup{2, 2}, RankGroup{2, 1}, RankGroup{1, 2}));
}

TEST(CollectivesPlan, AGroupTakesTheFirstRanksOfEachNode) {
  const auto ranks = ranks_on({4, 4});
  EXPECT_THAT(members_of({2, 2}, ranks), ElementsAre(0, 1, 4, 5));
  EXPECT_THAT(members_of({1, 4}, ranks), ElementsAre(0, 1, 2, 3));
}

TEST(CollectivesPlan, AGroupThatIsNotThereHasNoMembers) {
  const auto ranks = ranks_on({4, 4});
  EXPECT_THAT(members_of({2, 8}, ranks), IsEmpty());
  EXPECT_THAT(members_of({3, 1}, ranks), IsEmpty());
}

TEST(CollectivesPlan, SizesAreDenserWhereTheCurveBends) {
  const auto full = size_ladder(kLargestMessage, true);
  EXPECT_EQ(full.front(), 8);
  EXPECT_EQ(full.back(), int64_t{4} << 30);
  EXPECT_TRUE(std::is_sorted(full.begin(), full.end()));
  for (int64_t bytes = 8; bytes <= kLargestMessage; bytes *= 2) {
    EXPECT_EQ(std::count(full.begin(), full.end(), bytes), 1) << bytes;
  }
  EXPECT_EQ(std::count(full.begin(), full.end(), 3 << 20), 1);
  EXPECT_EQ(std::count(full.begin(), full.end(), 12), 0);
  EXPECT_EQ(std::count(full.begin(), full.end(), int64_t{3} << 30), 0);
  EXPECT_LE(2 * size_ladder(kLargestMessage, false).size(), full.size());
}

TEST(CollectivesPlan, NoSizeIsBeyondTheLargest) {
  EXPECT_THAT(size_ladder(100, true), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(size_ladder(40000, false), ElementsAre(8, 32, 128, 512, 2048, 8192, 32768));
  EXPECT_THAT(size_ladder(7, true), IsEmpty());
}

TEST(CollectivesPlan, BytesAreThoseOfNcclTests) {
  const auto counts = [](WorkKind kind) {
    const ElementCounts c = element_counts(kind, 8, 1 << 20);
    return std::pair(c.send, c.receive);
  };
  constexpr int64_t kAll = (1 << 20) / 2;
  EXPECT_EQ(counts(WorkKind::all_reduce), std::pair(kAll, kAll));
  EXPECT_EQ(counts(WorkKind::broadcast), std::pair(kAll, kAll));
  EXPECT_EQ(counts(WorkKind::send_recv), std::pair(kAll, kAll));
  EXPECT_EQ(counts(WorkKind::all_to_all), std::pair(kAll, kAll));
  EXPECT_EQ(counts(WorkKind::all_gather), std::pair(kAll / 8, kAll));
  EXPECT_EQ(counts(WorkKind::reduce_scatter), std::pair(kAll, kAll / 8));
}

TEST(CollectivesPlan, SizesAreRoundedUpToWholeElementsOfEachRank) {
  EXPECT_EQ(measurable_bytes(WorkKind::all_gather, 6, 8), 12);
  EXPECT_EQ(measurable_bytes(WorkKind::all_reduce, 6, 8), 8);
  EXPECT_EQ(measurable_bytes(WorkKind::all_reduce, 6, 9), 10);
  EXPECT_EQ(measurable_bytes(WorkKind::all_to_all, 8, 0), 16);
}

TEST(CollectivesPlan, TheGridHasEachKindGroupAndSizeOnce) {
  const auto points = collective_points(8, true);
  std::set<std::string> keys;
  double weight = 0;
  for (const SweepPoint& p : points) {
    EXPECT_TRUE(keys.insert(p.key).second) << p.key;
    EXPECT_EQ(p.nic_gbs, 0);
    EXPECT_GT(p.expected_us, 0);
    weight += p.weight;
  }
  EXPECT_NEAR(weight, 1, 1e-9);
  for (const char* key :
       {"collective,all_reduce,8,1,8,0,1048576", "collective,all_gather,4,1,4,0,4294967296",
        "collective,reduce_scatter,2,1,2,0,8", "collective,broadcast,8,1,8,0,8",
        "collective,all_to_all,8,1,8,0,16", "collective,send_recv,2,1,2,0,8"}) {
    EXPECT_TRUE(keys.count(key)) << key;
  }
}

TEST(CollectivesPlan, OnlyGroupsThatSpanNodesHaveNics) {
  const auto points = collective_grid(rank_groups(ranks_on({2, 2})), 50, 8, true);
  EXPECT_TRUE(std::any_of(points.begin(), points.end(), [](const SweepPoint& p) {
    return p.key == "collective,all_reduce,4,2,2,50,8";
  }));
  EXPECT_TRUE(std::any_of(points.begin(), points.end(), [](const SweepPoint& p) {
    return p.key == "collective,all_reduce,2,1,2,0,8";
  }));
}

PlanRow planned(WorkKind kind, int64_t nodes, int64_t per_node, int64_t bytes, double weight) {
  PlanRow row;
  row.work.kind = kind;
  row.work.bytes = Bytes{bytes};
  row.ranks = nodes * per_node;
  row.nodes = nodes;
  row.ranks_per_node = per_node;
  row.nic_gbs = nodes > 1 ? 50 : 0;
  row.weight = weight;
  row.origin = Origin::interpolated;
  return row;
}

TEST(CollectivesPlan, ThePlansOwnSizesAreMeasured) {
  PlanText plan;
  plan.rows = {planned(WorkKind::all_reduce, 1, 4, 50331648, 0.25),
               planned(WorkKind::all_gather, 2, 1, 1001, 0.125)};
  std::vector<std::string> left_out;
  const auto points = planned_collectives(plan, ranks_on({4, 4}), 25, left_out);
  ASSERT_THAT(points, SizeIs(2));
  EXPECT_EQ(points[0].key, "collective,all_reduce,4,1,4,0,50331648");
  EXPECT_EQ(points[0].weight, 0.25);
  EXPECT_EQ(points[0].origin, Origin::interpolated);
  // The NICs are those of this machine.
  EXPECT_EQ(points[1].key, "collective,all_gather,2,2,1,25,1004");
  EXPECT_THAT(left_out, IsEmpty());
}

TEST(CollectivesPlan, GroupsOfThePlanThatAreNotHereAreToldOnce) {
  PlanText plan;
  plan.rows = {planned(WorkKind::all_reduce, 8, 8, 1024, 0.5),
               planned(WorkKind::all_gather, 8, 8, 2048, 0.5)};
  PlanRow irregular = planned(WorkKind::all_reduce, 2, 4, 64, 0.1);
  irregular.ranks = 6;  // 4 on one node and 2 on the other
  plan.rows.push_back(irregular);
  PlanRow gemm;
  gemm.work.kind = WorkKind::gemm;
  plan.rows.push_back(gemm);
  std::vector<std::string> left_out;
  EXPECT_THAT(planned_collectives(plan, ranks_on({8}), 0, left_out), IsEmpty());
  EXPECT_THAT(left_out, ElementsAre(HasSubstr("64 ranks on 8 nodes are not here"),
                                    HasSubstr("6 ranks on 2 nodes are not here")));
}

}  // namespace
}  // namespace stepcast::measure::collectives_plan_test
