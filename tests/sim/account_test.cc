// SPDX-License-Identifier: Apache-2.0
#include "sim/account/account.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <utility>

#include "tests/hand_graph.h"

namespace stepcast::account_test {
namespace {

using namespace literals;

Account account_of(const HandGraph& g) {
  check_graph(g.graph);
  const Program p = compile(g.graph, g.prices);
  return make_account(p, run(p));
}

// The table that has these entries, and nothing else.
SpendTable spends(std::initializer_list<std::pair<Spend, Time>> entries) {
  SpendTable table{};
  for (const auto& [spend, time] : entries) table[static_cast<size_t>(spend)] += time;
  return table;
}

// A transfer from `from`, which goes on, to `to`, which waits for it.
void transfer(HandGraph& g, uint32_t from, uint32_t to, int64_t ps) {
  const RendezvousId m = g.rendezvous(1, ps);
  g.post(from, m);
  g.join(to, m);
}

// --- one rank -----------------------------------------------------------------------------------

TEST(Account, BooksComputeByWhatItIs) {
  HandGraph g;
  Work attention;
  attention.kind = WorkKind::attention_forward;
  Work scores = gemm_work();
  scores.heads = 8;
  g.run(g.role(), g.pass({{1},
                          {2, Stream::compute, Phase::forward, attention},
                          {3, Stream::compute, Phase::forward, scores},
                          {4, Stream::compute, Phase::forward, kernel_work(Kernel::rms_norm)},
                          {5, Stream::compute, Phase::forward, kernel_work(Kernel::rotary)},
                          {6, Stream::compute, Phase::forward, kernel_work(Kernel::cross_entropy)},
                          {7, Stream::compute, Phase::recompute, attention},
                          {8, Stream::compute, Phase::gradient_sync, kernel_work(Kernel::scale)},
                          {9, Stream::compute, Phase::optimizer, kernel_work(Kernel::adam)},
                          {10, Stream::compute, Phase::backward_weight}}));
  EXPECT_EQ(account_of(g).by_role[0], spends({{Spend::matmul, 11_ps},
                                              {Spend::attention, 5_ps},
                                              {Spend::norm, 4_ps},
                                              {Spend::elementwise, 5_ps},
                                              {Spend::embedding_loss, 6_ps},
                                              {Spend::recompute, 7_ps},
                                              {Spend::gradient_buffers, 8_ps},
                                              {Spend::optimizer, 9_ps}}));
}

TEST(Account, CommunicationOnTheComputeStreamIsExposed) {
  HandGraph g;
  g.run(g.role(),
        g.pass({{3}, {4, Stream::compute, Phase::optimizer, communication(Axis::model)}}));
  EXPECT_EQ(account_of(g).by_role[0],
            spends({{Spend::matmul, 3_ps}, {Spend::exposed_other, 4_ps}}));
}

TEST(Account, OnlyThePartOfACommunicationThatIsNotHiddenIsExposed) {
  HandGraph g;
  g.run(g.role(), g.pass({{10, Stream::tp}, {3}, {5}}, {{.op = 2, .on = 0}}));
  EXPECT_EQ(account_of(g).by_role[0], spends({{Spend::exposed_tp, 7_ps}, {Spend::matmul, 8_ps}}));
}

TEST(Account, AHiddenCommunicationCostsNothing) {
  HandGraph g;
  g.run(g.role(), g.pass({{10, Stream::tp}, {30}, {5}}, {{.op = 2, .on = 0}}));
  EXPECT_EQ(account_of(g).by_role[0], spends({{Spend::matmul, 35_ps}}));
}

TEST(Account, EachKindOfCommunicationHasItsLine) {
  HandGraph g;
  g.run(g.role(), g.pass({{1, Stream::cp}, {1}, {3, Stream::ep}, {1}, {7, Stream::dp}, {1}},
                         {{.op = 1, .on = 0}, {.op = 3, .on = 2}, {.op = 5, .on = 4}}));
  EXPECT_EQ(account_of(g).by_role[0], spends({{Spend::exposed_cp, 1_ps},
                                              {Spend::exposed_ep, 1_ps},
                                              {Spend::exposed_dp, 3_ps},
                                              {Spend::matmul, 3_ps}}));
}

TEST(Account, AStandStillAtAnEventGoesToItsStream) {
  HandGraph g;
  const uint32_t r = g.role();
  g.run(r, g.pass({{9, Stream::dp}, {2}}));
  g.record(r, 0, Stream::dp);
  g.wait(r, 0, Stream::compute);
  g.run(r, g.pass_of(1));
  EXPECT_EQ(account_of(g).by_role[0], spends({{Spend::exposed_dp, 7_ps}, {Spend::matmul, 3_ps}}));
}

TEST(Account, TimeTheDeviceWaitsForTheHostIsLaunch) {
  HandGraph g(10);
  g.run(g.role(), g.pass({{3}, {3}, {30}, {3}}));  // 10-13, 20-23, 30-60, 60-63
  EXPECT_EQ(account_of(g).by_role[0], spends({{Spend::launch, 24_ps}, {Spend::matmul, 39_ps}}));
}

TEST(Account, WhatRunsAfterTheComputeStreamIsIdleEnd) {
  HandGraph g;
  g.run(g.role(), g.pass({{3}, {10, Stream::dp}}));
  EXPECT_EQ(account_of(g).by_role[0], spends({{Spend::matmul, 3_ps}, {Spend::idle_end, 7_ps}}));
}

// --- several ranks ------------------------------------------------------------------------------

// Forward and backward of one microbatch over two stages: 10 + 2 + 10, then 20 + 2 + 20.
HandGraph two_stages() {
  HandGraph g;
  const uint32_t first = g.role(), second = g.role();
  const PassId f = g.pass_of(10), b = g.pass_of(20);
  g.run(first, f, forward_of(0, 0));
  transfer(g, first, second, 2);
  g.run(second, f, forward_of(1, 0));
  g.run(second, b, backward_of(1, 0));
  transfer(g, second, first, 2);
  g.run(first, b, backward_of(0, 0));
  return g;
}

TEST(Account, WaitingForAnEarlierStageBeforeTheFirstBackwardIsWarmup) {
  const Account account = account_of(two_stages());
  EXPECT_EQ(account.by_role[1], spends({{Spend::fill, 10_ps},
                                        {Spend::exposed_pp, 2_ps},
                                        {Spend::matmul, 30_ps},
                                        {Spend::idle_end, 22_ps}}));
}

TEST(Account, TheStretchUpToTheFirstBackwardIsWarmupToo) {
  const Account account = account_of(two_stages());
  // 10-12 on the wire forth, 12-42 the second stage computes, 42-44 on the wire back.
  EXPECT_EQ(account.by_role[0],
            spends({{Spend::fill, 30_ps}, {Spend::exposed_pp, 4_ps}, {Spend::matmul, 30_ps}}));
}

// Two stages, one forward each; then `first` waits between two backwards of `second`'s.
TEST(Account, WaitingAfterTheLastForwardIsDrain) {
  HandGraph g;
  const uint32_t first = g.role(), second = g.role();
  const PassId f = g.pass_of(10), b = g.pass_of(20);
  g.run(first, f, forward_of(0, 0));
  g.run(first, b, backward_of(0, 0));  // until 30
  g.run(second, b, backward_of(1, 0));
  g.run(second, b, backward_of(1, 1));  // until 40
  transfer(g, second, first, 5);
  g.run(first, b, backward_of(0, 1));
  EXPECT_EQ(account_of(g).by_role[first],
            spends({{Spend::matmul, 50_ps}, {Spend::drain, 10_ps}, {Spend::exposed_pp, 5_ps}}));
}

TEST(Account, WaitingBetweenFirstBackwardAndLastForwardIsImbalance) {
  HandGraph g;
  const uint32_t first = g.role(), second = g.role();
  const PassId f = g.pass_of(10), b = g.pass_of(20);
  g.run(first, f, forward_of(0, 0));
  g.run(first, b, backward_of(0, 0));  // until 30
  g.run(second, g.pass_of(40), forward_of(1, 0));
  transfer(g, second, first, 0);
  g.run(first, f, forward_of(0, 1));
  EXPECT_EQ(account_of(g).by_role[first],
            spends({{Spend::matmul, 40_ps}, {Spend::imbalance, 10_ps}}));
}

TEST(Account, APeerInATransferMakesTheWaitExposedCommunication) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role(), c = g.role();
  g.run(a, g.pass_of(10), forward_of(0, 0));
  transfer(g, a, b, 4);
  g.run(b, g.pass_of(10), forward_of(1, 0));
  transfer(g, b, c, 4);
  g.run(c, g.pass_of(10), forward_of(2, 0));
  const Account account = account_of(g);
  // c waits 0-28: a computes 10, wire 4, b computes 10, wire 4.
  EXPECT_EQ(account.by_role[c],
            spends({{Spend::fill, 20_ps}, {Spend::exposed_pp, 8_ps}, {Spend::matmul, 10_ps}}));
}

TEST(Account, WaitingForARankHeldUpByItsOwnBlockingSendIsBlocked) {
  HandGraph g;
  const uint32_t waiting = g.role(), held = g.role(), slow = g.role();
  const RendezvousId send = g.rendezvous(2, 3), needed = g.rendezvous(1, 2);
  g.run(held, g.pass_of(10), forward_of(1, 0));
  g.post(held, send);
  g.join(held, send).only_sends = true;  // until 33
  g.post(held, needed);
  g.run(slow, g.pass_of(30), forward_of(2, 0));
  g.post(slow, send);
  g.run(waiting, g.pass_of(1), forward_of(0, 0));
  g.join(waiting, needed);  // until 35
  g.run(waiting, g.pass_of(1), backward_of(0, 0));
  EXPECT_EQ(account_of(g).by_role[waiting], spends({{Spend::matmul, 2_ps},
                                                    {Spend::fill, 9_ps},      // held computes
                                                    {Spend::blocked, 20_ps},  // held stands, 10-30
                                                    {Spend::exposed_pp, 5_ps}}));
}

TEST(Account, ABlockingSendWhoseReceiverIsLateIsBlocked) {
  HandGraph g;
  const uint32_t sender = g.role(), receiver = g.role();
  const RendezvousId m = g.rendezvous(2, 3);
  g.run(sender, g.pass_of(10), forward_of(0, 0));
  g.post(sender, m);
  g.join(sender, m).only_sends = true;
  g.run(receiver, g.pass_of(25), forward_of(1, 0));
  g.post(receiver, m);
  g.join(receiver, m);
  EXPECT_EQ(account_of(g).by_role[sender],
            spends({{Spend::matmul, 10_ps}, {Spend::blocked, 15_ps}, {Spend::exposed_pp, 3_ps}}));
}

TEST(Account, ACollectiveAcrossStagesGoesToItsAxis) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId tied = g.rendezvous(2, 6, Axis::embedding),
                     data = g.rendezvous(1, 8, Axis::dp);
  for (const uint32_t r : {a, b}) {
    g.run(r, g.pass_of(5));
    g.post(r, tied);
    g.join(r, tied);
  }
  g.post(a, data);
  g.join(a, data);
  EXPECT_EQ(
      account_of(g).by_role[a],
      spends({{Spend::matmul, 5_ps}, {Spend::exposed_other, 6_ps}, {Spend::exposed_dp, 8_ps}}));
}

TEST(Account, ARoleThatLacksOnlyItsOwnPostWaitsForItsHost) {
  HandGraph g(10);
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 5);
  g.run(r, g.pass_of(3));  // 10-13
  g.post(r, m);            // at 20
  g.join(r, m);            // until 25
  EXPECT_EQ(account_of(g).by_role[r],
            spends({{Spend::launch, 17_ps}, {Spend::matmul, 3_ps}, {Spend::exposed_pp, 5_ps}}));
}

TEST(Account, APostThatItsOwnStreamMadeLateIsThatStreamsCommunication) {
  HandGraph g;
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 5, Axis::embedding);
  g.run(r, g.pass({{30, Stream::dp}, {10}}));
  g.post(r, m, Stream::dp);  // at 30
  g.join(r, m);              // until 35
  EXPECT_EQ(
      account_of(g).by_role[r],
      spends({{Spend::matmul, 10_ps}, {Spend::exposed_dp, 20_ps}, {Spend::exposed_other, 5_ps}}));
}

TEST(Account, APostBehindAnotherRendezvousOfItsStreamIsThatOnesCommunication) {
  HandGraph g;
  const uint32_t r = g.role();
  const RendezvousId first = g.rendezvous(1, 20, Axis::pp);
  const RendezvousId second = g.rendezvous(1, 5, Axis::embedding);
  g.run(r, g.pass_of(10));
  g.post(r, first, Stream::dp);
  g.join(r, first, Stream::dp);   // until 20
  g.post(r, second, Stream::dp);  // at 20
  g.join(r, second);              // until 25
  EXPECT_EQ(
      account_of(g).by_role[r],
      spends({{Spend::matmul, 10_ps}, {Spend::exposed_pp, 10_ps}, {Spend::exposed_other, 5_ps}}));
}

TEST(Account, TheCriticalRoleIsTheOneThatStandsStillLeast) {
  HandGraph g;
  const uint32_t light = g.role(), heavy = g.role();
  g.run(light, g.pass_of(5));
  transfer(g, light, heavy, 0);
  g.run(heavy, g.pass_of(50));
  EXPECT_EQ(account_of(g).critical_role, heavy);
}

TEST(Account, AnEmptyStepHasAnEmptyAccount) {
  HandGraph g;
  EXPECT_TRUE(account_of(g).by_role.empty());
  g.role();
  EXPECT_EQ(account_of(g).by_role[0], SpendTable{});
}

// --- imbalance by replay ------------------------------------------------------------------------

SpendTable waits(Time fill, Time imbalance, Time drain) {
  return spends({{Spend::matmul, 100_ps},
                 {Spend::fill, fill},
                 {Spend::imbalance, imbalance},
                 {Spend::drain, drain}});
}

TEST(SeparateImbalance, IsWhatTheLevelledStepDoesNotWait) {
  const Account levelled{{waits(20_ps, 0_ps, 10_ps)}, 0};
  Account account{{waits(30_ps, 5_ps, 25_ps)}, 0};
  separate_imbalance(account, levelled);
  EXPECT_EQ(account.by_role[0], waits(5_ps, 30_ps, 25_ps));
}

TEST(SeparateImbalance, ComesOutOfTheDrainOnceTheWarmupIsSpent) {
  const Account levelled{{waits(2_ps, 0_ps, 3_ps)}, 0};
  Account account{{waits(10_ps, 0_ps, 40_ps)}, 0};
  separate_imbalance(account, levelled);
  EXPECT_EQ(account.by_role[0], waits(0_ps, 45_ps, 5_ps));
}

TEST(SeparateImbalance, IsNoneWhereTheLevelledStepWaitsLonger) {
  const Account levelled{{waits(60_ps, 0_ps, 60_ps)}, 0};
  Account account{{waits(10_ps, 7_ps, 20_ps)}, 0};
  separate_imbalance(account, levelled);
  EXPECT_EQ(account.by_role[0], waits(17_ps, 0_ps, 20_ps));
}

// --- critical path ------------------------------------------------------------------------------

std::vector<PathSegment> path_of(const HandGraph& g) {
  const Program p = compile(g.graph, g.prices);
  return critical_path(p, run(p));
}

void expect_segment(const PathSegment& s, PathSegment::Kind kind, uint32_t role, Time begin,
                    Time end) {
  EXPECT_EQ(s.kind, kind);
  EXPECT_EQ(s.role, role);
  EXPECT_EQ(s.begin, begin);
  EXPECT_EQ(s.end, end);
}

TEST(CriticalPath, OfOneRoleIsTheWholeStep) {
  HandGraph g;
  g.run(g.role(), g.pass({{5}, {3}}));
  const std::vector<PathSegment> path = path_of(g);
  ASSERT_EQ(path.size(), 1U);
  expect_segment(path[0], PathSegment::Kind::role, 0, 0_ps, 8_ps);
}

TEST(CriticalPath, OfAnEmptyStepIsEmpty) {
  HandGraph g;
  EXPECT_TRUE(path_of(g).empty());
  g.role();
  EXPECT_TRUE(path_of(g).empty());
}

TEST(CriticalPath, GoesForthAndBackThroughAPipeline) {
  const std::vector<PathSegment> path = path_of(two_stages());
  ASSERT_EQ(path.size(), 5U);
  expect_segment(path[0], PathSegment::Kind::role, 0, 0_ps, 10_ps);
  expect_segment(path[1], PathSegment::Kind::rendezvous, 1, 10_ps, 12_ps);
  expect_segment(path[2], PathSegment::Kind::role, 1, 12_ps, 42_ps);
  expect_segment(path[3], PathSegment::Kind::rendezvous, 0, 42_ps, 44_ps);
  expect_segment(path[4], PathSegment::Kind::role, 0, 44_ps, 64_ps);
  EXPECT_EQ(path[1].rendezvous, RendezvousId{0});
  EXPECT_EQ(path[3].rendezvous, RendezvousId{1});
}

TEST(CriticalPath, FollowsTheLatestPoster) {
  HandGraph g;
  const RendezvousId m = g.rendezvous(3, 4);
  for (const int64_t ps : {5, 30, 7}) {
    const uint32_t r = g.role();
    g.run(r, g.pass_of(ps));
    g.post(r, m);
    g.join(r, m);
    g.run(r, g.pass_of(ps == 7 ? 20 : 1));
  }
  const std::vector<PathSegment> path = path_of(g);
  ASSERT_EQ(path.size(), 3U);
  expect_segment(path[0], PathSegment::Kind::role, 1, 0_ps, 30_ps);
  expect_segment(path[1], PathSegment::Kind::rendezvous, 2, 30_ps, 34_ps);
  expect_segment(path[2], PathSegment::Kind::role, 2, 34_ps, 54_ps);
}

TEST(CriticalPath, EndsWhereARoleWaitsForItsOwnLatePostThatTakesNoTime) {
  HandGraph g(10);
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 0);
  g.post(r, m, Stream::tp);  // at 10, launched late
  g.join(r, m);
  g.run(r, g.pass_of(3));
  const std::vector<PathSegment> path = path_of(g);
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().begin, 0_ps);
  EXPECT_EQ(path.back().end, 23_ps);
}

}  // namespace
}  // namespace stepcast::account_test
