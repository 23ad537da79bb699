// SPDX-License-Identifier: Apache-2.0
#include "topology/traffic/step_traffic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/hand_graph.h"
#include "tests/topology/clusters.h"
#include "topology/cluster/build_graph.h"

namespace stepcast::step_traffic_test {
namespace {

using test::dgx_a100;
using test::dgx_h100;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One role of tp x dp ranks that runs each work once.
struct OneRole {
  HandGraph hand;
  RankGrid grid;
  std::vector<HandOp> ops;

  void run(Axis axis, Stream stream, double rate, WorkKind kind = WorkKind::all_reduce) {
    Work w = communication(axis);
    w.kind = kind;
    w.bytes = {int64_t{1} << 30};
    ops.push_back({static_cast<int64_t>(static_cast<double>(w.bytes.value) / rate * 1e12), stream,
                   Phase::forward, w});
  }
  Traffic traffic(const Cluster& c, const Placement& placement = {}) {
    hand.run(hand.role(), hand.pass(ops));
    return traffic_of(hand.graph, hand.prices, grid, placement, cluster_graph(c), {});
  }
  size_t work(size_t op) const { return static_cast<size_t>(hand.graph.passes[0].ops[op].work); }
};

TEST(Traffic, OfGroupsWithLinksOfTheirOwnIsPrivate) {
  OneRole step;
  step.grid = {.tp = 8, .dp = 2};
  step.run(Axis::tp, Stream::tp, 240e9);
  step.run(Axis::dp, Stream::dp, 24e9);
  const Traffic t = step.traffic(dgx_a100(2));
  EXPECT_THAT(t.capacity, IsEmpty());
  EXPECT_THAT(t.patterns, IsEmpty());
  EXPECT_THAT(t.pattern_of, Each(IsEmpty()));
  EXPECT_EQ(t.pattern_of.size(), step.hand.graph.works.size());
  EXPECT_EQ(t.latency.size(), step.hand.graph.works.size());
}

TEST(Traffic, OfGroupsThatShareANicHasItsLinks) {
  Cluster c = dgx_a100(2);
  c.node.nics = 1;
  c.node.pcie_bandwidth = c.node.cpu_bandwidth = {400e9};
  OneRole step;
  step.grid = {.tp = 8, .dp = 2};
  step.run(Axis::tp, Stream::tp, 240e9);
  step.run(Axis::dp, Stream::dp, 24e9);
  const Traffic t = step.traffic(c);
  EXPECT_THAT(t.pattern_of[step.work(0)], IsEmpty());
  const std::vector<uint32_t>& dp = t.pattern_of[step.work(1)];
  ASSERT_EQ(dp.size(), 16u);
  // Lane = tp + 8 dp: the two of a group have one pattern, the eight groups different ones.
  for (size_t tp = 0; tp < 8; ++tp) EXPECT_EQ(dp[tp], dp[tp + 8]);
  EXPECT_EQ(std::set<uint32_t>(dp.begin(), dp.end()).size(), 8u);
  EXPECT_EQ(t.patterns.size(), 8u);
  // The NICs' links, both ways at both nodes, of which all groups use all: one stands for them.
  EXPECT_THAT(t.capacity, ElementsAre(25'000'000'000));
  for (const auto& pattern : t.patterns) {
    ASSERT_EQ(pattern.size(), 1u);
    EXPECT_EQ(pattern[0].load, kFullLoad);  // 2 (n-1) / n
  }
}

TEST(Traffic, IsPrivateWhereTheLinkCarriesAllTogether) {
  Cluster c = dgx_a100(2);
  c.node.nics = 1;
  OneRole slow;
  slow.grid = {.tp = 8, .dp = 2};
  slow.run(Axis::dp, Stream::dp, 3e9);  // 8 x 3 < 25
  EXPECT_THAT(slow.traffic(c).patterns, IsEmpty());
  OneRole faster;
  faster.grid = slow.grid;
  faster.run(Axis::dp, Stream::dp, 3.2e9);
  EXPECT_EQ(faster.traffic(c).patterns.size(), 8u);
}

TEST(Traffic, OfOneGroupOnItsStreamIsPrivateOfTwoStreamsIsNot) {
  OneRole one;
  one.grid = {.tp = 1, .dp = 16};
  one.run(Axis::dp, Stream::dp, 200e9);
  one.run(Axis::dp, Stream::dp, 190e9, WorkKind::all_gather);
  EXPECT_THAT(one.traffic(dgx_a100(2)).patterns, IsEmpty());
  OneRole two;
  two.grid = one.grid;
  two.run(Axis::dp, Stream::dp, 200e9);
  two.run(Axis::dp, Stream::copy, 190e9, WorkKind::all_gather);
  EXPECT_EQ(two.traffic(dgx_a100(2)).patterns.size(), 2u);
}

TEST(Traffic, NeverSlowsAGroupThatIsAlone) {
  Cluster c = dgx_a100(2);
  c.node.nics = 1;
  OneRole step;
  step.grid = {.tp = 8, .dp = 2};
  step.run(Axis::dp, Stream::dp, 100e9);  // more than the NIC has
  const Traffic t = step.traffic(c);
  ASSERT_FALSE(t.patterns.empty());
  for (const auto& pattern : t.patterns) {
    for (const LinkUse& use : pattern)
      EXPECT_LE(100e9 * use.load / kFullLoad, static_cast<double>(t.capacity[use.link]));
  }
}

TEST(Traffic, LeavesOutWhatIsAllLatency) {
  Cluster c = dgx_a100(2);
  c.node.nics = 1;
  OneRole step;
  step.grid = {.tp = 8, .dp = 2};
  step.run(Axis::dp, Stream::dp, 24e9);
  step.run(Axis::dp, Stream::copy, 24e9, WorkKind::all_gather);
  step.hand.run(step.hand.role(), step.hand.pass(step.ops));
  Price& second = step.hand.prices.by_work[step.work(1)];
  second.latency = second.time * 200 / 201;
  const Traffic t =
      traffic_of(step.hand.graph, step.hand.prices, step.grid, {}, cluster_graph(c), {});
  EXPECT_FALSE(t.pattern_of[step.work(0)].empty());
  EXPECT_THAT(t.pattern_of[step.work(1)], IsEmpty());
  EXPECT_EQ(t.latency[step.work(1)], second.latency);
}

// The text of a price is for people: what is on which link follows from its algorithm alone.
TEST(Traffic, DoesNotReadTheTextOfAPrice) {
  Cluster c = dgx_a100(2);
  c.node.nics = 1;
  OneRole step;
  step.grid = {.tp = 8, .dp = 2};
  step.run(Axis::dp, Stream::dp, 24e9);
  step.hand.run(step.hand.role(), step.hand.pass(step.ops));
  const auto traffic = [&](Algorithm algorithm, const char* basis) {
    Price& price = step.hand.prices.by_work[step.work(0)];
    price.algorithm = algorithm;
    price.basis = basis;
    return traffic_of(step.hand.graph, step.hand.prices, step.grid, {}, cluster_graph(c), {});
  };
  const Traffic ring = traffic(Algorithm::ring, "ring LL128, 24 channels");
  const Traffic renamed = traffic(Algorithm::ring, "two-step NVLS tree Simple");
  EXPECT_EQ(ring.pattern_of, renamed.pattern_of);
  ASSERT_EQ(ring.patterns.size(), renamed.patterns.size());
  const auto loads = [](const Traffic& t) {
    std::vector<uint32_t> all;
    for (const auto& pattern : t.patterns)
      for (const LinkUse& use : pattern) all.push_back(use.load);
    return all;
  };
  EXPECT_EQ(loads(ring), loads(renamed));
  EXPECT_NE(loads(ring), loads(traffic(Algorithm::two_step, "ring LL128, 24 channels")));
}

// Two pipeline ranks on two nodes: many transfers each way, gradients in two groups.
TEST(Traffic, OfTransfersIsAtTheSender) {
  HandGraph hand;
  const RankGrid grid{.tp = 8, .pp = 2};
  Work w = communication(Axis::pp);
  w.bytes = {1 << 26};
  w.from = 0;
  w.to = 1;
  const WorkId forward = hand.work(4'000'000'000, w);
  std::swap(w.from, w.to);
  const WorkId backward = hand.work(4'000'000'000, w);
  for (int i = 0; i < 4; ++i) {
    hand.graph.rendezvous.push_back({forward, 2, LabelId{0}});
    hand.graph.rendezvous.push_back({backward, 2, LabelId{0}});
  }
  hand.graph.roles.resize(2);
  hand.graph.roles[1].pipeline_rank = 1;
  const Traffic t = traffic_of(hand.graph, hand.prices, grid, {}, cluster_graph(dgx_a100(2)), {});
  const auto& there = t.pattern_of[static_cast<size_t>(forward)];
  const auto& back = t.pattern_of[static_cast<size_t>(backward)];
  ASSERT_EQ(there.size(), 16u);
  ASSERT_EQ(back.size(), 16u);
  for (size_t lane = 0; lane < 8; ++lane) {
    EXPECT_NE(there[lane], Traffic::kPrivate);
    EXPECT_EQ(there[8 + lane], Traffic::kPrivate);
    EXPECT_EQ(back[lane], Traffic::kPrivate);
    EXPECT_NE(back[8 + lane], Traffic::kPrivate);
  }
  // Full duplex: nothing is on both ways.
  EXPECT_EQ(t.patterns.size(), 16u);
}

TEST(Traffic, FollowsTheListOfNodes) {
  Cluster c = dgx_a100(4);
  c.node.nics = 1;
  const ClusterGraph g = cluster_graph(c);
  OneRole step;
  step.grid = {.tp = 8, .dp = 2};
  step.run(Axis::dp, Stream::dp, 24e9);
  step.hand.run(step.hand.role(), step.hand.pass(step.ops));
  const LinkLoads loads =
      link_loads(step.hand.graph, step.hand.prices, step.grid, {{3, 1}, 8}, g, {});
  std::set<std::string> ends;
  for (const FullestLink& f : loads.fullest) ends.insert({f.from.substr(0, 2), f.to.substr(0, 2)});
  EXPECT_FALSE(ends.contains("n0"));
  EXPECT_FALSE(ends.contains("n2"));
  EXPECT_TRUE(ends.contains("n1") || ends.contains("n3"));
}

const LinkCrossing* row(const LinkLoads& loads, Axis axis, std::string_view links) {
  for (const LinkCrossing& c : loads.crossings) {
    if (c.axis == axis && c.links == links) return &c;
  }
  return nullptr;
}

TEST(LinkLoads, AreTheBytesOfAStepByAxisAndKindOfLink) {
  OneRole step;
  step.grid = {.tp = 8, .dp = 4};
  step.run(Axis::tp, Stream::tp, 240e9);
  step.run(Axis::dp, Stream::dp, 24e9);
  step.run(Axis::dp, Stream::dp, 24e9, WorkKind::all_gather);
  step.hand.run(step.hand.role(), step.hand.pass(step.ops));
  step.hand.run(0, PassId{0});  // everything twice
  const LinkLoads loads =
      link_loads(step.hand.graph, step.hand.prices, step.grid, {}, cluster_graph(dgx_a100(4)), {});
  const double gib = 1 << 30;
  const LinkCrossing* tp = row(loads, Axis::tp, "NVLink");
  ASSERT_NE(tp, nullptr);
  EXPECT_EQ(tp->groups, 4);
  EXPECT_EQ(tp->ranks, 8);
  EXPECT_EQ(tp->links_used, 64);
  EXPECT_EQ(tp->links_there, 64);
  EXPECT_EQ(tp->groups_per_link, 1);
  EXPECT_NEAR(tp->bytes, 2 * gib * 2 * 7 / 8, 1e-4 * gib);
  EXPECT_NEAR(tp->seconds, tp->bytes / 300e9, 1e-9);
  EXPECT_THAT(tp->kinds, ElementsAre(WorkKind::all_reduce));
  const LinkCrossing* dp = row(loads, Axis::dp, "NIC - leaf");
  ASSERT_NE(dp, nullptr);
  EXPECT_EQ(dp->groups, 8);
  EXPECT_EQ(dp->ranks, 4);
  EXPECT_EQ(dp->links_used, 64);
  EXPECT_NEAR(dp->bytes, 2 * gib * (2 + 1) * 3 / 4, 1e-4 * gib);
  EXPECT_THAT(dp->kinds, ElementsAre(WorkKind::all_reduce, WorkKind::all_gather));
  EXPECT_EQ(row(loads, Axis::dp, "NVLink"), nullptr);
  EXPECT_EQ(row(loads, Axis::tp, "NIC - leaf"), nullptr);
}

// With data-parallel ranks innermost it is the tensor-parallel groups that leave the node.
TEST(LinkLoads, FollowTheOrderOfRanks) {
  for (const bool dp_first : {false, true}) {
    OneRole step;
    step.grid = {.tp = 8, .dp = 8};
    if (dp_first) step.grid.order = {Axis::dp, Axis::cp, Axis::tp, Axis::pp};
    step.run(Axis::tp, Stream::tp, 20e9);
    step.run(Axis::dp, Stream::dp, 20e9);
    step.hand.run(step.hand.role(), step.hand.pass(step.ops));
    const LinkLoads loads = link_loads(step.hand.graph, step.hand.prices, step.grid, {},
                                       cluster_graph(dgx_a100(8)), {});
    EXPECT_EQ(row(loads, Axis::tp, "NIC - leaf") != nullptr, dp_first);
    EXPECT_EQ(row(loads, Axis::tp, "NVLink") != nullptr, !dp_first);
    EXPECT_EQ(row(loads, Axis::dp, "NIC - leaf") != nullptr, !dp_first);
    EXPECT_EQ(row(loads, Axis::dp, "NVLink") != nullptr, dp_first);
  }
}

TEST(LinkLoads, OfOversubscribedTiersAreFuller) {
  const auto seconds_up = [](double ratio) {
    Cluster c = dgx_h100(8);
    c.fabric.kind = FabricKind::clos;
    c.fabric.tiers = {{"rack", 16, 1}, {"spine", 64, ratio}};
    OneRole step;
    step.grid = {.tp = 8, .dp = 8};
    step.run(Axis::dp, Stream::dp, 40e9);
    step.hand.run(step.hand.role(), step.hand.pass(step.ops));
    const LinkLoads loads =
        link_loads(step.hand.graph, step.hand.prices, step.grid, {}, cluster_graph(c), {});
    const LinkCrossing* up = row(loads, Axis::dp, "rack - spine");
    return up == nullptr ? 0.0 : up->seconds;
  };
  EXPECT_GT(seconds_up(1), 0);
  EXPECT_GT(seconds_up(4), 1.5 * seconds_up(1));
}

TEST(LinkLoads, OfNothingAreNone) {
  HandGraph hand;
  hand.run(hand.role(), hand.pass_of(7));
  const LinkLoads loads =
      link_loads(hand.graph, hand.prices, {}, {}, cluster_graph(dgx_a100(1)), {});
  EXPECT_THAT(loads.crossings, IsEmpty());
  EXPECT_THAT(loads.fullest, IsEmpty());
}

}  // namespace
}  // namespace stepcast::step_traffic_test
