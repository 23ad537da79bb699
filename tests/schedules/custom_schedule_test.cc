// SPDX-License-Identifier: Apache-2.0
#include "schedules/formats/schedule_csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check.h"
#include "sim/diagnostic.h"
#include "tests/schedules/vectors.h"

namespace stepcast::custom_schedule_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(CustomSchedule, SizesAndPlacementAreReadOffTheLists) {
  const Schedule s =
      read_schedule_csv(testing::read_file("csv/custom_pp2_v2_m3.csv"), "custom.csv");
  EXPECT_EQ(s.pp, 2);
  EXPECT_EQ(s.vpp, 2);
  EXPECT_EQ(s.microbatches, 3);
  EXPECT_THAT(s.rank_of_stage, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(testing::faults_of(s), "");
}

TEST(CustomSchedule, RanksMayHoldDifferentNumbersOfStages) {
  const Schedule s = read_schedule_csv("0F0,1F0,4F0,4B0,1B0,0B0\n2F0,3F0,3B0,2B0", "uneven.csv");
  EXPECT_THAT(s.rank_of_stage, ElementsAre(0, 0, 1, 1, 0));
  EXPECT_EQ(s.vpp, 3);
  EXPECT_EQ(testing::faults_of(s), "");
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

std::string csv_of(const std::vector<std::string>& rows) {
  std::string text;
  for (const std::string& row : rows) text += row + "\r\n";
  return text;
}

class VectorFile : public ::testing::TestWithParam<std::string> {};

// Byte by byte, and what is read back is the schedule that was written.
TEST_P(VectorFile, IsReadAndWrittenAsItIs) {
  for (const testing::Vector& v : testing::read_vectors(GetParam())) {
    const std::string text = csv_of(v.rows);
    const Schedule s = load_schedule_csv(text, v.id);
    EXPECT_EQ(write_schedule_csv(s), text) << v.id;
    EXPECT_EQ(s.pp, v.params.pp) << v.id;
    EXPECT_EQ(s.vpp, v.params.vpp) << v.id;
    EXPECT_EQ(s.microbatches, v.params.microbatches) << v.id;
    EXPECT_EQ(s.is_bidirectional(), v.placement.starts_with("bidirectional")) << v.id;
  }
}

INSTANTIATE_TEST_SUITE_P(All, VectorFile, ::testing::ValuesIn(testing::vector_files()),
                         testing::test_name_of);

TEST(CustomSchedule, WhatIsWrittenOfEveryFamilyIsReadBackWhole) {
  for (const ScheduleFamily& family : schedule_families()) {
    int sizes = 0;
    for (const ScheduleParams& params : {ScheduleParams{4, 1, 8, 0}, {4, 2, 8, 0}}) {
      if (check_params(family, params)) continue;
      ++sizes;
      const Schedule s = generate_schedule(family, params);
      const Schedule back = load_schedule_csv(write_schedule_csv(s), std::string(family.name));
      EXPECT_EQ(back.ranks, s.ranks) << family.name;
      EXPECT_EQ(back.vpp, s.vpp) << family.name;
      EXPECT_EQ(back.microbatches, s.microbatches) << family.name;
      EXPECT_EQ(back.seq_splits, s.seq_splits) << family.name;
      EXPECT_EQ(back.rank_of_stage, s.rank_of_stage) << family.name;
      EXPECT_EQ(back.reverse_rank_of_stage, s.reverse_rank_of_stage) << family.name;
      EXPECT_EQ(back.reversed, s.reversed) << family.name;
    }
    EXPECT_GT(sizes, 0) << family.name;
  }
}

TEST(CustomSchedule, TwoRanksForAStageAreTwoReplicasOnlyIfEveryMicrobatchRunsOneWay) {
  const Schedule both = read_schedule_csv("0F0,1F1,1B1,0B0\n0F1,1F0,1B0,0B1", "x");
  EXPECT_TRUE(both.is_bidirectional());
  EXPECT_EQ(both.vpp, 2);
  EXPECT_THAT(both.reversed, ElementsAre(false, true));
  EXPECT_EQ(testing::faults_of(both), "");
  // All of them the other way round: one replica, upside down.
  const Schedule up = read_schedule_csv("1F0,1F1,1B0,1B1\n0F0,0F1,0B0,0B1", "x");
  EXPECT_FALSE(up.is_bidirectional());
  EXPECT_THAT(up.rank_of_stage, ElementsAre(1, 0));
  EXPECT_EQ(testing::faults_of(up), "");
  // Stage 1 is on both ranks, stage 0 on one.
  EXPECT_FALSE(read_schedule_csv("0F0,0B0,1F0\n1B0", "x").is_bidirectional());
  // One action of microbatch 1 on the wrong rank: still two replicas, and that is the mistake.
  const Schedule wrong = read_schedule_csv("0F0,1F1,1B1,0B0,0B1\n0F1,1F0,1B0", "x");
  ASSERT_TRUE(wrong.is_bidirectional());
  const auto problems = check_schedule(wrong);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].message, "`0B1` is on rank 0, but stage 0 of microbatch 1 is on rank 1");
}

TEST(CustomSchedule, QuotesAndAByteOrderMarkDoNotMatter) {
  const Schedule s =
      load_schedule_csv("\xEF\xBB\xBF\"0F0\",\" 0B0 \",\"\"\n1F0,1B0\n", "excel.csv");
  EXPECT_EQ(write_schedule_csv(s), "0F0,0B0\r\n1F0,1B0\r\n");
}

TEST(CustomSchedule, SeveralActionsInACellAreRefused) {
  EXPECT_THROW(read_schedule_csv("0F0 0B0", "x"), InputError);
}

TEST(CustomSchedule, OldFilesOfPyTorchAreUnderstood) {
  const Schedule s = load_schedule_csv("0F0,0B0,0W0\n1F0,1BW0\n", "old.csv");
  EXPECT_EQ(write_schedule_csv(s), "0F0,0I0,0W0\r\n1F0,1B0\r\n");
}

Diagnostic first_problem(const std::string& text, int status = 2) {
  try {
    load_schedule_csv(text, "f.csv");
  } catch (const InputError& e) {
    EXPECT_EQ(exit_status_of(e.diagnostics), status);
    return e.diagnostics.front();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

TEST(CustomSchedule, ProblemsPointAtTheCell) {
  struct Case {
    const char* text;
    const char* message;
    int line, column, length;
  };
  for (const Case& c :
       {Case{"0F0,0F1,0B0\n1F0,1B0,1F1,1B1", "`0B1` is missing (or `0I1` and `0W1`)", 1, 5, 3},
        Case{"0F0, ,0F0,0B0\n1F0,1B0", "`0F0` appears twice on rank 0", 1, 7, 3},
        Case{"0F0,0B0,1F0\n1B0", "`1B0` is on rank 1, but stage 1 is on rank 0", 2, 1, 3},
        Case{"0F0,0F1,(0F2;0B0)OVERLAP_F_B,0B0,0B1,0B2", "`0B0` appears twice on rank 0", 1, 30, 3},
        Case{"0F0,0F1,0B1,(0F2;0B0)OVERLAP_F_B,0B2,0F2", "`0F2` appears twice on rank 0", 1, 38, 3},
        Case{"(0F1;0B0)OVERLAP_F_B,0F0,0B1", "`0B0` comes before `0F0`", 1, 1, 20},
        Case{"0F0.0,0F0.1,0F1,0B0.1,0B0.0",
             "`0F1` has no sequence split, but `0F0.0` has one: write all or none", 1, 13, 3},
        Case{"0F0,0F1.0", "`0F1.0` has a sequence split, but `0F0` has none: write all or none", 1,
             5, 5}}) {
    const Diagnostic d = first_problem(c.text);
    EXPECT_EQ(d.code, "E402");
    EXPECT_EQ(d.message, c.message);
    EXPECT_EQ(d.line, c.line) << c.message;
    EXPECT_EQ(d.column, c.column) << c.message;
    EXPECT_EQ(d.length, c.length) << c.message;
    EXPECT_FALSE(d.source_line.empty());
  }
}

TEST(CustomSchedule, ADeadlockHasItsCycleAndAnExitStatusOfItsOwn) {
  const Diagnostic d = first_problem(testing::read_file("csv/bad_deadlock_cycle.csv"), 4);
  EXPECT_EQ(d.code, "E401");
  EXPECT_EQ(d.line, 1);
  EXPECT_EQ(d.column, 5);
  EXPECT_EQ(d.help,
            "rank 0 at `2F0` waits for `1F0`; rank 1 at `1F1` waits for `0F1`; `0F1` comes after "
            "`2F0` on rank 0");
}

TEST(CustomSchedule, ProblemsOfAScheduleWithoutAFileHaveNoPlace) {
  Schedule s = generate_schedule(*find_schedule_family("1f1b"), {2, 1, 2, 0});
  s.ranks[1].pop_back();
  const auto diagnostics = schedule_diagnostics(check_schedule(s), {}, {});
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_EQ(diagnostics[0].line, 0);
  EXPECT_THAT(diagnostics[0].message, HasSubstr("`1B1` is missing"));
}

// The names of the files say what is expected, and csv/bad_expectations.json why.
TEST(CustomSchedule, FilesThatMustBeRefusedAre) {
  for (const char* name : {"bad_backward_before_forward", "bad_bad_token", "bad_duplicate_forward",
                           "bad_input_without_weight", "bad_missing_backward",
                           "bad_stage_on_two_ranks", "bad_weight_before_input"}) {
    const Diagnostic d = first_problem(testing::read_file(std::string("csv/") + name + ".csv"));
    EXPECT_EQ(d.code, "E402") << name;
    EXPECT_GE(d.column, 1) << name;
  }
  const Schedule crossed =
      load_schedule_csv(testing::read_file("csv/bad_deadlock_cross_order.csv"), "cross.csv");
  const auto remarks = check_rendezvous(crossed);
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_EQ(schedule_diagnostics(remarks, testing::read_file("csv/bad_deadlock_cross_order.csv"),
                                 "cross.csv")[0]
                .column,
            9);
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
  EXPECT_THROW(schedule_of_rows("x", {}), InputError);
  EXPECT_THROW(schedule_of_rows("x", {{}, {}}), InputError);
}

}  // namespace
}  // namespace stepcast::custom_schedule_test
