// SPDX-License-Identifier: Apache-2.0
#include "schedules/custom_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "schedules/check.h"
#include "sim/diagnostic.h"
#include "tests/schedules/vectors.h"

namespace stepcast {
namespace {

using ::testing::ElementsAre;

TEST(CustomSchedule, SizesAndPlacementAreReadOffTheLists) {
  const Schedule s =
      read_schedule_csv(testing::read_file("csv/custom_pp2_v2_m3.csv"), "custom.csv");
  EXPECT_EQ(s.pp, 2);
  EXPECT_EQ(s.vpp, 2);
  EXPECT_EQ(s.microbatches, 3);
  EXPECT_THAT(s.rank_of_stage, ElementsAre(0, 1, 0, 1));
  EXPECT_TRUE(check_schedule(s).empty());
}

TEST(CustomSchedule, RanksMayHoldDifferentNumbersOfStages) {
  const Schedule s = read_schedule_csv("0F0,1F0,4F0,4B0,1B0,0B0\n2F0,3F0,3B0,2B0", "uneven.csv");
  EXPECT_THAT(s.rank_of_stage, ElementsAre(0, 0, 1, 1, 0));
  EXPECT_EQ(s.vpp, 3);
  EXPECT_TRUE(check_schedule(s).empty());
}

TEST(CustomSchedule, PyTorchsOwnFileEqualsTheGenerator) {
  const Schedule file =
      read_schedule_csv(testing::read_file("csv/interleaved1f1b_pp4_v2_m8.csv"), "torch.csv");
  const Schedule ours = find_schedule_family("Interleaved1F1B")->generate({4, 2, 8, 0});
  EXPECT_EQ(file.ranks, ours.ranks);
  EXPECT_EQ(file.rank_of_stage, ours.rank_of_stage);
}

TEST(CustomSchedule, WhatIsWrittenIsReadBack) {
  const Schedule s = find_schedule_family("interleaved-1f1b")->generate({3, 2, 7, 4});
  const Schedule back = read_schedule_csv(write_schedule_csv(s), "x.csv");
  EXPECT_EQ(back.ranks, s.ranks);
  EXPECT_EQ(back.rank_of_stage, s.rank_of_stage);
  EXPECT_EQ(back.microbatches, 7);
}

TEST(CustomSchedule, RanksWithoutActionsSurviveWriting) {
  const Schedule s = read_schedule_csv("0F0,0B0\n,\n,\n", "x.csv");
  ASSERT_EQ(s.ranks.size(), 3U);
  EXPECT_EQ(read_schedule_csv(write_schedule_csv(s), "x.csv").ranks, s.ranks);
}

TEST(CustomSchedule, LineEndsAndIdleSlotsDoNotMatter) {
  const Schedule plain = read_schedule_csv("0F0,0B0\n1F0,1B0\n", "a");
  for (const char* text : {"0F0,0B0\r\n1F0,1B0\r\n", "0F0,,,0B0\n,1F0,1B0,",
                           "0F0, 0B0\n1F0 ,1B0\n\n", "0F0,0B0\n1F0,1B0\n \n\r\n"})
    EXPECT_EQ(read_schedule_csv(text, "a").ranks, plain.ranks) << text;
}

TEST(CustomSchedule, EveryWrongCellIsReportedWithItsPlace) {
  try {
    read_schedule_csv("0F0,0X0,0B0\n1F0, oops,1B0,7\n", "bad.csv");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    ASSERT_EQ(e.diagnostics.size(), 3u);
    EXPECT_EQ(e.diagnostics[0].code, "E402");
    EXPECT_EQ(e.diagnostics[0].file, "bad.csv");
    EXPECT_EQ(e.diagnostics[0].line, 1);
    EXPECT_EQ(e.diagnostics[0].column, 5);
    EXPECT_EQ(e.diagnostics[0].length, 3);
    EXPECT_EQ(e.diagnostics[0].source_line, "0F0,0X0,0B0");
    EXPECT_EQ(e.diagnostics[1].line, 2);
    EXPECT_EQ(e.diagnostics[1].column, 6);
    EXPECT_EQ(e.diagnostics[1].length, 4);
    EXPECT_EQ(e.diagnostics[2].column, 15);
  }
}

TEST(CustomSchedule, AtMostTwentyWrongCellsAreReported) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "x,";
  try {
    read_schedule_csv(text, "bad.csv");
    FAIL() << "accepted";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.size(), 20u);
  }
}

TEST(CustomSchedule, AnEmptyFileIsRefused) {
  for (const char* text : {"", "\n\n", ",,,\n,,", " "}) try {
      read_schedule_csv(text, "empty.csv");
      ADD_FAILURE() << "accepted";
    } catch (const InputError& e) {
      EXPECT_EQ(e.diagnostics.at(0).code, "E403");
    }
  EXPECT_THROW(schedule_of_rows("x", {}), std::invalid_argument);
  EXPECT_THROW(schedule_of_rows("x", {{}, {}}), std::invalid_argument);
}

}  // namespace
}  // namespace stepcast
