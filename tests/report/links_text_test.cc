// SPDX-License-Identifier: Apache-2.0
#include "report/text/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

namespace stepcast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

LinkLoads sample() {
  LinkLoads loads;
  loads.crossings = {
      {Axis::tp,
       {WorkKind::all_gather, WorkKind::reduce_scatter},
       8,
       8,
       "NVLink",
       128,
       128,
       1,
       346.7e9,
       1.156},
      {Axis::pp, {WorkKind::send_recv}, 112, 2, "PCIe", 224, 336, 2, 2.416e9, 0.077},
      {Axis::pp, {WorkKind::send_recv}, 112, 2, "NIC - leaf", 224, 256, 2, 2.416e9, 0.097}};
  loads.fullest = {
      {"NVLink", "n0/gpu0", "NVSwitches", 350e9, 1.2, {{Axis::tp, 346.5e9}, {Axis::pp, 3.5e9}}}};
  return loads;
}

constexpr Time kStep{13'000'000'000'000};

TEST(LinksText, SaysWhichGroupsCrossWhichLinksAndHowFullTheseAre) {
  const std::string text = explain_links(sample(), "links crossed: 64 ranks", kStep);
  EXPECT_THAT(text, HasSubstr("links crossed: 64 ranks\n"));
  EXPECT_THAT(text, HasSubstr("  tp         8   8  NVLink      128 of 128              1  346.7    "
                              "1.156    8.9 %\n"));
  // The axis is named once.
  EXPECT_THAT(text, HasSubstr("  pp       112   2  PCIe"));
  EXPECT_THAT(text, HasSubstr("\n                    NIC - leaf  224 of 256"));
  EXPECT_THAT(text, HasSubstr("n0/gpu0  NVSwitches  350.0    1.200    9.2 %  tp 99.0 %, pp 1.0 %"));
  EXPECT_THAT(text, HasSubstr("tp all-gather, reduce-scatter; pp transfers"));
}

TEST(LinksText, FitsAHundredColumnsAndFortyLines) {
  LinkLoads loads;
  for (const Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::embedding}) {
    for (const char* links : {"NVLink", "PCIe", "NIC - rack", "rack - pod", "pod - spine"}) {
      loads.crossings.push_back(
          {axis, {WorkKind::all_reduce}, 16384, 1024, links, 65536, 131072, 1024, 1e12, 99.999});
    }
  }
  for (const char* links : {"NVLink", "PCIe", "NIC - rack", "rack - pod", "pod - spine"}) {
    loads.fullest.push_back(
        {links, "rack1023", "pod3/15", 1e12, 99.999, {{Axis::dp, 0.5e12}, {Axis::pp, 0.5e12}}});
  }
  std::istringstream text(explain_links(loads, "links crossed", kStep));
  int lines = 0;
  for (std::string line; std::getline(text, line); ++lines)
    EXPECT_LE(display_width(line), 100) << line;
  EXPECT_LE(lines, 40);
}

TEST(LinksText, EscapesNamesAndLeavesTinyMessagesOut) {
  LinkLoads loads = sample();
  loads.fullest[0].from = "n0/\x1b[31mgpu";
  loads.crossings[0].links = "a\nb";
  loads.crossings[1].bytes = 4;
  const std::string text = explain_links(loads, "x", kStep);
  EXPECT_THAT(text, HasSubstr("n0/\\x1b[31mgpu"));
  EXPECT_THAT(text, HasSubstr("a\\x0ab"));
  EXPECT_THAT(text, Not(HasSubstr("PCIe")));
}

TEST(LinksText, OfARankAloneSaysSo) {
  EXPECT_THAT(explain_links({}, "links crossed: 1 rank", kStep),
              HasSubstr("no group of ranks communicates"));
}

TEST(LinksJson, HasEveryNumber) {
  JsonWriter json;
  json.begin_object();
  write_links(json, sample());
  json.end_object();
  const auto links = nlohmann::json::parse(json.text())["links"];
  ASSERT_EQ(links["crossings"].size(), 3u);
  const auto& tp = links["crossings"][0];
  EXPECT_EQ(tp["axis"], "tp");
  EXPECT_EQ(tp["kinds"], (nlohmann::json{"all_gather", "reduce_scatter"}));
  EXPECT_EQ(tp["groups"], 8);
  EXPECT_EQ(tp["ranks"], 8);
  EXPECT_EQ(tp["links"], "NVLink");
  EXPECT_EQ(tp["links_used"], 128);
  EXPECT_EQ(tp["links_there"], 128);
  EXPECT_EQ(tp["groups_per_link"], 1);
  EXPECT_EQ(tp["bytes"], 346.7e9);
  EXPECT_EQ(tp["seconds"], 1.156);
  const auto& fullest = links["fullest"][0];
  EXPECT_EQ(fullest["from"], "n0/gpu0");
  EXPECT_EQ(fullest["to"], "NVSwitches");
  EXPECT_EQ(fullest["bytes_by_axis"]["pp"], 3.5e9);
}

}  // namespace
}  // namespace stepcast
