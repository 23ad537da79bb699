// SPDX-License-Identifier: Apache-2.0
#include "sim/lanes/lanes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sim/account/account.h"
#include "sim/check.h"
#include "sim/lanes/lane_speeds.h"
#include "tests/hand_graph.h"

namespace stepcast::lanes_test {
namespace {

using namespace literals;

constexpr Slowness kTwice = 2 * kNominal;

LaneSet four_lanes() {
  LaneSet lanes;
  lanes.digits = {{Axis::tp, 2}, {Axis::dp, 2}};
  return lanes;
}

LaneResult run(const HandGraph& g, const LaneSet& lanes, const LaneOptions& options = {}) {
  check_graph(g.graph);
  return run_lanes(g.graph, g.prices, lanes, options);
}

std::vector<int64_t> ends(const LaneResult& result, size_t role) {
  std::vector<int64_t> ps;
  for (const Time t : result.end[role]) ps.push_back(t.count());
  return ps;
}

using Ps = std::vector<int64_t>;

// --- speeds and groups --------------------------------------------------------------------------

TEST(Lanes, EachLaneTakesItsOwnTimeToCompute) {
  HandGraph g;
  g.run(g.role(), g.pass({{10}, {20}}));
  LaneSet lanes = four_lanes();
  lanes.slowness = {{kNominal, kTwice, kNominal / 2, 3 * kNominal}};
  const LaneResult result = run(g, lanes);
  EXPECT_EQ(ends(result, 0), (Ps{30, 60, 15, 90}));
  EXPECT_EQ(result.makespan, 90_ps);
  EXPECT_EQ(result.last_lane, 3);
  EXPECT_EQ(result.rank_ops, 8);
}

TEST(Lanes, TimesAreRoundedHalfUpOnceAtTheEnd) {
  HandGraph g;
  g.run(g.role(), g.pass({{1}, {1}, {1}}));
  LaneSet lanes;
  lanes.slowness = {{kNominal + kNominal / 2}};
  EXPECT_EQ(run(g, lanes).makespan, 5_ps);  // 4.5
}

TEST(Lanes, ACollectiveEndsForItsWholeGroupWhenTheLastHasCome) {
  HandGraph g;
  g.run(g.role(), g.pass({{10}, {5, Stream::tp}, {1}}, {{.op = 1, .on = 0}, {.op = 2, .on = 1}}));
  LaneSet lanes = four_lanes();
  lanes.slowness = {{kNominal, kTwice, kNominal, kNominal}};  // lane 1: tp 1, dp 0
  EXPECT_EQ(ends(run(g, lanes), 0), (Ps{26, 27, 16, 16}));
}

TEST(Lanes, ACollectiveOfTheModelGroupJoinsTensorLanesOfAllItsRoles) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId norm = g.rendezvous(2, 7, Axis::model);
  for (const uint32_t r : {a, b}) {
    g.run(r, g.pass_of(10));
    g.post(r, norm);
    g.join(r, norm);
  }
  LaneSet lanes = four_lanes();
  lanes.slowness = {{}, {kNominal, kTwice, kNominal, kNominal}};
  const LaneResult result = run(g, lanes);
  EXPECT_EQ(ends(result, a), (Ps{27, 27, 17, 17}));
  EXPECT_EQ(ends(result, b), (Ps{27, 27, 17, 17}));
}

TEST(Lanes, ATransferJoinsEqualLanesOnly) {
  HandGraph g;
  const uint32_t from = g.role(), to = g.role();
  const RendezvousId transfer = g.rendezvous(1, 3);
  g.run(from, g.pass_of(10));
  g.post(from, transfer);
  g.join(to, transfer);
  g.run(to, g.pass_of(1));
  LaneSet lanes = four_lanes();
  lanes.slowness = {{kNominal, kNominal, kNominal, kTwice}, {}};
  EXPECT_EQ(ends(run(g, lanes), to), (Ps{14, 14, 14, 24}));
}

TEST(Lanes, AHostThatIsLateHoldsFastLanesOnly) {
  HandGraph g(/*launch_ps=*/10);
  g.run(g.role(), g.pass({{4}, {8}, {2}}));
  LaneSet lanes = four_lanes();
  lanes.slowness = {{kNominal, 4 * kNominal, kNominal / 4, kNominal}};
  // 10 + 4 | 20 + 8 | 30 + 2;  slow: 10 + 16 + 32 + 8;  fast: 30 + 0.5
  for (const bool merge : {true, false}) {
    EXPECT_EQ(ends(run(g, lanes, {.merge = merge}), 0), (Ps{32, 66, 31, 32})) << merge;
  }
}

// --- classes and windows ------------------------------------------------------------------------

TEST(Lanes, AGroupOnOtherLinksHasThePriceOfItsClass) {
  HandGraph g;
  g.run(g.role(), g.pass({{5, Stream::tp}}));
  LaneSet lanes = four_lanes();
  lanes.class_ps = {{40}};
  lanes.group_class[static_cast<size_t>(Axis::tp)] = {{0, 0, 1, 1}};
  EXPECT_EQ(ends(run(g, lanes), 0), (Ps{5, 5, 40, 40}));
}

// Ends that are slow in different respects meet in a class that is slow in both.
TEST(Lanes, ATransferHasTheJoinOfTheClassesOfItsEnds) {
  HandGraph g;
  const uint32_t from = g.role(), to = g.role();
  const RendezvousId transfer = g.rendezvous(1, 3);
  g.post(from, transfer);
  g.join(to, transfer);
  LaneSet lanes = four_lanes();
  lanes.class_ps = {{30}, {50}, {70}};
  lanes.join = {0, 1, 2, 3, 1, 1, 3, 3, 2, 3, 2, 3, 3, 3, 3, 3};
  lanes.group_class[static_cast<size_t>(Axis::pp)] = {{0, 1, 1, 2}, {0, 0, 2, 2}};
  EXPECT_EQ(ends(run(g, lanes), to), (Ps{3, 30, 70, 50}));
}

TEST(Lanes, ATransferHasTheHigherClassOfItsEndsWhereOneIsWorse) {
  HandGraph g;
  const uint32_t from = g.role(), to = g.role();
  const RendezvousId transfer = g.rendezvous(1, 3);
  g.post(from, transfer);
  g.join(to, transfer);
  LaneSet lanes = four_lanes();
  lanes.class_ps = {{30}, {50}};
  lanes.group_class[static_cast<size_t>(Axis::pp)] = {{0, 1, 1, 2}, {0, 0, 2, 1}};
  EXPECT_EQ(ends(run(g, lanes), to), (Ps{3, 30, 50, 50}));
}

TEST(Lanes, WhatIsLeftWhenAWindowBeginsOrEndsGoesOnAtTheOtherSpeed) {
  HandGraph g;
  g.run(g.role(), g.pass({{100}}));
  LaneSet lanes = four_lanes();
  lanes.window_lists = {{},
                        {{.from = 40_ps, .until = 60_ps, .slowness = kTwice}},
                        {{.from = 90_ps, .until = 500_ps, .slowness = kTwice}}};
  lanes.windows = {{0, 0, 1, 2}};
  // Lane 2 does 40, then 10 in 20, then 50.  Lane 3 does 90, then 10 in 20.
  EXPECT_EQ(ends(run(g, lanes), 0), (Ps{100, 100, 110, 110}));
}

TEST(Lanes, AWindowOnALinkSlowsTheWholeGroup) {
  HandGraph g;
  g.run(g.role(), g.pass({{100, Stream::dp}}));
  LaneSet lanes = four_lanes();
  lanes.class_ps = {{400}};
  lanes.window_lists = {{}, {{.from = 50_ps, .until = 70_ps}}};
  lanes.window_lists[1][0].link_class[static_cast<size_t>(Axis::dp)] = 1;
  lanes.windows = {{0, 1, 0, 0}};
  // Half of it, then 5 % in 20 ps, then 45 %.
  EXPECT_EQ(ends(run(g, lanes), 0), (Ps{100, 115, 100, 115}));
}

TEST(Lanes, WindowsOfTwoLanesOfAGroupAreJoined) {
  HandGraph g;
  g.run(g.role(), g.pass({{100, Stream::dp}}));
  LaneSet lanes = four_lanes();
  lanes.class_ps = {{200}, {200}, {400}};
  lanes.join = {0, 1, 2, 3, 1, 1, 3, 3, 2, 3, 2, 3, 3, 3, 3, 3};
  lanes.window_lists = {{}, {{.from = 0_ps, .until = 60_ps}}, {{.from = 20_ps, .until = 900_ps}}};
  lanes.window_lists[1][0].link_class[static_cast<size_t>(Axis::dp)] = 1;
  lanes.window_lists[2][0].link_class[static_cast<size_t>(Axis::dp)] = 2;
  lanes.windows = {{0, 1, 0, 2}};
  // A tenth in 20 ps, another in the next 40, and four fifths of 200.
  EXPECT_EQ(ends(run(g, lanes), 0), (Ps{100, 220, 100, 220}));
}

// --- folding ------------------------------------------------------------------------------------

TEST(Folding, KeepsOneOfEachKindAlongEachDigit) {
  LaneSet lanes;
  lanes.digits = {{Axis::tp, 8}, {Axis::cp, 2}, {Axis::dp, 16}};
  lanes.slowness.assign(2, {});
  lanes.slowness[1].assign(256, kNominal);
  for (size_t i = 0; i < 8; ++i) lanes.slowness[1][i] = kTwice;  // cp 0, dp 0
  const FoldedLanes folded = fold_lanes(lanes, true);
  EXPECT_EQ(folded.lanes.lanes(), 4);
  for (size_t i = 0; i < 256; ++i) {
    const auto kept = static_cast<size_t>(folded.original[static_cast<size_t>(folded.of[i])]);
    EXPECT_EQ(lanes.slowness[1][kept], lanes.slowness[1][i]);
    EXPECT_LE(kept, i);
  }
}

TEST(Folding, PutsTheLargestDigitInnermost) {
  LaneSet lanes;
  lanes.digits = {{Axis::tp, 2}, {Axis::cp, 1}, {Axis::dp, 3}};
  const FoldedLanes ordered = fold_lanes(lanes, false);
  ASSERT_EQ(ordered.lanes.digits.size(), 2U);
  EXPECT_EQ(ordered.lanes.digits[0].axis, Axis::dp);
  EXPECT_EQ(ordered.original, (std::vector<int64_t>{0, 2, 4, 1, 3, 5}));
  EXPECT_EQ(ordered.of, (std::vector<int64_t>{0, 3, 1, 4, 2, 5}));
}

TEST(Folding, GivesTheTimesOfAllLanesBack) {
  HandGraph g;
  g.run(g.role(), g.pass_of(10));
  LaneSet lanes;
  lanes.digits = {{Axis::tp, 2}, {Axis::dp, 3}};
  lanes.slowness = {{kNominal, kNominal, kTwice, kTwice, kNominal, kNominal}};
  const LaneResult result = run(g, lanes);
  EXPECT_EQ(result.lanes_run, 2);
  EXPECT_EQ(ends(result, 0), (Ps{10, 10, 20, 20, 10, 10}));
  EXPECT_EQ(result.last_lane, 2);
  EXPECT_EQ(result.rank_ops, 6);
}

// --- jitter -------------------------------------------------------------------------------------

TEST(Jitter, FactorsAreQuantilesOfALogNormalDistribution) {
  const double sigma = 0.1;
  const JitterTable table = jitter_table(sigma);
  EXPECT_TRUE(std::is_sorted(table.factor.begin(), table.factor.end()));
  double sum = 0, squares = 0;
  for (const uint32_t f : table.factor) {
    const double x = std::log(f / 4096.0);
    sum += x;
    squares += x * x;
  }
  const auto n = static_cast<double>(table.factor.size());
  EXPECT_NEAR(sum / n, 0, 1e-5);
  EXPECT_NEAR(std::sqrt(squares / n), sigma, 0.001 * sigma);
  // The normal quantile at 0.975 is 1.95996.
  EXPECT_NEAR(std::log(table.factor[3994] / 4096.0), sigma * 1.96, 0.005 * sigma);
}

TEST(Jitter, WithoutSpreadIsOne) {
  for (const uint32_t f : jitter_table(0).factor) ASSERT_EQ(f, 4096U);
  EXPECT_THROW(jitter_table(-0.1), InternalError);
  EXPECT_THROW(jitter_table(1.5), InternalError);
}

TEST(Jitter, PicksAllFactorsAboutEquallyOften) {
  std::vector<int> counts(64);
  for (uint64_t rank = 0; rank < 64; ++rank) {
    for (uint64_t op = 0; op < 1024; ++op) {
      ++counts[jitter_index(jitter_rank_key(7, rank), jitter_instance_key(op)) / 64];
    }
  }
  double chi2 = 0;  // 63 degrees of freedom
  for (const int c : counts) chi2 += (c - 1024.0) * (c - 1024.0) / 1024.0;
  EXPECT_LT(chi2, 120);
  EXPECT_GT(chi2, 25);
}

TEST(Jitter, DependsOnTheSeedAndNotOnWhatElseRuns) {
  HandGraph g;
  const uint32_t a = g.role();
  for (int i = 0; i < 50; ++i) g.run(a, g.pass_of(1000));
  LaneSet lanes = four_lanes();
  lanes.jitter = Jitter{.sigma = 0.05, .seed = 1};
  const LaneResult first = run(g, lanes);
  EXPECT_EQ(first.end, run(g, lanes).end);
  EXPECT_EQ(first.end, run(g, lanes, {.fold = false, .merge = false}).end);
  EXPECT_EQ(first.lanes_run, 4);
  lanes.jitter->seed = 2;
  EXPECT_NE(first.end, run(g, lanes).end);
  for (const Time t : first.end[0]) EXPECT_NEAR(static_cast<double>(t.count()), 50'000, 2'000);
}

// --- account ------------------------------------------------------------------------------------

TEST(LaneAccount, WaitingForASlowerLaneOfTheGroupIsAStraggler) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const PassId work =
      g.pass({{10}, {5, Stream::tp}, {1}}, {{.op = 1, .on = 0}, {.op = 2, .on = 1}});
  g.run(a, work);
  g.run(b, work);
  g.run(b, g.pass_of(3));
  LaneSet lanes;
  lanes.digits = {{Axis::tp, 2}};
  lanes.slowness = {{kNominal, kTwice}, {kTwice, kNominal}};
  const LaneResult result = run(g, lanes, {.record = true});
  // Lane 0 of b ends last: 20 + 5 + 2 + 6.  Lane 0 of a waits 10 for lane 1.
  ASSERT_EQ(result.last_role, b);
  ASSERT_EQ(result.last_lane, 0);
  EXPECT_EQ(result.makespan, 33_ps);
  const Account account = make_account(compile(g.graph, g.prices), result.timeline);
  const auto at = [&](uint32_t r, Spend s) { return account.by_role[r][static_cast<size_t>(s)]; };
  EXPECT_EQ(at(a, Spend::straggler), 10_ps);
  EXPECT_EQ(at(a, Spend::exposed_tp), 5_ps);
  EXPECT_EQ(at(a, Spend::matmul), 11_ps);
  EXPECT_EQ(at(a, Spend::idle_end), 7_ps);
  EXPECT_EQ(at(b, Spend::straggler), 0_ps);
  EXPECT_EQ(at(b, Spend::matmul), 28_ps);
}

TEST(LaneAccount, WaitingForAnEventOfASlowerReplicaIsAStraggler) {
  HandGraph g;
  const uint32_t a = g.role();
  g.run(a, g.pass_of(10));
  g.record(a, 0, Stream::compute);
  g.wait(a, 0, Stream::dp);
  g.run(a, g.pass({{4, Stream::dp}}));
  g.record(a, 1, Stream::dp);
  g.wait(a, 1, Stream::compute);
  g.run(a, g.pass_of(10));
  LaneSet lanes;
  lanes.digits = {{Axis::dp, 2}};
  lanes.slowness = {{kNominal, kTwice}};
  lanes.window_lists = {{{.from = 24_ps, .until = 99_ps, .slowness = 4 * kNominal}}, {}};
  lanes.windows = {{0, 1}};
  const LaneResult result = run(g, lanes, {.record = true});
  ASSERT_EQ(result.last_lane, 0);
  EXPECT_EQ(result.makespan, 64_ps);
  const Account account = make_account(compile(g.graph, g.prices), result.timeline);
  EXPECT_EQ(account.by_role[a][static_cast<size_t>(Spend::straggler)], 10_ps);
  EXPECT_EQ(account.by_role[a][static_cast<size_t>(Spend::exposed_dp)], 4_ps);
  EXPECT_EQ(account.by_role[a][static_cast<size_t>(Spend::matmul)], 50_ps);
}

// --- bad input ----------------------------------------------------------------------------------

TEST(Lanes, ThatWaitForEachOtherDeadlock) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId first = g.rendezvous(1, 1), second = g.rendezvous(1, 1);
  g.join(a, second);
  g.post(a, first);
  g.join(b, first);
  g.post(b, second);
  try {
    run(g, four_lanes());
    FAIL() << "no deadlock";
  } catch (const Deadlock& deadlock) {
    ASSERT_EQ(deadlock.waiting.size(), 2U);
    EXPECT_EQ(deadlock.waiting[1].role, b);
    EXPECT_EQ(deadlock.waiting[1].rendezvous, first);
  }
}

TEST(Lanes, OfAStepBeyondTheirRangeAreRefused) {
  constexpr int64_t kLong = int64_t{1} << 49;
  for (const int runs : {1, 2, 3}) {
    HandGraph g;
    const uint32_t a = g.role();
    const PassId p = g.pass_of(kLong - 1);
    for (int i = 0; i < runs; ++i) g.run(a, p);
    if (runs < 3) {
      EXPECT_EQ(run(g, {}).makespan, Time{runs * (kLong - 1)});
    } else {
      EXPECT_THROW(run(g, {}), InputError);
    }
  }
  HandGraph g;
  g.run(g.role(), g.pass_of(kLong));
  LaneSet lanes;
  lanes.slowness = {{kTwice}};
  EXPECT_THROW(run(g, lanes), InputError);
}

// The sum of the slowest of each role is beyond the range, but no lane is the slowest in both.
TEST(Lanes, OfWhichNoneIsBeyondTheRangeAreNotRefused) {
  constexpr int64_t kLong = int64_t{1} << 46;
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId transfer = g.rendezvous(1, 0);
  const PassId p = g.pass_of(kLong);
  g.run(a, p);
  g.post(a, transfer);
  g.join(b, transfer);
  g.run(b, p);
  LaneSet lanes = four_lanes();
  lanes.slowness = {{kNominal, 12 * kNominal, kNominal, kNominal},
                    {12 * kNominal, kNominal, kNominal, kNominal}};
  EXPECT_EQ(ends(run(g, lanes), b), (Ps{13 * kLong, 13 * kLong, 2 * kLong, 2 * kLong}));
}

TEST(Lanes, WithoutSpeedOrWithTooFewSpeedsAreABug) {
  HandGraph g;
  g.run(g.role(), g.pass_of(1));
  LaneSet lanes = four_lanes();
  lanes.slowness = {{kNominal, 0, kNominal, kNominal}};
  EXPECT_THROW(run(g, lanes), InternalError);
  lanes.slowness = {{kNominal, kTwice}};
  EXPECT_THROW(run(g, lanes), InternalError);
  lanes.slowness.assign(3, {});
  EXPECT_THROW(run(g, lanes), InternalError);
}

}  // namespace
}  // namespace stepcast::lanes_test
