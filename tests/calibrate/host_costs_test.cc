// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/price_graph.h"

#include <gtest/gtest.h>

namespace stepcast::host_costs_test {
namespace {

Time cost(const Node& node, HostCall call) {
  return host_costs(node)[static_cast<size_t>(call)];
}

TEST(HostCosts, ALaunchCostsTheSumOfItsCalls) {
  const Node node;
  const Launch launch = Launch{}.add(HostCall::function).add(HostCall::kernel, 3);
  EXPECT_EQ(describe(launch), "3 kernel + function");
  EXPECT_EQ(host_time(launch, host_costs(node)),
            cost(node, HostCall::function) + cost(node, HostCall::kernel) * 3);
  EXPECT_EQ(host_time({}, host_costs(node)), Time{});
  EXPECT_EQ(describe(Launch{}), "nothing");
}

TEST(HostCosts, PythonIsSlowerOnGraceAndRawLaunchesAreNot) {
  Node x86, grace;
  grace.c2c = true;
  EXPECT_EQ(cost(grace, HostCall::kernel), cost(x86, HostCall::kernel));
  EXPECT_EQ(cost(grace, HostCall::graph), cost(x86, HostCall::graph));
  for (const HostCall call :
       {HostCall::eager_forward, HostCall::product_forward, HostCall::module, HostCall::collective})
    EXPECT_GT(cost(grace, call), cost(x86, call) * 2) << name_of(call);
}

TEST(HostCosts, AGradientThatIsNotRecordedCostsLess) {
  const Node node;
  EXPECT_LT(cost(node, HostCall::eager_backward), cost(node, HostCall::eager_forward));
  EXPECT_LT(cost(node, HostCall::product_backward), cost(node, HostCall::product_forward));
}

TEST(HostCosts, PricesHaveOneTimeForEachLaunch) {
  OpGraph graph;
  graph.launches = {Launch{}, Launch{}.add(HostCall::kernel), Launch{}.add(HostCall::module, 2),
                    Launch{}.add(HostCall::graph, 3)};
  Cluster cluster;
  const Prices p = price(graph, cluster, {}, nullptr);
  EXPECT_EQ(p.by_launch, (std::vector<Time>{Time{}, cost(cluster.node, HostCall::kernel),
                                            cost(cluster.node, HostCall::module) * 2,
                                            cost(cluster.node, HostCall::graph) * 3}));
  // A table measured on this host has the last word on the launch of a kernel and of a graph.
  const CostTable table = CostTable::parse(
      "# stepcast cost table\n# format: 1\n# gpu: x\n# nvlink_gbs: 300\n"
      "# in_network_reduction: no\n# source: m measured here\n# rows: 2\n\nlaunch,2.5,m\n"
      "graph_launch,7,m\n",
      "x.csv");
  const std::vector<Time> by_launch = price(graph, cluster, {}, &table).by_launch;
  EXPECT_EQ(by_launch[1], Time{2'500'000});
  EXPECT_EQ(by_launch[2], p.by_launch[2]);
  EXPECT_EQ(by_launch[3], Time{21'000'000});
}

}  // namespace
}  // namespace stepcast::host_costs_test
