// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/fabric.h"

#include <gtest/gtest.h>

#include "sim/check.h"
#include "tests/topology/clusters.h"

namespace stepcast::fabric_test {
namespace {

using test::dgx_a100;
using test::dgx_h100;
using test::grand_teton;

TEST(FabricTiers, RailFabricOfA100SuperPodHasTwentyNodesBelowALeaf) {
  const auto one = fabric_tiers(dgx_a100(20));
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].size, 160);
  const auto two = fabric_tiers(dgx_a100(100));
  ASSERT_EQ(two.size(), 2u);
  EXPECT_EQ(two[0].size, 160);
  EXPECT_EQ(two[1].size, 800) << "a spine of 40 ports joins 5 units of 8 leaves";
}

TEST(FabricTiers, MoreLeavesThanASpineHasPortsNeedACore) {
  const auto three = fabric_tiers(dgx_a100(140));
  ASSERT_EQ(three.size(), 3u);
  EXPECT_EQ(three[1].size, 160 * 20);
  EXPECT_EQ(route_of(dgx_a100(140), 0, 1112).switches, 3) << "pods are of one rail's spines";
}

TEST(FabricTiers, RailFabricOfH100SuperPodHasUnitsOf256) {
  const auto tiers = fabric_tiers(dgx_h100(2048));
  ASSERT_EQ(tiers.size(), 3u);
  EXPECT_EQ(tiers[0].size, 256);
  EXPECT_EQ(tiers[1].size, 256 * 32);
  EXPECT_GE(tiers[2].size, 16384);
}

TEST(FabricTiers, LeafWithoutRailsTakesAllNicsOfANode) {
  Cluster c = dgx_h100(16);
  c.fabric.kind = FabricKind::fat_tree;
  EXPECT_EQ(fabric_tiers(c)[0].size, 32);  // 32 ports down / 8 NICs = 4 nodes
  c.node.nics = 64;
  EXPECT_EQ(fabric_tiers(c)[0].size, 8) << "at least one node";
}

TEST(FabricTiers, OversubscribedLeafHasMorePortsDown) {
  Cluster c = dgx_h100(512);
  c.fabric.oversubscription = 3;
  const auto tiers = fabric_tiers(c);
  EXPECT_EQ(tiers[0].size, 48 * 8);
  EXPECT_EQ(oversubscription_into(tiers, 0), 1);
  EXPECT_EQ(oversubscription_into(tiers, 1), 3);
}

TEST(FabricTiers, RatiosOfGivenTiersMultiplyAndTheLastHoldsTheCluster) {
  Cluster c = grand_teton(4000);
  c.fabric.tiers[1].oversubscription = 2;
  const auto tiers = fabric_tiers(c);
  EXPECT_EQ(oversubscription_into(tiers, 0), 1);
  EXPECT_EQ(oversubscription_into(tiers, 1), 2);
  EXPECT_EQ(oversubscription_into(tiers, 2), 14);
  EXPECT_EQ(tiers.back().size, 32000);
}

TEST(FabricTiers, MoreThanFourOrEmptyTiersAreBugs) {
  Cluster c = grand_teton(10);
  c.fabric.tiers.resize(5, {"more", 1 << 20, 1});
  EXPECT_THROW(fabric_tiers(c), InternalError);
  c.fabric.tiers = {{"nothing", 0, 1}};
  EXPECT_THROW(fabric_tiers(c), InternalError);
}

TEST(RouteOf, CountsTiersAndSwitches) {
  const Cluster c = grand_teton(3072);
  EXPECT_EQ(route_of(c, 0, 7).tier, -1);
  EXPECT_EQ(route_of(c, 0, 7).switches, 0);
  EXPECT_EQ(route_of(c, 0, 8).tier, 0);
  EXPECT_EQ(route_of(c, 0, 8).switches, 1);
  EXPECT_EQ(route_of(c, 0, 16).tier, 1);
  EXPECT_EQ(route_of(c, 0, 3071).switches, 3);
  EXPECT_EQ(route_of(c, 0, 3072).tier, 2);
  EXPECT_EQ(route_of(c, 0, 3072).switches, 5);
  EXPECT_EQ(route_of(c, 0, 3072).oversubscription, 7);
}

TEST(RouteOf, HasBandwidthAndLatencyOfItsLinks) {
  const Cluster c = dgx_h100(64);
  const Route inside = route_of(c, 0, 1);
  EXPECT_EQ(inside.bandwidth.value, 450e9);
  EXPECT_EQ(inside.latency, test::microseconds(0.9));
  const Route leaf = route_of(c, 0, 8);
  EXPECT_EQ(leaf.bandwidth.value, 50e9);
  EXPECT_EQ(leaf.latency, test::microseconds(2.2));
  const Route spine = route_of(c, 0, 256);
  EXPECT_EQ(spine.latency, test::microseconds(2.6));
  EXPECT_EQ(route_of(c, 0, 9).latency, test::microseconds(3.1)) << "other rail: NVLink first";
}

TEST(RouteOf, GpusShareTheNicsOfTheirNode) {
  Cluster c = dgx_a100(2);
  c.node.nics = 4;
  EXPECT_EQ(route_of(c, 0, 8).bandwidth.value, 12.5e9);
}

TEST(RouteOf, NeedsTwoGpusOfTheCluster) {
  const Cluster c = dgx_a100(2);
  EXPECT_THROW(route_of(c, 3, 3), InternalError);
  EXPECT_THROW(route_of(c, 0, 16), InternalError);
  EXPECT_THROW(route_of(c, -1, 0), InternalError);
}

TEST(IntraShare, SwitchesGiveAllAndMeshesTheirLinks) {
  Node node;
  EXPECT_EQ(intra_share(node, 2), 1);
  node.intra = IntraKind::nvlink_mesh;
  node.gpus = 4;
  EXPECT_DOUBLE_EQ(intra_share(node, 2), 1.0 / 3);
  EXPECT_DOUBLE_EQ(intra_share(node, 3), 2.0 / 3);
  EXPECT_EQ(intra_share(node, 4), 1);
  node.gpus = 8;  // DGX-1: two of six links to the best neighbour, four inside the quad
  EXPECT_DOUBLE_EQ(intra_share(node, 2), 2.0 / 6);
  EXPECT_DOUBLE_EQ(intra_share(node, 4), 4.0 / 6);
  EXPECT_EQ(intra_share(node, 8), 1);
}

}  // namespace
}  // namespace stepcast::fabric_test
