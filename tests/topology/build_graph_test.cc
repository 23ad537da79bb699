// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/build_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/topology/clusters.h"
#include "tests/topology/components.h"
#include "topology/cluster/fabric.h"

namespace stepcast::build_graph_test {
namespace {

using test::dgx_a100;
using test::dgx_h100;
using test::grand_teton;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

uint32_t find(const ClusterGraph& g, std::string_view name) {
  for (uint32_t d = 0; d < g.devices().size(); ++d) {
    if (g.devices()[d].name == name) return d;
  }
  ADD_FAILURE() << "no device " << name;
  return 0;
}

std::vector<std::string> neighbours(const ClusterGraph& g, std::string_view name) {
  std::vector<std::string> names;
  for (uint32_t l : g.leaving(find(g, name))) names.push_back(g.devices()[g.to(l)].name);
  return names;
}

// Network switches by tier.
std::map<int, int> switches(const ClusterGraph& g) {
  std::map<int, int> count;
  for (const Device& d : g.devices()) count[d.tier] += d.kind == DeviceKind::network_switch;
  count.erase(-1);
  return count;
}

// Cables between devices of tier `below` (-1: NICs) and the tier above it.
int cables_up(const ClusterGraph& g, int below) {
  int cables = 0;
  for (const Link& l : g.links()) {
    if (l.kind != LinkKind::network) continue;
    cables += g.devices()[l.a].tier == below ? l.cables : 0;
  }
  return cables;
}

// Most network cables on one switch.
int fullest_switch(const ClusterGraph& g) {
  std::map<uint32_t, int> cables;
  for (const Link& l : g.links()) {
    if (l.kind != LinkKind::network) continue;
    cables[l.a] += l.cables;
    cables[l.b] += l.cables;
  }
  int most = 0;
  for (const auto& [device, n] : cables) most = std::max(most, n);
  return most;
}

Cluster gb200(int64_t racks) {
  Cluster c = dgx_h100(racks);
  c.node.gpus = c.node.nics = 72;
  c.node.hosts = 18;
  c.node.nvswitches = c.node.nvlinks = 18;
  c.node.intra_bandwidth = {900e9};
  c.node.gpu.host_bandwidth = {450e9};
  c.node.c2c = true;
  c.fabric.tiers = {{"rack", 72, 1}, {"unit", 576, 1}, {"core", 9216, 1}};
  return c;
}

// Counts of the reference designs: NVIDIA DGX SuperPOD reference architectures (H100, B200:
// units of 32 nodes; A100, RA-09950: units of 20).
TEST(BuildGraph, CountsTheSwitchesOfH100SuperPods) {
  using Counts = std::map<int, int>;
  EXPECT_EQ(switches(cluster_graph(dgx_h100(32))), (Counts{{0, 8}}));
  EXPECT_EQ(switches(cluster_graph(dgx_h100(64))), (Counts{{0, 16}, {1, 8}}));
  EXPECT_EQ(switches(cluster_graph(dgx_h100(128))), (Counts{{0, 32}, {1, 16}}));
  EXPECT_EQ(switches(cluster_graph(dgx_h100(256))), (Counts{{0, 64}, {1, 32}}));
  EXPECT_EQ(switches(cluster_graph(dgx_h100(512))), (Counts{{0, 128}, {1, 128}, {2, 64}}));
  EXPECT_EQ(switches(cluster_graph(dgx_h100(1024))), (Counts{{0, 256}, {1, 256}, {2, 128}}));
  EXPECT_EQ(switches(cluster_graph(dgx_h100(2048))), (Counts{{0, 512}, {1, 512}, {2, 256}}));
}

TEST(BuildGraph, CountsTheSwitchesAndCablesOfAnA100SuperPod) {
  const ClusterGraph g = cluster_graph(dgx_a100(140));
  EXPECT_EQ(switches(g), (std::map<int, int>{{0, 56}, {1, 80}, {2, 28}}));
  EXPECT_EQ(cables_up(g, -1), 1120);
  EXPECT_EQ(cables_up(g, 0), 1120);
  EXPECT_EQ(cables_up(g, 1), 1120);
}

TEST(BuildGraph, CountsTheCablesOfFourH100Units) {
  const ClusterGraph g = cluster_graph(dgx_h100(128));
  EXPECT_EQ(cables_up(g, -1), 1024);
  EXPECT_EQ(cables_up(g, 0), 1024);
  EXPECT_EQ(fullest_switch(g), 64);
}

TEST(BuildGraph, NoSwitchHasMorePortsThanItsRadix) {
  for (const int64_t nodes : {33, 200, 257, 900, 2048}) {
    EXPECT_LE(fullest_switch(cluster_graph(dgx_h100(nodes))), 64) << nodes;
  }
  for (const FabricKind kind : {FabricKind::fat_tree, FabricKind::clos}) {
    Cluster c = dgx_h100(300);
    c.fabric.kind = kind;
    EXPECT_LE(fullest_switch(cluster_graph(c)), 64);
    c.fabric.oversubscription = 3;
    EXPECT_LE(fullest_switch(cluster_graph(c)), 64);
  }
}

// An NVL72 unit of 8 racks: 4 leaves a rack with 18 hosts and 18 cables up each, 9 spines.
TEST(BuildGraph, CountsTheSwitchesOfAnNvl72Unit) {
  const ClusterGraph g = cluster_graph(gb200(8));
  EXPECT_EQ(switches(g), (std::map<int, int>{{0, 32}, {1, 9}}));
  EXPECT_EQ(cables_up(g, 0), 576);
  EXPECT_EQ(neighbours(g, "rack3/rail2").size(), 18u + 9u);
}

TEST(BuildGraph, ARackIsOneNvlinkDomainOfManyHosts) {
  const ClusterGraph g = cluster_graph(gb200(2));
  std::map<DeviceKind, int> count;
  std::set<int32_t> hosts, domains;
  for (const Device& d : g.devices()) {
    ++count[d.kind];
    if (d.kind == DeviceKind::gpu) {
      hosts.insert(d.node);
      domains.insert(d.domain);
    }
  }
  EXPECT_EQ(count[DeviceKind::nvswitch], 36);
  EXPECT_EQ(hosts.size(), 36u);
  EXPECT_EQ(domains.size(), 2u);
  EXPECT_THAT(neighbours(g, "n0/gpu0"),
              ::testing::AllOf(::testing::SizeIs(19), ::testing::Contains("n0/cpu0")));
  EXPECT_EQ(neighbours(g, "n1/nvswitch17").size(), 72u);
  const Link& first = g.links()[g.leaving(g.gpus()[5])[0] / 2];
  EXPECT_EQ(first.cables, 1);
  EXPECT_DOUBLE_EQ(first.bandwidth.value, 50e9);
}

TEST(BuildGraph, NvlinksAreSpreadOverTheSwitchesAsInAnH100Node) {
  Cluster c = dgx_h100(1);
  c.node.nvswitches = 4;
  c.node.nvlinks = 18;
  const ClusterGraph g = cluster_graph(c);
  std::vector<int32_t> cables;
  double sum = 0;
  for (uint32_t l : g.leaving(g.gpus()[3])) {
    if (g.links()[l / 2].kind != LinkKind::nvlink) continue;
    cables.push_back(g.links()[l / 2].cables);
    sum += g.bandwidth(l).value;
  }
  EXPECT_THAT(cables, ElementsAre(5, 5, 4, 4));
  EXPECT_DOUBLE_EQ(sum, 450e9);
}

TEST(BuildGraph, PcieSwitchesCarryEqualShares) {
  Cluster c = dgx_a100(2);
  c.node.nics = 4;
  c.node.pcie_switches = 4;
  const ClusterGraph g = cluster_graph(c);
  EXPECT_THAT(neighbours(g, "n1/pcie2"),
              UnorderedElementsAre("n1/cpu1", "n1/gpu4", "n1/gpu5", "n1/nic2"));
  EXPECT_THAT(neighbours(g, "n0/cpu0"), UnorderedElementsAre("n0/cpu1", "n0/pcie0", "n0/pcie1"));
}

TEST(BuildGraph, DirectNvlinksOfEightGpusAreAHybridCubeMesh) {
  Cluster c = dgx_a100(1);
  c.node.intra = IntraKind::nvlink_mesh;
  c.node.intra_bandwidth = {150e9};
  const ClusterGraph g = cluster_graph(c);
  for (uint32_t gpu : g.gpus()) {
    int cables = 0;
    double sum = 0;
    for (uint32_t l : g.leaving(gpu)) {
      if (g.links()[l / 2].kind != LinkKind::nvlink) continue;
      cables += g.links()[l / 2].cables;
      sum += g.bandwidth(l).value;
    }
    EXPECT_EQ(cables, 6);
    EXPECT_NEAR(sum, 150e9, 1);
  }
}

TEST(BuildGraph, UplinksCarryTheOversubscription) {
  const ClusterGraph g = cluster_graph(grand_teton(768));
  double into_spine = 0, into_pods = 0;
  for (const Link& link : g.links()) {
    const int32_t above = g.devices()[link.b].tier;
    if (above == 2) into_spine += link.bandwidth.value;
    if (above == 1) into_pods += link.bandwidth.value;
  }
  EXPECT_NEAR(into_pods, 768 * 8 * 50e9, 1e3);
  EXPECT_NEAR(into_spine, 768 * 8 * 50e9 / 7, 1e3);
}

// The 24K GPU cluster of Llama 3: racks of 16 below one switch, pods of 192 racks, 1:7 above.
TEST(BuildGraph, CountsTheRacksOfTheLlama3Cluster) {
  const ClusterGraph g = cluster_graph(grand_teton(3072));
  EXPECT_EQ(switches(g)[0], 1536);
  EXPECT_EQ(neighbours(g, "rack7").size(), 16u + 16u);
}

TEST(BuildGraph, IsConnectedAndNamesDiffer) {
  Cluster pcie = dgx_a100(3);
  pcie.node.intra = IntraKind::pcie;
  for (const Cluster& c :
       {dgx_a100(1), dgx_h100(40), dgx_h100(600), dgx_a100(140), grand_teton(10), gb200(9), pcie}) {
    const ClusterGraph g = cluster_graph(c);
    EXPECT_THAT(test::components(g), Each(0u)) << c.name;
    std::set<std::string_view> names;
    for (const Device& d : g.devices()) EXPECT_TRUE(names.insert(d.name).second) << d.name;
    EXPECT_EQ(g.gpus().size(), static_cast<size_t>(c.gpus()));
  }
}

TEST(BuildGraph, ItsSizeIsKnownBeforehand) {
  Cluster mesh = dgx_a100(2);
  mesh.node.gpus = mesh.node.nics = 4;
  mesh.node.intra = IntraKind::nvlink_mesh;
  for (const Cluster& c : {dgx_h100(20), gb200(8), mesh}) {
    const ClusterGraph g = cluster_graph(c);
    const double size = static_cast<double>(g.devices().size() + g.links().size());
    EXPECT_NEAR(graph_size(c) / size, 1, 0.2) << c.name;
  }
}

TEST(BuildGraph, WithoutNicsNodesAreApart) {
  Cluster c = dgx_a100(2);
  c.node.nics = 0;
  const ClusterGraph g = cluster_graph(c);
  EXPECT_NE(test::components(g)[g.gpus()[0]], test::components(g)[g.gpus()[8]]);
}

TEST(BuildGraph, ATierSmallerThanANodeStillHoldsIt) {
  Cluster c = dgx_h100(3);
  c.fabric.tiers = {{"half", 4, 1}, {"", 64, 1}, {"half", 128, 1}};
  const ClusterGraph g = cluster_graph(c);
  EXPECT_THAT(test::components(g), Each(0u));
  EXPECT_EQ(switches(g)[0], 24);
}

// Ways through the graph and the closed form that costs use agree where no NIC is shared.
void expect_same_ways(const Cluster& c, std::initializer_list<int64_t> ends) {
  const ClusterGraph g = cluster_graph(c);
  for (int64_t from : ends) {
    for (int64_t to : ends) {
      if (from == to) continue;
      const auto way =
          g.shortest_path(g.gpus()[static_cast<size_t>(from)], g.gpus()[static_cast<size_t>(to)]);
      ASSERT_TRUE(way);
      int64_t crossed = 0;
      for (uint32_t l : *way) crossed += g.devices()[g.to(l)].kind == DeviceKind::network_switch;
      EXPECT_EQ(crossed, route_of(c, from, to).switches) << from << " " << to;
    }
  }
}

TEST(BuildGraph, CrossesAsManySwitchesAsTheClosedForm) {
  expect_same_ways(dgx_a100(1), {0, 1, 7});
  expect_same_ways(dgx_h100(40), {0, 1, 8, 9, 255, 256, 263});
  expect_same_ways(dgx_h100(600), {0, 8, 257, 4799});
  expect_same_ways(dgx_a100(140), {0, 8, 161, 1119});
  expect_same_ways(grand_teton(386), {0, 3, 8, 16, 3071, 3072});
  Cluster many_nics = dgx_h100(3);
  many_nics.node.nics = 32;
  many_nics.fabric.kind = FabricKind::fat_tree;
  expect_same_ways(many_nics, {0, 1, 8, 17, 23});
  expect_same_ways(gb200(9), {0, 71, 72, 80, 576});
}

}  // namespace
}  // namespace stepcast::build_graph_test
