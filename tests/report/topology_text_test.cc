// SPDX-License-Identifier: Apache-2.0
#include "report/text/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/report/topology_sample.h"

namespace stepcast {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;

TEST(TopologySummary, CountsDevicesDomainsAndLinksOfAKind) {
  const TopologySummary s = summarize(test::two_gpus());
  EXPECT_EQ(s.counts[static_cast<size_t>(ViewKind::gpu)], 2);
  EXPECT_EQ(s.counts[static_cast<size_t>(ViewKind::cpu)], 2);
  EXPECT_EQ(s.nodes, 1);
  EXPECT_EQ(s.parts, 1);
  EXPECT_THAT(s.domains, ElementsAre(Pair(2, 1)));
  // Whichever way round a link stands, it counts to the same class.
  ASSERT_EQ(s.links.size(), 4U);
  EXPECT_EQ(s.links[0].links, 2);
  EXPECT_EQ(s.links[0].cables, 18);
}

TEST(TopologySummary, GpusWithoutANicOnTheirCpuAreFar) {
  EXPECT_THAT(summarize(test::two_gpus()).far_from_nics, ElementsAre("gpu1"));
}

TEST(TopologySummary, OversubscriptionIsBandwidthDownToUp) {
  const TopologySummary s = summarize(test::fabric(4, 12, 3));
  ASSERT_EQ(s.tiers.size(), 2U);
  EXPECT_EQ(s.tiers[0].switches, 4);
  EXPECT_EQ(s.tiers[0].down, 48);
  EXPECT_EQ(s.tiers[0].up, 24);
  EXPECT_DOUBLE_EQ(s.tiers[0].down_bandwidth / s.tiers[0].up_bandwidth, 2);
  EXPECT_DOUBLE_EQ(s.tiers[0].worst, 2);
  EXPECT_EQ(s.tiers[1].up, 0);
}

TEST(TopologySummary, PartsThatNothingJoinsAreCounted) {
  TopologyView v = test::two_gpus();
  test::add(v, ViewKind::gpu, "gpu2", 0);
  EXPECT_EQ(summarize(v).parts, 2);
  EXPECT_THAT(topology_text(v), HasSubstr("not connected: 2 parts"));
}

TEST(TopologyText, EmptyViewIsShort) {
  TopologyView v;
  v.title = "nothing";
  EXPECT_THAT(topology_text(v), Not(HasSubstr("looks wrong")));
}

TEST(TopologyText, StaysOnOneScreen) {
  TopologyView v = test::fabric(40, 30, 5);
  for (uint32_t i = 0; i < v.links.size(); ++i)
    v.links[i].bandwidth = {1e9 * static_cast<double>(i + 1)};
  for (int i = 0; i < 100; ++i) {
    v.warnings.push_back({i, "a cable of which there is something to be said"});
    v.facts.push_back({"fact" + std::to_string(i), i, "a fact"});
  }
  const std::string text = topology_text(v);
  EXPECT_LE(std::ranges::count(text, '\n'), 45);
  EXPECT_THAT(text, HasSubstr("and 90 more (--json has all)"));
}

TEST(TopologyText, NamesFromFilesAreEscaped) {
  TopologyView v = test::two_gpus();
  v.title = "x\x1b[31m";
  v.warnings.push_back({1, "leaf \x1b]0;\x07"});
  EXPECT_THAT(topology_text(v), Not(HasSubstr("\x1b")));
}

TEST(TopologyJson, HasEveryWarningAndFact) {
  TopologyView v = test::two_gpus();
  for (int i = 0; i < 30; ++i) v.warnings.push_back({i, "w"});
  v.facts.push_back({"sharp_nodes", 40, ""});
  const nlohmann::json j = nlohmann::json::parse(topology_json(v));
  EXPECT_EQ(j["devices"]["gpus"], 2);
  EXPECT_EQ(j["warnings"].size(), 31U);  // with the GPU that is far from a NIC
  EXPECT_EQ(j["facts"]["sharp_nodes"], 40);
  EXPECT_EQ(j["links"][0]["bandwidth_bytes_per_s"], 450e9);
  EXPECT_TRUE(j["links"][0]["nccl_bytes_per_s"].is_null());
}

}  // namespace
}  // namespace stepcast
