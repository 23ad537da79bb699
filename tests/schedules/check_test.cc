// SPDX-License-Identifier: Apache-2.0
#include "schedules/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "schedules/action_text.h"
#include "schedules/custom_schedule.h"
#include "sim/program.h"
#include "sim/run.h"
#include "tests/schedules/vectors.h"

namespace stepcast {
namespace {

using Kind = ScheduleProblem::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Schedule rows(const std::vector<std::string>& texts) {
  std::vector<std::vector<Action>> lists;
  for (const std::string& text : texts) lists.push_back(parse_actions(text));
  return schedule_of_rows("custom", std::move(lists));
}

std::vector<std::string> messages(const Schedule& s) {
  std::vector<std::string> all;
  for (const ScheduleProblem& p : check_schedule(s)) all.push_back(p.message);
  return all;
}

TEST(ScheduleCheck, AcceptsFullAndSplitBackwardsAlike) {
  EXPECT_THAT(messages(rows({"0F0 0F1 0B0 0I1 0W1", "1F0 1I0 1F1 1W0 1B1"})), IsEmpty());
}

TEST(ScheduleCheck, NamesWhatIsMissing) {
  EXPECT_THAT(messages(rows({"0F0 0F1 0B0 0B1", "1F0 1F1 1B0"})),
              ElementsAre("`1B1` is missing (or `1I1` and `1W1`)"));
  EXPECT_THAT(messages(rows({"0F0 0I0", "1F0 1B0"})),
              ElementsAre("`0W0` is missing, but `0I0` is there"));
  EXPECT_THAT(messages(rows({"0F0 0W0", "1F0 1B0"})),
              ElementsAre("`0I0` is missing, but `0W0` is there"));
  EXPECT_THAT(messages(rows({"0B0", "1F0 1B0"})), ElementsAre("`0F0` is missing"));
  EXPECT_THAT(messages(rows({"0F0 0B0", "2F0 2B0"})),
              ElementsAre("`1F0` is missing", "`1B0` is missing (or `1I0` and `1W0`)"));
}

TEST(ScheduleCheck, NamesWhatIsThereTwice) {
  const Schedule s = rows({"0F0 0F0 0B0", "1F0 1B0"});
  const std::vector<ScheduleProblem> problems = check_schedule(s);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kind, Kind::duplicate);
  EXPECT_EQ(problems[0].message, "`0F0` appears twice on rank 0");
  EXPECT_EQ(problems[0].rank, 0);
  EXPECT_EQ(problems[0].position, 1u);
  EXPECT_THAT(messages(rows({"0F0 0B0 0W0", "1F0 1B0"})),
              ElementsAre("`0B0` already contains `0W0`, which is there too"));
  EXPECT_THAT(messages(rows({"0F0 0I0 0W0 0B0", "1F0 1B0"})),
              ElementsAre("`0B0` already contains `0I0`, which is there too"));
}

TEST(ScheduleCheck, NamesWhatIsOnTheWrongRank) {
  const std::vector<ScheduleProblem> problems =
      check_schedule(rows({"0F0 0F1 1F1 0B0 0B1", "2F0 2F1 2B0 2B1 1F0 1B0 1B1"}));
  ASSERT_FALSE(problems.empty());
  EXPECT_EQ(problems[0].kind, Kind::misplaced);
  EXPECT_EQ(problems[0].message, "`1F0` is on rank 1, but stage 1 is on rank 0");
  EXPECT_EQ(problems[0].rank, 1);
  EXPECT_EQ(problems[0].position, 4u);
  for (const ScheduleProblem& p : problems) EXPECT_EQ(p.kind, Kind::misplaced) << p.message;
}

TEST(ScheduleCheck, NamesWhatIsOutsideTheSchedule) {
  Schedule s = find_schedule_family("1f1b")->generate({2, 1, 2, 0});
  s.ranks[1].push_back({ActionKind::forward, 2, 0});
  s.ranks[1].push_back({ActionKind::forward, 1, 2});
  EXPECT_THAT(messages(s),
              ElementsAre("`2F0` on rank 1: the schedule has 2 stages and 2 microbatches, counted "
                          "from 0",
                          "`1F2` on rank 1: the schedule has 2 stages and 2 microbatches, counted "
                          "from 0"));
}

TEST(ScheduleCheck, KnowsWhichReplicaAMicrobatchRunsThrough) {
  Schedule s = find_schedule_family("chimera")->generate({4, 2, 4, 0});
  EXPECT_THAT(messages(s), IsEmpty());
  // Microbatch 2 runs up: its stage 0 is on rank 3.
  std::swap(s.ranks[0].front(), s.ranks[3].front());
  EXPECT_THAT(messages(s),
              ElementsAre("`0F2` is on rank 0, but stage 0 of microbatch 2 is on rank 3",
                          "`0F0` is on rank 3, but stage 0 of microbatch 0 is on rank 0"));
}

TEST(ScheduleCheck, NamesWhatIsOutOfOrderOnItsRank) {
  EXPECT_THAT(messages(rows({"0B0 0F0", "1F0 1B0"})), ElementsAre("`0B0` comes before `0F0`"));
  EXPECT_THAT(messages(rows({"0F0 0W0 0I0", "1F0 1B0"})), ElementsAre("`0W0` comes before `0I0`"));
  EXPECT_THAT(messages(rows({"0I0 0F0 0W0", "1F0 1B0"})), ElementsAre("`0I0` comes before `0F0`"));
}

TEST(ScheduleCheck, NamesTheCircleOfADeadlock) {
  const std::vector<ScheduleProblem> problems =
      check_schedule(rows({"0F0 0B0 0F1 0B1", "1F0 1F1 1B0 1B1"}));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kind, Kind::deadlock);
  EXPECT_EQ(problems[0].message, "the schedule deadlocks");
  EXPECT_EQ(problems[0].rank, 0);
  EXPECT_EQ(problems[0].position, 1u);
  EXPECT_THAT(problems[0].cycle,
              ElementsAre("stage 0 at `0B0` waits for `1B0`", "stage 1 at `1F1` waits for `0F1`",
                          "`0F1` comes after `0B0` on stage 0"));
}

TEST(ScheduleCheck, CallsRanksWithSeveralStagesRanks) {
  const Schedule s =
      read_schedule_csv(testing::read_file("csv/bad_deadlock_cycle.csv"), "cycle.csv");
  const std::vector<ScheduleProblem> problems = check_schedule(s);
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].cycle,
              ElementsAre("rank 0 at `2F0` waits for `1F0`", "rank 1 at `1F1` waits for `0F1`",
                          "`0F1` comes after `2F0` on rank 0"));
}

TEST(ScheduleCheck, ARankThatWaitsForItselfIsACircleOfOne) {
  const std::vector<ScheduleProblem> problems = check_schedule(rows({"1F0 0F0 1B0 0B0"}));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].cycle,
              ElementsAre("rank 0 at `1F0` waits for `0F0`", "`0F0` comes after `1F0` on rank 0"));
}

TEST(ScheduleCheck, TheCircleLeavesOutThoseWhoMerelyWaitForIt) {
  // Stage 0 waits for stage 1, which is in a circle with stage 2.
  const std::vector<ScheduleProblem> problems =
      check_schedule(rows({"0F0 0F1 0B0 0B1", "1F0 1B0 1F1 1B1", "2F0 2F1 2B0 2B1"}));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_THAT(problems[0].cycle,
              ElementsAre("stage 1 at `1B0` waits for `2B0`", "stage 2 at `2F1` waits for `1F1`",
                          "`1F1` comes after `1B0` on stage 1"));
}

TEST(ScheduleCheck, ReportsAtMostAsManyProblemsAsAskedFor) {
  Schedule s = find_schedule_family("1f1b")->generate({4, 1, 100, 0});
  for (auto& list : s.ranks) list.resize(list.size() / 2);
  EXPECT_EQ(check_schedule(s, 7).size(), 7u);
  EXPECT_EQ(check_schedule(s).size(), 20u);
  EXPECT_EQ(check_schedule(s, 0).size(), 1u);
}

TEST(ScheduleCheck, HugeNumbersInAShortListCostNothing) {
  EXPECT_THAT(
      messages(rows({"65535F4294967294 0F0"})),
      ElementsAre("65536 stages and 4294967295 microbatches need at least two actions each, "
                  "but there are only 2 actions"));
}

TEST(ScheduleCheck, FilesThatMustBeRefusedAre) {
  struct Case {
    const char* file;
    Kind kind;
  };
  for (const Case& c : {Case{"bad_backward_before_forward.csv", Kind::order},
                        Case{"bad_deadlock_cycle.csv", Kind::deadlock},
                        Case{"bad_duplicate_forward.csv", Kind::duplicate},
                        Case{"bad_input_without_weight.csv", Kind::missing},
                        Case{"bad_missing_backward.csv", Kind::missing},
                        Case{"bad_stage_on_two_ranks.csv", Kind::misplaced},
                        Case{"bad_weight_before_input.csv", Kind::order}}) {
    const auto problems =
        check_schedule(read_schedule_csv(testing::read_file(std::string("csv/") + c.file), c.file));
    ASSERT_FALSE(problems.empty()) << c.file;
    EXPECT_EQ(problems[0].kind, c.kind) << c.file << ": " << problems[0].message;
  }
  // Well formed when messages are matched by stage and microbatch.
  EXPECT_THAT(check_schedule(read_schedule_csv(
                  testing::read_file("csv/bad_deadlock_cross_order.csv"), "cross.csv")),
              IsEmpty());
}

bool engine_gets_stuck(const Schedule& s) {
  std::vector<Time> durations;
  const OpGraph graph = lower_unit(s, testing::costs_named("unit", s.pp), durations);
  Prices prices;
  for (const Time t : durations) prices.by_work.push_back({t, Origin::measured, {}});
  const Program program = compile(graph, prices);
  try {
    run(program, Record::nothing);
    return false;
  } catch (const Deadlock&) {
    return true;
  }
}

// Swapping actions at random often deadlocks; the check and the engine must agree when.
TEST(ScheduleCheck, AgreesWithTheEngineOnShuffledSchedules) {
  std::mt19937 random(7);
  int stuck = 0, fine = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const int64_t pp = 2 + trial % 3, vpp = 1 + trial % 2;
    const char* name = vpp == 1 ? "1f1b" : "interleaved-1f1b";
    Schedule s = find_schedule_family(name)->generate({pp, vpp, 2 * pp, 0});
    for (int swap = 0; swap < 1 + trial % 24; ++swap) {
      auto& list = s.ranks[random() % s.ranks.size()];
      const size_t at = random() % (list.size() - 1);
      const Action &a = list[at], &b = list[at + 1];
      // F before B of one stage and microbatch is another problem, which the engine takes as
      // solved.
      if (a.stage == b.stage && a.microbatch == b.microbatch) continue;
      std::swap(list[at], list[at + 1]);
    }
    const auto problems = check_schedule(s);
    for (const ScheduleProblem& p : problems) ASSERT_EQ(p.kind, Kind::deadlock) << p.message;
    EXPECT_EQ(!problems.empty(), engine_gets_stuck(s)) << trial;
    (problems.empty() ? fine : stuck)++;
  }
  EXPECT_GT(stuck, 50);
  EXPECT_GT(fine, 50);
}

// Worst case for waking up: every rank advances by one action at a time.
TEST(ScheduleCheck, TakesLongSchedules) {
  const Schedule s = find_schedule_family("1f1b")->generate({64, 1, 2000, 0});
  EXPECT_THAT(check_schedule(s), IsEmpty());
}

}  // namespace
}  // namespace stepcast
