// SPDX-License-Identifier: Apache-2.0
#include "topology/fabric_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/check.h"
#include "tests/topology/clusters.h"
#include "topology/fabric.h"

namespace stepcast {
namespace {

using test::dgx_a100;
using test::dgx_h100;
using test::grand_teton;

std::vector<std::string> names(const FabricGraph& g, const Path& p) {
  std::vector<std::string> out;
  for (uint32_t d : p.devices) out.push_back(g.devices()[d].name);
  return out;
}

TEST(FabricGraph, NamesTheDevicesOfAWay) {
  const FabricGraph g = fabric_graph(dgx_h100(64));
  EXPECT_THAT(names(g, *g.shortest_path(g.gpu(0), g.gpu(3))),
              ::testing::ElementsAre("n0/gpu0", "n0/nvswitch", "n0/gpu3"));
  EXPECT_THAT(names(g, *g.shortest_path(g.gpu(5), g.gpu(261))),
              ::testing::ElementsAre("n0/gpu5", "n0/nic5", "leaf0/rail5", "spine0", "leaf1/rail5",
                                     "n32/nic5", "n32/gpu5"));
}

TEST(FabricGraph, MessagesToAnotherRailStayBelowTheSpine) {
  const FabricGraph g = fabric_graph(dgx_h100(4));
  const Path p = *g.shortest_path(g.gpu(0), g.gpu(9));
  EXPECT_EQ(p.switches, 1);
  EXPECT_EQ(p.devices.size(), 7u);
}

// The closed form that costs use is the graph's answer.
void expect_same_ways(const Cluster& c, std::initializer_list<int64_t> ends) {
  const FabricGraph g = fabric_graph(c);
  for (int64_t from : ends) {
    for (int64_t to : ends) {
      if (from == to) continue;
      const auto path = g.shortest_path(g.gpu(from), g.gpu(to));
      ASSERT_TRUE(path);
      const Route route = route_of(c, from, to);
      EXPECT_EQ(path->switches, route.switches) << from << " " << to;
      EXPECT_EQ(path->latency, route.latency) << from << " " << to;
      EXPECT_DOUBLE_EQ(path->bandwidth.value, route.bandwidth.value) << from << " " << to;
    }
  }
}

TEST(FabricGraph, AgreesWithTheClosedForm) {
  expect_same_ways(dgx_a100(1), {0, 1, 7});
  expect_same_ways(dgx_h100(40), {0, 1, 8, 9, 255, 256, 263});
  expect_same_ways(grand_teton(386), {0, 3, 8, 16, 3071, 3072});
  Cluster many_nics = dgx_h100(3);
  many_nics.node.nics = 32;
  many_nics.fabric.kind = FabricKind::fat_tree;
  expect_same_ways(many_nics, {0, 1, 8, 17, 23});
  Cluster mesh = dgx_a100(2);
  mesh.node.gpus = mesh.node.nics = 4;
  mesh.node.intra = IntraKind::nvlink_mesh;
  expect_same_ways(mesh, {0, 1, 3});
  Cluster pcie = dgx_a100(2);
  pcie.node.intra = IntraKind::pcie;
  expect_same_ways(pcie, {0, 1, 7, 8});
}

TEST(FabricGraph, UplinksCarryTheOversubscription) {
  const Cluster c = grand_teton(768);
  const FabricGraph g = fabric_graph(c);
  double into_spine = 0, into_pods = 0;
  for (const Link& link : g.links()) {
    const std::string& above = g.devices()[link.b].name;
    if (above.starts_with("spine")) into_spine += link.bandwidth.value;
    if (above.starts_with("pod")) into_pods += link.bandwidth.value;
  }
  EXPECT_NEAR(into_pods, 768 * 8 * 50e9, 1e3);
  EXPECT_NEAR(into_spine, 768 * 8 * 50e9 / 7, 1e3);
}

TEST(FabricGraph, IsConnected) {
  for (const Cluster& c : {dgx_a100(1), dgx_h100(40), grand_teton(10)}) {
    const FabricGraph g = fabric_graph(c);
    EXPECT_THAT(g.components(), ::testing::Each(0u)) << c.name;
  }
}

TEST(FabricGraph, TellsWhenThereIsNoWay) {
  Cluster c = dgx_a100(2);
  c.node.nics = 0;
  const FabricGraph g = fabric_graph(c);
  EXPECT_FALSE(g.shortest_path(g.gpu(0), g.gpu(8)));
  EXPECT_TRUE(g.shortest_path(g.gpu(0), g.gpu(0)));
  EXPECT_NE(g.components()[g.gpu(0)], g.components()[g.gpu(8)]);
  EXPECT_THROW(g.shortest_path(0, 1000), InternalError);
  EXPECT_THROW(FabricGraph({{DeviceKind::gpu, "a", {}}}, {{0, 1, {}, {}}}), InternalError);
}

using Names = std::vector<std::string>;
using Links = std::vector<std::pair<std::string, std::string>>;

TEST(FirstDisconnected, NamesTheNodeThatIsCutOff) {
  const Names nodes{"n0", "n1", "n2"}, switches{"s0", "s1"};
  EXPECT_EQ(first_disconnected(nodes, switches, Links{{"n0", "s0"}}),
            (std::pair<std::string, std::string>{"n1", "n0"}));
  EXPECT_EQ(first_disconnected(nodes, switches, Links{{"n0", "s0"}, {"s0", "n1"}, {"n2", "s1"}}),
            (std::pair<std::string, std::string>{"n2", "n0"}));
  EXPECT_EQ(first_disconnected(nodes, switches,
                               Links{{"n0", "s0"}, {"s0", "n1"}, {"n2", "s1"}, {"s1", "s0"}}),
            std::nullopt);
}

TEST(FirstDisconnected, LooseSwitchesAndUnknownNamesDoNotCount) {
  EXPECT_EQ(first_disconnected(Names{"n0"}, Names{"s0"}, Links{}), std::nullopt);
  EXPECT_EQ(first_disconnected(Names{}, Names{"s0"}, Links{}), std::nullopt);
  EXPECT_EQ(first_disconnected(Names{"n0", "n1"}, Names{}, Links{{"n0", "x"}, {"x", "n1"}}),
            (std::pair<std::string, std::string>{"n1", "n0"}));
  EXPECT_EQ(first_disconnected(Names{"n0", "n1"}, Names{}, Links{{"n0", "n0"}, {"n1", "n0"}}),
            std::nullopt);
}

}  // namespace
}  // namespace stepcast
