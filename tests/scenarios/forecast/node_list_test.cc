// SPDX-License-Identifier: Apache-2.0
// cluster.placement: the same job on other nodes.
#include <gtest/gtest.h>

#include <string>

#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"

namespace stepcast::node_list_test {
namespace {

// Pods of four nodes; the way out of them is eight times oversubscribed.
Time step_on(const std::string& nodes) {
  LoadOptions options;
  options.set = {{"cluster.placement.nodes", nodes}};
  if (nodes.empty()) options.set = {{"cluster.nodes", "4"}};
  const Scenario s = load_scenario_text(R"(
schema: 1
name: placed
model: llama3-8b
cluster:
  preset: dgx-h100
  nodes: 8
  fabric: {kind: clos, tiers: [{name: pod, size: 32}, {name: spine, size: 64, oversub: 8}]}
parallel: {tp: 8, dp: 4}
batch: {global: 16, micro: 1, seq: 2048}
precision: bf16-mixed
)",
                                        "placed.yaml", options);
  ForecastOptions what;
  what.what_if = false;
  return forecast(s, what).step_time;
}

TEST(NodeList, InOrderIsAsWithout) {
  EXPECT_EQ(step_on("[0-3]"), step_on(""));
}

TEST(NodeList, OfAnotherPodIsAsGood) {
  EXPECT_EQ(step_on("[4-7]"), step_on("[0-3]"));
  EXPECT_EQ(step_on("[7, 5, 6, 4]"), step_on("[0-3]"));
}

TEST(NodeList, OverTwoPodsIsSlower) {
  EXPECT_GT(step_on("[0, 4, 1, 5]"), step_on("[0-3]"));
}

}  // namespace
}  // namespace stepcast::node_list_test
