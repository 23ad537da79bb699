// SPDX-License-Identifier: Apache-2.0
// The fast evaluator of orders against the engine.
#include "schedules/synthesis/order_timing.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/schedules/vectors.h"
#include "tests/schedules/written_actions.h"

namespace stepcast::order_timing_test {
namespace {

using testing::parse_actions;

constexpr double kUnit = 1000;  // ps

PipelineCosts costs_of(const Schedule& s, const UnitCosts& unit) {
  return level_costs(s.pp, s.microbatches, s.rank_of_stage, unit.times, {1, 0, -1}, unit.hop,
                     std::nullopt);
}

TEST(OrderTiming, IsThatOfTheEngine) {
  for (const char* file : {"1f1b.jsonl", "interleaved_megatron.jsonl", "zb_h1_quickstart.jsonl",
                           "zb_h2.jsonl", "zbv_torch.jsonl", "looped_bfs.jsonl"})
    for (const testing::Vector& v : testing::read_vectors(file)) {
      const Schedule s = generate_schedule(*find_schedule_family(v.schedule), v.params);
      for (const char* name : {"unit", "uneven"}) {
        SCOPED_TRACE(v.id + ' ' + name);
        const auto times = time_order(costs_of(s, testing::costs_named(name, s.pp)), s.ranks);
        ASSERT_TRUE(times.has_value());
        EXPECT_EQ(static_cast<double>(times->makespan.count()) / kUnit, v.eval.at(name).makespan);
        EXPECT_EQ(static_cast<double>(times->span.count()) / kUnit, v.eval.at(name).span);
      }
    }
}

TEST(OrderTiming, KnowsStagesAndHopsOfTheirOwn) {
  StageTimes times;
  times.forward = Time{10};
  times.backward_input = Time{20};
  times.backward_weight = Time{5};
  PipelineCosts costs = level_costs(2, 1, {0, 1}, times, {1, 0, -1}, Time{3}, std::nullopt);
  costs.times[1].forward = Time{100};
  costs.hops[0] = Time{7};
  const Order order = {parse_actions("0F0,0B0"), parse_actions("1F0,1I0,1W0")};
  const std::optional<OrderTimes> got = time_order(costs, order);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ(got->makespan, Time{10 + 7 + 100 + 20 + 7 + 25});
  EXPECT_EQ(got->span, got->makespan);
}

TEST(OrderTiming, AnOrderThatGetsStuckHasNoTime) {
  const PipelineCosts costs = level_costs(2, 2, {0, 1}, {}, {1, 0, -1}, Time{0}, std::nullopt);
  EXPECT_FALSE(
      time_order(costs, {parse_actions("0F0,0B0,0F1,0B1"), parse_actions("1F1,1F0,1B0,1B1")})
          .has_value());
}

TEST(OrderTiming, MemoryIsWhatTheListsAddAndFree) {
  const PipelineCosts costs = level_costs(2, 2, {0, 1}, {}, {10, -6, -4}, Time{0}, 20);
  const Order order = {parse_actions("0F0,0F1,0I0,0W0,0I1,0W1"),
                       parse_actions("1F0,1I0,1F1,1B1,1W0")};
  EXPECT_EQ(peak_memory(costs, order), (std::vector<int64_t>{20, 14}));
  EXPECT_TRUE(fits_memory(costs, order));
  PipelineCosts less = costs;
  less.memory_limit[1] = 13;
  EXPECT_FALSE(fits_memory(less, order));
}

}  // namespace
}  // namespace stepcast::order_timing_test
