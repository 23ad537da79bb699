// SPDX-License-Identifier: Apache-2.0
#include "schedules/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>
#include <random>

#include "schedules/formats/action_text.h"
#include "schedules/formats/schedule_csv.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "tests/schedules/vectors.h"

namespace stepcast::check_test {
namespace {

using Kind = ScheduleProblem::Kind;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

Schedule rows(const std::vector<std::string>& texts) {
  std::vector<ActionRowError> errors;
  ActionRows all = parse_rows(std::vector<std::string_view>(texts.begin(), texts.end()), errors);
  EXPECT_TRUE(errors.empty());
  return schedule_of_rows("custom", std::move(all.ranks), all.seq_splits);
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
  // Stage 0 waits for stage 1, which is in a cycle with stage 2.
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

TEST(ScheduleCheck, APairStartsWhenBothHalvesMayAndHandsOnBothAtItsEnd) {
  EXPECT_THAT(messages(rows({"0F0 0F1 (0F2;0B0)OVERLAP_F_B 0B1 0B2",
                             "1F0 (1F1;1B0)OVERLAP_F_B 1B1 1F2 1B2"})),
              IsEmpty());
  // Microbatch 0 comes back only after 1 has arrived, which leaves together with its return.
  const auto problems =
      check_schedule(rows({"0F0 (0F1;0B0)OVERLAP_F_B 0B1", "1F0 (1F1;1B0)OVERLAP_F_B 1B1"}));
  ASSERT_EQ(problems.size(), 1u);
  EXPECT_EQ(problems[0].kind, Kind::deadlock);
  EXPECT_EQ(problems[0].position, 1u);
  EXPECT_THAT(problems[0].cycle,
              ElementsAre("stage 0 at `(0F1;0B0)OVERLAP_F_B` waits for `1B0`",
                          "stage 1 at `(1F1;1B0)OVERLAP_F_B` waits for `0F1`",
                          "`0F1` comes after `(0F1;0B0)OVERLAP_F_B` on stage 0"));
}

TEST(ScheduleCheck, PairsThatAreNoneAreRefused) {
  const Action f0{ActionKind::forward, 0, 0, true}, f1{ActionKind::forward, 0, 1},
      b0{ActionKind::backward, 0, 0}, b1{ActionKind::backward, 0, 1};
  const auto first = [](std::vector<Action> list) {
    const auto problems = check_schedule(schedule_of_rows("x", {std::move(list)}));
    return problems.empty() ? std::string("accepted") : problems.front().message;
  };
  EXPECT_EQ(first({f0, f1, b0, b1}),
            "`(0F0;0F1)OVERLAP_F_B` is not a forward and a backward of different microbatches, the "
            "forward first");
  EXPECT_THAT(first({f0, b0, f1, b1}), ::testing::HasSubstr("`(0F0;0B0)OVERLAP_F_B` is not"));
  Action last = b1;
  last.overlaps_next = true;
  EXPECT_THAT(first({f1, b0, last}), ::testing::HasSubstr("`0B1` is not"));
}

TEST(ScheduleCheck, SplitsGoUpwardsInForwardAndDownwardsInBackward) {
  EXPECT_THAT(messages(rows({"0F0.0 0F0.1 0F1.0 0B0.1 0B0.0 0F1.1 0I1.1 0B1.0 0W1.1"})), IsEmpty());
  EXPECT_THAT(messages(rows({"0F0.1 0F0.0 0B0.1 0B0.0"})),
              ElementsAre("`0F0.1` comes before `0F0.0`"));
  EXPECT_THAT(messages(rows({"0F0.0 0F0.1 0B0.0 0I0.1 0W0.1"})),
              ElementsAre("`0B0.0` comes before `0I0.1`: backward takes the splits of a microbatch "
                          "from the last to the first"));
  EXPECT_THAT(messages(rows({"0F0.0 0F0.1 0B0.1"})),
              ElementsAre("`0B0.0` is missing (or `0I0.0` and `0W0.0`)"));
}

TEST(ScheduleCheck, RecomputeAndOffloadStandBetweenForwardAndBackward) {
  EXPECT_THAT(messages(rows({"0F0 0O0 0F1 0L0 0R0 0B0 0R1 0I1 0W1"})), IsEmpty());
  EXPECT_THAT(messages(rows({"0R0 0F0 0B0"})), ElementsAre("`0R0` comes before `0F0`"));
  EXPECT_THAT(messages(rows({"0F0 0B0 0R0"})), ElementsAre("`0B0` comes before `0R0`"));
  EXPECT_THAT(messages(rows({"0O0 0F0 0L0 0B0"})), ElementsAre("`0O0` comes before `0F0`"));
  EXPECT_THAT(messages(rows({"0F0 0L0 0O0 0B0"})), ElementsAre("`0L0` comes before `0O0`"));
  EXPECT_THAT(messages(rows({"0F0 0O0 0R0 0L0 0B0"})), ElementsAre("`0R0` comes before `0L0`"));
  EXPECT_THAT(messages(rows({"0F0 0O0 0I0 0L0 0W0"})), ElementsAre("`0I0` comes before `0L0`"));
  EXPECT_THAT(messages(rows({"0F0 0O0 0B0"})), ElementsAre("`0L0` is missing, but `0O0` is there"));
  EXPECT_THAT(messages(rows({"0F0 0L0 0B0"})), ElementsAre("`0O0` is missing, but `0L0` is there"));
  EXPECT_THAT(messages(rows({"0F0 0R0 0R0 0B0"})), ElementsAre("`0R0` appears twice on rank 0"));
}

TEST(ScheduleCheck, WhatIsMissingIsShownWhereItIsNeeded) {
  const auto position = [](const std::vector<std::string>& texts) {
    return check_schedule(rows(texts)).at(0).position;
  };
  EXPECT_EQ(position({"0F0 0F1 0B0"}), 1u);
  EXPECT_EQ(position({"0F0 0B0 0B1"}), 2u);
  EXPECT_EQ(position({"0F0 0I0"}), 1u);
  EXPECT_EQ(position({"0F0 0B0 1F0 1B0", "3F0 3B0"}), ScheduleProblem::kNoPosition);
}

TEST(Rendezvous, TellsWhatIsNeededInAnotherOrderThanItIsSent) {
  const std::vector<ScheduleProblem> remarks =
      check_rendezvous(rows({"0F0 0F1 0B1 0B0", "1F0 1F1 1B0 1B1"}));
  ASSERT_EQ(remarks.size(), 1u);
  EXPECT_EQ(remarks[0].kind, Kind::stall);
  EXPECT_EQ(remarks[0].rank, 0);
  EXPECT_EQ(remarks[0].position, 2u);
  EXPECT_EQ(remarks[0].message,
            "stage 0 needs `1B1` before `1B0`, but stage 1 sends them the other way round");
  EXPECT_THAT(remarks[0].cycle,
              ElementsAre("stage 0 at `0B1` waits for `1B1`", "stage 1 sends `1B1` after `1B0`",
                          "stage 0 receives `1B0` for `0B0`, after `0B1`"));
}

TEST(Rendezvous, HasNothingToSayOfSchedulesInOneOrder) {
  for (const char* name : {"gpipe", "1f1b", "zb-h1", "zb-h2"})
    EXPECT_THAT(check_rendezvous(generate_schedule(*find_schedule_family(name), {4, 1, 8, 0})),
                IsEmpty())
        << name;
  for (const char* name : {"interleaved-1f1b", "looped-bfs", "chimera"})
    EXPECT_THAT(check_rendezvous(generate_schedule(*find_schedule_family(name), {4, 2, 8, 0})),
                IsEmpty())
        << name;
}

// The last rank of zero-bubble V wants a gradient before an activation that was sent first.
TEST(Rendezvous, HasARemarkOnSchedulesThatNeedReceivesPostedAhead) {
  const Schedule s = generate_schedule(*find_schedule_family("zb-v"), {4, 2, 8, 0});
  EXPECT_FALSE(check_rendezvous(s).empty());
  EXPECT_EQ(check_rendezvous(s, 1).size(), 1u);
}

// One remark for each sender, however many messages come in another order.
TEST(Rendezvous, SaysItOnceForEachPairOfRanks) {
  EXPECT_EQ(check_rendezvous(rows({"0F0 0F1 0F2 0B2 0B1 0B0", "1F0 1F1 1F2 1B0 1B1 1B2"})).size(),
            1u);
  EXPECT_EQ(check_rendezvous(rows({"0F0 0F1 0B1 0B0", "1F1 1F0 2F0 2F1 2B0 2B1 1B0 1B1"})).size(),
            2u);
}

// Time follows the actions, not the square of the ranks.
TEST(Rendezvous, ManyRanksTakeNoTimeOfTheirOwn) {
  const Schedule s = generate_schedule(*find_schedule_family("1f1b"), {60'000, 1, 1, 0});
  const std::clock_t begin = std::clock();
  EXPECT_THAT(check_rendezvous(s), IsEmpty());
  EXPECT_LT((std::clock() - begin) / CLOCKS_PER_SEC, 2);
}

// What is sent together, or needed together, may be in any order.
TEST(Rendezvous, TheHalvesOfAPairAreOneExchange) {
  // Both ways between the two ranks of a V.
  const std::string rank_0 = "0F0 0F1 3F0 ? 3F1 3B1 0B0 0B1 3F2 3B2 0B2",
                    rank_1 = "1F0 2F0 1F1 2F1 ? 1B0 2B1 1B1 2F2 2B2 1B2";
  const auto with = [](std::string row, const std::string& cells) {
    return row.replace(row.find('?'), 1, cells);
  };
  const std::string pair_0 = "(0F2;3B0)OVERLAP_F_B", pair_1 = "(1F2;2B0)OVERLAP_F_B";
  struct Case {
    std::string rank_0, rank_1;
    size_t remarks;
  };
  for (const Case& c : {Case{pair_0, pair_1, 0}, Case{pair_0, "2B0 1F2", 0},
                        Case{"3B0 0F2", pair_1, 0}, Case{"3B0 0F2", "1F2 2B0", 1}}) {
    const Schedule s = rows({with(rank_0, c.rank_0), with(rank_1, c.rank_1)});
    EXPECT_THAT(messages(s), IsEmpty());
    EXPECT_EQ(check_rendezvous(s).size(), c.remarks) << c.rank_0 << " / " << c.rank_1;
  }
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

// Joins forwards with the backward behind them.
void pair_some(Schedule& s, std::mt19937& random) {
  for (std::vector<Action>& list : s.ranks)
    for (size_t i = 0; i + 1 < list.size(); ++i)
      if (list[i].kind == ActionKind::forward && list[i + 1].kind == ActionKind::backward &&
          list[i].microbatch != list[i + 1].microbatch && random() % 2 == 0)
        list[i].overlaps_next = true;
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
    if (trial % 3 == 0) pair_some(s, random);
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
}  // namespace stepcast::check_test
