// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/routes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "sim/check.h"
#include "tests/topology/clusters.h"
#include "topology/cluster/build_graph.h"
#include "topology/cluster/fabric.h"

namespace stepcast::routes_test {
namespace {

using test::dgx_a100;
using test::dgx_h100;
using test::grand_teton;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> names(const ClusterGraph& g, const GraphRoute& route) {
  std::vector<std::string> out;
  for (uint32_t l : route.links) out.push_back(g.devices()[g.to(l)].name);
  return out;
}

// DGX H100 as it is: four NVSwitches, a PCIe switch for each GPU and NIC.
Cluster whole_h100(int64_t nodes) {
  Cluster c = dgx_h100(nodes);
  c.node.nvswitches = 4;
  c.node.nvlinks = 18;
  c.node.pcie_switches = 8;
  return c;
}

Cluster p5(int64_t nodes) {
  Cluster c = whole_h100(nodes);
  c.node.nics = 32;
  c.node.nic_bandwidth = {12.5e9};
  c.fabric.kind = FabricKind::clos;
  return c;
}

Cluster rack(int64_t racks) {
  Cluster c = dgx_h100(racks);
  c.node.gpus = c.node.nics = 72;
  c.node.hosts = 18;
  c.node.nvswitches = c.node.nvlinks = 18;
  c.node.gpu.host_bandwidth = {450e9};
  c.node.c2c = true;
  c.fabric.tiers = {{"rack", 72, 1}, {"unit", 576, 1}, {"core", 9216, 1}};
  return c;
}

Cluster pcie_node(int64_t nodes) {
  Cluster c = dgx_a100(nodes);
  c.node.intra = IntraKind::pcie;
  c.node.intra_bandwidth = {25e9};
  c.node.pcie_switches = 2;
  c.node.nics = 2;
  return c;
}

std::vector<Cluster> all_sorts() {
  Cluster mesh = dgx_a100(2);
  mesh.node.intra = IntraKind::nvlink_mesh;
  mesh.node.nics = 4;
  Cluster fat = dgx_h100(40);
  fat.fabric.kind = FabricKind::fat_tree;
  fat.fabric.oversubscription = 2;
  return {whole_h100(40), whole_h100(300), p5(9), rack(9), pcie_node(3), mesh, fat,
          dgx_a100(140),  grand_teton(400)};
}

// Numbers that look random, the same everywhere.
struct Pairs {
  uint64_t state;
  int64_t gpus;
  int64_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<int64_t>((state >> 33) % static_cast<uint64_t>(gpus));
  }
};

TEST(Router, GoesOverNvlinkInsideADomain) {
  const ClusterGraph g = cluster_graph(whole_h100(2));
  Router router(g, {});
  const GraphRoute route = *router.route(0, 3);
  EXPECT_THAT(names(g, route), ElementsAre(HasSubstr("n0/nvswitch"), "n0/gpu3"));
  EXPECT_EQ(route.latency, test::microseconds(0.9));
  EXPECT_EQ(route.switches, 0);
  const ClusterGraph r = cluster_graph(rack(1));
  EXPECT_THAT(names(r, *Router(r, {}).route(0, 71)),
              ElementsAre(HasSubstr("n0/nvswitch"), "n0/gpu71"));
}

TEST(Router, GoesOverPcieWhereThereIsNoNvlink) {
  const ClusterGraph g = cluster_graph(pcie_node(1));
  Router router(g, {});
  EXPECT_THAT(names(g, *router.route(0, 3)), ElementsAre("n0/pcie0", "n0/gpu3"));
  EXPECT_THAT(names(g, *router.route(0, 4)),
              ElementsAre("n0/pcie0", "n0/cpu0", "n0/cpu1", "n0/pcie1", "n0/gpu4"));
  EXPECT_EQ(router.route(0, 4)->latency, test::microseconds(1));
  EXPECT_EQ(router.route(0, 4)->bandwidth.value, 25e9);
}

TEST(Router, TakesItsOwnRail) {
  const ClusterGraph g = cluster_graph(whole_h100(64));
  Router router(g, {});
  const GraphRoute route = *router.route(5, 261);
  EXPECT_THAT(names(g, route), ElementsAre("n0/pcie5", "n0/nic5", "leaf0/rail5", HasSubstr("spine"),
                                           "leaf1/rail5", "n32/nic5", "n32/pcie5", "n32/gpu5"));
  EXPECT_EQ(route.switches, 3);
  EXPECT_EQ(route.bandwidth.value, 50e9);
  EXPECT_EQ(route.latency, route_of(whole_h100(64), 5, 261).latency);
}

TEST(Router, ChangesTheRailOverNvlink) {
  const ClusterGraph g = cluster_graph(whole_h100(64));
  Router pxn(g, {});
  EXPECT_THAT(names(g, *pxn.route(0, 9)),
              ElementsAre(HasSubstr("n0/nvswitch"), "n0/gpu1", "n0/pcie1", "n0/nic1", "leaf0/rail1",
                          "n1/nic1", "n1/pcie1", "n1/gpu1"));
  Router plain(g, {.pxn = false});
  EXPECT_THAT(names(g, *plain.route(0, 9)),
              ElementsAre("n0/pcie0", "n0/nic0", "leaf0/rail0", HasSubstr("spine"), "leaf0/rail1",
                          "n1/nic1", "n1/pcie1", "n1/gpu1"));
}

TEST(Router, WithoutASpineTheReceiverChangesTheRail) {
  const ClusterGraph g = cluster_graph(whole_h100(4));
  Router router(g, {.pxn = false});
  const GraphRoute route = *router.route(0, 9);
  EXPECT_EQ(route.switches, 1);
  EXPECT_EQ(names(g, route).back(), "n1/gpu1");
}

TEST(Router, GpusDivideTheNicsTheyAreEquallyNearTo) {
  // No PCIe switches: four GPUs and four NICs on each CPU.
  const ClusterGraph equal = cluster_graph(dgx_h100(2));
  Router router(equal, {});
  for (int64_t gpu = 0; gpu < 8; ++gpu) {
    const std::string nic = "n0/nic" + std::to_string(gpu);
    EXPECT_EQ(names(equal, *router.route(gpu, 8 + gpu))[1], nic);
    EXPECT_EQ(router.channels(gpu, 8), 1);
  }
  const ClusterGraph many = cluster_graph(p5(2));
  Router four(many, {});
  ASSERT_EQ(four.channels(2, 8), 4);
  std::set<std::string> nics;
  for (int64_t channel = 0; channel < 4; ++channel) {
    nics.insert(names(many, *four.route(2, 10, channel))[1]);
  }
  EXPECT_THAT(nics, ElementsAre("n0/nic10", "n0/nic11", "n0/nic8", "n0/nic9"));
  Cluster few = dgx_a100(2);
  few.node.nics = 4;
  const ClusterGraph shared = cluster_graph(few);
  Router half(shared, {});
  EXPECT_EQ(names(shared, *half.route(4, 12))[1], "n0/nic2");
  EXPECT_EQ(names(shared, *half.route(5, 13))[1], "n0/nic2");
}

TEST(Router, ChannelsUseAllNvlinksEqually) {
  const ClusterGraph g = cluster_graph(whole_h100(1));
  Router router(g, {});
  ASSERT_EQ(router.channels(0, 1), 18);
  std::map<uint32_t, int> used;
  for (int64_t c = 0; c < 18; ++c) ++used[router.route(0, 1, c)->links[0]];
  ASSERT_EQ(used.size(), 4u);
  for (const auto& [l, n] : used) EXPECT_EQ(n, g.links()[l / 2].cables);
}

TEST(Router, WaysAreConnectedAndEndWhereTheyShould) {
  for (const Cluster& c : all_sorts()) {
    const ClusterGraph g = cluster_graph(c);
    Router router(g, {});
    Pairs random{7, c.gpus()};
    for (int i = 0; i < 400; ++i) {
      const int64_t from = random.next(), to = random.next();
      const auto route = router.route(from, to, i % 5);
      ASSERT_TRUE(route) << c.name << " " << from << " " << to;
      uint32_t at = g.gpus()[static_cast<size_t>(from)];
      std::set<uint32_t> seen{at};
      for (uint32_t l : route->links) {
        ASSERT_EQ(g.to(l ^ 1u), at);
        at = g.to(l);
        EXPECT_TRUE(seen.insert(at).second) << "passes " << g.devices()[at].name << " twice";
      }
      EXPECT_EQ(at, g.gpus()[static_cast<size_t>(to)]);
    }
  }
}

TEST(Router, BothDirectionsAreAlike) {
  for (const Cluster& c : all_sorts()) {
    const ClusterGraph g = cluster_graph(c);
    for (const bool pxn : {false, true}) {
      Router router(g, {.pxn = pxn});
      Pairs random{8, c.gpus()};
      for (int i = 0; i < 200; ++i) {
        const int64_t from = random.next(), to = random.next();
        const GraphRoute there = *router.route(from, to), back = *router.route(to, from);
        EXPECT_EQ(there.links.size(), back.links.size()) << c.name << " " << from << " " << to;
        EXPECT_EQ(there.switches, back.switches);
        EXPECT_EQ(there.latency, back.latency);
      }
    }
  }
}

// The search near the two ends finds what a search of the whole graph does.
TEST(Router, CrossesNoMoreSwitchesThanTheShortestWay) {
  for (const Cluster& c : all_sorts()) {
    const ClusterGraph g = cluster_graph(c);
    Router router(g, {});
    Pairs random{9, c.gpus()};
    for (int i = 0; i < 12; ++i) {
      const int64_t from = random.next(), to = random.next();
      const auto way =
          g.shortest_path(g.gpus()[static_cast<size_t>(from)], g.gpus()[static_cast<size_t>(to)]);
      int switches = 0;
      for (uint32_t l : *way) {
        switches += g.devices()[g.to(l)].kind == DeviceKind::network_switch;
      }
      EXPECT_EQ(router.route(from, to)->switches, switches) << c.name << " " << from << " " << to;
    }
  }
}

TEST(Router, AgreesWithTheClosedFormOfCosts) {
  for (const Cluster& c : {whole_h100(300), dgx_a100(140), grand_teton(400)}) {
    const ClusterGraph g = cluster_graph(c);
    Router router(g, {});
    Pairs random{10, c.gpus()};
    for (int i = 0; i < 200; ++i) {
      const int64_t from = random.next();
      const int64_t to = random.next() / c.node.gpus * c.node.gpus + from % c.node.gpus;
      if (from == to) continue;
      const GraphRoute a = *router.route(from, to);
      const Route b = route_of(c, from, to);
      EXPECT_EQ(a.switches, b.switches) << c.name << " " << from << " " << to;
      EXPECT_EQ(a.latency, b.latency) << c.name << " " << from << " " << to;
      EXPECT_DOUBLE_EQ(a.bandwidth.value, b.bandwidth.value) << c.name << " " << from << " " << to;
    }
  }
}

// 16 spines between two leaves of one rail: 10^4 pairs on each within five standard deviations.
TEST(Router, HashSpreadsOverTheSpinesEvenly) {
  const ClusterGraph g = cluster_graph(whole_h100(128));
  std::map<std::string, int> flows;
  for (uint64_t seed = 0; seed < 10; ++seed) {
    Router router(g, {.ecmp_seed = seed});
    for (int64_t pair = 0; pair < 1000; ++pair) {
      const int64_t from = pair % 32 * 8, to = 256 + pair / 32 * 8;
      ++flows[names(g, *router.route(from, to))[3]];
    }
  }
  ASSERT_EQ(flows.size(), 16u);
  double chi_square = 0;  // mean 15, standard deviation 5.5
  for (const auto& [spine, n] : flows) {
    EXPECT_THAT(spine, HasSubstr("spine"));
    chi_square += (n - 625.0) * (n - 625.0) / 625.0;
  }
  EXPECT_LT(chi_square, 15 + 5 * 5.5);
}

// What adaptive routing sends over each link is what ECMP does on average over its draws.
TEST(Router, AdaptiveSpreadsOverAllEqualWays) {
  for (const Cluster& c : {whole_h100(128), whole_h100(300), grand_teton(400)}) {
    const ClusterGraph g = cluster_graph(c);
    Router router(g, {.adaptive = true});
    for (const int64_t to : {8, 256, 2392, 3192}) {
      if (to >= c.gpus()) continue;
      const GraphRoute way = *router.route(0, to);
      std::map<uint32_t, double> out, in;  // by device
      for (const LinkShare& s : router.spread(0, to)) {
        const double share = static_cast<double>(s.share) / static_cast<double>(kWholeMessage);
        out[g.to(s.link ^ 1u)] += share;
        in[g.to(s.link)] += share;
      }
      const uint32_t from = g.gpus()[0], end = g.gpus()[static_cast<size_t>(to)];
      EXPECT_DOUBLE_EQ(out[from], 1);
      EXPECT_NEAR(in[end], 1, 1e-5);
      for (const auto& [device, share] : in) {
        if (device == end) continue;
        EXPECT_NEAR(out[device], share, 1e-5) << g.devices()[device].name;
      }
      for (uint32_t l : way.links) EXPECT_GT(in[g.to(l)], 0) << "one of the ways";
    }
  }
  const ClusterGraph g = cluster_graph(whole_h100(128));
  Router router(g, {.adaptive = true});
  int spines = 0;
  for (const LinkShare& s : router.spread(0, 256)) {
    if (g.devices()[g.to(s.link)].tier != 1) continue;
    ++spines;
    EXPECT_EQ(s.share, kWholeMessage / 16);
  }
  EXPECT_EQ(spines, 16);
  EXPECT_TRUE(router.spread(5, 5).empty());
}

TEST(Router, WithoutAdaptiveRoutingTheWholeMessageTakesOneWay) {
  const ClusterGraph g = cluster_graph(whole_h100(128));
  Router router(g, {.ecmp_seed = 3});
  const std::vector<uint32_t> way = router.route(0, 256)->links;
  const auto shares = router.spread(0, 256);
  ASSERT_EQ(shares.size(), way.size());
  for (size_t i = 0; i < way.size(); ++i) {
    EXPECT_EQ(shares[i].link, way[i]);
    EXPECT_EQ(shares[i].share, kWholeMessage);
  }
}

TEST(Router, AnotherSeedTakesOtherWays) {
  const ClusterGraph g = cluster_graph(whole_h100(128));
  Router one(g, {.ecmp_seed = 1}), same(g, {.ecmp_seed = 1}), two(g, {.ecmp_seed = 2});
  int differ = 0;
  for (int64_t to = 256; to < 512; to += 8) {
    EXPECT_EQ(one.route(0, to)->links, same.route(0, to)->links);
    differ += one.route(0, to)->links != two.route(0, to)->links;
  }
  EXPECT_GT(differ, 20);
}

TEST(Router, CoresSpreadTooAndUplinksMatter) {
  const ClusterGraph g = cluster_graph(whole_h100(2048));
  Router router(g, {});
  std::set<uint32_t> cores;
  for (int64_t to = 8192; to < 16384; to += 8) {
    const GraphRoute route = *router.route(0, to);
    for (uint32_t l : route.links) {
      if (g.devices()[g.to(l)].tier == 2) cores.insert(g.to(l));
    }
    EXPECT_EQ(route.switches, 5);
  }
  EXPECT_GT(cores.size(), 200u) << "of 256";
}

TEST(Router, UnusedNodesChangeNothing) {
  const ClusterGraph small = cluster_graph(whole_h100(10)), large = cluster_graph(whole_h100(11));
  Router a(small, {}), b(large, {});
  Pairs random{11, 80};
  for (int i = 0; i < 100; ++i) {
    const int64_t from = random.next(), to = random.next();
    EXPECT_EQ(names(small, *a.route(from, to)), names(large, *b.route(from, to)));
  }
}

TEST(Router, EqualGpusHaveEqualWays) {
  const ClusterGraph g = cluster_graph(whole_h100(96));
  Router router(g, {});
  const GraphRoute one = *router.route(0, 300 * 2);
  Pairs random{12, 32};
  for (int i = 0; i < 50; ++i) {  // any node of the first unit to any of the third, same GPU offset
    const int64_t from = random.next() * 8, to = 512 + random.next() * 8;
    const GraphRoute other = *router.route(from, to);
    EXPECT_EQ(other.switches, one.switches);
    EXPECT_EQ(other.latency, one.latency);
    EXPECT_EQ(other.bandwidth.value, one.bandwidth.value);
  }
}

TEST(Router, SearchesGraphsWithoutTiersAsAWhole) {
  // gpu0 - nic0 - s0 - s1 - nic1 - gpu1, and a longer way round s0 - s2 - s3 - s1.
  std::vector<Device> devices{{.kind = DeviceKind::gpu, .name = "gpu0", .node = 0},
                              {.kind = DeviceKind::gpu, .name = "gpu1", .node = 1},
                              {.kind = DeviceKind::nic, .name = "nic0", .node = 0},
                              {.kind = DeviceKind::nic, .name = "nic1", .node = 1}};
  for (const char* name : {"s0", "s1", "s2", "s3"}) {
    devices.push_back({.kind = DeviceKind::network_switch, .name = name});
  }
  std::vector<Link> links;
  const auto join = [&](uint32_t a, uint32_t b, LinkKind kind, double bandwidth) {
    links.push_back({.a = a, .b = b, .kind = kind, .bandwidth = {bandwidth}, .back = {1e9}});
  };
  join(0, 2, LinkKind::pcie, 9e9);
  join(1, 3, LinkKind::pcie, 9e9);
  join(2, 4, LinkKind::network, 5e9);
  join(3, 5, LinkKind::network, 5e9);
  join(4, 6, LinkKind::network, 5e9);
  join(6, 7, LinkKind::network, 5e9);
  join(7, 5, LinkKind::network, 5e9);
  join(4, 5, LinkKind::network, 4e9);
  const ClusterGraph g(devices, links);
  Router router(g, {});
  const GraphRoute route = *router.route(0, 1);
  EXPECT_THAT(names(g, route), ElementsAre("nic0", "s0", "s1", "nic1", "gpu1"));
  EXPECT_EQ(route.bandwidth.value, 1e9) << "the last links run against their direction";
  EXPECT_EQ(router.route(0, 0)->links.size(), 0u);
  EXPECT_THROW(router.route(0, 2), InternalError);
  EXPECT_THROW(router.route(-1, 0), InternalError);
}

TEST(Router, TellsWhenThereIsNoWay) {
  Cluster c = dgx_a100(2);
  c.node.nics = 0;
  const ClusterGraph g = cluster_graph(c);
  Router router(g, {});
  EXPECT_FALSE(router.route(0, 8));
  EXPECT_TRUE(router.route(0, 7));
}

}  // namespace
}  // namespace stepcast::routes_test
