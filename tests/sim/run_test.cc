// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "sim/check.h"
#include "tests/hand_graph.h"

namespace stepcast::run_test {
namespace {

using namespace literals;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

// --- streams and host ---------------------------------------------------------------------------

TEST(Run, OpsOfOneStreamRunInOrderWithoutAPause) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass({{5}, {0}, {7}}));
  g.run(r, g.pass({{2}}));
  const Timeline t = g.timeline();
  EXPECT_THAT(t.roles[0].op_start, ElementsAre(0_ps, 5_ps, 5_ps, 12_ps));
  EXPECT_EQ(t.makespan, 14_ps);
  EXPECT_EQ(t.rank_ops, 4);
}

TEST(Run, StreamsRunSideBySide) {
  HandGraph g;
  g.run(g.role(), g.pass({{5}, {9, Stream::tp}, {1}}));
  const Timeline t = g.timeline();
  EXPECT_THAT(t.roles[0].op_start, ElementsAre(0_ps, 0_ps, 5_ps));
  EXPECT_EQ(t.roles[0].compute_end, 6_ps);
  EXPECT_EQ(t.roles[0].end, 9_ps);
}

TEST(Run, AnOpStartsNoEarlierThanItWasLaunched) {
  HandGraph g(10);
  const uint32_t r = g.role();
  g.run(r, g.pass({{3}, {3}, {30}, {3}}));
  const Timeline t = g.timeline();
  EXPECT_THAT(t.roles[0].op_start, ElementsAre(10_ps, 20_ps, 30_ps, 60_ps));
  EXPECT_EQ(t.roles[0].compute_begin, 10_ps);
  EXPECT_EQ(t.span, 53_ps);
}

TEST(Run, OpsOfOtherStreamsCostTheHostTimeToo) {
  HandGraph g(10);
  g.run(g.role(), g.pass({{1, Stream::tp}, {1, Stream::dp}, {1}}));
  const Timeline t = g.timeline();
  EXPECT_EQ(t.roles[0].compute_begin, 30_ps);
}

TEST(Run, PassesDoNotEndWithABarrier) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass({{100, Stream::tp}, {1}}));
  g.run(r, g.pass({{4}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 0_ps, 1_ps));
}

TEST(Run, AnEmptyStepTakesNoTime) {
  HandGraph g;
  g.role();
  const Timeline t = g.timeline();
  EXPECT_EQ(t.makespan, 0_ps);
  EXPECT_EQ(t.rank_ops, 0);
  EXPECT_EQ(run(compile(OpGraph{}, Prices{})).makespan, 0_ps);
}

// --- waits --------------------------------------------------------------------------------------

TEST(Run, AWaitHoldsTheOpUntilTheOtherHasEnded) {
  HandGraph g;
  g.run(g.role(), g.pass({{9, Stream::tp}, {2}, {3}}, {{.op = 2, .on = 0}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 0_ps, 9_ps));
}

TEST(Run, ADelayCountsFromTheEnd) {
  HandGraph g;
  g.run(g.role(), g.pass({{9, Stream::tp}, {3}}, {{.op = 1, .on = 0, .delay = 4_ps}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 13_ps));
}

TEST(Run, ADelayOnTheSameStreamLeavesAPause) {
  HandGraph g;
  g.run(g.role(), g.pass({{9}, {3}, {1}}, {{.op = 1, .on = 0, .delay = 4_ps}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 13_ps, 16_ps));
}

TEST(Run, AWaitFromTheStartLetsBothRunTogether) {
  HandGraph g;
  g.run(g.role(), g.pass({{2, Stream::tp}, {9, Stream::tp}, {3}, {1}},
                         {{.op = 2, .on = 1, .from_start = true},
                          {.op = 3, .on = 1, .from_start = true, .delay = 6_ps}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 2_ps, 2_ps, 8_ps));
}

TEST(Run, AnOpMayBeWaitedForByItsStartAndByItsEnd) {
  HandGraph g;
  g.run(g.role(), g.pass({{9, Stream::tp}, {3}, {1, Stream::dp}},
                         {{.op = 1, .on = 0, .from_start = true}, {.op = 2, .on = 0}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 0_ps, 9_ps));
}

TEST(Run, WaitsReachNoFurtherThanTheirOwnRunOfThePass) {
  HandGraph g;
  const uint32_t r = g.role();
  const PassId p = g.pass({{9, Stream::tp}, {3}}, {{.op = 1, .on = 0}});
  g.run(r, p);
  g.run(r, p);
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 9_ps, 9_ps, 18_ps));
}

// --- rendezvous ---------------------------------------------------------------------------------

TEST(Run, ARendezvousStartsWithTheLastPost) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId m = g.rendezvous(2, 4);
  for (const uint32_t r : {a, b}) {
    g.run(r, g.pass_of(r == a ? 5 : 9));
    g.post(r, m);
    g.join(r, m);
    g.run(r, g.pass_of(1));
  }
  const Timeline t = g.timeline();
  EXPECT_EQ(t.rendezvous[0].begin, 9_ps);
  EXPECT_EQ(t.rendezvous[0].end, 13_ps);
  EXPECT_EQ(t.rendezvous[0].last_role, b);
  EXPECT_EQ(t.rendezvous[0].last_item, 1U);
  EXPECT_THAT(t.roles[a].op_start, ElementsAre(0_ps, 13_ps));
  EXPECT_THAT(t.roles[b].op_start, ElementsAre(0_ps, 13_ps));
}

TEST(Run, OfEqualPostsTheLowestRoleCountsAsTheLast) {
  for (const bool first_role_arrives_last : {false, true}) {
    HandGraph g;
    const uint32_t a = g.role(), b = g.role();
    const RendezvousId gate = g.rendezvous(1, 0), m = g.rendezvous(2, 4);
    if (first_role_arrives_last) g.join(a, gate);
    g.post(a, m);
    g.post(b, m);
    g.post(b, gate);
    EXPECT_EQ(g.timeline().rendezvous[1].last_role, a);
  }
}

TEST(Run, ASendThatNeedsNoReceiverGoesOffAtOnce) {
  HandGraph g;
  const uint32_t sender = g.role(), receiver = g.role();
  const RendezvousId m = g.rendezvous(1, 4);
  g.run(sender, g.pass_of(5));
  g.post(sender, m);
  g.run(sender, g.pass_of(50));
  g.run(receiver, g.pass_of(7));
  g.join(receiver, m);
  g.run(receiver, g.pass_of(1));
  const Timeline t = g.timeline();
  EXPECT_EQ(t.rendezvous[0].begin, 5_ps);
  EXPECT_THAT(t.roles[sender].op_start, ElementsAre(0_ps, 5_ps));
  EXPECT_THAT(t.roles[receiver].op_start, ElementsAre(0_ps, 9_ps));
}

TEST(Run, AJoinHoldsOnlyItsStream) {
  HandGraph g;
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 40);
  g.post(r, m);
  g.join(r, m, Stream::tp);
  g.run(r, g.pass({{5}, {5, Stream::tp}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 40_ps));
}

TEST(Run, ASenderThatJoinsWaitsForItsReceiver) {
  HandGraph g;
  const uint32_t sender = g.role(), receiver = g.role();
  const RendezvousId m = g.rendezvous(2, 4);
  g.run(sender, g.pass_of(5));
  g.post(sender, m);
  g.join(sender, m).only_sends = true;
  g.run(sender, g.pass_of(1));
  g.run(receiver, g.pass_of(20));
  g.post(receiver, m);
  const Timeline t = g.timeline();
  EXPECT_THAT(t.roles[sender].op_start, ElementsAre(0_ps, 24_ps));
  ASSERT_EQ(t.roles[sender].gaps.size(), 1U);
  EXPECT_TRUE(t.roles[sender].gaps[0].only_sends);
}

TEST(Run, APostCostsALaunchAndWaitsForIt) {
  HandGraph g(10);
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 4);
  g.run(r, g.pass_of(3));  // 10 to 13
  g.post(r, m);
  g.join(r, m);
  g.run(r, g.pass_of(3));
  const Timeline t = g.timeline();
  EXPECT_EQ(t.rendezvous[0].begin, 20_ps);
  EXPECT_THAT(t.roles[0].op_start, ElementsAre(10_ps, 30_ps));
}

TEST(Run, ARendezvousNobodyJoinsDoesNotProlongTheStep) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass_of(3));
  g.post(r, g.rendezvous(1, 1000));
  const Timeline t = g.timeline();
  EXPECT_EQ(t.makespan, 3_ps);
  EXPECT_EQ(t.rendezvous[0].end, 1003_ps);
}

TEST(Run, TheHostWaitsAtAJoinThatSaysSo) {
  HandGraph g(10);
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 100);
  g.post(r, m);  // begins at 10
  g.join(r, m, Stream::dp).host_waits = true;
  g.run(r, g.pass_of(3));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(120_ps));
}

// --- events and sync ----------------------------------------------------------------------------

TEST(Run, AnEventCarriesTheEndOfItsStreamToAnother) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass({{9, Stream::tp}}));
  g.record(r, 0, Stream::tp);
  g.run(r, g.pass({{9, Stream::tp}, {2}}));
  g.wait(r, 0, Stream::compute);
  g.run(r, g.pass_of(1));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 9_ps, 0_ps, 9_ps));
}

TEST(Run, ASecondRecordReplacesTheFirst) {
  HandGraph g;
  const uint32_t r = g.role();
  const PassId p = g.pass({{9, Stream::tp}});
  g.run(r, p);
  g.record(r, 0, Stream::tp);
  g.wait(r, 0, Stream::dp);
  g.run(r, p);
  g.record(r, 0, Stream::tp);
  g.wait(r, 0, Stream::compute);
  g.run(r, g.pass({{1}, {1, Stream::dp}}));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 9_ps, 18_ps, 9_ps));
}

TEST(Run, AWaitForAnEventNobodyRecordedDoesNothing) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass({{9, Stream::tp}}));
  g.wait(r, 0, Stream::compute);
  g.run(r, g.pass_of(1));
  g.record(r, 0, Stream::tp);
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 0_ps));
  g.wait(r, 1000, Stream::compute);  // not even later
  g.run(r, g.pass_of(1));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(0_ps, 0_ps, 1_ps));
}

TEST(Run, SyncHoldsTheHostAndSoAllThatIsLaunchedLater) {
  HandGraph g(10);
  const uint32_t r = g.role();
  g.run(r, g.pass({{100, Stream::tp}}));  // 10 to 110
  g.sync(r, Stream::tp);
  g.run(r, g.pass_of(1));
  EXPECT_THAT(g.timeline().roles[0].op_start, ElementsAre(10_ps, 120_ps));
}

// --- what is recorded ---------------------------------------------------------------------------

TEST(Run, ItemsTouchAndCoverTheComputeStream) {
  HandGraph g;
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 4);
  g.run(r, g.pass_of(5));
  g.post(r, m);
  g.join(r, m);
  g.run(r, g.pass_of(2));
  const std::vector<ItemTime> items = g.timeline().roles[0].items;
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(items[0].begin, 0_ps);
  for (size_t i = 1; i < items.size(); ++i) EXPECT_EQ(items[i].begin, items[i - 1].end);
  EXPECT_EQ(items[2].end - items[2].begin, 4_ps);
  EXPECT_EQ(items[3].end, 11_ps);
}

TEST(Run, GapsSayWhatEndedThem) {
  HandGraph g(4);
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 10);
  g.run(r, g.pass({{20, Stream::tp}, {3}}, {{.op = 1, .on = 0}}));  // op 0: 4-24, op 1: 24-27
  g.post(r, m);                                                     // at 27
  g.join(r, m);                                                     // until 37
  g.run(r, g.pass({{20, Stream::ep}}));                             // 16-36
  g.run(r, g.pass({{30, Stream::ep}}));                             // 36-66
  g.record(r, 7, Stream::ep);
  g.wait(r, 7, Stream::compute);
  const RoleTimeline role = g.timeline().roles[0];
  const Time inside = std::accumulate(role.inside.begin(), role.inside.end(), Time{0});
  EXPECT_EQ(inside, 24_ps);  // 0-24, for the op on another stream
  const std::vector<Gap>& gaps = role.gaps;
  ASSERT_EQ(gaps.size(), 2U);
  EXPECT_EQ(gaps[0].cause, Gap::Cause::rendezvous);
  EXPECT_EQ(gaps[0].item, 2U);
  EXPECT_EQ(gaps[0].end, 37_ps);
  EXPECT_EQ(gaps[1].cause, Gap::Cause::event);
  EXPECT_EQ(gaps[1].id, 7U);
  EXPECT_EQ(gaps[1].begin, 37_ps);
  EXPECT_EQ(gaps[1].end, 66_ps);
}

TEST(Run, TheFirstBackwardAndTheLastForwardAreFound) {
  HandGraph g;
  const uint32_t r = g.role();
  const PassId f = g.pass_of(3), b = g.pass_of(5);
  g.run(r, f, forward_of(0, 0));
  g.run(r, b, backward_of(0, 0));
  g.run(r, f, forward_of(0, 1));
  g.run(r, b, backward_of(0, 1));
  const RoleTimeline role = g.timeline().roles[0];
  EXPECT_EQ(role.first_backward, 3_ps);
  EXPECT_EQ(role.last_forward, 11_ps);
}

TEST(Run, APairIsAForwardAndABackward) {
  HandGraph g;
  const PassId pass = g.pass_of(5);
  const uint32_t r = g.role();
  g.run(r, pass, forward_of(0, 0));
  g.run(r, pass, forward_of(0, 1));
  g.graph.roles[r].items.back().has_second = true;
  g.graph.roles[r].items.back().second = backward_of(0, 0);
  g.run(r, pass, backward_of(0, 1));
  const Timeline t = g.timeline();
  EXPECT_EQ(t.roles[r].first_backward, Time{5});
  EXPECT_EQ(t.roles[r].last_forward, Time{10});
}

TEST(Run, ARoleWithoutBackwardHasNone) {
  HandGraph g;
  g.run(g.role(), g.pass_of(3), forward_of(0, 0));
  EXPECT_EQ(g.timeline().roles[0].first_backward, Time::max());
}

TEST(Run, ComputeBeginsWithTheFirstOpOnTheComputeStream) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass({{6, Stream::dp}}));
  g.run(r, g.pass({{9, Stream::tp}, {2}}, {{.op = 1, .on = 0}}));
  const Timeline t = g.timeline();
  EXPECT_EQ(t.roles[0].compute_begin, 9_ps);
  EXPECT_EQ(t.span, 2_ps);
}

TEST(Run, RecordsNoMoreThanAskedFor) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass({{3}, {4, Stream::tp}, {5}}, {{.op = 2, .on = 1}}));
  g.record(r, 0, Stream::tp);
  g.run(r, g.pass({{20, Stream::tp}}));
  g.record(r, 1, Stream::tp);
  g.wait(r, 1, Stream::compute);
  const Program p = compile(g.graph, g.prices);
  const Timeline nothing = run(p, Record::nothing), account = run(p, Record::account);
  EXPECT_EQ(nothing.makespan, 24_ps);
  EXPECT_THAT(nothing.roles[0].items, IsEmpty());
  EXPECT_THAT(nothing.roles[0].gaps, IsEmpty());
  EXPECT_EQ(account.roles[0].items.size(), 5U);
  EXPECT_EQ(account.roles[0].gaps.size(), 1U);
  EXPECT_THAT(account.roles[0].op_start, IsEmpty());
}

TEST(Run, RefusesToRecordOpStartsOfAMergedProgram) {
  HandGraph g;
  g.run(g.role(), g.pass_of(3));
  EXPECT_THROW(run(compile(g.graph, g.prices), Record::all), InternalError);
}

// --- deadlock -----------------------------------------------------------------------------------

TEST(Run, RolesThatWaitForEachOtherAreADeadlock) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role(), bystander = g.role();
  const RendezvousId first = g.rendezvous(2, 1), second = g.rendezvous(2, 1);
  g.post(a, first);
  g.join(a, first);
  g.post(a, second);
  g.run(b, g.pass_of(3));
  g.post(b, second);
  g.join(b, second);
  g.post(b, first);
  g.run(bystander, g.pass_of(5));
  check_graph(g.graph);
  try {
    run(compile(g.graph, g.prices));
    FAIL() << "no deadlock";
  } catch (const Deadlock& deadlock) {
    ASSERT_EQ(deadlock.waiting.size(), 2U);
    EXPECT_EQ(deadlock.waiting[0].role, a);
    EXPECT_EQ(deadlock.waiting[0].item, 1U);
    EXPECT_EQ(deadlock.waiting[0].rendezvous, first);
    EXPECT_EQ(deadlock.waiting[1].role, b);
    EXPECT_EQ(deadlock.waiting[1].item, 2U);
    EXPECT_EQ(deadlock.waiting[1].rendezvous, second);
  }
}

TEST(Run, JoiningOnesOwnRendezvousBeforePostingItIsADeadlock) {
  HandGraph g;
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 1);
  g.join(r, m);
  g.post(r, m);
  EXPECT_THROW(g.timeline(), Deadlock);
}

}  // namespace
}  // namespace stepcast::run_test
