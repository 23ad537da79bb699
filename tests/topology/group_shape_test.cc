// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <numeric>
#include <ostream>
#include <random>

#include "sim/check.h"
#include "tests/topology/clusters.h"
#include "topology/cluster/group_shape.h"
#include "topology/nccl/collectives.h"

namespace stepcast {

void PrintTo(const GroupShape& s, std::ostream* out) {
  *out << s.ranks << " ranks, " << s.nodes << " nodes of " << s.ranks_per_node << ", tier "
       << s.tier << ", sharing " << s.sharing << ", blocks " << s.block_nodes[0] << " "
       << s.block_nodes[1] << " " << s.block_nodes[2] << ", fewest " << s.fewest_per_node;
}

}  // namespace stepcast

namespace stepcast::group_shape_test {
namespace {

using test::dgx_h100;
using test::grand_teton;

std::vector<int64_t> every(int64_t count, int64_t stride, int64_t first = 0) {
  std::vector<int64_t> ranks;
  for (int64_t i = 0; i < count; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

TEST(ShapeOf, GroupInsideANode) {
  EXPECT_EQ(shape_of(dgx_h100(4), every(8, 1, 8)), (GroupShape{8, 1, 8, -1, 1, {}}));
  EXPECT_EQ(shape_of(dgx_h100(4), every(1, 1, 5)), (GroupShape{1, 1, 1, -1, 1, {}}));
}

TEST(ShapeOf, OneRankANode) {
  EXPECT_EQ(shape_of(dgx_h100(4), every(4, 8, 3)), (GroupShape{4, 4, 1, 0, 1, {}}));
}

TEST(ShapeOf, UnevenGroupCountsTheFullestNode) {
  const std::vector<int64_t> ranks{6, 7, 8, 9, 10};
  EXPECT_EQ(shape_of(dgx_h100(2), ranks), (GroupShape{5, 2, 3, 0, 1, {}, 2}));
}

TEST(ShapeOf, CountsNodesInTheBlocksBelowItsTier) {
  const Cluster c = grand_teton(3072);
  // One rank a node over two racks of one pod.
  EXPECT_EQ(shape_of(c, every(4, 8)), (GroupShape{4, 4, 1, 1, 1, {2}}));
  // 64 ranks, 512 apart: 48 and 6 nodes a pod.
  EXPECT_EQ(shape_of(c, every(48, 512)), (GroupShape{48, 48, 1, 2, 1, {1, 6}}));
}

TEST(ShapeOf, TheFirstGpusAreAGroupLikeOthers) {
  for (const Cluster& c : {dgx_h100(40), grand_teton(3072)})
    for (const int64_t n : {1, 2, 7, 8, 9, 15, 16, 24, 63, 64, 100, 128, 129, 200, 256, 264, 320})
      EXPECT_EQ(shape_of_first(c, n), shape_of(c, every(n, 1))) << n;
  for (const int64_t n : {384, 1000, 1024, 3072, 3073, 6144, 20000, 24576}) {
    const Cluster c = grand_teton(3072);
    EXPECT_EQ(shape_of_first(c, n), shape_of(c, every(n, 1))) << n;
  }
}

TEST(ShapeOf, RefusesWhatIsNoGroupOfTheCluster) {
  const Cluster c = dgx_h100(1);
  EXPECT_THROW(shape_of(c, {}), InternalError);
  EXPECT_THROW(shape_of(c, every(9, 1)), InternalError);
  EXPECT_THROW(shape_of(c, std::vector<int64_t>{3, 1}), InternalError);
}

RankGrid grid(int64_t tp, int64_t dp, int64_t pp, std::string_view order = "tp-cp-ep-dp-pp") {
  return {tp, 1, dp, pp, parse_order(order)};
}

TEST(WorstShape, MegatronOnEightNodes) {
  const Cluster c = dgx_h100(8);
  const RankGrid g = grid(8, 2, 4);
  EXPECT_EQ(worst_shape(c, g, Axis::tp), (GroupShape{8, 1, 8, -1, 1, {}}));
  EXPECT_EQ(worst_shape(c, g, Axis::dp), (GroupShape{2, 2, 1, 0, 8, {}}));
  EXPECT_EQ(worst_shape(c, g, Axis::pp), (GroupShape{4, 4, 1, 0, 8, {}}));
  EXPECT_EQ(worst_shape(c, g, Axis::embedding), (GroupShape{2, 2, 1, 0, 8, {}}));
  EXPECT_EQ(worst_shape(c, g, Axis::model), (GroupShape{32, 4, 8, 0, 1, {}}));
}

TEST(WorstShape, GroupsOfAPcieNodeThatCrossItsSocketsAreCounted) {
  Cluster c = dgx_h100(2);
  EXPECT_EQ(worst_shape(c, grid(4, 4, 1), Axis::dp).crossing, 0) << "NVLink";
  c.node.intra = IntraKind::pcie;
  const auto crossing = [&](const RankGrid& g, Axis axis) {
    return worst_shape(c, g, axis).crossing;
  };
  EXPECT_EQ(crossing(grid(8, 2, 1), Axis::tp), 1);
  EXPECT_EQ(crossing(grid(4, 4, 1), Axis::tp), 0) << "a socket each";
  EXPECT_EQ(crossing(grid(4, 2, 2), Axis::dp), 4);
  EXPECT_EQ(crossing(grid(4, 4, 1), Axis::dp), 0) << "over nodes the NICs decide";
  c.node.cpus = 1;
  EXPECT_EQ(crossing(grid(4, 2, 2), Axis::dp), 0);
}

// 5 GPUs on 2 sockets: 3 and 2, in each node.
TEST(ShapeOf, CountsTheSocketsOfEachNodeByItself) {
  Cluster c = dgx_h100(3);
  c.node.intra = IntraKind::pcie;
  c.node.gpus = 5;
  for (const int64_t node : {0, 1, 2}) {
    const auto crossing = [&](int64_t a, int64_t b) {
      return shape_of(c, std::vector<int64_t>{5 * node + a, 5 * node + b}).crossing;
    };
    EXPECT_EQ(crossing(0, 2), 0) << node;
    EXPECT_EQ(crossing(2, 3), 1) << node;
    EXPECT_EQ(crossing(3, 4), 0) << node;
  }
}

// A socket without a GPU is none that a group could cross.
TEST(ShapeOf, SocketsMayOutnumberGpus) {
  Cluster c = dgx_h100(1);
  c.node.intra = IntraKind::pcie;
  c.node.gpus = 1;
  EXPECT_EQ(shape_of(c, std::vector<int64_t>{0}).crossing, 0);
}

TEST(WorstShape, AxisOfOneIsAGroupOfOne) {
  EXPECT_EQ(worst_shape(dgx_h100(1), grid(8, 1, 1), Axis::dp), (GroupShape{1, 1, 1, -1, 1, {}}));
  EXPECT_EQ(worst_shape(dgx_h100(1), grid(8, 1, 1), Axis::embedding).ranks, 1);
}

TEST(WorstShape, TakesTheGroupThatLeavesTheNode) {
  // tp 6 in nodes of 8: ranks 0-5 stay, 6-11 do not.
  const GroupShape s = worst_shape(dgx_h100(3), grid(6, 4, 1), Axis::tp);
  EXPECT_EQ(s.nodes, 2);
  EXPECT_EQ(s.ranks, 6);
  EXPECT_EQ(s.sharing, 2) << "ranks 6-11 and 12-17 meet on the second node";
}

TEST(WorstShape, EqualsTheWorstOfTheGroupsTakenOneByOne) {
  const Cluster c = grand_teton(64);
  std::mt19937 random(7);
  const std::vector<std::string> orders{"tp-cp-dp-pp", "pp-dp-cp-tp", "dp-tp-pp-cp", "cp-pp-tp-dp"};
  for (int i = 0; i < 60; ++i) {
    const auto factor = [&] { return 1 + static_cast<int64_t>(random() % 5); };
    const RankGrid g{factor(), factor(), factor(), 1 + factor() % 4,
                     parse_order(orders[static_cast<size_t>(i % 4)])};
    for (Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::model, Axis::embedding}) {
      if (g.size(axis) == 1) continue;
      const GroupShape worst = worst_shape(c, g, axis);
      Time longest{};
      for (int64_t r = 0; r < g.world(); ++r) {
        GroupShape s = shape_of(c, g.group(axis, r));
        if (s.nodes > 1) s.sharing = worst.sharing;
        const Bytes bytes{64 << 20};
        longest = std::max(longest, collective_cost(c, WorkKind::all_reduce, bytes, s).time);
      }
      EXPECT_EQ(collective_cost(c, WorkKind::all_reduce, {64 << 20}, worst).time, longest)
          << name_of(axis);
    }
  }
}

TEST(WorstShape, SixteenThousandRanks) {
  const Cluster c = grand_teton(2048);
  const RankGrid g = grid(8, 128, 16, "tp-cp-pp-dp");
  EXPECT_EQ(worst_shape(c, g, Axis::pp), (GroupShape{16, 16, 1, 1, 8, {2}}));
  // Model replicas of 16 nodes: 24 to a pod, so a dp group has 24 nodes in each full pod.
  const GroupShape dp = worst_shape(c, g, Axis::dp);
  EXPECT_EQ(dp.tier, 2);
  EXPECT_EQ(dp.sharing, 8);
  EXPECT_EQ(dp.block_nodes[0], 1);
  EXPECT_EQ(dp.block_nodes[1], 21);  // 128 / 6 pods
}

// Racks of two nodes: {0, 1}, {2, 3}.
TEST(WorstShape, FollowsTheListOfNodes) {
  const Cluster c = grand_teton(4);
  const RankGrid g = grid(8, 2, 2);
  EXPECT_EQ(worst_shape(c, g, Axis::pp), (GroupShape{2, 2, 1, 1, 8, {1}}));
  EXPECT_EQ(worst_shape(c, g, Axis::pp, {{0, 2, 1, 3}, 8}), (GroupShape{2, 2, 1, 0, 8, {}}));
  EXPECT_EQ(worst_shape(c, g, Axis::dp), (GroupShape{2, 2, 1, 0, 8, {}}));
  EXPECT_EQ(worst_shape(c, g, Axis::dp, {{0, 2, 1, 3}, 8}), (GroupShape{2, 2, 1, 1, 8, {1}}));
}

TEST(WorstShape, OfNodesListedInOrderOrBackwardsIsThatWithoutAList) {
  const Cluster c = grand_teton(4);
  const RankGrid g = grid(4, 4, 2);
  for (const Axis axis : {Axis::tp, Axis::dp, Axis::pp, Axis::embedding, Axis::model}) {
    const GroupShape without = worst_shape(c, g, axis);
    EXPECT_EQ(worst_shape(c, g, axis, {{0, 1, 2, 3}, 8}), without) << name_of(axis);
    EXPECT_EQ(worst_shape(c, g, axis, {{3, 2, 1, 0}, 8}), without) << name_of(axis);
  }
}

// tp 8, dp 8 on 8 nodes: experts over 32 ranks lie on 4 whole nodes, their replicas on two.
TEST(WorstShape, ExpertGroupsCutAcrossTensorAndDataParallelOnes) {
  RankGrid g = grid(8, 8, 1);
  g.ep = 32;
  const GroupShape experts = worst_shape(dgx_h100(8), g, Axis::ep);
  EXPECT_EQ(experts.ranks, 32);
  EXPECT_EQ(experts.nodes, 4);
  EXPECT_EQ(experts.ranks_per_node, 8);
  const GroupShape replicas = worst_shape(dgx_h100(8), g, Axis::edp);
  EXPECT_EQ(replicas.ranks, 2);
  EXPECT_EQ(replicas.nodes, 2);
}

TEST(WorstShape, NeedsAGpuForEveryRank) {
  EXPECT_THROW(worst_shape(dgx_h100(2), grid(8, 2, 1), Axis::tp, {{1}, 8}), InternalError);
  EXPECT_THROW(worst_shape(dgx_h100(1), grid(8, 2, 1), Axis::tp), InternalError);
}

}  // namespace
}  // namespace stepcast::group_shape_test
