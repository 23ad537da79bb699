// SPDX-License-Identifier: Apache-2.0
// The lower bounds, and what synthesis finds, against all orders of small pipelines.
#include "schedules/synthesis/order_timing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string>

#include "schedules/formats/action_text.h"
#include "schedules/synthesis/synthesis.h"
#include "sim/random.h"

namespace stepcast::schedule_bounds_test {
namespace {

struct Enumeration {
  const PipelineCosts& costs;
  bool split;
  bool mixed;  // with split: whole backwards too
  // All lists of each rank that respect the order within a microbatch and the memory.  The
  // microbatches of a stage are alike, so that they may go in turn: the k-th of a kind is number k.
  std::vector<std::vector<std::vector<Action>>> lists = {};
};

struct Counts {
  std::vector<std::array<uint32_t, 3>> done;  // by stage of the rank: F, I or B, W
  int64_t held = 0;
};

void extend(Enumeration& e, size_t r, const std::vector<size_t>& stages, Counts& counts,
            std::vector<Action>& list) {
  const auto m = static_cast<uint32_t>(e.costs.microbatches);
  const size_t kinds = e.split ? 3 : 2;
  const auto all_done = [&](const std::array<uint32_t, 3>& done) {
    return std::all_of(done.begin(), done.begin() + static_cast<std::ptrdiff_t>(kinds),
                       [&](uint32_t n) { return n == m; });
  };
  if (std::all_of(counts.done.begin(), counts.done.end(), all_done)) {
    e.lists[r].push_back(list);
    return;
  }
  for (size_t c = 0; c < stages.size(); ++c)
    for (size_t k = 0; k < kinds; ++k) {
      const uint32_t n = counts.done[c][k];
      const bool after = k == 0 ? c == 0 || counts.done[c - 1][0] > n
                                : counts.done[c][k - 1] > n && (k == 2 || c + 1 == stages.size() ||
                                                                counts.done[c + 1][1] > n);
      if (n == m || !after) continue;
      const ActionKind kind = k == 0    ? ActionKind::forward
                              : k == 2  ? ActionKind::backward_weight
                              : e.split ? ActionKind::backward_input
                                        : ActionKind::backward;
      const int64_t more = action_memory(e.costs, kind, stages[c]);
      if (!e.costs.memory_limit.empty() && counts.held + more > e.costs.memory_limit[r]) continue;
      ++counts.done[c][k];
      counts.held += more;
      list.push_back({kind, static_cast<uint16_t>(stages[c]), n});
      extend(e, r, stages, counts, list);
      list.pop_back();
      counts.held -= more;
      --counts.done[c][k];
    }
  if (!e.mixed) return;
  // A whole backward of a microbatch whose weight gradient is the next: the stage's weight
  // gradients go in turn, so that this is no order with them in another.
  for (size_t c = 0; c < stages.size(); ++c) {
    std::array<uint32_t, 3>& done = counts.done[c];
    const uint32_t n = done[1];
    const bool after =
        done[0] > n && done[2] == n && (c + 1 == stages.size() || counts.done[c + 1][1] > n);
    if (n == m || !after) continue;
    ++done[1], ++done[2];
    counts.held -= e.costs.memory[stages[c]].forward;
    list.push_back({ActionKind::backward, static_cast<uint16_t>(stages[c]), n});
    extend(e, r, stages, counts, list);
    list.pop_back();
    counts.held += e.costs.memory[stages[c]].forward;
    --done[1], --done[2];
  }
}

// The shortest of all orders; std::nullopt if none fits.
std::optional<OrderTimes> shortest(const PipelineCosts& costs, bool split, bool mixed) {
  Enumeration e{costs, split, mixed};
  e.lists.resize(static_cast<size_t>(costs.pp));
  for (size_t r = 0; r < e.lists.size(); ++r) {
    std::vector<size_t> stages;
    for (size_t s = 0; s < costs.rank_of_stage.size(); ++s)
      if (costs.rank_of_stage[s] == r) stages.push_back(s);
    Counts counts;
    counts.done.resize(stages.size());
    std::vector<Action> list;
    extend(e, r, stages, counts, list);
    if (e.lists[r].empty()) return std::nullopt;
  }
  std::optional<OrderTimes> best;
  Order order(e.lists.size());
  const auto combine = [&](auto&& self, size_t r) -> void {
    if (r == order.size()) {
      const std::optional<OrderTimes> times = time_order(costs, order);
      if (!times) return;
      if (!best) best = times;
      best->makespan = std::min(best->makespan, times->makespan);
      best->span = std::min(best->span, times->span);
      return;
    }
    for (const std::vector<Action>& list : e.lists[r]) {
      order[r] = list;
      self(self, r + 1);
    }
  };
  combine(combine, 0);
  return best;
}

PipelineCosts draw(CountedRandom& random, int64_t pp, int64_t m, std::vector<uint16_t> placement) {
  PipelineCosts costs;
  costs.pp = pp;
  costs.microbatches = m;
  costs.rank_of_stage = std::move(placement);
  const auto time = [&](uint64_t most) {
    return Time{static_cast<int64_t>(random.below(most + 1))};
  };
  for (size_t s = 0; s < costs.rank_of_stage.size(); ++s) {
    StageTimes t;
    t.forward = time(9);
    t.backward_input = time(9);
    t.backward_weight = time(9);
    costs.times.push_back(t);
    StageMemory memory;
    memory.forward = 1 + static_cast<int64_t>(random.below(5));
    memory.backward_input =
        -static_cast<int64_t>(random.below(static_cast<uint64_t>(memory.forward) + 1));
    memory.backward_weight = -memory.forward - memory.backward_input;
    costs.memory.push_back(memory);
    if (s > 0) costs.hops.push_back(time(4));
  }
  if (random.below(4) > 0)
    for (int64_t r = 0; r < pp; ++r)
      costs.memory_limit.push_back(4 + static_cast<int64_t>(random.below(9)));
  return costs;
}

// Synthesis, its bound and the shortest of all orders, for some random pipelines of these sizes.
void compare(int64_t pp, int64_t m, const std::vector<uint16_t>& placement, bool split, int cases,
             bool mixed = false) {
  CountedRandom random(static_cast<uint64_t>(100 * pp + 10 * m + (split ? 1 : 0)));
  int feasible = 0, best = 0;
  for (int i = 0; i < cases; ++i) {
    SCOPED_TRACE("p = " + std::to_string(pp) + ", m = " + std::to_string(m) + ", case " +
                 std::to_string(i));
    SynthesisProblem problem;
    problem.costs = draw(random, pp, m, placement);
    problem.split_backward = split;
    problem.effort = 400;
    // Whole backwards that take less than both halves, now and then less than the input gradient.
    for (StageTimes& t : problem.costs.times) {
      const int64_t both = (t.backward_input + t.backward_weight).count();
      if (mixed)
        t.backward = Time{std::max<int64_t>(0, both - static_cast<int64_t>(random.below(4)))};
    }
    const std::optional<OrderTimes> least = shortest(problem.costs, split, mixed);
    if (!least) {
      EXPECT_THROW(synthesize(problem), InputError);
      continue;
    }
    ++feasible;
    const OrderTimes bounds = schedule_bounds(problem.costs, split);
    EXPECT_LE(bounds.makespan, least->makespan);
    EXPECT_LE(bounds.span, least->span);
    const Synthesis made = synthesize(problem);
    EXPECT_GE(made.makespan, least->makespan);
    best += made.makespan == least->makespan ? 1 : 0;
    problem.objective = SynthesisObjective::span;
    EXPECT_GE(synthesize(problem).span, least->span);
  }
  EXPECT_GT(feasible, cases / 3);
  EXPECT_GE(best, feasible * 9 / 10) << "of " << feasible;
}

TEST(ScheduleBounds, HoldForAllOrdersOfTwoRanks) {
  compare(2, 1, {0, 1}, true, 60);
  compare(2, 2, {0, 1}, true, 60);
  compare(2, 3, {0, 1}, true, 40);
}

TEST(ScheduleBounds, HoldForAllOrdersOfThreeRanks) {
  compare(3, 1, {0, 1, 2}, true, 60);
  compare(3, 2, {0, 1, 2}, true, 60);
}

TEST(ScheduleBounds, HoldForWholeBackwards) {
  compare(2, 3, {0, 1}, false, 60);
  compare(3, 3, {0, 1, 2}, false, 60);
  compare(2, 2, {0, 1, 1, 0}, false, 8);
}

TEST(ScheduleBounds, HoldForWholeBackwardsBesideSplitOnes) {
  compare(2, 1, {0, 1}, true, 60, true);
  compare(2, 2, {0, 1}, true, 60, true);
  compare(3, 1, {0, 1, 2}, true, 60, true);
  compare(3, 2, {0, 1, 2}, true, 10, true);
  compare(2, 1, {0, 1, 1, 0}, true, 20, true);
}

TEST(ScheduleBounds, HoldForTwoChunksARank) {
  compare(2, 1, {0, 1, 1, 0}, true, 60);
  compare(2, 1, {0, 1, 0, 1}, true, 60);
}

TEST(ScheduleBounds, AreReachedBySchedulesWithoutABubble) {
  StageTimes times;
  times.forward = times.backward_input = times.backward_weight = Time{1};
  const PipelineCosts costs =
      level_costs(4, 8, {0, 1, 2, 3}, times, {10, -5, -5}, Time{0}, std::nullopt);
  const OrderTimes bounds = schedule_bounds(costs, true);
  EXPECT_EQ(bounds.makespan, Time{8 * 3 + 3});  // ZB-H2's: the ideal time and (p - 1) tF
  EXPECT_EQ(bounds.span, Time{8 * 3});
}

TEST(ScheduleBounds, KnowThatMemoryLimitsTheWarmUp) {
  StageTimes times;
  times.forward = times.backward_input = times.backward_weight = Time{1};
  PipelineCosts costs = level_costs(4, 8, {0, 1, 2, 3}, times, {10, -5, -5}, Time{0}, 40);
  // Four forwards on rank 0, of the seven that fit before the first gradient is back: ZB-H1's time.
  EXPECT_EQ(schedule_bounds(costs, true).makespan, Time{8 * 3 + 3});
  EXPECT_EQ(schedule_bounds(costs, true).span, Time{8 * 3 + 3});
  costs.memory_limit.assign(4, 10);
  // One microbatch at a time: 8 times the way there and back, and the last weight gradient.
  EXPECT_GE(schedule_bounds(costs, true).makespan, Time{8 * 8});
}

}  // namespace
}  // namespace stepcast::schedule_bounds_test
