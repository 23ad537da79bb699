// SPDX-License-Identifier: Apache-2.0
#include "report/svg/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/topology_sample.h"

namespace stepcast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

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
}  // namespace stepcast
