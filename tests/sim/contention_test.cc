// SPDX-License-Identifier: Apache-2.0
#include "sim/contention/contention.h"

#include <gtest/gtest.h>

#include <limits>
#include <numeric>
#include <stdexcept>

#include "sim/account/account.h"
#include "sim/graph/program.h"
#include "tests/hand_graph.h"

namespace stepcast::contention_test {
namespace {

constexpr int64_t kTera = 1'000'000'000'000;  // bytes per second: one byte a picosecond

Time at(int64_t ps) {
  return Time{ps};
}

// Two roles that compute, then send 100 bytes each over one link to nobody in particular.
struct TwoSenders {
  HandGraph g;
  Traffic traffic;

  explicit TwoSenders(int64_t second_computes = 10) {
    const RendezvousId first = g.rendezvous(1, 100), second = g.rendezvous(1, 100);
    const uint32_t a = g.role(), b = g.role();
    for (const RendezvousId id : {first, second}) {
      Work& work =
          g.graph.works[static_cast<size_t>(g.graph.rendezvous[static_cast<size_t>(id)].work)];
      work.bytes = Bytes{100};
    }
    g.run(a, g.pass_of(10));
    g.post(a, first);
    g.join(a, first);
    g.run(b, g.pass_of(second_computes));
    g.post(b, second);
    g.join(b, second);
    traffic.capacity = {kTera};
    traffic.patterns = {{{0}}};
    traffic.pattern_of.resize(g.graph.works.size());
    traffic.latency.resize(g.graph.works.size());
    for (size_t w = 0; w < 2; ++w) traffic.pattern_of[w] = {0, 0};
  }

  ContentionResult run(const Interference& interference = {},
                       const LaneOptions& options = {}) const {
    return run_contended(g.graph, g.prices, {}, traffic, interference, options);
  }
};

TEST(Contention, AloneATransferTakesItsPrice) {
  TwoSenders two(1000);
  const ContentionResult r = two.run();
  EXPECT_EQ(r.lanes.end[0][0], at(110));
  EXPECT_EQ(r.lanes.end[1][0], at(1100));
  EXPECT_EQ(r.flow_events, 4);
  EXPECT_EQ(r.shared_ops, 2);
}

TEST(Contention, StopsAtTheTurnsThatItIsGiven) {
  const TwoSenders two(1000);
  const ContentionResult r = two.run();
  ASSERT_GT(r.turns, 10);
  EXPECT_EQ(two.run({}, {.most_turns = r.turns}).lanes.makespan, r.lanes.makespan);
  try {
    two.run({}, {.most_turns = r.turns / 2});
    FAIL() << "it took more turns than it was given";
  } catch (const TooManyTurns& e) {
    EXPECT_GE(e.reached, at(0));
    EXPECT_LT(e.reached, r.lanes.makespan);
  }
}

TEST(Contention, TwoAtOnceShareTheLink) {
  const ContentionResult r = TwoSenders().run();
  EXPECT_EQ(r.lanes.end[0][0], at(210));
  EXPECT_EQ(r.lanes.end[1][0], at(210));
}

// 50 of the first alone, then 100 each at half speed: the first ends at 160, the second at 210.
TEST(Contention, WhatComesLaterSharesFromThen) {
  const ContentionResult r = TwoSenders(60).run();
  EXPECT_EQ(r.lanes.end[0][0], at(160));
  EXPECT_EQ(r.lanes.end[1][0], at(210));
}

TEST(Contention, LatencyComesFirstAndUsesNoLink) {
  TwoSenders two(40);
  two.traffic.latency[0] = two.traffic.latency[1] = Time{50};
  // At most 100 bytes in 50 ps each: the link is the limit.  60..90 alone, then both.
  two.traffic.capacity = {2 * kTera};
  const ContentionResult r = two.run();
  EXPECT_EQ(r.lanes.end[0][0], at(130));
  EXPECT_EQ(r.lanes.end[1][0], at(160));
}

TEST(Contention, PrivateLinksAreNotShared) {
  TwoSenders two;
  two.traffic.pattern_of[1].clear();
  const ContentionResult r = two.run();
  EXPECT_EQ(r.lanes.makespan, at(110));
  EXPECT_EQ(r.shared_ops, 1);
}

// 100 of compute beside a transfer of 100: compute twice as slow, the transfer half as fast.
TEST(Contention, ComputeAndCommunicationSlowEachOther) {
  HandGraph g;
  const uint32_t a = g.role();
  const RendezvousId send = g.rendezvous(1, 100);
  g.post(a, send);
  g.run(a, g.pass_of(100));
  g.join(a, send);
  const LaneOptions options;
  // The transfer ends at 150, when 75 of compute are done.
  EXPECT_EQ(run_contended(g.graph, g.prices, {}, {}, {2, 1.5}, options).lanes.makespan, at(175));
  EXPECT_EQ(run_contended(g.graph, g.prices, {}, {}, {1, 1.5}, options).lanes.makespan, at(133));
  EXPECT_EQ(run_contended(g.graph, g.prices, {}, {}, {2, 1}, options).lanes.makespan, at(150));
  EXPECT_EQ(run_contended(g.graph, g.prices, {}, {}, {}, options).lanes.makespan, at(100));
}

// 10 bytes in 7 s are 1.4 bytes per second, of which only whole ones count.
TEST(Contention, AloneAFlowDoesNotEndBeforeItsPrice) {
  TwoSenders two;
  two.traffic.pattern_of[1].clear();
  two.g.prices.by_work[0].time = Time{7'000'000'000'000};
  two.g.graph.works[0].bytes = Bytes{10};
  EXPECT_GE(two.run().lanes.end[0][0], at(7'000'000'000'010));
}

// Role 0 from 60 ps on: compute three times as slow, transfers twice as dear.
LaneSet window_of_first_role(size_t works) {
  LaneWindow window{.from = at(60), .until = at(10'000), .slowness = 3 * kNominal};
  window.link_class.fill(1);
  LaneSet lanes;
  lanes.class_ps.emplace_back(works, 200);
  lanes.window_lists = {{}, {window}};
  lanes.windows = {{1}, {0}};
  return lanes;
}

TEST(Contention, AFlowGoesOnAtTheRateOfItsWindow) {
  const TwoSenders two(1000);
  const LaneSet lanes = window_of_first_role(two.g.graph.works.size());
  // Begun at 10, half moved at 60.
  const ContentionResult r = run_contended(two.g.graph, two.g.prices, lanes, two.traffic, {});
  EXPECT_EQ(r.lanes.end[0][0], at(160));
  EXPECT_EQ(r.lanes.end[1][0], at(1100));
}

// 10..70 its latency, in which the window begins; then 100 bytes in the 140 that are left of 200.
TEST(Contention, AFlowStartsAtTheRateOfAWindowThatBeganInItsLatency) {
  TwoSenders two(1000);
  two.traffic.latency[0] = Time{60};
  const LaneSet lanes = window_of_first_role(two.g.graph.works.size());
  for (const Interference& interference : {Interference{}, Interference{2, 1.5}}) {
    const ContentionResult r =
        run_contended(two.g.graph, two.g.prices, lanes, two.traffic, interference);
    EXPECT_EQ(r.lanes.end[0][0], at(210));
    EXPECT_EQ(r.lanes.end[1][0], at(1100));
  }
}

TEST(Contention, ComputeGoesOnAtTheSpeedOfItsWindow) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  g.run(a, g.pass_of(100));
  g.run(b, g.pass_of(100));
  const LaneSet lanes = window_of_first_role(g.graph.works.size());
  for (const Interference& interference : {Interference{}, Interference{2, 1.5}}) {
    const ContentionResult r = run_contended(g.graph, g.prices, lanes, {}, interference);
    EXPECT_EQ(r.lanes.end[0][0], at(180));
    EXPECT_EQ(r.lanes.end[1][0], at(100));
  }
}

TEST(Contention, AccountOfARecordedStepAddsUp) {
  for (const Interference& interference : {Interference{}, Interference{1.5, 1.25}}) {
    const TwoSenders two(60);
    const ContentionResult r = two.run(interference, {.record = true});
    const Program program = compile(two.g.graph, two.g.prices);
    const Account account = make_account(program, r.lanes.timeline);
    for (const SpendTable& role : account.by_role) {
      EXPECT_EQ(std::accumulate(role.begin(), role.end(), Time{}), r.lanes.makespan);
    }
    ASSERT_EQ(r.lanes.timeline.rendezvous.size(), 2U);
    EXPECT_EQ(r.lanes.timeline.rendezvous[1].end, at(210));
    EXPECT_EQ(r.lanes.timeline.rendezvous[1].last_role, 1U);
  }
}

// Compute of 10 waits for a collective of 30 beside it, and 7 longer for the host: folded, each
// rank by itself and without interference the wait is 20 for the collective and 7 of launching.
TEST(Contention, WhatAWaitAddsToTheOtherOpIsTheHosts) {
  HandGraph g;
  const uint32_t a = g.role();
  g.run(a, g.pass({{10}, {30, Stream::tp}, {5}}, {{.op = 2, .on = 1, .delay = Time{7}}}));
  const Program program = compile(g.graph, g.prices);
  const SpendTable want = make_account(program, run(program, Record::account)).by_role[0];
  ASSERT_EQ(want[static_cast<size_t>(Spend::launch)], at(7));
  for (const bool fold : {true, false}) {
    for (const Interference& interference : {Interference{}, Interference{1, 1.5}}) {
      const ContentionResult r =
          run_contended(g.graph, g.prices, {}, {}, interference, {.fold = fold, .record = true});
      const SpendTable got = make_account(program, r.lanes.timeline).by_role[0];
      EXPECT_EQ(got[static_cast<size_t>(Spend::launch)], at(7)) << fold;
      if (interference.communication == 1) {
        EXPECT_EQ(got, want) << fold;
      }
    }
  }
}

TEST(Contention, DeadlockNamesWhoWaits) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId first = g.rendezvous(2, 1), second = g.rendezvous(2, 1);
  g.post(a, first);
  g.join(a, first);
  g.post(a, second);
  g.post(b, second);
  g.join(b, second);
  g.post(b, first);
  try {
    run_contended(g.graph, g.prices, {}, {}, {});
    FAIL() << "no deadlock";
  } catch (const Deadlock& deadlock) {
    ASSERT_EQ(deadlock.waiting.size(), 2U);
    EXPECT_EQ(deadlock.waiting[0].item, 1U);
    EXPECT_EQ(deadlock.waiting[1].rendezvous, second);
  }
}

TEST(Contention, FactorsBelowOneAreRefused) {
  const TwoSenders two;
  EXPECT_THROW(two.run({0.5, 1}), InputError);
  EXPECT_THROW(two.run({1, std::numeric_limits<double>::quiet_NaN()}), InputError);
}

TEST(Contention, AStepThatIsTooLongIsRefused) {
  HandGraph g;
  const uint32_t a = g.role();
  const RendezvousId id = g.rendezvous(1, 5);
  const PassId pass = g.pass_of(int64_t{1} << 49);
  for (int i = 0; i < 4; ++i) g.run(a, pass);
  g.post(a, id);
  EXPECT_THROW(run_contended(g.graph, g.prices, {}, {}, {}), InputError);
}

}  // namespace
}  // namespace stepcast::contention_test
