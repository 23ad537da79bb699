// SPDX-License-Identifier: Apache-2.0
#include "sim/rank_grid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <stdexcept>
#include <vector>

#include "sim/check.h"

namespace stepcast::rank_grid_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

RankGrid grid(int64_t tp, int64_t cp, int64_t dp, int64_t pp, std::string_view order) {
  return {tp, cp, dp, pp, parse_order(order)};
}

TEST(RankGrid, DefaultOrderIsMegatrons) {
  const RankGrid g = grid(2, 1, 2, 4, "tp-cp-ep-dp-pp");
  EXPECT_EQ(g.world(), 16);
  // Megatron-LM, parallel_state.py: 16 GPUs, tp 2, pp 4, dp 2.
  EXPECT_THAT(g.group(Axis::tp, 0), ElementsAre(0, 1));
  EXPECT_THAT(g.group(Axis::tp, 15), ElementsAre(14, 15));
  EXPECT_THAT(g.group(Axis::dp, 0), ElementsAre(0, 2));
  EXPECT_THAT(g.group(Axis::dp, 7), ElementsAre(5, 7));
  EXPECT_THAT(g.group(Axis::pp, 0), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(g.group(Axis::pp, 7), ElementsAre(3, 7, 11, 15));
  EXPECT_THAT(g.group(Axis::embedding, 1), ElementsAre(1, 13));
  EXPECT_THAT(g.group(Axis::model, 2), ElementsAre(2, 3, 6, 7, 10, 11, 14, 15));
  EXPECT_THAT(g.group(Axis::none, 5), ElementsAre(5));
}

TEST(RankGrid, PipelineInsideDataMovesTheGroups) {
  const RankGrid g = grid(2, 1, 2, 4, "tp-cp-pp-dp");
  EXPECT_THAT(g.group(Axis::pp, 0), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(g.group(Axis::dp, 0), ElementsAre(0, 8));
  EXPECT_THAT(g.group(Axis::model, 0), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
}

TEST(RankGrid, ModelGroupIsAscendingEvenIfPipelineIsInsideTensor) {
  const RankGrid g = grid(2, 1, 1, 2, "pp-tp-cp-dp");
  EXPECT_THAT(g.group(Axis::model, 3), ElementsAre(0, 1, 2, 3));
}

TEST(RankGrid, RankAndCoordinatesAreInverse) {
  for (const char* order : {"tp-cp-dp-pp", "pp-dp-cp-tp", "dp-tp-pp-cp", "cp-pp-tp-dp"}) {
    const RankGrid g = grid(3, 2, 5, 4, order);
    for (int64_t r = 0; r < g.world(); ++r) ASSERT_EQ(g.rank(g.coordinates(r)), r) << order;
  }
}

// Megatron-LM's parallel folding, 16 ranks of one stage: tp 2, cp 2, dp 4; etp 1, ep 8.
TEST(RankGrid, ExpertsAreSpreadOverTheSameRanksOtherwise) {
  RankGrid g = grid(2, 2, 4, 1, "tp-cp-ep-dp-pp");
  g.ep = 8;
  EXPECT_EQ(g.size(Axis::edp), 2);
  EXPECT_THAT(g.group(Axis::ep, 9), ElementsAre(8, 9, 10, 11, 12, 13, 14, 15));
  EXPECT_THAT(g.group(Axis::edp, 9), ElementsAre(1, 9));
  EXPECT_THAT(g.group(Axis::etp, 9), ElementsAre(9));
  g.etp = 2;
  g.ep = 4;
  EXPECT_THAT(g.group(Axis::etp, 9), ElementsAre(8, 9));
  EXPECT_THAT(g.group(Axis::ep, 9), ElementsAre(9, 11, 13, 15));
  EXPECT_THAT(g.group(Axis::edp, 9), ElementsAre(1, 9));
}

TEST(RankGrid, GradientsAreSummedOverContextAndDataParallelRanks) {
  RankGrid g = grid(2, 2, 4, 2, "tp-cp-ep-dp-pp");
  g.replicas = 2;
  EXPECT_THAT(g.group(Axis::data, 1), ElementsAre(1, 3, 5, 7, 9, 11, 13, 15));
  EXPECT_THAT(g.group(Axis::shard, 17), ElementsAre(17, 19, 21, 23));
  EXPECT_THAT(g.group(Axis::replica, 17), ElementsAre(17, 25));
}

TEST(RankGrid, NeighboursAlongContextExchangeHeads) {
  RankGrid g = grid(2, 4, 1, 1, "tp-cp-ep-dp-pp");
  g.cp_inner = 2;
  EXPECT_THAT(g.group(Axis::cp, 1), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(g.group(Axis::cp_inner, 5), ElementsAre(5, 7));
  EXPECT_THAT(g.group(Axis::cp_outer, 3), ElementsAre(3, 7));
}

TEST(RankGrid, EveryViewCutsTheWorldIntoEqualGroups) {
  for (const char* order : {"tp-cp-dp-pp", "tp-pp-cp-dp", "pp-dp-cp-tp", "cp-tp-pp-dp"}) {
    RankGrid g = grid(2, 4, 8, 2, order);
    g.etp = 4;
    g.ep = 8;
    g.replicas = 4;
    for (const Axis axis : {Axis::ep, Axis::etp, Axis::edp, Axis::data, Axis::shard, Axis::replica,
                            Axis::tp, Axis::model}) {
      std::set<std::vector<int64_t>> groups;
      std::set<int64_t> members;
      for (int64_t r = 0; r < g.world(); ++r) {
        const std::vector<int64_t> group = g.group(axis, r);
        ASSERT_EQ(std::ssize(group), g.size(axis)) << order;
        ASSERT_TRUE(std::is_sorted(group.begin(), group.end()));
        groups.insert(group);
        members.insert(group.begin(), group.end());
      }
      EXPECT_EQ(std::ssize(groups), g.world() / g.size(axis)) << order;
      EXPECT_EQ(std::ssize(members), g.world());
    }
  }
}

TEST(RankGrid, ViewsThatDoNotFitTogetherAreRefused) {
  RankGrid g = grid(4, 1, 3, 1, "tp-cp-dp-pp");
  g.ep = 6;
  try {
    g.digits();
    FAIL();
  } catch (const InputError& e) {
    EXPECT_THAT(e.what(), HasSubstr("4 and 6 do not divide one another"));
  }
}

TEST(RankGrid, GroupsOfAnAxisAreAPartitionOfTheWorld) {
  const RankGrid g = grid(2, 3, 4, 2, "cp-tp-pp-dp");
  for (Axis axis : {Axis::tp, Axis::cp, Axis::dp, Axis::pp, Axis::model}) {
    std::set<int64_t> seen;
    for (int64_t r = 0; r < g.world(); ++r) {
      const std::vector<int64_t> members = g.group(axis, r);
      ASSERT_EQ(static_cast<int64_t>(members.size()), g.size(axis));
      ASSERT_TRUE(std::is_sorted(members.begin(), members.end()));
      ASSERT_NE(std::find(members.begin(), members.end(), r), members.end());
      if (members.front() == r) seen.insert(members.begin(), members.end());
      for (int64_t m : members) ASSERT_EQ(g.group(axis, m), members);
    }
    EXPECT_EQ(static_cast<int64_t>(seen.size()), g.world()) << name_of(axis);
  }
}

TEST(RankGrid, OnePipelineStageHasNoEmbeddingPair) {
  const RankGrid g = grid(2, 1, 2, 1, "tp-cp-dp-pp");
  EXPECT_EQ(g.size(Axis::embedding), 1);
  EXPECT_THAT(g.group(Axis::embedding, 3), ElementsAre(3));
}

TEST(RankGrid, RanksOutsideAreBugs) {
  const RankGrid g = grid(2, 1, 2, 1, "tp-cp-dp-pp");
  EXPECT_THROW(g.coordinates(4), InternalError);
  EXPECT_THROW(g.coordinates(-1), InternalError);
}

TEST(ParseOrder, IgnoresCaseAndExperts) {
  EXPECT_THAT(parse_order("TP-CP-EP-PP-DP"), ElementsAre(Axis::tp, Axis::cp, Axis::pp, Axis::dp));
  EXPECT_THAT(parse_order("tp-cp-pp-dp"), ElementsAre(Axis::tp, Axis::cp, Axis::pp, Axis::dp));
}

std::string complaint(const char* text) {
  try {
    parse_order(text);
  } catch (const InputError& e) {
    return e.what();
  }
  return "accepted";
}

TEST(ParseOrder, SaysWhatIsWrong) {
  EXPECT_THAT(complaint("tp-cp-dp"), HasSubstr("pp is missing"));
  EXPECT_THAT(complaint("tp-cp-dp-dp"), HasSubstr("dp appears twice"));
  EXPECT_THAT(complaint("tp-ep-cp-ep-dp-pp"), HasSubstr("ep appears twice"));
  EXPECT_THAT(complaint("tp-cp-dp-pp-sp"), HasSubstr("'sp' is no axis"));
  EXPECT_THAT(complaint("tp-cp-dp-pp-tp"), HasSubstr("tp appears twice"));
  EXPECT_THAT(complaint("tp-cp-dp-embedding"), HasSubstr("'embedding' is no axis"));
  EXPECT_THAT(complaint(""), HasSubstr("'' is no axis"));
  EXPECT_THAT(complaint("tp-cp-dp-pp-"), HasSubstr("'' is no axis"));
  EXPECT_THAT(complaint("tp,cp,dp,pp"), HasSubstr("innermost first"));
}

}  // namespace
}  // namespace stepcast::rank_grid_test
