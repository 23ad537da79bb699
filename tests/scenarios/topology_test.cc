// SPDX-License-Identifier: Apache-2.0
// cluster.topology: fabrics written out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/forecast/forecast.h"
#include "tests/scenarios/loading.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast::topology_test {
namespace {

using ::testing::ElementsAre;
using testing::failure;
using testing::find_setting;
using ::testing::HasSubstr;
using testing::load;

const std::string kJob =
    "model: llama3-8b\n"
    "parallel: {tp: 8, pp: 1}\n"
    "batch: {global: 16, seq: 8192}\n";

std::string topology(
    const std::string& links,
    const std::string& nodes = "[{id: n0, preset: dgx-h100}, {id: n1, preset: dgx-h100}]") {
  return kJob + "cluster: {topology: {nodes: " + nodes + ", switches: [{id: s0}], links: [" +
         links + "]}}\n";
}

const std::string kN0 = "{a: n0, b: s0, bw: 400Gb/s, count: 8}";
const std::string kN1 = "{a: s0, b: n1, bw: 400Gb/s, count: 8}";

double step_seconds(const std::string& text) {
  return to_seconds(forecast(load(text)).step_time);
}

TEST(Topology, IsResolvedToAGraph) {
  const Scenario s = load(topology(kN0 + ", " + kN1));
  EXPECT_EQ(s.cluster.nodes, 2);
  EXPECT_EQ(s.cluster.node.gpu.name, "h100-sxm");
  EXPECT_EQ(s.cluster.node.nics, 8);
  EXPECT_EQ(s.cluster.node.nic_bandwidth.value, 50e9);
  ASSERT_NE(s.cluster.graph, nullptr);
  EXPECT_EQ(s.cluster.graph->gpus().size(), 16u);
  EXPECT_EQ(find_setting(s, "cluster.nodes")->value, "2");
  EXPECT_EQ(find_setting(s, "cluster.nodes")->origin, "cluster.topology");
  EXPECT_EQ(find_setting(s, "cluster.node.nics.bw")->value, "50GB/s");
}

TEST(Topology, CostsWhatTheSameClusterOfAPresetDoes) {
  EXPECT_EQ(step_seconds(topology(kN0 + ", " + kN1)),
            step_seconds(kJob + "cluster: dgx-h100 x 2\n"));
}

TEST(Topology, OneItemOfAListIsSetByItsNumber) {
  const std::string text = topology(kN0 + ", " + kN1);
  const testing::Sets sets{{"cluster.topology.links.1.bw_back", "50Gb/s"}};
  EXPECT_EQ(
      to_seconds(forecast(load(text, sets)).step_time),
      step_seconds(topology(kN0 + ", {a: s0, b: n1, bw: 400Gb/s, bw_back: 50Gb/s, count: 8}")));
  EXPECT_THAT(failure(text, {{"cluster.topology.links.2.bw", "50Gb/s"}}).lines,
              ElementsAre("E102 1:24 'cluster.topology.links' has no item 2: there are 2"));
  EXPECT_THAT(failure(text, {{"cluster.topology.links.first.bw", "50Gb/s"}}).lines,
              ElementsAre("E102 1:24 'cluster.topology.links' is a list: first is no number"));
  EXPECT_EQ(failure(text, {{"cluster.topology.links.1.wb", "50Gb/s"}}).codes, "E102");
  EXPECT_EQ(failure(text, {{"cluster.topology.links.0", "null"}}).codes, "E107 E126");
  EXPECT_THAT(failure(text, {{"cluster.topology.links.0.count", "1025"}}).lines,
              ElementsAre(HasSubstr("E123")));
  EXPECT_THAT(failure(text, {{"perturb.0.compute", "0.5"}}).lines,
              ElementsAre("E102 1:9 'perturb' has no item 0: there are 0"));
  const std::string cases =
      text + "compare: {cases: {slow: {cluster.topology.links.1.bw: 50Gb/s}}}\n";
  EXPECT_EQ(load(cases).compare.front().set.front().first, "cluster.topology.links.1.bw");
}

TEST(Topology, SaysWhatTheNicsAre) {
  const std::string text = topology(kN0 + ", " + kN1);
  const testing::Sets same{{"cluster.node.nics.bw", "50GB/s"}, {"cluster.node.nics.count", "8"}};
  EXPECT_EQ(load(text, same).cluster.node.nics, 8);
  EXPECT_THAT(failure(text, {{"cluster.node.nics.bw", "100Gb/s"}}).lines,
              ElementsAre("E127 1:1 'bw' is not what the links of n0 in cluster.topology come to, "
                          "50GB/s"));
  EXPECT_EQ(failure(text, {{"cluster.node.nics.count", "4"}}).codes, "E127");
}

TEST(Topology, OneSlowCableSlowsTheStep) {
  const std::string slow =
      "{a: s0, b: n1, bw: 400Gb/s, count: 7}, {a: s0, b: n1, bw: 400Gb/s, bw_back: 50Gb/s}";
  EXPECT_GT(step_seconds(topology(kN0 + ", " + slow)), step_seconds(topology(kN0 + ", " + kN1)));
}

TEST(Topology, MoreCablesAtOneNodeNeverSlowTheStep) {
  const auto step = [](int a, int b) {
    const auto cables = [](int n) { return ", bw: 400Gb/s, count: " + std::to_string(n) + '}'; };
    return step_seconds(topology("{a: n0, b: s0" + cables(a) + ", " + "{a: s0, b: n1" + cables(b)));
  };
  for (const int b : {4, 8}) {
    const double alike = step(b, b);
    for (const int a : {b + 1, b + 3, 2 * b}) {
      EXPECT_LE(step(a, b), alike * (1 + 1e-9)) << a << " and " << b << " cables";
    }
  }
  EXPECT_LT(step(8, 8), step(8, 4));
}

TEST(Topology, NodesMayBeStatedBesideIt) {
  const Scenario s = load(kJob +
                          "cluster:\n"
                          "  node: {gpus: 8, intra: {kind: nvswitch, bw: 450GB/s}}\n"
                          "  topology:\n"
                          "    nodes: [{id: a, gpu: h100-sxm}, {id: b, gpu: h100-sxm, gpus: 8}]\n"
                          "    links: [{a: a, b: b, bw: 50GB/s, latency: 1us}]\n");
  EXPECT_EQ(s.cluster.gpus(), 16);
  EXPECT_EQ(s.cluster.node.nics, 1);
  EXPECT_EQ(s.cluster.graph->links().back().latency.count(), 1'000'000);
}

TEST(Topology, WhatIsUnsoundIsTold) {
  EXPECT_EQ(failure(topology(kN0)).codes, "E220");
  EXPECT_EQ(failure(topology("")).codes, "E220");
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: n1, bw: 1GB/s}")).codes, "E221");  // to itself
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: s9, bw: 1GB/s}")).codes, "E221");
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: s0, bw: 0GB/s}")).codes, "E121");
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: s0, bw: 1GB/s, bw_back: 0GB/s}")).codes, "E121");
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: s0, bw: 1GB/s, latency: -1us}")).codes, "E122");
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: s0, bw: 1GB/s, count: 0}")).codes, "E121");
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: s0, bw: 1GB/s, count: 9999}")).codes, "E123");
  EXPECT_EQ(failure(topology(kN0 + ", {a: n1, b: s0}")).codes, "E126");
  EXPECT_EQ(failure(topology(kN0, "[{id: n0}, {id: n0}]")).codes, "E221");
  EXPECT_EQ(failure(topology(kN0, "[{id: n0}, {id: s0}]")).codes, "E221");
  EXPECT_EQ(failure(topology(kN0, "[{gpus: 8}]")).codes, "E126 E221");  // n0 is not there
  EXPECT_EQ(failure(topology("", "[]")).codes, "E221");
  EXPECT_EQ(failure(topology("", "[{id: n0, gpu: h101}]")).codes, "E125");
  EXPECT_EQ(failure(topology("", "[{id: n0, preset: dgx-h101}]")).codes, "E125");
  EXPECT_EQ(failure(topology("", "5")).codes, "E107");
}

TEST(Topology, ProblemsAreAtTheirPlace) {
  const std::string text = topology(kN0 + ", {a: n1, b: n1, bw: 1GB/s}");
  const testing::Failure f = failure(text);
  const size_t column = text.find("n1, bw: 1GB/s") - text.find("cluster:") + 1;
  EXPECT_THAT(f.lines,
              ElementsAre("E221 4:" + std::to_string(column) + " a link from 'n1' to itself"));
}

TEST(Topology, NodesAreOfOneKind) {
  const std::string links = kN0 + ", " + kN1;
  EXPECT_EQ(failure(topology(links, "[{id: n0, preset: dgx-h100}, {id: n1, preset: dgx-a100-80g}]"))
                .codes,
            "E229");
  EXPECT_EQ(failure(topology(links, "[{id: n0, preset: dgx-h100}, {id: n1, gpus: 4}]")).codes,
            "E229");
  EXPECT_EQ(failure(topology(links), {{"cluster.nodes", "3"}}).codes, "E221");
  EXPECT_EQ(failure(topology(links), {{"cluster.nodes", "2"}}).codes, "");
}

TEST(Topology, NeedsAsMuchOfANodeAsAnyCluster) {
  EXPECT_EQ(
      failure(topology(kN0 + ", " + kN1, "[{id: n0, gpu: h100-sxm}, {id: n1, gpu: h100-sxm}]"))
          .codes,
      "E126");  // the links between its GPUs
}

TEST(Topology, TooLargeOnesAreRefusedBeforeTheyAreBuilt) {
  EXPECT_EQ(failure(topology(kN0 + ", " + kN1), {{"cluster.node.gpus", "4000000"}}).codes, "E123");
}

}  // namespace
}  // namespace stepcast::topology_test
