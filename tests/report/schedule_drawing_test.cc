// SPDX-License-Identifier: Apache-2.0
#include "report/text/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "tests/report/schedule_sample.h"

namespace stepcast {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

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

}  // namespace
}  // namespace stepcast
