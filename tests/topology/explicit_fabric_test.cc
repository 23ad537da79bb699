// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/explicit_fabric.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/topology/clusters.h"
#include "tests/topology/components.h"
#include "topology/cluster/build_graph.h"

namespace stepcast::explicit_fabric_test {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using Groups = std::vector<std::vector<int64_t>>;

Node node_of(int64_t gpus) {
  Node node = test::dgx_h100(1).node;
  node.gpus = gpus;
  return node;
}

// `nodes` nodes of `gpus` GPUs with a cable for each, two to a leaf; `trunk` cables from leaf to
// leaf through a spine.
ExplicitFabric two_leaves(int64_t gpus, int32_t trunk, Bandwidth bandwidth = {50e9}) {
  ExplicitFabric f;
  f.nodes = {"a", "b", "c", "d"};
  f.switches = {{"left", test::microseconds(0.2)},
                {"right", test::microseconds(0.2)},
                {"top", test::microseconds(0.3)}};
  for (size_t n = 0; n < 4; ++n) {
    f.links.push_back({.a = n,
                       .b = 4 + n / 2,
                       .bandwidth = bandwidth,
                       .back = bandwidth,
                       .latency = test::microseconds(0.1),
                       .cables = static_cast<int32_t>(gpus)});
  }
  for (size_t leaf : {4u, 5u}) {
    f.links.push_back(
        {.a = leaf, .b = 6, .bandwidth = bandwidth, .back = bandwidth, .cables = trunk});
  }
  return f;
}

Cluster written(const ExplicitFabric& f, int64_t gpus) {
  Cluster c;
  c.nodes = static_cast<int64_t>(f.nodes.size());
  c.node = node_of(gpus);
  c.node.nics = gpus;
  c.node.nic_bandwidth = f.links[0].bandwidth;
  c.fabric.kind = FabricKind::clos;
  c.fabric.tiers = {{"network", c.gpus(), 1}};
  c.graph = std::make_shared<ClusterGraph>(explicit_graph(f, c.node));
  return c;
}

TEST(WrittenGraph, HasANicForEachCableOfANode) {
  const ClusterGraph g = explicit_graph(two_leaves(2, 1), node_of(2));
  std::vector<std::string> network;
  for (const Device& d : g.devices()) {
    if (d.kind == DeviceKind::nic || d.kind == DeviceKind::network_switch)
      network.push_back(d.name);
  }
  EXPECT_THAT(network, ElementsAre("left", "right", "top", "a/nic0", "a/nic1", "b/nic0", "b/nic1",
                                   "c/nic0", "c/nic1", "d/nic0", "d/nic1"));
  EXPECT_EQ(g.devices()[g.gpus()[5]].name, "c/gpu1");
  EXPECT_THAT(test::components(g), Each(0u));
}

TEST(WrittenGraph, SwitchesHaveTheTierOfTheirDistance) {
  const ClusterGraph g = explicit_graph(two_leaves(1, 3), node_of(1));
  for (const Device& d : g.devices()) {
    if (d.kind != DeviceKind::network_switch) continue;
    EXPECT_EQ(d.tier, d.name == "top" ? 1 : 0) << d.name;
  }
  const Link& trunk = g.links().back();
  EXPECT_EQ(trunk.cables, 3);
  EXPECT_EQ(trunk.bandwidth.value, 150e9);
}

TEST(WrittenGraph, DirectionsMayDiffer) {
  ExplicitFabric f = two_leaves(1, 1);
  f.links[0].back = {10e9};
  const Cluster c = written(f, 1);
  EXPECT_EQ(route_of(c, 0, 1).bandwidth.value, 50e9);
  EXPECT_EQ(route_of(c, 1, 0).bandwidth.value, 10e9);
}

TEST(WrittenRoute, HasTheSwitchesAndLatencyOfItsWay) {
  const Cluster c = written(two_leaves(4, 4), 4);
  const Route near = route_of(c, 1, 5), far = route_of(c, 1, 9);
  EXPECT_EQ(near.switches, 1);
  EXPECT_EQ(near.latency, c.node.nic_latency + test::microseconds(0.2 + 2 * 0.1));
  EXPECT_EQ(far.switches, 3);
  EXPECT_EQ(far.latency, c.node.nic_latency + test::microseconds(0.7 + 2 * 0.1));
  EXPECT_EQ(route_of(c, 0, 3).tier, -1) << "inside a node";
  EXPECT_EQ(near.bandwidth.value, 50e9);
  EXPECT_EQ(far.bandwidth.value, 50e9) << "four senders on four cables of one trunk";
}

TEST(WrittenRoute, ANarrowTrunkIsShared) {
  const Cluster c = written(two_leaves(4, 1), 4);
  EXPECT_EQ(route_of(c, 0, 4).bandwidth.value, 50e9);
  EXPECT_EQ(route_of(c, 0, 8).bandwidth.value, 50e9 / 4);
}

TEST(AsSeenBy, EqualsThePresetWhereTheFabricIsTheSame) {
  const Cluster c = written(two_leaves(8, 8), 8);
  Groups groups;
  for (int64_t g = 0; g < 8; ++g) groups.push_back({g, 8 + g, 16 + g, 24 + g});
  const Cluster seen = effective_cluster(c, groups);
  EXPECT_DOUBLE_EQ(seen.node.nic_bandwidth.value, 50e9);
  EXPECT_EQ(seen.fabric.hop_latency, test::microseconds(0.7 + 2 * 0.1));
}

TEST(AsSeenBy, RingsShareWhatTheyCross) {
  const Cluster c = written(two_leaves(8, 1), 8);
  // One ring crosses the trunk once each way, four rings four times.
  EXPECT_DOUBLE_EQ(effective_cluster(c, Groups{{0, 8, 16, 24}}).node.nic_bandwidth.value, 50e9);
  Groups four;
  for (int64_t g = 0; g < 4; ++g) four.push_back({g, 8 + g, 16 + g, 24 + g});
  // Four groups share 8 NICs, of which each is counted one; the trunk leaves each a quarter.
  EXPECT_DOUBLE_EQ(effective_cluster(c, four).node.nic_bandwidth.value, 50e9 / 4);
  // All GPUs in one group: eight rings with an eighth of the data each, on one cable.
  std::vector<int64_t> all;
  for (int64_t g = 0; g < 32; ++g) all.push_back(g);
  EXPECT_NEAR(effective_cluster(c, Groups{all}).node.nic_bandwidth.value, 50e9 / 8, 1);
}

TEST(AsSeenBy, AnotherOrderOfNodesCrossesTheTrunkMoreOften) {
  const Cluster c = written(two_leaves(1, 1), 1);
  EXPECT_DOUBLE_EQ(effective_cluster(c, Groups{{0, 1, 2, 3}}).node.nic_bandwidth.value, 50e9);
  EXPECT_DOUBLE_EQ(effective_cluster(c, Groups{{0, 2, 1, 3}}).node.nic_bandwidth.value, 25e9);
}

TEST(AsSeenBy, TheClustersNicBandwidthScalesTheNetwork) {
  Cluster c = written(two_leaves(1, 1), 1);
  c.node.nic_bandwidth = {100e9};  // what if it were twice as fast
  EXPECT_DOUBLE_EQ(effective_cluster(c, Groups{{0, 1, 2, 3}}).node.nic_bandwidth.value, 100e9);
  c.node.nic_bandwidth = {25e9};
  EXPECT_DOUBLE_EQ(effective_cluster(c, Groups{{0, 1, 2, 3}}).node.nic_bandwidth.value, 25e9);
  EXPECT_DOUBLE_EQ(route_of(c, 0, 1).bandwidth.value, 25e9);
}

TEST(AsSeenBy, GroupsInsideNodesSeeTheClusterAsItIs) {
  const Cluster c = written(two_leaves(8, 1), 8);
  EXPECT_EQ(effective_cluster(c, Groups{{0, 1}, {8, 9}}).node.nic_bandwidth.value, 50e9);
  const Cluster preset = test::dgx_h100(4);
  EXPECT_EQ(effective_cluster(preset, Groups{{0, 8}}).node.nic_bandwidth.value, 50e9);
}

TEST(WrittenGraph, IsWhatClusterGraphGives) {
  const Cluster c = written(two_leaves(2, 1), 2);
  const ClusterGraph copy = cluster_graph(c);
  EXPECT_EQ(copy.devices().size(), c.graph->devices().size());
  EXPECT_EQ(copy.links().size(), c.graph->links().size());
}

TEST(WrittenGraph, UnusedSwitchesAndLinksChangeNothing) {
  ExplicitFabric f = two_leaves(2, 1);
  const Cluster before = written(f, 2);
  f.switches.push_back({"spare", test::microseconds(9)});
  f.links.push_back({.a = 5, .b = 7, .bandwidth = {1e9}, .back = {1e9}});
  const Cluster after = written(f, 2);
  for (int64_t to = 1; to < 8; ++to) {
    EXPECT_EQ(route_of(before, 0, to).bandwidth.value, route_of(after, 0, to).bandwidth.value);
    EXPECT_EQ(route_of(before, 0, to).latency, route_of(after, 0, to).latency);
  }
}

}  // namespace
}  // namespace stepcast::explicit_fabric_test
