// SPDX-License-Identifier: Apache-2.0
#include "report/text/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <sstream>

#include "report/svg/schedule.h"
#include "tests/report/schedule_sample.h"

namespace stepcast::schedule_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> lanes_of(const std::string& text) {
  std::vector<std::string> lanes;
  for (const std::string& line : lines_of(text))
    if (line.starts_with("rank ")) lanes.push_back(line);
  return lanes;
}

TEST(DrawSchedule, PutsEveryActionAtItsTime) {
  const std::string text = draw_schedule(forwards_then_backwards(2, 2), {false, 40});
  EXPECT_THAT(lanes_of(text), ElementsAre("rank 0 |F0--F1--B0------B1------....",
                                          "rank 1 |....F0--F1--B0------B1------"));
  EXPECT_THAT(text, HasSubstr("        0   1   2   3   4   5   6\n"));
  EXPECT_THAT(text, HasSubstr("F forward   B backward   . idle"));
  EXPECT_THAT(text, HasSubstr("makespan 9   span 9\n"));
}

TEST(DrawSchedule, StaysWithinItsWidthWhateverTheSchedule) {
  for (const int pp : {1, 4, 16, 100})
    for (const uint32_t m : {1u, 8u, 32u, 500u})
      for (const int width : {40, 80, 133})
        for (const bool color : {false, true})
          for (const std::string& line :
               lines_of(draw_schedule(forwards_then_backwards(pp, m, 7), {color, width})))
            ASSERT_LE(display_width(line), width) << pp << ' ' << m << ' ' << line;
}

TEST(DrawSchedule, GoesOnInAnotherBandOfTheSameLength) {
  const std::vector<std::string> lanes =
      lanes_of(draw_schedule(forwards_then_backwards(1, 12), {false, 80}));
  ASSERT_EQ(lanes.size(), 2u);
  EXPECT_EQ(lanes[0], "rank 0 |F0-F1-F2-F3-F4-F5-F6-F7-F8-F9-F10F11B0----B1----B2----");
  EXPECT_EQ(lanes[1], "rank 0 |B3----B4----B5----B6----B7----B8----B9----B10---B11---");
}

TEST(DrawSchedule, IsAnOverviewWhereActionsAreNarrowerThanAColumn) {
  const std::string text = draw_schedule(forwards_then_backwards(2, 5000), {false, 48});
  // 40 columns for 15,001 units: a third of them forwards.
  EXPECT_THAT(lanes_of(text), ElementsAre("rank 0 |FFFFFFFFFFFFFBBBBBBBBBBBBBBBBBBBBBBBBBBB",
                                          "rank 1 |FFFFFFFFFFFFFBBBBBBBBBBBBBBBBBBBBBBBBBBB"));
  EXPECT_THAT(text, HasSubstr("each column shows what takes most of it"));
}

TEST(DrawSchedule, HasEscapeSequencesOnlyWithColors) {
  const ScheduleDrawing d = forwards_then_backwards(2, 3);
  EXPECT_THAT(draw_schedule(d, {false, 80}), Not(HasSubstr("\x1b")));
  const std::string colored = draw_schedule(d, {true, 80});
  EXPECT_THAT(colored, HasSubstr("\x1b[38;5;231;48;5;25m0"));
  for (const std::string& line : lanes_of(colored))
    EXPECT_EQ(line.substr(line.size() - 4), "\x1b[0m") << "a colour is left on";
  EXPECT_EQ(colored, draw_schedule(d, {true, 80}));
}

TEST(DrawSchedule, OddChunksAreSmallLettersOrLighter) {
  ScheduleDrawing d = forwards_then_backwards(1, 1);
  d.lanes[0][1].chunk = 1;
  const std::string text = draw_schedule(d, {false, 40});
  EXPECT_THAT(text, HasSubstr("|F0------b0"));
  EXPECT_THAT(text, HasSubstr("small letters: odd chunks"));
  EXPECT_THAT(draw_schedule(d, {true, 40}), HasSubstr("lighter: odd chunks"));
}

TEST(DrawSchedule, LabelsPiecesOfASequence) {
  ScheduleDrawing d = forwards_then_backwards(1, 4);
  d.seq_splits = 2;
  EXPECT_THAT(draw_schedule(d, {false, 60}), HasSubstr("|F0.0F0.1F1.0F1.1B0.0----"));
}

TEST(DrawSchedule, SurvivesNothingAndActionsWithoutLength) {
  ScheduleDrawing d;
  EXPECT_THAT(draw_schedule(d), HasSubstr("idle"));
  d.lanes.resize(3);
  d.lanes[1].push_back({Action{ActionKind::offload, 0, 0}, 0, Time{0}, Time{0}});
  EXPECT_THAT(draw_schedule(d), HasSubstr("O offload"));
}

TEST(DrawSchedule, NamesFromFilesCannotReachTheTerminal) {
  ScheduleDrawing d = forwards_then_backwards(1, 1);
  d.title = "a\x1b[2Jb";
  EXPECT_THAT(draw_schedule(d), HasSubstr("a\\x1b[2Jb"));
}

TEST(AxisStep, IsOneTwoOrFiveTimesAPowerOfTen) {
  EXPECT_EQ(axis_step(1, 1), 1);
  EXPECT_EQ(axis_step(3, 1), 5);
  EXPECT_EQ(axis_step(6, 1), 10);
  EXPECT_EQ(axis_step(11, 1), 20);
  EXPECT_EQ(axis_step(3, 1000), 5) << "0.005 units";
  EXPECT_EQ(axis_step(1001, 1000), 2000);
  EXPECT_EQ(axis_step(3, 2), 4) << "2 units; a tick is half of one";
}

TEST(ExactDecimal, LosesNothing) {
  EXPECT_EQ(exact_decimal(74, 1), "74");
  EXPECT_EQ(exact_decimal(149, 2), "74.5");
  EXPECT_EQ(exact_decimal(-1, 8), "-0.125");
  EXPECT_EQ(exact_decimal(1'000'000'000'000'000'001, 1'000'000'000'000'000'000),
            "1.000000000000000001");
  EXPECT_EQ(exact_decimal(INT64_MIN, 1), "-9223372036854775808");
}

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
}  // namespace stepcast::schedule_test
