// SPDX-License-Identifier: Apache-2.0
// Every family against what the public implementations do with the same parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "schedules/schedule.h"
#include "sim/memory/memory.h"
#include "tests/schedules/vectors.h"

namespace stepcast::families_test {
namespace {

using testing::evaluate;
using testing::Vector;

// Orders that follow times or limits are compared in tests of their own: how good they are, not
// which.
const std::vector<std::string> kFiles = testing::vector_files(
    {"1f1b_v.jsonl", "v_controllable_memory.jsonl", "v_half_v_min.jsonl",  // v_blocks_test.cc
     "zb_auto.jsonl", "zbv_auto.jsonl"});                                  // zb_auto_test.cc

Schedule generate(const Vector& v) {
  const ScheduleFamily* family = find_schedule_family(v.schedule);
  if (family == nullptr) throw std::runtime_error("no family " + v.schedule);
  return generate_schedule(*family, v.params);
}

// Forwards before the first action, or pair, with a backward.
int64_t leading_forwards(const std::vector<Action>& actions) {
  return std::find_if(
             actions.begin(), actions.end(),
             [](const Action& a) { return a.kind != ActionKind::forward || a.overlaps_next; }) -
         actions.begin();
}

// Most activations held at a time if I frees them.
int64_t peak_until_input(const std::vector<Action>& actions) {
  int64_t held = 0, peak = 0;
  for (const Action& a : actions) {
    if (a.kind == ActionKind::forward) peak = std::max(peak, ++held);
    if (a.kind == ActionKind::backward || a.kind == ActionKind::backward_input) --held;
  }
  return peak;
}

// The rules of tests/data/schedules/README.md.
size_t placed(const Vector& v, size_t stage, size_t microbatch) {
  const auto pp = static_cast<size_t>(v.params.pp);
  if (v.placement == "loop") return stage % pp;
  if (v.placement == "v") return stage < pp ? stage : 2 * pp - 1 - stage;
  if (v.placement == "bidirectional")
    return microbatch < static_cast<size_t>(v.params.microbatches) / 2 ? stage : pp - 1 - stage;
  if (v.placement == "bidirectional-by-unit")
    return microbatch / (pp / 2) % 2 == 0 ? stage : pp - 1 - stage;
  throw std::runtime_error("placement " + v.placement);
}

class ReferenceVector : public ::testing::TestWithParam<std::string> {};

TEST_P(ReferenceVector, OrderAndPlacementAreThoseOfTheReference) {
  for (const Vector& v : testing::read_vectors(GetParam())) {
    SCOPED_TRACE(v.id);
    const Schedule s = generate(v);
    EXPECT_EQ(s.name, v.schedule);
    ASSERT_EQ(s.ranks.size(), v.rows.size());
    const std::vector<std::string> rows = testing::rows_of(s);
    for (size_t r = 0; r < v.rows.size(); ++r) EXPECT_EQ(rows[r], v.rows[r]) << "rank " << r;
    EXPECT_EQ(s.is_bidirectional(), v.placement.starts_with("bidirectional"));
    EXPECT_EQ(s.rank_of_stage.size(), static_cast<size_t>(v.stages));
    for (size_t stage = 0; stage < s.rank_of_stage.size(); ++stage)
      for (size_t m = 0; m < static_cast<size_t>(s.microbatches); ++m)
        EXPECT_EQ(s.rank_of(stage, m), placed(v, stage, m)) << stage << ' ' << m;
  }
}

TEST_P(ReferenceVector, IsCompleteAndFreeOfDeadlock) {
  for (const Vector& v : testing::read_vectors(GetParam()))
    EXPECT_EQ(testing::faults_of(generate(v)), "") << v.id;
}

TEST_P(ReferenceVector, LeadingForwardsAndActivationsInFlightAreThoseOfTheReference) {
  for (const Vector& v : testing::read_vectors(GetParam())) {
    SCOPED_TRACE(v.id);
    const Schedule s = generate(v);
    if (v.schedule == "seq1f1b") continue;  // the file says nothing
    std::vector<Time> durations;
    const std::vector<RoleMemory> memory =
        trace_memory(lower_unit(s, testing::costs_named("unit", s.pp), durations));
    ASSERT_EQ(memory.size(), s.ranks.size());
    for (size_t r = 0; r < s.ranks.size(); ++r) {
      EXPECT_EQ(leading_forwards(s.ranks[r]), v.leading_forwards[r]) << "rank " << r;
      EXPECT_EQ(peak_until_input(s.ranks[r]), v.peak_until_input[r]) << "rank " << r;
      EXPECT_EQ(memory[r].peak_in_flight, v.peak_until_weight[r]) << "rank " << r;
      EXPECT_EQ(memory[r].peak.value, v.peak_until_weight[r]) << "rank " << r;
      EXPECT_EQ(memory[r].end.value, 0) << "rank " << r;
    }
  }
}

TEST_P(ReferenceVector, TakesTheTimeOfTheReferenceUnderAllCosts) {
  for (const Vector& v : testing::read_vectors(GetParam())) {
    const Schedule s = generate(v);
    EXPECT_EQ(v.eval.empty(), v.schedule == "seq1f1b") << v.id;
    for (const auto& [name, expected] : v.eval) {
      SCOPED_TRACE(v.id + ' ' + name);
      const testing::Makespan got = evaluate(s, testing::costs_named(name, s.pp));
      EXPECT_EQ(got.makespan, expected.makespan);
      EXPECT_EQ(got.span, expected.span);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceVector, ::testing::ValuesIn(kFiles),
                         testing::test_name_of);

TEST(InterleavedSchedule, OneGroupOfAllMicrobatchesIsAlwaysLegal) {
  const ScheduleFamily& interleaved = *find_schedule_family("interleaved-1f1b");
  for (int64_t m = 4; m < 40; ++m) EXPECT_FALSE(check_params(interleaved, {4, 3, m, m})) << m;
}

TEST(InterleavedSchedule, FlexEqualsMegatronWhereItsRoundIsALegalGroup) {
  const Schedule flex = find_schedule_family("interleaved-1f1b-flex")->generate({4, 2, 10, 0});
  const Schedule megatron = find_schedule_family("interleaved-1f1b")->generate({4, 2, 10, 5});
  EXPECT_EQ(flex.ranks, megatron.ranks);
}

TEST(InterleavedSchedule, RunsOnOneRank) {
  const Schedule s = find_schedule_family("interleaved-1f1b")->generate({1, 2, 2, 0});
  EXPECT_EQ(testing::rows_of(s).at(0), "0F0,1F0,1B0,0F1,0B0,1F1,1B1,0B1");
}

TEST(InterleavedSchedule, ExpertParallelOverlapWorksWithoutAPipeline) {
  const Schedule s = find_schedule_family("interleaved-1f1b-ep-overlap")->generate({1, 1, 3, 0});
  EXPECT_EQ(testing::rows_of(s).at(0), "0F0,(0F1;0B0)OVERLAP_F_B,(0F2;0B1)OVERLAP_F_B,0B2");
}

}  // namespace
}  // namespace stepcast::families_test
