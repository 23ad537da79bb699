// SPDX-License-Identifier: Apache-2.0
// parallel.cp, cp_comm, cp_inner: what they become and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/scenarios/loading.h"

namespace stepcast::context_test {
namespace {

using testing::failure_with;
using ::testing::HasSubstr;
using testing::load_with;
using testing::Sets;

Plan plan_with(const Sets& sets) {
  return load_with(sets).plan;
}

TEST(Context, WaysHaveMegatronsWords) {
  const auto way = [](const std::string& word) {
    return plan_with({{"parallel", "{tp: 2, pp: 1, cp: 4, cp_comm: " + word + "}"}}).cp_comm;
  };
  EXPECT_EQ(plan_with({{"parallel", "{tp: 2, pp: 1, cp: 4}"}}).cp_comm, CpComm::p2p);
  EXPECT_EQ(way("p2p"), CpComm::p2p);
  EXPECT_EQ(way("allgather"), CpComm::all_gather);
  EXPECT_EQ(way("a2a"), CpComm::all_to_all);
  const Plan both =
      plan_with({{"parallel", "{tp: 2, pp: 1, cp: 4, cp_comm: a2a+p2p, cp_inner: 2}"}});
  EXPECT_EQ(both.cp_comm, CpComm::hierarchical);
  EXPECT_EQ(both.cp_inner, 2);
  EXPECT_EQ(both.grid.cp_inner, 2);
  EXPECT_EQ(both.dp, 2);
}

TEST(Context, SequencesNeedTwoPartsForEachRank) {
  const auto f = failure_with({{"parallel", "{tp: 2, pp: 1, cp: 4}"}, {"batch.seq", "1020"}});
  ASSERT_EQ(f.codes, "E204");
  EXPECT_THAT(f.all[0].message, HasSubstr("2 * cp = 8"));
  EXPECT_EQ(failure_with({{"parallel", "{tp: 8, pp: 1, cp: 2}"}, {"batch.seq", "1032"}}).codes,
            "E204");
}

TEST(Context, HeadsMustBeSpreadEvenlyWhereTheyAreExchanged) {
  // 8 key-value heads of Llama-3-8B.
  const auto f = failure_with({{"parallel", "{tp: 1, pp: 1, cp: 16, cp_comm: a2a}"}});
  ASSERT_EQ(f.codes, "E210");
  EXPECT_THAT(f.all[0].message, HasSubstr("num_key_value_heads = 8"));
  EXPECT_EQ(
      failure_with({{"parallel", "{tp: 1, pp: 1, cp: 16, cp_comm: a2a+p2p, cp_inner: 16}"}}).codes,
      "E210");
  EXPECT_EQ(
      failure_with({{"parallel", "{tp: 1, pp: 1, cp: 16, cp_comm: a2a+p2p, cp_inner: 8}"}}).codes,
      "");
  EXPECT_EQ(failure_with({{"parallel", "{tp: 1, pp: 1, cp: 16, cp_comm: p2p}"}}).codes, "");
}

TEST(Context, InnerRanksMustBeSaidAndDivide) {
  EXPECT_EQ(failure_with({{"parallel", "{tp: 1, pp: 1, cp: 4, cp_comm: a2a+p2p}"}}).codes, "E126");
  EXPECT_EQ(
      failure_with({{"parallel", "{tp: 1, pp: 1, cp: 4, cp_comm: a2a+p2p, cp_inner: 3}"}}).codes,
      "E210");
  EXPECT_EQ(failure_with({{"parallel", "{tp: 1, pp: 1, cp: 4, cp_comm: a2b}"}}).codes, "E125");
}

TEST(Context, NeedsFusedAttention) {
  EXPECT_EQ(
      failure_with({{"parallel", "{tp: 1, pp: 1, cp: 4}"}, {"kernels.attention", "unfused"}}).codes,
      "E127");
}

TEST(Context, WindowsDoNotTravelAroundARing) {
  const Sets window{{"model", "{preset: llama3-8b, sliding_window: 1024}"}};
  const auto codes = [&](const std::string& layout) {
    Sets sets = window;
    sets.emplace_back("parallel", layout);
    return failure_with(sets).codes;
  };
  EXPECT_EQ(codes("{tp: 1, pp: 1, cp: 4}"), "E127");
  EXPECT_EQ(codes("{tp: 1, pp: 1, cp: 4, cp_comm: allgather}"), "");
  EXPECT_EQ(codes("{tp: 1, pp: 1, cp: 4, cp_comm: a2a}"), "");
}

TEST(Context, SchedulesThatCutSequencesDoNotGoWithIt) {
  EXPECT_EQ(failure_with({{"parallel", "{cp: 2, pp: 4}"}, {"schedule", "seq1f1b"}}).codes, "E127");
}

TEST(Context, WithoutItItsKeysHaveNoEffect) {
  const Scenario s = load_with({{"parallel.cp_comm", "a2a"}});
  EXPECT_THAT(s.warnings, ::testing::Contains(HasSubstr("parallel.cp_comm has no effect")));
}

}  // namespace
}  // namespace stepcast::context_test
