// SPDX-License-Identifier: Apache-2.0
// Synthesis against the fixed families, its lower bound, and bad input.
#include "schedules/synthesis/synthesis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <ostream>

#include "tests/schedules/random_pipelines.h"
#include "tests/schedules/vectors.h"

namespace stepcast::synthesis_test {
namespace {

using ::testing::HasSubstr;

#ifdef NDEBUG
constexpr int64_t kEffort = 600;
#else
constexpr int64_t kEffort = 120;  // so that an unoptimised build takes seconds
#endif

struct Best {
  std::string_view name = "none";
  Time makespan{INT64_MAX};
};

// The shortest schedule of all families but those made for given times that has this placement and
// fits the memory.
Best best_fixed(const PipelineCosts& costs, int64_t vpp) {
  Best best;
  for (const ScheduleFamily& family : schedule_families()) {
    if (family.name.ends_with("-auto") || family.name == "v-controllable-memory") continue;
    if (family.name == "vocab-1f1b") continue;  // passes that an order is not made of
    const ScheduleParams params{costs.pp, vpp, costs.microbatches, 0};
    if (check_params(family, params)) continue;
    const Schedule s = generate_schedule(family, params);
    if (s.rank_of_stage != costs.rank_of_stage || s.is_bidirectional() || s.seq_splits > 1)
      continue;
    if (!fits_memory(costs, s.ranks)) continue;
    const std::optional<OrderTimes> times = time_order(costs, s.ranks);
    EXPECT_TRUE(times.has_value()) << family.name;
    if (times && times->makespan < best.makespan) best = {family.name, times->makespan};
  }
  return best;
}

void expect_sound(const SynthesisProblem& problem, const Synthesis& s) {
  EXPECT_EQ(testing::faults_of(s.schedule), "");
  EXPECT_TRUE(fits_memory(problem.costs, s.schedule.ranks));
  EXPECT_EQ(s.peak_memory, peak_memory(problem.costs, s.schedule.ranks));
  const std::optional<OrderTimes> times = time_order(problem.costs, s.schedule.ranks);
  ASSERT_TRUE(times.has_value());
  EXPECT_EQ(times->makespan, s.makespan);
  EXPECT_EQ(times->span, s.span);
  EXPECT_LE(s.lower_bound, problem.objective == SynthesisObjective::span ? s.span : s.makespan);
  EXPECT_GE(s.gap, 0);
}

struct Series {
  uint64_t seed, first;  // ... of 25 cases
};
void PrintTo(const Series& s, std::ostream* out) {  // for the name of the test
  *out << s.seed << '+' << s.first;
}
class RandomPipelines : public ::testing::TestWithParam<Series> {};

TEST_P(RandomPipelines, AreNeverWorseThanTheBestFixedScheduleOfEqualMemory) {
  for (uint64_t i = GetParam().first; i < GetParam().first + 25; ++i) {
    const testing::RandomPipeline p = testing::random_pipeline(i, GetParam().seed);
    SCOPED_TRACE(p.name);
    SynthesisProblem problem;
    problem.costs = p.costs;
    problem.effort = kEffort;
    const Synthesis s = synthesize(problem);
    expect_sound(problem, s);
    const Best fixed = best_fixed(p.costs, 1);
    EXPECT_LE(s.makespan, fixed.makespan) << fixed.name;
  }
}

INSTANTIATE_TEST_SUITE_P(TwoHundred, RandomPipelines,
                         ::testing::Values(Series{1000, 0}, Series{1000, 25}, Series{1000, 50},
                                           Series{1000, 75}, Series{1000, 100}, Series{1000, 125},
                                           Series{1000, 150}, Series{1000, 175}));
// So that they are not the only ones looked at.
INSTANTIATE_TEST_SUITE_P(OtherSeries, RandomPipelines,
                         ::testing::Values(Series{50'000, 0}, Series{900'000, 75}));

TEST(Synthesis, IsWithinThreePercentOfTheBoundInTheMedianWithTwiceTheMemoryOf1F1B) {
  std::vector<double> gaps;
  for (uint64_t i = 0; i < 200; i += 3) {
    const testing::RandomPipeline p = testing::random_pipeline(i);
    ASSERT_GE(p.cap, 2);
    SynthesisProblem problem;
    problem.costs = p.costs;
    problem.effort = kEffort;
    gaps.push_back(synthesize(problem).gap);
  }
  std::sort(gaps.begin(), gaps.end());
  RecordProperty("median_gap_percent", std::to_string(100 * gaps[gaps.size() / 2]));
  RecordProperty("worst_gap_percent", std::to_string(100 * gaps.back()));
  EXPECT_LE(gaps[gaps.size() / 2], 0.03);
  EXPECT_LE(gaps.back(), 0.12);
}

std::vector<uint16_t> placement(bool v, int64_t pp) {
  std::vector<uint16_t> ranks;
  for (int64_t s = 0; s < 2 * pp; ++s)
    ranks.push_back(static_cast<uint16_t>(v && s >= pp ? 2 * pp - 1 - s : s % pp));
  return ranks;
}

TEST(Synthesis, TakesTwoChunksARankInALoopAndInAV) {
  for (const bool v : {false, true})
    for (const int64_t cap : {1, 2}) {
      SCOPED_TRACE(std::to_string(v) + ' ' + std::to_string(cap));
      SynthesisProblem problem;
      constexpr int64_t kRanks = 4, kMicrobatches = 12;
      StageTimes times;
      times.forward = Time{500};
      times.backward_input = Time{550};
      times.backward_weight = Time{300};
      problem.costs = level_costs(kRanks, kMicrobatches, placement(v, kRanks), times, {10, -4, -6},
                                  Time{20}, cap * 2 * kRanks * 10);
      problem.costs.times.back().forward = Time{800};
      problem.costs.times.front().backward_weight = Time{500};
      problem.effort = 2 * kEffort;
      const Synthesis s = synthesize(problem);
      expect_sound(problem, s);
      const Best fixed = best_fixed(problem.costs, 2);
      EXPECT_LT(fixed.makespan, Time{INT64_MAX});
      EXPECT_LE(s.makespan, fixed.makespan) << fixed.name;
      EXPECT_LE(s.gap, 0.1);
      EXPECT_EQ(s.schedule.vpp, 2);
    }
}

TEST(Synthesis, RunsOnAnyPlacement) {
  SynthesisProblem problem;
  StageTimes times;
  times.forward = Time{10};
  times.backward_input = Time{12};
  times.backward_weight = Time{7};
  problem.costs = level_costs(2, 6, {0, 0, 1, 0, 1}, times, {10, -4, -6}, Time{1}, 50);
  const Synthesis s = synthesize(problem);
  expect_sound(problem, s);
  EXPECT_EQ(s.schedule.vpp, 3);
}

SynthesisProblem small_problem(std::optional<int64_t> limit = std::nullopt) {
  SynthesisProblem problem;
  StageTimes times;
  times.forward = Time{1000};
  times.backward_input = Time{1100};
  times.backward_weight = Time{900};
  problem.costs = level_costs(4, 10, {0, 1, 2, 3}, times, {100, -60, -40}, Time{10}, limit);
  problem.effort = 500;
  return problem;
}

TEST(Synthesis, IsTheSameEveryTime) {
  const SynthesisProblem problem = small_problem(400);
  EXPECT_EQ(synthesize(problem).schedule.ranks, synthesize(problem).schedule.ranks);
}

TEST(Synthesis, KeepsWholeBackwardsWholeIfTold) {
  SynthesisProblem problem = small_problem(400);
  problem.split_backward = false;
  const Synthesis s = synthesize(problem);
  expect_sound(problem, s);
  for (const auto& list : s.schedule.ranks)
    for (const Action& a : list)
      EXPECT_TRUE(a.kind == ActionKind::forward || a.kind == ActionKind::backward);
  EXPECT_GE(s.makespan, synthesize(small_problem(400)).makespan);
}

TEST(Synthesis, ShortensTheSpanIfTold) {
  SynthesisProblem problem = small_problem();
  problem.objective = SynthesisObjective::span;
  const Synthesis s = synthesize(problem);
  expect_sound(problem, s);
  EXPECT_LE(s.span, synthesize(small_problem()).span);
  EXPECT_LE(s.gap, 0.01);
}

TEST(Synthesis, UsesMemoryWhereItHelpsAndNotMoreThanThereIs) {
  const Synthesis tight = synthesize(small_problem(100)), ample = synthesize(small_problem());
  EXPECT_THAT(tight.peak_memory, ::testing::Each(::testing::Le(100)));
  EXPECT_LT(ample.makespan, tight.makespan);
  EXPECT_GT(tight.lower_bound, ample.lower_bound);  // the bound knows the memory
}

TEST(Synthesis, LimitsMayDifferByRank) {
  SynthesisProblem problem = small_problem();
  problem.costs.memory_limit = {400, 300, 200, 100};
  const Synthesis s = synthesize(problem);
  expect_sound(problem, s);
}

std::string refusal(const SynthesisProblem& problem) {
  try {
    synthesize(problem);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(Synthesis, RefusesMoreOrdersThanAMinuteAllows) {
  SynthesisProblem problem = small_problem();
  problem.effort = 1'000'000'000;
  EXPECT_EQ(refusal(problem),
            "an effort of 1000000000 orders: at most 10000000 are possible with 120 actions");
  EXPECT_EQ(most_effort(1'000'000), 5'000);
  EXPECT_EQ(most_effort(3'000'000), 1'666);
}

TEST(Synthesis, SaysHowMuchMemoryTheLeastIs) {
  EXPECT_EQ(refusal(small_problem(99)),
            "no order of these actions fits the memory limit: one microbatch alone needs 100 on "
            "rank 0 (limit 99), 100 on rank 1 (limit 99), 100 on rank 2 (limit 99), 100 on rank 3 "
            "(limit 99)");
  EXPECT_EQ(refusal(small_problem(100)), "accepted");
}

TEST(Synthesis, BackwardsStayWholeWhereTheirInputGradientWouldTakeMemoryThatIsNotThere) {
  const auto has_whole = [](const Synthesis& s) {
    return std::any_of(s.schedule.ranks[0].begin(), s.schedule.ranks[0].end(),
                       [](const Action& a) { return a.kind == ActionKind::backward; });
  };
  SynthesisProblem problem = small_problem(130);
  for (StageMemory& m : problem.costs.memory) m = {100, 30, -130};
  Synthesis s = synthesize(problem);
  expect_sound(problem, s);
  EXPECT_FALSE(has_whole(s));
  problem.costs.memory_limit.assign(4, 129);
  s = synthesize(problem);
  expect_sound(problem, s);
  EXPECT_TRUE(has_whole(s));
}

TEST(Synthesis, RefusesWhatMakesNoSense) {
  const SynthesisProblem good = small_problem(400);
  SynthesisProblem bad = good;
  bad.costs.microbatches = 0;
  EXPECT_THAT(refusal(bad), HasSubstr("at least one"));
  bad = good;
  bad.costs.times.pop_back();
  EXPECT_THAT(refusal(bad), HasSubstr("each of the 4 stages"));
  bad = good;
  bad.costs.memory_limit.pop_back();
  EXPECT_THAT(refusal(bad), HasSubstr("each of the 4 ranks"));
  bad = good;
  bad.costs.rank_of_stage[2] = 7;
  EXPECT_THAT(refusal(bad), HasSubstr("stage 2 is on a rank that does not exist"));
  bad = good;
  bad.costs.times[1].forward = Time{-1};
  EXPECT_THAT(refusal(bad), HasSubstr("stage 1 has a negative time"));
  bad = good;
  bad.costs.memory[3].backward_weight = -41;
  EXPECT_THAT(refusal(bad), HasSubstr("stage 3: what the forward adds to memory (100)"));
  bad = good;
  bad.costs.hops[0] = Time{-1};
  EXPECT_THAT(refusal(bad), HasSubstr("a hop takes negative time"));
  bad = good;
  bad.costs.microbatches = 1'000'000'000;
  EXPECT_THAT(refusal(bad), HasSubstr("1000000000 microbatches in 4 stages: at most"));
}

TEST(Synthesis, TakesOneRankOneMicrobatchAndFreeActions) {
  SynthesisProblem problem = small_problem();
  problem.costs = level_costs(1, 1, {0}, problem.costs.times[0], {1, -1, 0}, Time{0}, 1);
  EXPECT_EQ(synthesize(problem).makespan, Time{3000});
  problem.costs = level_costs(2, 3, {0, 1}, {}, {0, 0, 0}, Time{0}, 0);
  EXPECT_EQ(synthesize(problem).makespan, Time{0});
}

}  // namespace
}  // namespace stepcast::synthesis_test
