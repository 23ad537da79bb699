// SPDX-License-Identifier: Apache-2.0
// Schedules made of building blocks in the form of a V: V-Half, V-Min, 1F1B-V and the search for
// any limit on activations.
#include "schedules/families/v_blocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "schedules/families/families.h"
#include "schedules/formats/action_text.h"
#include "schedules/schedule.h"
#include "schedules/synthesis/order_timing.h"
#include "tests/schedules/vectors.h"
#include "tests/schedules/written_actions.h"

namespace stepcast::v_blocks_test {
namespace {

using ::testing::HasSubstr;
using testing::parse_actions;
using testing::Vector;

Schedule generate(const std::string& name, const ScheduleParams& params) {
  return generate_schedule(*find_schedule_family(name), params);
}

// Most activations held on any rank; I or W frees them.
int64_t peak(const Order& order, ActionKind frees) {
  int64_t peak = 0;
  for (const std::vector<Action>& list : order) {
    int64_t held = 0;
    for (const Action& a : list) {
      if (a.kind == ActionKind::forward) peak = std::max(peak, ++held);
      if (a.kind == ActionKind::backward || a.kind == frees) --held;
    }
  }
  return peak;
}
int64_t peak(const Schedule& s) {
  return peak(s.ranks, ActionKind::backward_weight);
}

double unit_bubble(const Schedule& s) {
  return testing::evaluate(s, testing::costs_named("unit", s.pp)).makespan -
         static_cast<double>(6 * s.microbatches);
}

std::string refusal(const std::string& name, const ScheduleParams& params) {
  try {
    generate(name, params);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

class FixedBlockVectors : public ::testing::TestWithParam<const char*> {};

TEST_P(FixedBlockVectors, OrderTimesAndActivationsAreThoseOfTheReference) {
  for (const Vector& v : testing::read_vectors(GetParam())) {
    SCOPED_TRACE(v.id);
    const Schedule s = generate(v.schedule, v.params);
    EXPECT_EQ(s.name, v.schedule);
    EXPECT_EQ(testing::rows_of(s), v.rows);
    EXPECT_EQ(testing::faults_of(s), "");
    EXPECT_EQ(peak(s), *std::max_element(v.peak_until_weight.begin(), v.peak_until_weight.end()));
    for (const auto& [name, expected] : v.eval) {
      const testing::Makespan got = testing::evaluate(s, testing::costs_named(name, s.pp));
      EXPECT_EQ(got.makespan, expected.makespan) << name;
      EXPECT_EQ(got.span, expected.span) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, FixedBlockVectors,
                         ::testing::Values("v_half_v_min.jsonl", "1f1b_v.jsonl"),
                         [](const auto& file) {
                           return file.index == 0 ? std::string("VHalfVMin")
                                                  : std::string("OneFOneBV");
                         });

TEST(VHalf, BubbleAndActivationsAreThoseOfTheClosedForms) {
  for (int64_t p = 3; p <= 16; ++p)
    for (const int64_t m : {2 * p, 2 * p + 3}) {
      SCOPED_TRACE(std::to_string(p) + ' ' + std::to_string(m));
      const Schedule s = generate("v-half", {p, 2, m, 0});
      EXPECT_EQ(unit_bubble(s), static_cast<double>(p % 2 == 0 ? 3 * p - 7 : 3 * p - 4));
      EXPECT_EQ(peak(s), p % 2 == 0 ? p + 2 : p + 1);
    }
}

TEST(VMin, BubbleAndActivationsAreThoseOfTheClosedForms) {
  for (int64_t p = 3; p <= 16; ++p)
    for (const int64_t m : {2 * p, 2 * p + 3}) {
      SCOPED_TRACE(std::to_string(p) + ' ' + std::to_string(m));
      const Schedule s = generate("v-min", {p, 2, m, 0});
      EXPECT_EQ(unit_bubble(s), static_cast<double>(p % 3 == 0 ? 4 * p - 7 : 4 * p - 5));
      EXPECT_EQ(peak(s), 2 * (p / 3 + 1) + (p % 3 == 2 ? 2 : 0));
    }
}

TEST(OneFOneBV, HoldsTwoThirdsOf1F1BAndWaitsLess) {
  for (int64_t p = 3; p <= 16; ++p) {
    SCOPED_TRACE(p);
    const Schedule s = generate("1f1b-v", {p, 2, 2 * p + 3, 0});
    EXPECT_EQ(peak(s), 2 * ((2 * p + 1 + 2) / 3));
    EXPECT_LT(unit_bubble(s), static_cast<double>(6 * (p - 1)));
    for (const std::vector<Action>& list : s.ranks)
      for (const Action& a : list) EXPECT_LE(a.kind, ActionKind::backward);
  }
}

TEST(FixedBlocks, EverySizeIsCompleteAndFreeOfDeadlock) {
  for (const char* name : {"v-half", "v-min", "1f1b-v"})
    for (int64_t p = 1; p <= 16; ++p)
      for (int64_t m = 1; m <= 40; m += m < 5 ? 1 : 7) {
        const Schedule s = generate(name, {p, 2, m, 0});
        ASSERT_EQ(testing::faults_of(s), "") << name << ' ' << p << ' ' << m;
        EXPECT_LE(peak(s), 2 * std::max<int64_t>(p, 2)) << name << ' ' << p << ' ' << m;
      }
}

TEST(FixedBlocks, ParametersAreNumbersAndChunksTwo) {
  EXPECT_EQ(refusal("v-half", {4, 2, 8, 0, {{"tF", "1000"}, {"tComm", "50"}}}), "accepted");
  EXPECT_THAT(refusal("v-half", {4, 2, 8, 0, {{"tF", "fast"}}}), HasSubstr("tF = fast must be"));
  EXPECT_THAT(refusal("1f1b-v", {4, 2, 8, 0, {{"tW", "x"}}}), HasSubstr("tW = x must be"));
  EXPECT_THAT(refusal("v-min", {4, 2, 8, 0, {{"max_mem_chunks", "6"}}}),
              HasSubstr("not a parameter of v-min"));
  for (const char* name : {"v-half", "v-min", "1f1b-v", "v-controllable-memory"})
    EXPECT_THAT(refusal(name, {4, 1, 8, 0}), HasSubstr("vpp = 1 must be 2")) << name;
}

// Times of the parameters, 1 unit = 1 ns.
PipelineCosts costs_of(const ScheduleParams& params, const std::vector<uint16_t>& rank_of_stage) {
  const auto time = [&](const char* key) {
    return Time{static_cast<int64_t>(ParamReader(params).number(key).value_or(1) * 1000)};
  };
  return level_costs(params.pp, params.microbatches, rank_of_stage,
                     {time("tF"), time("tB_input"), time("tW"), {}, {}, {}}, {1, 0, -1},
                     time("tComm"), std::nullopt);
}

TEST(ControllableMemory, IsNoLongerThanTheReferenceAndHoldsNoMore) {
  for (const Vector& v : testing::read_vectors("v_controllable_memory.jsonl")) {
    SCOPED_TRACE(v.id);
    const Schedule s = generate(v.schedule, v.params);
    EXPECT_EQ(s.name, v.schedule);
    EXPECT_EQ(testing::faults_of(s), "");
    Order reference;
    for (const std::string& row : v.rows) reference.push_back(parse_actions(row));
    const PipelineCosts costs = costs_of(v.params, s.rank_of_stage);
    const auto theirs = time_order(costs, reference), ours = time_order(costs, s.ranks);
    ASSERT_TRUE(theirs && ours);
    EXPECT_LE(ours->makespan, theirs->makespan);
    EXPECT_LE(ours->span, theirs->span);
    for (const ActionKind frees : {ActionKind::backward_weight, ActionKind::backward_input})
      EXPECT_LE(peak(s.ranks, frees), peak(reference, frees));
  }
}

TEST(ControllableMemory, KeepsToEveryLimitAndGetsShorterWithMore) {
  double before = 1e9;
  for (int64_t limit = 2; limit <= 8; ++limit) {
    const Schedule s = generate("v-controllable-memory",
                                {3, 2, 6, 0, {{"max_mem_chunks", std::to_string(limit)}}});
    ASSERT_EQ(testing::faults_of(s), "") << limit;
    EXPECT_LE(peak(s), std::min<int64_t>(limit, 6));
    const double bubble = unit_bubble(s);
    EXPECT_LE(bubble, before) << limit;
    before = bubble;
  }
  EXPECT_EQ(before, 2);  // as ZB-V: (p - 1) tF
}

TEST(ControllableMemory, SizesOfAllKindsAreCompleteAndFreeOfDeadlock) {
  for (const auto& [p, m] : {std::pair<int64_t, int64_t>{1, 1}, {1, 5}, {3, 9}, {5, 2}})
    for (const int64_t limit : {int64_t{2}, p, 2 * p + 5}) {
      if (limit < 2) continue;
      const Schedule s = generate("v-controllable-memory",
                                  {p, 2, m, 0, {{"max_mem_chunks", std::to_string(limit)}}});
      EXPECT_EQ(testing::faults_of(s), "") << p << ' ' << m << ' ' << limit;
      EXPECT_LE(peak(s), limit) << p << ' ' << m << ' ' << limit;
    }
}

TEST(ControllableMemory, IsNoLongerThanTheFixedBlockOfItsLimit) {
  const Schedule half = generate("v-half", {6, 2, 12, 0});
  const Schedule ours = generate("v-controllable-memory",
                                 {6, 2, 12, 0, {{"max_mem_chunks", std::to_string(peak(half))}}});
  EXPECT_LE(unit_bubble(ours), unit_bubble(half));
}

TEST(ControllableMemory, SaysWhatIsWrongWithItsParameters) {
  const auto with = [](const char* key, const char* value) {
    return refusal("v-controllable-memory", {4, 2, 8, 0, {{key, value}}});
  };
  EXPECT_THAT(with("max_mem_chunks", "1"), HasSubstr("max_mem_chunks = 1 must be"));
  EXPECT_THAT(with("max_mem_chunks", "all"), HasSubstr("max_mem_chunks = all must be"));
  EXPECT_THAT(with("tF", "0"), HasSubstr("tF = 0 must lie between 0.001"));
  EXPECT_THAT(with("tW", "-1"), HasSubstr("tW = -1 must lie between 0.001"));
  EXPECT_THAT(with("tComm", "-0.5"), HasSubstr("tComm = -0.5 must lie between 0"));
  EXPECT_THAT(with("tB_input", "1e9"), HasSubstr("10000000"));
  EXPECT_EQ(with("max_mem_chunks", "None"), "accepted");
}

TEST(ControllableMemory, IsTheSameEveryTime) {
  const ScheduleParams params{3, 2, 5, 0, {{"max_mem_chunks", "5"}, {"tW", "0.5"}}};
  EXPECT_EQ(generate("v-auto", params).ranks, generate("v-auto", params).ranks);
}

// One rank by itself: chunk 1 is the last stage.
TEST(RunAhead, FillsGapsOnlyWithWhatTheLimitLeavesRoomFor) {
  const VRow row{VPass::forward0, VPass::idle,    VPass::forward1, VPass::input1, VPass::weight1,
                 VPass::input0,   VPass::weight0, VPass::forward0, VPass::idle,   VPass::forward1,
                 VPass::input1,   VPass::weight1, VPass::input0,   VPass::weight0};
  VRunRules rules;
  rules.limit = 2;
  const VRun run = run_ahead({row}, VTimes{10, 12, 7, 1}, rules);
  EXPECT_EQ(run.makespan, 2 * (2 * 10 + 2 * 12 + 2 * 7));
  EXPECT_EQ(run.span, run.makespan);
  EXPECT_EQ(peak_held(run.rows.at(0)), 2);
  EXPECT_EQ(run.rows.at(0).size(), 12u);
}

TEST(RunAhead, BackwardInTimeKeepsEveryNeed) {
  const VBlock first{0, 3, 4, 9, 5, 10}, second{1, 2, 6, 7, 8, 11};
  const VRows rows = repeat_block(std::vector<VBlock>{first, second}, 3, 12);
  VRunRules rules;
  rules.backward = true;
  rules.limit = 4;
  const VRun run = run_ahead(rows, VTimes{}, rules);
  Schedule s = generate("v-min", {2, 2, 3, 0});
  for (int64_t r = 0; r < 2; ++r)
    s.ranks[static_cast<size_t>(r)] = actions_of(run.rows[static_cast<size_t>(r)], r, 2, false);
  EXPECT_EQ(testing::faults_of(s), "");
  EXPECT_LT(run.makespan, 36);
  EXPECT_LE(peak(s), 4);
}

TEST(Blocks, WeightGradientsFillTheFirstIdleSlotsOfTheRow) {
  VRow row{VPass::forward0, VPass::forward1, VPass::input1, VPass::idle, VPass::input0};
  fill_weights(row, true);
  EXPECT_EQ(row, (VRow{VPass::forward0, VPass::forward1, VPass::input1, VPass::weight1,
                       VPass::input0, VPass::weight0}));
  EXPECT_EQ(peak_held(row), 2);
  drop_weights(row);
  EXPECT_EQ(row.size(), 5u);
}

}  // namespace
}  // namespace stepcast::v_blocks_test
