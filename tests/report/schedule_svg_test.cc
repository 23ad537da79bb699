// SPDX-License-Identifier: Apache-2.0
#include "report/svg/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "tests/report/schedule_sample.h"

namespace stepcast {
namespace {

using testing::HasSubstr;
using testing::Not;

// The tags of a document without comments, entities other than the five of XML, or '<' in
// attributes: each opened and closed in order.  What is wrong, or nothing.
std::string xml_problem(const std::string& text) {
  std::vector<std::string> open;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '&') {
      const size_t end = text.find(';', at);
      if (end == std::string::npos || end - at > 5) return "a bare &";
    }
    if (text[at] == '>') return "a bare >";
    if (text[at] != '<') continue;
    const size_t end = text.find('>', at);
    if (end == std::string::npos) return "a tag without end";
    const std::string tag = text.substr(at + 1, end - at - 1);
    if (std::count(tag.begin(), tag.end(), '"') % 2 != 0) return "quotes in <" + tag;
    const std::string name = tag.substr(0, tag.find_first_of(" /", 1));
    if (tag.front() == '/') {
      if (open.empty() || "/" + open.back() != name) return "</" + name + " closes nothing";
      open.pop_back();
    } else if (tag.back() != '/') {
      open.push_back(name);
    }
    at = end;
  }
  return open.empty() ? "" : "<" + open.back() + "> stays open";
}

TEST(ScheduleSvg, IsWellFormedForAnySizes) {
  for (const int pp : {1, 4, 16})
    for (const uint32_t m : {1u, 8u, 64u}) {
      const std::string svg = schedule_svg(forwards_then_backwards(pp, m, 3));
      EXPECT_EQ(xml_problem(svg), "");
      EXPECT_EQ(svg, schedule_svg(forwards_then_backwards(pp, m, 3)));
    }
  EXPECT_EQ(xml_problem(schedule_svg({})), "");
}

TEST(ScheduleSvg, CheckOfWellFormednessFindsWhatIsNot) {
  EXPECT_NE(xml_problem("<a><b></a></b>"), "");
  EXPECT_NE(xml_problem("<a>"), "");
  EXPECT_NE(xml_problem("<a>x & y</a>"), "");
  EXPECT_EQ(xml_problem("<a x=\"1\">x &amp; y<b/></a>"), "");
}

TEST(ScheduleSvg, HasABoxWithItsMicrobatchAndTimesForEveryAction) {
  ScheduleDrawing d = forwards_then_backwards(2, 2, 2);
  d.lanes[1][3].begin += Time{1};
  const std::string svg = schedule_svg(d);
  EXPECT_THAT(svg, HasSubstr("<title>0F1 on rank 0: 1 to 2</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>1B1 on rank 1: 5.5 to 7</title>"));
  size_t boxes = 0;
  for (size_t at = svg.find(" on rank "); at != std::string::npos;
       at = svg.find(" on rank ", at + 1))
    ++boxes;
  EXPECT_EQ(boxes, 8u);
}

TEST(ScheduleSvg, EscapesNames) {
  ScheduleDrawing d = forwards_then_backwards(1, 1);
  d.title = "a<script>\"&\x01\xff";
  const std::string svg = schedule_svg(d);
  EXPECT_EQ(xml_problem(svg), "");
  EXPECT_THAT(svg, HasSubstr("a&lt;script&gt;&quot;&amp;\\x01\\xff"));
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
}

TEST(ScheduleSvg, LongTitlesAreCutOff) {
  ScheduleDrawing d = forwards_then_backwards(1, 1);
  d.title = std::string(5000, 'x');
  EXPECT_THAT(schedule_svg(d), HasSubstr("xxx...</text>"));
  EXPECT_THAT(schedule_svg(d), Not(HasSubstr(std::string(300, 'x'))));
}

TEST(ScheduleSvg, HalvesOfAPairLieOverEachOther) {
  ScheduleDrawing d = forwards_then_backwards(1, 1);
  d.lanes[0][0].action.overlaps_next = true;  // F from 0 to 1, B from 1 to 3
  const std::string svg = schedule_svg(d);
  EXPECT_THAT(svg, HasSubstr("<title>0F0 on rank 0: 0 to 3</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>0B0 on rank 0: 0 to 3</title>"));
  EXPECT_THAT(svg, HasSubstr("y=\"13\""));
}

TEST(ScheduleSvg, IsSmallEvenForAThousandActionsARank) {
  EXPECT_LT(schedule_svg(forwards_then_backwards(16, 500)).size(), 4'000'000u);
  EXPECT_LT(schedule_svg(forwards_then_backwards(16, 64)).size(), 500'000u);
}

TEST(ScheduleSvg, LaterChunksAreLighter) {
  ScheduleDrawing d = forwards_then_backwards(1, 2);
  EXPECT_THAT(schedule_svg(d), Not(HasSubstr("chunks of a rank")));
  d.lanes[0][1].chunk = 1;
  const std::string svg = schedule_svg(d);
  EXPECT_THAT(svg, HasSubstr(".F0{fill:#4477aa}.F1{fill:#8eadcc}"));
  EXPECT_THAT(svg, HasSubstr("chunks of a rank"));
}

}  // namespace
}  // namespace stepcast
