// SPDX-License-Identifier: Apache-2.0
// What families refuse, and that they say what would be legal; parameters by the names that other
// programs have for them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "schedules/check.h"
#include "schedules/schedule.h"
#include "tests/schedules/vectors.h"

namespace stepcast::refused_parameters_test {
namespace {

using ::testing::HasSubstr;

std::string refusal(const std::string& name, const ScheduleParams& params) {
  try {
    generate_schedule(*find_schedule_family(name), params);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(RefusedParameters, OfOtherProgramsAreRefusedWithASentenceThatNamesALegalValue) {
  size_t refused = 0;
  for (const testing::Refused& r : testing::read_refused("invalid_params.jsonl")) {
    SCOPED_TRACE(r.schedule + ' ' + r.reason);
    ASSERT_NE(find_schedule_family(r.schedule), nullptr);
    const std::string why = refusal(r.schedule, r.params);
    if (r.schedule == "1f1b") {  // PyTorch's limit; Megatron-LM runs it, and so do we
      EXPECT_EQ(why, "accepted");
      continue;
    }
    EXPECT_THAT(why, ::testing::AnyOf(HasSubstr("must be"), HasSubstr("needs at least"),
                                      HasSubstr("would"), HasSubstr("legal")));
    ++refused;
  }
  EXPECT_GE(refused, 15u);
}

TEST(RefusedParameters, AGroupIsForFamiliesThatHaveOne) {
  size_t with = 0;
  for (const ScheduleFamily& family : schedule_families()) {
    const std::string why = refusal(std::string(family.name), {4, 2, 8, 4});
    const bool refused = why == "'group' is not for " + std::string(family.name);
    EXPECT_NE(refused, family.takes_group) << family.name << ": " << why;
    with += family.takes_group ? 1 : 0;
  }
  EXPECT_GE(with, 4u);
  EXPECT_EQ(refusal("1f1b", {4, 1, 8, 3}), "'group' is not for 1f1b");
}

TEST(RefusedParameters, MessagesNameTheLegalValues) {
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 2, 9, 0}),
            "group = 4 (the default, pp) leaves a remainder of 1 microbatches, which must be 0 or "
            "at least pp = 4; legal with 9 microbatches and pp = 4: group = 5 or 9; with 8 or 12 "
            "microbatches group = pp is legal");
  EXPECT_EQ(refusal("interleaved-1f1b", {4, 2, 8, 3}),
            "group = 3 must lie between pp = 4 and microbatches = 8; legal with 8 microbatches and "
            "pp = 4: group = 4 or 8");
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
  EXPECT_THAT(refusal("1f1b", {4, 1, 100'000'000, 0}), HasSubstr("at most 250000 are possible"));
}

TEST(RefusedParameters, ChimeraNeedsTwoEqualHalves) {
  EXPECT_THAT(refusal("chimera", {3, 2, 6, 0}), HasSubstr("pp = 3 must be even"));
  EXPECT_THAT(refusal("chimera", {4, 2, 6, 0}), HasSubstr("must be a multiple of pp = 4"));
  EXPECT_THAT(refusal("chimera", {4, 1, 4, 0}), HasSubstr("vpp = 1 must be 2"));
}

ScheduleParams with(ScheduleParams params, std::string_view key, std::string_view value) {
  params.more.emplace(key, value);
  return params;
}

std::vector<std::string> rows(const std::string& name, const ScheduleParams& params) {
  return testing::rows_of(generate_schedule(*find_schedule_family(name), params));
}

TEST(NamedParameters, OfMegatronChooseTheGroupAndTheVariant) {
  const ScheduleParams plain{4, 2, 12, 0};
  EXPECT_EQ(rows("interleaved-1f1b", with(plain, "microbatch_group_size_per_vp_stage", "6")),
            rows("interleaved-1f1b", {4, 2, 12, 6}));
  EXPECT_EQ(rows("interleaved-1f1b", with(plain, "microbatch_group_size_per_vp_stage", "None")),
            rows("interleaved-1f1b", plain));
  EXPECT_EQ(rows("interleaved-1f1b", with(plain, "overlap_moe_expert_parallel_comm", "True")),
            rows("interleaved-1f1b-ep-overlap", plain));
  EXPECT_EQ(rows("interleaved-1f1b", with(plain, "overlap_p2p_comm", "false")),
            rows("interleaved-1f1b", plain));
}

TEST(NamedParameters, OfMegatronAreRefusedAsMegatronDoes) {
  EXPECT_EQ(refusal("interleaved-1f1b", with({2, 2, 4, 0}, "overlap_p2p_comm", "false")),
            "overlap_p2p_comm = false needs pp > 2 when chunks are interleaved: with pp = 2 it "
            "must be true");
  EXPECT_THAT(refusal("interleaved-1f1b", with(with({4, 2, 4, 0}, "overlap_p2p_comm", "false"),
                                               "overlap_p2p_comm_warmup_flush", "true")),
              HasSubstr("needs overlap_p2p_comm = true"));
  EXPECT_THAT(refusal("1f1b", with({2, 1, 4, 0}, "overlap_p2p_comm", "true")),
              HasSubstr("must be false with one chunk a rank"));
  EXPECT_EQ(refusal("1f1b", with({2, 1, 4, 0}, "overlap_p2p_comm", "false")), "accepted");
  EXPECT_THAT(refusal("interleaved-1f1b-ep-overlap", {4, 1, 8, 0}), HasSubstr("needs vpp >= 2"));
  EXPECT_THAT(
      refusal("interleaved-1f1b", with({4, 2, 8, 8}, "microbatch_group_size_per_vp_stage", "4")),
      HasSubstr("must agree"));
}

TEST(NamedParameters, OfPyTorchAreComparedWithTheRule) {
  for (const char* name : {"interleaved-1f1b-flex", "interleaved-zero-bubble"}) {
    const ScheduleParams params{4, 2, 10, 0};
    EXPECT_EQ(refusal(name, with(with(params, "rounds", "2"), "microbatches_per_round", "5")),
              "accepted");
    EXPECT_EQ(refusal(name, with(params, "rounds", "1")),
              "rounds = 1 must be 2: max(1, microbatches / pp)");
    EXPECT_EQ(refusal(name, with(params, "microbatches_per_round", "10")),
              "microbatches_per_round = 10 must be 5: microbatches / rounds");
  }
}

TEST(NamedParameters, OfFastLlmMultiplyToTheMicrobatches) {
  const ScheduleParams params{4, 2, 12, 0};
  EXPECT_EQ(rows("breadth-first", with(params, "breadth_first_micro_batches", "4")),
            rows("breadth-first", with(params, "depth_first_micro_batches", "3")));
  EXPECT_EQ(refusal("breadth-first", with(with(params, "breadth_first_micro_batches", "4"),
                                          "depth_first_micro_batches", "2")),
            "depth_first_micro_batches = 2 must be 3: microbatches / those of a round");
  EXPECT_EQ(refusal("breadth-first", with(params, "depth_first_micro_batches", "5")),
            "depth_first_micro_batches = 5 must divide the 12 microbatches");
}

TEST(NamedParameters, LoopedBreadthFirstRunsBackwardsInEitherOrder) {
  const ScheduleParams params{2, 2, 2, 0};
  EXPECT_EQ(rows("looped-bfs", params).at(0), "0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0");
  EXPECT_EQ(rows("looped-bfs", with(params, "backward_order", "ascending")),
            rows("breadth-first", params));
  EXPECT_EQ(refusal("looped-bfs", with(params, "backward_order", "random")),
            "backward_order = random must be descending or ascending");
}

TEST(NamedParameters, OfOtherFamiliesAreRefusedOutOfRange) {
  EXPECT_THAT(refusal("seq1f1b", with({2, 1, 4, 0}, "seq_splits", "0")),
              HasSubstr("seq_splits = 0 must be a whole number from 1"));
  EXPECT_THAT(refusal("seq1f1b", with({2, 1, 4, 0}, "seq_splits", "two")),
              HasSubstr("seq_splits = two must be a whole number"));
  EXPECT_THAT(refusal("seq1f1b", with({2, 1, 1'000, 0}, "seq_splits", "65536")),
              HasSubstr("pieces are possible"));
  EXPECT_THAT(refusal("group-interleaved", with({4, 2, 8, 0}, "interleave_group_size", "5")),
              HasSubstr("interleave_group_size = 5 must be at most pp = 4"));
  EXPECT_THAT(refusal("hanayo", with({4, 4, 8, 0}, "waves", "1")),
              HasSubstr("waves = 1 must be 2"));
  EXPECT_THAT(refusal("hanayo", {4, 3, 8, 0}), HasSubstr("vpp = 3 must be even"));
  EXPECT_THAT(refusal("dualpipev", {4, 1, 8, 0}), HasSubstr("vpp = 1 must be 2"));
}

TEST(NamedParameters, UnknownOnesAreRefusedAndRemarksAreNot) {
  EXPECT_EQ(refusal("gpipe", with({2, 1, 4, 0}, "rounds", "1")),
            "'rounds' is not a parameter of gpipe; it has none");
  EXPECT_THAT(refusal("seq1f1b", with({2, 1, 4, 0}, "splits", "1")),
              HasSubstr("it has: seq_splits"));
  EXPECT_EQ(refusal("gpipe", with({2, 1, 4, 0}, "note", "as measured")), "accepted");
}

}  // namespace
}  // namespace stepcast::refused_parameters_test
