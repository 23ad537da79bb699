// SPDX-License-Identifier: Apache-2.0
// The lanes engine against the naive one, to the last 1/4096 ps that shows: random graphs on random
// lanes that differ in speed, links and over time; merged and not, folded and not.
// 2,000 by default (random_cases.h).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/account/account.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "sim/lanes/lane_speeds.h"
#include "sim/lanes/lanes.h"
#include "tests/oracle/lane_oracle.h"
#include "tests/oracle/oracle.h"
#include "tests/oracle/random_graph.h"
#include "tests/oracle/random_lanes.h"
#include "tests/random_cases.h"

namespace stepcast::lanes_equal_oracle_test {
namespace {

constexpr uint64_t kShards = 10;

uint64_t cases() {
  return testing::random_cases(2000);
}

Time rounded(int64_t t) {
  return Time{(t + 2048) / 4096};
}

// The first difference in words, or nothing.
std::string difference(const LaneResult& got, const oracle::LaneTimes& want) {
  Time makespan{}, span{};
  int64_t latest = -1;
  uint32_t last_role = 0;
  int64_t last_lane = 0;
  for (uint32_t r = 0; r < want.end.size(); ++r) {
    for (size_t i = 0; i < want.end[r].size(); ++i) {
      const Time end = rounded(want.end[r][i]);
      if (got.end[r][i] != end) {
        return "end of role " + std::to_string(r) + " lane " + std::to_string(i) + ": engine " +
               std::to_string(got.end[r][i].count()) + ", oracle " + std::to_string(end.count());
      }
      makespan = std::max(makespan, end);
      span = std::max(span, end - rounded(want.compute_begin[r][i]));
      if (want.end[r][i] <= latest) continue;
      latest = want.end[r][i];
      last_role = r;
      last_lane = static_cast<int64_t>(i);
    }
  }
  if (got.makespan != makespan) return "makespan";
  if (got.span != span) return "span";
  if (got.last_role != last_role || got.last_lane != last_lane) return "who ends last";
  if (got.rank_ops != want.ops) return "rank_ops";
  return {};
}

std::string check_record(const oracle::RandomCase& c, const LaneResult& got) {
  const Program program = compile(c.graph, c.prices);
  const Account account = make_account(program, got.timeline);  // checks that it sums
  if (account.by_role.size() != c.graph.roles.size()) return "account";
  for (uint32_t r = 0; r < c.graph.roles.size(); ++r) {
    const Time end = got.end[r][static_cast<size_t>(got.last_lane)];
    if (got.timeline.roles[r].end != end) return "recorded end";
    if (account.by_role[r][static_cast<size_t>(Spend::straggler)] < Time{0}) return "straggler";
  }
  Time at{};
  for (const PathSegment& s : critical_path(program, got.timeline)) {
    if (s.begin != at) return "critical path";
    at = s.end;
  }
  return at == got.makespan ? "" : "end of the critical path";
}

std::string compare_case(const oracle::RandomCase& c, const LaneSet& lanes,
                         oracle::FactorOf factor = nullptr) {
  const oracle::LaneTimes want = oracle::play_lanes(c.graph, c.prices, lanes, factor);
  if (want.deadlock) return "the oracle deadlocks";
  for (const bool fold : {true, false}) {
    for (const bool merge : {true, false}) {
      const LaneResult got = run_lanes(c.graph, c.prices, lanes,
                                       {.fold = fold, .merge = merge, .record = fold == merge});
      std::string text = difference(got, want);
      if (text.empty() && fold == merge) text = check_record(c, got);
      if (text.empty()) continue;
      return text + (fold ? ", folded" : "") + (merge ? ", merged" : "");
    }
  }
  return {};
}

class RandomLanes : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomLanes, TakeTheSameTimeInTheEngineAndInTheOracle) {
  for (uint64_t seed = GetParam(); seed < cases(); seed += kShards) {
    oracle::RandomCase c = oracle::random_case(seed);
    oracle::Draws draws(seed + 1'000'000);
    oracle::use_other_groups(c.graph, draws);
    const LaneSet lanes = oracle::random_lanes(c.graph, draws);
    ASSERT_EQ(compare_case(c, lanes), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomLanes, ::testing::Range<uint64_t>(0, kShards));

uint32_t drawn_factor(const LaneSet& lanes, uint32_t role, int64_t lane, uint64_t instance) {
  static const JitterTable table = jitter_table(0.3);
  const auto rank = static_cast<uint64_t>(role * lanes.lanes() + lane);
  return table.factor[jitter_index(jitter_rank_key(lanes.jitter->seed, rank),
                                   jitter_instance_key(instance))];
}

TEST(JitteredLanes, TakeTheSameTimeInTheEngineAndInTheOracle) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    oracle::Draws draws(seed + 2'000'000);
    LaneSet lanes = oracle::random_lanes(c.graph, draws);
    lanes.jitter = Jitter{.sigma = 0.3, .seed = seed};
    ASSERT_EQ(compare_case(c, lanes, drawn_factor), "") << "seed " << seed;
  }
}

// Any compiler, optimisation level and instruction set must give these very times.
TEST(RandomLanesDigest, IsTheSameOnEveryMachine) {
  uint64_t digest = 0xcbf29ce484222325;  // FNV-1a
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    oracle::Draws draws(seed + 4'000'000);
    LaneSet lanes = oracle::random_lanes(c.graph, draws);
    if (seed % 2 == 0) lanes.jitter = Jitter{.sigma = 0.5, .seed = seed};
    for (const auto& role : run_lanes(c.graph, c.prices, lanes).end)
      for (const Time t : role)
        digest = (digest ^ static_cast<uint64_t>(t.count())) * 0x100000001b3;
  }
  EXPECT_EQ(digest, 6137324916110566807ULL);
}

// One lane a role, nothing special: the two naive engines must agree as well.
TEST(LaneOracle, WithOneLaneIsThePlainOracle) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    const oracle::Times want = oracle::play(c.graph, c.prices);
    const oracle::LaneTimes got = oracle::play_lanes(c.graph, c.prices, {});
    ASSERT_EQ(got.ops, want.ops);
    for (size_t r = 0; r < want.roles.size(); ++r) {
      ASSERT_EQ(rounded(got.end[r][0]), want.roles[r].end) << "seed " << seed;
      ASSERT_EQ(rounded(got.compute_begin[r][0]), want.roles[r].compute_begin) << "seed " << seed;
    }
  }
}

std::string differences_from_run(const oracle::RandomCase& c, const Timeline& want,
                                 const LaneResult& got) {
  if (got.makespan != want.makespan) return "makespan";
  if (got.span != want.span || got.timeline.span != want.span) return "span";
  if (got.timeline.rank_ops != want.rank_ops) return "rank_ops";
  for (size_t r = 0; r < want.roles.size(); ++r) {
    const RoleTimeline &a = want.roles[r], &b = got.timeline.roles[r];
    for (const Time end : got.end[r])
      if (end != a.end) return "end";
    if (a.compute_begin != b.compute_begin || a.compute_end != b.compute_end) return "compute";
    if (a.first_backward != b.first_backward || a.last_forward != b.last_forward) return "phases";
    if (a.inside != b.inside || a.gaps.size() != b.gaps.size()) return "gaps";
  }
  for (size_t i = 0; i < want.rendezvous.size(); ++i) {
    const RendezvousTime &a = want.rendezvous[i], &b = got.timeline.rendezvous[i];
    if (a.begin != b.begin || a.end != b.end || a.last_role != b.last_role) return "rendezvous";
  }
  const Program program = compile(c.graph, c.prices);
  if (make_account(program, want).by_role != make_account(program, got.timeline).by_role)
    return "account";
  return {};
}

TEST(EqualLanes, TakeTheTimesOfOneLaneAndHaveItsAccount) {
  for (uint64_t seed = 0; seed < cases() / 2; ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    oracle::Draws draws(seed + 3'000'000);
    const LaneSet lanes =
        oracle::random_lanes(c.graph, draws, {.speeds = false, .classes = false, .windows = false});
    const Timeline want = run(compile(c.graph, c.prices));
    for (const bool fold : {true, false}) {
      const LaneResult got = run_lanes(c.graph, c.prices, lanes,
                                       {.fold = fold, .merge = seed % 2 == 0, .record = true});
      ASSERT_EQ(differences_from_run(c, want, got), "") << "seed " << seed;
      ASSERT_EQ(got.lanes_run, fold ? 1 : lanes.lanes());
    }
  }
}

}  // namespace
}  // namespace stepcast::lanes_equal_oracle_test
