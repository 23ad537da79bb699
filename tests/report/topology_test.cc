// SPDX-License-Identifier: Apache-2.0
#include "report/text/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>

#include "report/svg/topology.h"
#include "tests/report/topology_sample.h"

namespace stepcast::topology_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

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

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

TEST(TopologySvg, DrawsEachDeviceOfTheNodeOnce) {
  const std::string svg = topology_svg(test::two_gpus());
  EXPECT_THAT(svg, StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_EQ(count(svg, "<rect class=\"gpu\""), 2U);
  EXPECT_EQ(count(svg, "<rect class=\"nvswitch\""), 1U);
  EXPECT_EQ(count(svg, "<rect class=\"cpu\""), 2U);
  EXPECT_EQ(count(svg, "<rect class=\"nic\""), 1U);
  EXPECT_THAT(svg, HasSubstr("gpu0 - nvswitch0: 450.0 GB/s, 18 cables"));
}

TEST(TopologySvg, NamesFromFilesCannotBreakOut) {
  TopologyView v = test::two_gpus();
  v.devices[0].name = "<script>alert(1)</script>\"";
  const std::string svg = topology_svg(v);
  EXPECT_THAT(svg, HasSubstr("two &lt;gpus&gt;"));
  EXPECT_THAT(svg, Not(HasSubstr("<script>")));
}

TEST(TopologySvg, MissingCablesAreRed) {
  TopologyView v = test::fabric(6, 2, 3);
  EXPECT_THAT(topology_svg(v), Not(HasSubstr("class=\"bad\"")));
  for (ViewLink& l : v.links)
    if (v.devices[l.b].name == "spine1" && v.devices[l.a].name == "leaf4") l.cables = 1;
  EXPECT_THAT(topology_svg(v), HasSubstr("leaf4 - spine1: 1 of 2 cables"));
}

TEST(TopologySvg, ManySwitchesBecomeGroups) {
  const std::string svg = topology_svg(test::fabric(500, 4, 4));
  EXPECT_THAT(svg, HasSubstr("500 leaves, 2,000 NICs below"));
  EXPECT_EQ(count(svg, "<rect class=\"switch\""), 5U);  // the leaves, and four spines
  EXPECT_LT(svg.size(), 10'000U);
}

TEST(TopologySvg, DomainOverSeveralNodesIsDrawnAsTrays) {
  TopologyView v = test::two_gpus();
  v.devices[1].node = 1;
  v.devices[2].node = -1;
  EXPECT_THAT(topology_svg(v), HasSubstr("NVLink domain: 2 GPUs in 2 nodes, 1 NVSwitch"));
}

TEST(TopologySvg, TiersBeyondMeasureAreNotDrawn) {
  TopologyView v = test::fabric(2, 1, 1);
  v.devices[0].tier = 1000;
  EXPECT_THAT(topology_svg(v), HasSubstr("1001 tiers of switches: too many to draw"));
}

}  // namespace
}  // namespace stepcast::topology_test
