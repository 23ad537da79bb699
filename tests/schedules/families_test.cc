// SPDX-License-Identifier: Apache-2.0
// Every family against what the public implementations do with the same parameters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "schedules/check.h"
#include "schedules/schedule.h"
#include "sim/memory.h"
#include "tests/schedules/vectors.h"

namespace stepcast {
namespace {

using testing::evaluate;
using testing::Vector;

// Another file of vectors: another line here.
const char* const kFiles[] = {"gpipe.jsonl",
                              "1f1b.jsonl",
                              "interleaved_megatron.jsonl",
                              "interleaved_torch.jsonl",
                              "eager_1f1b.jsonl",
                              "looped_bfs.jsonl",
                              "breadth_first_fastllm.jsonl",
                              "zb_h1.jsonl",
                              "zb_h1_quickstart.jsonl",
                              "zb_h2.jsonl",
                              "interleaved_zero_bubble.jsonl",
                              "zbv_torch.jsonl",
                              "chimera.jsonl"};

Schedule generate(const Vector& v) {
  const ScheduleFamily* family = find_schedule_family(v.schedule);
  if (family == nullptr) throw std::runtime_error("no family " + v.schedule);
  return family->generate(v.params);
}

int64_t leading_forwards(const std::vector<Action>& actions) {
  return std::find_if(actions.begin(), actions.end(),
                      [](const Action& a) { return a.kind != ActionKind::forward; }) -
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
  if (v.placement == "bidirectional-by-unit")
    return microbatch / (pp / 2) % 2 == 0 ? stage : pp - 1 - stage;
  throw std::runtime_error("placement " + v.placement);
}

class ReferenceVector : public ::testing::TestWithParam<const char*> {};

TEST_P(ReferenceVector, OrderAndPlacementAreThoseOfTheReference) {
  for (const Vector& v : testing::read_vectors(GetParam())) {
    SCOPED_TRACE(v.id);
    const Schedule s = generate(v);
    EXPECT_EQ(s.name, v.schedule);
    ASSERT_EQ(s.ranks.size(), v.rows.size());
    for (size_t r = 0; r < v.rows.size(); ++r)
      EXPECT_EQ(testing::row_of(s.ranks[r]), v.rows[r]) << "rank " << r;
    EXPECT_EQ(s.is_bidirectional(), v.placement == "bidirectional-by-unit");
    EXPECT_EQ(s.rank_of_stage.size(), static_cast<size_t>(v.stages));
    for (size_t stage = 0; stage < s.rank_of_stage.size(); ++stage)
      for (size_t m = 0; m < static_cast<size_t>(s.microbatches); ++m)
        EXPECT_EQ(s.rank_of(stage, m), placed(v, stage, m)) << stage << ' ' << m;
  }
}

TEST_P(ReferenceVector, IsCompleteAndFreeOfDeadlock) {
  for (const Vector& v : testing::read_vectors(GetParam()))
    EXPECT_TRUE(check_schedule(generate(v)).empty()) << v.id;
}

TEST_P(ReferenceVector, LeadingForwardsAndActivationsInFlightAreThoseOfTheReference) {
  for (const Vector& v : testing::read_vectors(GetParam())) {
    SCOPED_TRACE(v.id);
    const Schedule s = generate(v);
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
    ASSERT_FALSE(v.eval.empty()) << v.id;
    for (const auto& [name, expected] : v.eval) {
      SCOPED_TRACE(v.id + ' ' + name);
      const testing::Makespan got = evaluate(s, testing::costs_named(name, s.pp));
      EXPECT_EQ(got.makespan, expected.makespan);
      EXPECT_EQ(got.span, expected.span);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceVector, ::testing::ValuesIn(kFiles),
                         [](const ::testing::TestParamInfo<const char*>& param) {
                           std::string name = param.param;
                           std::string plain = "f";  // a test name may not begin with a digit
                           for (const char c : name.substr(0, name.find('.')))
                             if (c != '_') plain += c;
                           return plain;
                         });

TEST(RefusedParameters, AreRefusedWithASentence) {
  size_t refused = 0;
  for (const testing::Refused& r : testing::read_refused("invalid_params.jsonl")) {
    SCOPED_TRACE(r.schedule + ' ' + r.reason);
    const ScheduleFamily* family = find_schedule_family(r.schedule);
    if (family == nullptr || r.needs_overlap) continue;
    if (r.schedule == "1f1b") {  // PyTorch's limit; Megatron-LM runs it, and so do we
      EXPECT_TRUE(check_schedule(family->generate(r.params)).empty());
      continue;
    }
    try {
      family->generate(r.params);
      ADD_FAILURE() << "accepted";
    } catch (const std::invalid_argument& e) {
      EXPECT_GT(std::string(e.what()).size(), 30u) << e.what();
      ++refused;
    }
  }
  EXPECT_GE(refused, 10u);
}

std::string refusal(const std::string& name, const ScheduleParams& params) {
  try {
    find_schedule_family(name)->generate(params);
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "accepted";
}

TEST(RefusedParameters, MessagesNameTheLegalValues) {
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 2, 9, 0}),
            "group = 4 (the default, pp) leaves a remainder of 1 microbatches, which must be 0 or "
            "at least pp = 4; legal with 9 microbatches and pp = 4: 5 or 9");
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 2, 8, 3}),
            "group = 3 must lie between pp = 4 and microbatches = 8; legal with 8 microbatches and "
            "pp = 4: 4 or 8");
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 2, 3, 0}),
            "interleaved-1f1b needs at least pp = 4 microbatches, there are 3");
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 1, 8, 0}),
            "interleaved-1f1b needs vpp >= 2 (Megatron's virtual pipeline size); with vpp = 1 the "
            "schedule is 1f1b");
  EXPECT_EQ(
      refusal("1f1b", {4, 2, 8, 0}),
      "1f1b runs one chunk on each rank: vpp = 2 must be 1, or the schedule interleaved-1f1b");
  EXPECT_EQ(refusal("gpipe", {4, 3, 8, 0}),
            "gpipe runs one chunk on each rank: vpp = 3 must be 1, or the schedule looped-bfs");
  EXPECT_EQ(refusal("interleaved-1f1b-flex", {4, 2, 9, 0}),
            "interleaved-1f1b-flex runs max(1, microbatches / pp) = 2 equal rounds, which 9 "
            "microbatches do not fill; 8 or 10 would");
}

TEST(RefusedParameters, SizesOutOfRangeAreRefusedByEveryFamily) {
  using ::testing::HasSubstr;
  for (const ScheduleFamily& family : schedule_families()) {
    SCOPED_TRACE(family.name);
    const std::string name(family.name);
    for (const ScheduleParams& p :
         {ScheduleParams{0, 1, 4, 0}, ScheduleParams{-1, 2, 4, 0}, ScheduleParams{2, 0, 4, 0},
          ScheduleParams{2, 1, 0, 0}, ScheduleParams{2, 2, -4, 0}, ScheduleParams{2, 1, 4, -2},
          ScheduleParams{int64_t{1} << 62, 2, 4, 0}, ScheduleParams{2, int64_t{1} << 62, 4, 0},
          ScheduleParams{2, 2, int64_t{1} << 62, 0}, ScheduleParams{2, 1, int64_t{1} << 62, 0}})
      EXPECT_NE(refusal(name, p), "accepted") << p.pp << ' ' << p.vpp << ' ' << p.microbatches;
  }
  EXPECT_THAT(refusal("1f1b", {0, 1, 4, 0}), HasSubstr("pp = 0 must be at least 1"));
  EXPECT_THAT(refusal("1f1b", {70000, 1, 4, 0}), HasSubstr("at most 65536"));
  EXPECT_THAT(refusal("1f1b", {4, 1, 100'000'000, 0}), HasSubstr("at most 8333333 are possible"));
}

TEST(RefusedParameters, ChimeraNeedsTwoEqualHalves) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal("chimera", {3, 2, 6, 0}), HasSubstr("pp = 3 must be even"));
  EXPECT_THAT(refusal("chimera", {4, 2, 6, 0}), HasSubstr("must be a multiple of pp = 4"));
  EXPECT_THAT(refusal("chimera", {4, 1, 4, 0}), HasSubstr("vpp = 1 must be 2"));
}

TEST(InterleavedSchedule, OneGroupOfAllMicrobatchesIsAlwaysLegal) {
  for (int64_t m = 4; m < 40; ++m) EXPECT_EQ(refusal("interleaved-1f1b", {4, 3, m, m}), "accepted");
}

TEST(InterleavedSchedule, FlexEqualsMegatronWhereItsRoundIsALegalGroup) {
  const Schedule flex = find_schedule_family("interleaved-1f1b-flex")->generate({4, 2, 10, 0});
  const Schedule megatron = find_schedule_family("interleaved-1f1b")->generate({4, 2, 10, 5});
  EXPECT_EQ(flex.ranks, megatron.ranks);
}

TEST(InterleavedSchedule, RunsOnOneRank) {
  const Schedule s = find_schedule_family("interleaved-1f1b")->generate({1, 2, 2, 0});
  EXPECT_EQ(testing::row_of(s.ranks.at(0)), "0F0,1F0,1B0,0F1,0B0,1F1,1B1,0B1");
}

}  // namespace
}  // namespace stepcast
