// SPDX-License-Identifier: Apache-2.0
#include "topology/traffic/collective_links.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>

#include "sim/check.h"
#include "tests/topology/clusters.h"
#include "topology/cluster/build_graph.h"
#include "topology/nccl/collectives.h"

namespace stepcast::collective_links_test {
namespace {

using ::testing::Each;

using Nodes = std::vector<std::vector<int64_t>>;

// Node k has GPUs 100 k, 100 k + 1, ...
Nodes nodes_of(std::initializer_list<int64_t> sizes) {
  Nodes nodes;
  for (int64_t size : sizes) {
    auto& node = nodes.emplace_back();
    for (int64_t i = 0; i < size; ++i)
      node.push_back(100 * static_cast<int64_t>(nodes.size() - 1) + i);
  }
  return nodes;
}

Nodes equal_nodes(int64_t nodes, int64_t gpus) {
  Nodes all;
  for (int64_t k = 0; k < nodes; ++k) {
    auto& node = all.emplace_back();
    for (int64_t i = 0; i < gpus; ++i) node.push_back(100 * k + i);
  }
  return all;
}

int64_t count(const Nodes& nodes) {
  return std::accumulate(nodes.begin(), nodes.end(), int64_t{0}, [](int64_t n, const auto& node) {
    return n + static_cast<int64_t>(node.size());
  });
}

// Parts that every GPU sends and gets.
struct Sums {
  std::map<int64_t, int64_t> sent, received;
  int64_t all = 0;
};

Sums sums(const CollectiveMessages& c) {
  Sums s;
  for (const Message& m : c.messages) {
    s.sent[m.from] += m.parts;
    s.received[m.to] += m.parts;
    s.all += m.parts;
  }
  return s;
}

// Parts between different nodes, by the node that they leave.
std::map<int64_t, int64_t> leaving_nodes(const CollectiveMessages& c) {
  std::map<int64_t, int64_t> parts;
  for (const Message& m : c.messages) {
    if (m.from >= 0 && m.to >= 0 && m.from / 100 != m.to / 100) parts[m.from / 100] += m.parts;
  }
  return parts;
}

const std::initializer_list<Nodes> kGroups{equal_nodes(1, 2),  equal_nodes(1, 8), equal_nodes(2, 1),
                                           equal_nodes(5, 1),  equal_nodes(2, 8), equal_nodes(3, 4),
                                           equal_nodes(16, 2), equal_nodes(7, 8)};

TEST(Messages, OfARingAddUpToTheFormulaAtEveryGpu) {
  for (const Nodes& nodes : kGroups) {
    const int64_t n = count(nodes);
    for (const auto& [kind, rounds] :
         {std::pair(WorkKind::all_reduce, 2), std::pair(WorkKind::all_gather, 1),
          std::pair(WorkKind::reduce_scatter, 1)}) {
      const CollectiveMessages c = collective_messages(kind, Algorithm::ring, nodes);
      const Sums s = sums(c);
      EXPECT_EQ(s.sent.size(), static_cast<size_t>(n));
      for (const auto& [gpu, parts] : s.sent) EXPECT_EQ(parts * n, rounds * (n - 1) * c.whole);
      for (const auto& [gpu, parts] : s.received) EXPECT_EQ(parts * n, rounds * (n - 1) * c.whole);
      // Every node passes the whole ring on once, however many GPUs it has.
      for (const auto& [node, parts] : leaving_nodes(c))
        EXPECT_EQ(parts * n, rounds * (n - 1) * c.whole);
    }
  }
}

TEST(Messages, OfARingStayOnTheirRailsBetweenNodes) {
  for (const Nodes& nodes :
       {equal_nodes(2, 8), equal_nodes(3, 4), equal_nodes(7, 8), equal_nodes(4, 2)}) {
    std::map<int64_t, int64_t> by_rail;
    for (const Message& m :
         collective_messages(WorkKind::all_gather, Algorithm::ring, nodes).messages) {
      if (m.from / 100 == m.to / 100) continue;
      EXPECT_EQ(m.from % 100, m.to % 100);
      by_rail[m.from % 100] += m.parts;
    }
    EXPECT_EQ(by_rail.size(), nodes.front().size());
    for (const auto& [rail, parts] : by_rail) EXPECT_EQ(parts, by_rail.begin()->second);
  }
}

TEST(Messages, OfUnevenNodesStillPassEveryGpu) {
  const Nodes nodes = nodes_of({3, 1, 2});
  const CollectiveMessages c = collective_messages(WorkKind::all_reduce, Algorithm::ring, nodes);
  const Sums s = sums(c);
  EXPECT_EQ(s.sent.size(), 6u);
  for (const auto& [gpu, parts] : s.sent) EXPECT_EQ(parts * 6, 10 * c.whole);
  EXPECT_EQ(s.sent, s.received);
  const CollectiveMessages t = collective_messages(WorkKind::all_reduce, Algorithm::tree, nodes);
  EXPECT_EQ(sums(t).all, 2 * 5 * t.whole);
}

TEST(Messages, OfABroadcastNeverReachItsRoot) {
  for (const Nodes& nodes : kGroups) {
    const CollectiveMessages c = collective_messages(WorkKind::broadcast, Algorithm::ring, nodes);
    const Sums s = sums(c);
    EXPECT_EQ(s.all, (count(nodes) - 1) * c.whole);
    EXPECT_FALSE(s.received.contains(nodes.front().front()));
    for (const auto& [gpu, parts] : s.received) EXPECT_EQ(parts, c.whole);
  }
}

// Whatever spans n GPUs with both ways of every edge moves 2(n-1) messages, as a ring does.
TEST(Messages, OfTwoTreesMoveWhatARingMoves) {
  for (const Nodes& nodes : kGroups) {
    const CollectiveMessages c = collective_messages(WorkKind::all_reduce, Algorithm::tree, nodes);
    const Sums s = sums(c);
    EXPECT_EQ(s.all, 2 * (count(nodes) - 1) * c.whole);
    EXPECT_EQ(s.sent, s.received);
    EXPECT_EQ(s.sent.size(), static_cast<size_t>(count(nodes)));
    // Inner in one tree, leaf in the other: half up twice, half down twice.
    for (const auto& [node, parts] : leaving_nodes(c)) EXPECT_LE(parts, 2 * c.whole);
  }
}

TEST(Messages, OverTwoNodesATreeSendsTheSumOnceEachWay) {
  const CollectiveMessages c =
      collective_messages(WorkKind::all_reduce, Algorithm::tree, equal_nodes(2, 8));
  const std::map<int64_t, int64_t> leaving = leaving_nodes(c);
  EXPECT_EQ(leaving.at(0), c.whole);
  EXPECT_EQ(leaving.at(1), c.whole);
}

TEST(Messages, OfEveryPairAreEqual) {
  for (const Nodes& nodes : kGroups) {
    const int64_t n = count(nodes);
    const CollectiveMessages c =
        collective_messages(WorkKind::all_to_all, Algorithm::pairwise, nodes);
    EXPECT_EQ(c.messages.size(), static_cast<size_t>(n * (n - 1)));
    for (const auto& [gpu, parts] : sums(c).sent) EXPECT_EQ(parts * n, (n - 1) * c.whole);
    for (const auto& [gpu, parts] : sums(c).received) EXPECT_EQ(parts * n, (n - 1) * c.whole);
  }
}

TEST(Messages, InTwoStepsGoToOneGpuOfEachNode) {
  const CollectiveMessages c =
      collective_messages(WorkKind::all_to_all, Algorithm::two_step, equal_nodes(4, 8));
  // (n-p)/n over the network as pairwise, then NVLink carries what came from elsewhere as well.
  for (const auto& [node, parts] : leaving_nodes(c)) EXPECT_EQ(parts * 32, 8 * 24 * c.whole);
  for (const Message& m : c.messages) {
    if (m.from / 100 == m.to / 100) {
      EXPECT_EQ(m.parts * 32, 4 * c.whole);
    } else {
      EXPECT_EQ(m.from % 100, m.to % 100);
      EXPECT_EQ(m.parts * 32, 8 * c.whole);
    }
  }
}

TEST(Messages, InRoundsOfTwoPowersReachEveryRank) {
  for (const int64_t n : {2, 3, 8, 13}) {
    for (const WorkKind kind : {WorkKind::all_gather, WorkKind::reduce_scatter}) {
      const CollectiveMessages c = collective_messages(kind, Algorithm::pat, equal_nodes(n, 1));
      for (const auto& [gpu, parts] : sums(c).sent) EXPECT_EQ(parts * n, (n - 1) * c.whole);
      for (const auto& [gpu, parts] : sums(c).received) EXPECT_EQ(parts * n, (n - 1) * c.whole);
    }
  }
}

// Every GPU gives all it has to the switches and takes all of the sum, and the sum of its own slice
// goes up and down once more.
TEST(Messages, InsideTheSwitchesAreOneMessageAndASlice) {
  const CollectiveMessages c =
      collective_messages(WorkKind::all_reduce, Algorithm::nvls, equal_nodes(1, 8));
  for (const Message& m : c.messages) EXPECT_EQ(std::min(m.from, m.to), Message::kSwitches);
  Sums s = sums(c);
  s.sent.erase(Message::kSwitches);
  s.received.erase(Message::kSwitches);
  EXPECT_EQ(s.sent.size(), 8u);
  EXPECT_EQ(s.sent, s.received);
  for (const auto& [gpu, parts] : s.sent) EXPECT_EQ(parts * 8, 9 * c.whole);
}

TEST(Messages, OfSwitchesAndTreesLeaveEachNodeOnAllRailsAlike) {
  const CollectiveMessages c =
      collective_messages(WorkKind::all_reduce, Algorithm::nvls_tree, equal_nodes(4, 8));
  int64_t all = 0;
  for (const auto& [node, parts] : leaving_nodes(c)) all += parts;
  EXPECT_EQ(all, 2 * 3 * c.whole);
  std::map<int64_t, int64_t> by_rail;
  for (const Message& m : c.messages) {
    if (m.from < 0 || m.to < 0) continue;
    EXPECT_EQ(m.from % 100, m.to % 100);
    by_rail[m.from % 100] += m.parts;
  }
  EXPECT_EQ(by_rail.size(), 8u);
  for (const auto& [rail, parts] : by_rail) EXPECT_EQ(parts * 8, all);
}

TEST(Messages, OfATransferAndOfOneGpu) {
  const CollectiveMessages c =
      collective_messages(WorkKind::send_recv, Algorithm::none, Nodes{{7}, {3}});
  ASSERT_EQ(c.messages.size(), 1u);
  EXPECT_EQ(c.messages[0].from, 7);
  EXPECT_EQ(c.messages[0].to, 3);
  EXPECT_EQ(c.messages[0].parts, c.whole);
  for (const Algorithm algorithm :
       {Algorithm::ring, Algorithm::tree, Algorithm::pat, Algorithm::pairwise, Algorithm::two_step})
    EXPECT_THAT(collective_messages(WorkKind::all_reduce, algorithm, Nodes{{5}}).messages,
                ::testing::IsEmpty());
}

TEST(Messages, OfAShiftGoFromEachToTheNext) {
  const CollectiveMessages c =
      collective_messages(WorkKind::shift, Algorithm::ring, Nodes{{0, 1}, {8}});
  ASSERT_EQ(c.messages.size(), 3u);
  EXPECT_EQ(c.messages[0].to, 1);
  EXPECT_EQ(c.messages[1].to, 8);
  EXPECT_EQ(c.messages[2].to, 0);
  for (const Message& m : c.messages) EXPECT_EQ(m.parts, c.whole);
}

TEST(Messages, OfAnUnknownAlgorithmAreABug) {
  EXPECT_THROW(collective_messages(WorkKind::all_reduce, Algorithm::none, equal_nodes(2, 2)),
               InternalError);
}

TEST(Messages, AreKnownOfEveryAlgorithmThatTheModelChooses) {
  for (const Cluster& c : {test::dgx_a100(4), test::dgx_h100(4)}) {
    for (const GroupShape& shape : {GroupShape{8, 1, 8, -1, 1, {}}, GroupShape{4, 4, 1, 0, 8, {}},
                                    GroupShape{32, 4, 8, 0, 1, {}}}) {
      for (const WorkKind kind :
           {WorkKind::all_reduce, WorkKind::all_gather, WorkKind::reduce_scatter,
            WorkKind::all_to_all, WorkKind::broadcast}) {
        for (const int64_t bytes : {1 << 10, 1 << 20, 1 << 30}) {
          const Algorithm algorithm = collective_cost(c, kind, {bytes}, shape).algorithm;
          EXPECT_NO_THROW(collective_messages(kind, algorithm, equal_nodes(2, 8)))
              << name_of(algorithm);
        }
      }
    }
  }
}

TEST(CollectiveMessages, SwitchesThatAddUpTakeASliceOnceFromEveryNode) {
  const Nodes nodes = equal_nodes(4, 8);
  const auto node_of = [&](int64_t gpu) {
    size_t k = 0;
    while (std::find(nodes[k].begin(), nodes[k].end(), gpu) == nodes[k].end()) ++k;
    return k;
  };
  for (const Algorithm algorithm : {Algorithm::nvls, Algorithm::collnet_chain}) {
    const CollectiveMessages c = collective_messages(WorkKind::all_reduce, algorithm, nodes);
    std::vector<int64_t> out(4), in(4);
    for (const Message& m : c.messages) {
      if (m.from == Message::kSwitches || m.to == Message::kSwitches) continue;
      if (node_of(m.from) == node_of(m.to)) continue;
      out[node_of(m.from)] += m.parts;
      in[node_of(m.to)] += m.parts;
    }
    for (size_t k = 0; k < 4; ++k) {
      EXPECT_EQ(out[k], c.whole) << name_of(algorithm)
                                 << ": the message once, a tree has up to three";
      EXPECT_EQ(in[k], c.whole) << name_of(algorithm);
    }
  }
}

// -------------------------------------------------------------------------------------- links
std::vector<int64_t> every(int64_t count, int64_t stride, int64_t first = 0) {
  std::vector<int64_t> gpus;
  for (int64_t i = 0; i < count; ++i) gpus.push_back(first + i * stride);
  return gpus;
}

std::string from(const ClusterGraph& g, uint32_t link) {
  return g.devices()[g.to(link ^ 1u)].name;
}

std::string to(const ClusterGraph& g, uint32_t link) {
  return g.devices()[g.to(link)].name;
}

// Loads that leave and enter GPUs, in messages.
struct AtGpus {
  std::map<std::string, double> out, in;
};

AtGpus at_gpus(const ClusterGraph& g, const std::vector<LinkUse>& uses) {
  AtGpus sums;
  for (const LinkUse& use : uses) {
    const double load = static_cast<double>(use.load) / kFullLoad;
    if (g.devices()[g.to(use.link ^ 1u)].kind == DeviceKind::gpu)
      sums.out[from(g, use.link)] += load;
    if (g.devices()[g.to(use.link)].kind == DeviceKind::gpu) sums.in[to(g, use.link)] += load;
  }
  return sums;
}

// Loads of the links between NICs and leaves, by NIC, out of the node.
std::map<std::string, double> out_of_nics(const ClusterGraph& g, const std::vector<LinkUse>& uses) {
  std::map<std::string, double> loads;
  for (const LinkUse& use : uses) {
    if (g.links()[use.link / 2].kind != LinkKind::network) continue;
    if (g.devices()[g.to(use.link ^ 1u)].kind != DeviceKind::nic) continue;
    loads[from(g, use.link)] += static_cast<double>(use.load) / kFullLoad;
  }
  return loads;
}

TEST(CollectiveLinks, OfARingInANodeAreTheNvlinksOfItsGpusAsOneEach) {
  const ClusterGraph g = cluster_graph(test::dgx_h100(1));
  Router router(g, {});
  const auto uses = collective_links(g, router, WorkKind::all_reduce, Algorithm::ring, every(8, 1));
  EXPECT_EQ(uses.size(), 16u);
  for (const LinkUse& use : uses) {
    EXPECT_EQ(joint_link(g, use.link), use.link);
    EXPECT_NEAR(joint_bandwidth(g, use.link).value, 450e9, 1);
    EXPECT_EQ(g.links()[use.link / 2].kind, LinkKind::nvlink);
    EXPECT_NEAR(static_cast<double>(use.load) / kFullLoad, 2 * 7 / 8.0, 1e-4);
  }
}

TEST(CollectiveLinks, CarryWhatEachGpuSendsByTheFormula) {
  const ClusterGraph g = cluster_graph(test::dgx_a100(4));
  Router router(g, {.pxn = false});  // else GPUs pass on what is not theirs
  struct Case {
    WorkKind kind;
    Algorithm algorithm;
    double each;  // messages that every one of 32 GPUs sends and gets
  };
  for (const Case& t : {Case{WorkKind::all_reduce, Algorithm::ring, 2 * 31 / 32.0},
                        Case{WorkKind::all_gather, Algorithm::ring, 31 / 32.0},
                        Case{WorkKind::reduce_scatter, Algorithm::ring, 31 / 32.0},
                        Case{WorkKind::all_to_all, Algorithm::pairwise, 31 / 32.0}}) {
    const AtGpus sums = at_gpus(g, collective_links(g, router, t.kind, t.algorithm, every(32, 1)));
    EXPECT_EQ(sums.out.size(), 32u);
    EXPECT_EQ(sums.in.size(), 32u);
    for (const auto& [gpu, load] : sums.out)
      EXPECT_NEAR(load, t.each, 1e-3) << name_of(t.algorithm);
    for (const auto& [gpu, load] : sums.in) EXPECT_NEAR(load, t.each, 1e-3) << name_of(t.algorithm);
  }
  const AtGpus tree =
      at_gpus(g, collective_links(g, router, WorkKind::all_reduce, Algorithm::tree, every(32, 1)));
  const auto total = [](const std::map<std::string, double>& loads) {
    return std::accumulate(loads.begin(), loads.end(), 0.0,
                           [](double sum, const auto& l) { return sum + l.second; });
  };
  EXPECT_NEAR(total(tree.out), 2 * 31, 1e-2);
  EXPECT_NEAR(total(tree.in), 2 * 31, 1e-2);
}

TEST(CollectiveLinks, OfAGroupWithAllGpusOfItsNodesUseAllNicsAlike) {
  const ClusterGraph g = cluster_graph(test::dgx_h100(2));
  Router router(g, {});
  for (const Algorithm algorithm : {Algorithm::ring, Algorithm::tree, Algorithm::nvls_tree}) {
    const auto nics =
        out_of_nics(g, collective_links(g, router, WorkKind::all_reduce, algorithm, every(16, 1)));
    EXPECT_EQ(nics.size(), 16u) << name_of(algorithm);
    // A ring passes 2(n-1)/n on from node to node, two trees over two nodes the sum once.
    const double each = (algorithm == Algorithm::ring ? 2 * 15 / 16.0 : 1) / 8;
    for (const auto& [nic, load] : nics)
      EXPECT_NEAR(load, each, 1e-4) << name_of(algorithm) << ' ' << nic;
  }
}

TEST(CollectiveLinks, SpreadOverAllNicsOfAGpu) {
  Cluster c = test::dgx_h100(2);
  c.node.nics = 32;
  c.node.nic_bandwidth = {12.5e9};
  const ClusterGraph g = cluster_graph(c);
  Router router(g, {});
  const auto nics = out_of_nics(
      g, collective_links(g, router, WorkKind::send_recv, Algorithm::none, every(2, 8)));
  EXPECT_EQ(nics.size(), 4u);
  for (const auto& [nic, load] : nics) EXPECT_DOUBLE_EQ(load, 0.25);
}

TEST(CollectiveLinks, OfATransferAreItsRoute) {
  const ClusterGraph g = cluster_graph(test::dgx_h100(4));
  Router router(g, {});
  const auto uses = collective_links(g, router, WorkKind::send_recv, Algorithm::none,
                                     std::vector<int64_t>{25, 1});
  std::vector<uint32_t> links = router.route(25, 1)->links;
  std::sort(links.begin(), links.end());
  ASSERT_EQ(uses.size(), links.size());
  for (size_t i = 0; i < links.size(); ++i) {
    EXPECT_EQ(uses[i].link, links[i]);
    EXPECT_EQ(uses[i].load, kFullLoad);
  }
}

TEST(CollectiveLinks, OfAnExchangeTakePxnOverNvlink) {
  const ClusterGraph g = cluster_graph(test::dgx_h100(2));
  // With PXN a message to another rail first crosses to the GPU beside that rail.
  RouteOptions rails;
  rails.rail_aware = false;
  Router with(g, rails);
  rails.pxn = false;
  Router without(g, rails);
  const auto nvlink = [&](Router& router) {
    double sum = 0;
    for (const LinkUse& use :
         collective_links(g, router, WorkKind::all_to_all, Algorithm::pairwise, every(16, 1))) {
      if (g.links()[use.link / 2].kind == LinkKind::nvlink) sum += use.load;
    }
    return sum / kFullLoad;
  };
  // 16 x 7 pairs in the nodes, up and down; of 16 x 8 between them seven eighths change rails.
  EXPECT_NEAR(nvlink(without), 2 * 16 * 7 / 16.0, 1e-2);
  EXPECT_NEAR(nvlink(with), 2 * (16 * 7 + 16 * 7) / 16.0, 1e-2);
}

}  // namespace
}  // namespace stepcast::collective_links_test
