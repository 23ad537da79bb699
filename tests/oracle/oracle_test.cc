// SPDX-License-Identifier: Apache-2.0
// The naive engine against times worked out by hand: what it says is what the engine must say.
#include "tests/oracle/oracle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/hand_graph.h"

namespace stepcast::oracle::oracle_test {
namespace {

using namespace literals;
using ::testing::ElementsAre;

Times play(const HandGraph& g) {
  check_graph(g.graph);
  return oracle::play(g.graph, g.prices);
}

TEST(Oracle, PlaysStreamsSideBySideAndInOrder) {
  HandGraph g;
  g.run(g.role(), g.pass({{5}, {9, Stream::tp}, {1}, {2, Stream::tp}}));
  const Times t = play(g);
  EXPECT_THAT(t.roles[0].op_start, ElementsAre(0_ps, 0_ps, 5_ps, 9_ps));
  EXPECT_THAT(t.roles[0].op_end, ElementsAre(5_ps, 9_ps, 6_ps, 11_ps));
  EXPECT_EQ(t.roles[0].compute_end, 6_ps);
  EXPECT_EQ(t.makespan, 11_ps);
  EXPECT_EQ(t.ops, 4);
}

TEST(Oracle, LaunchesOneOpAfterTheOther) {
  HandGraph g(10);
  g.run(g.role(), g.pass({{3}, {30, Stream::tp}, {3}}));
  EXPECT_THAT(play(g).roles[0].op_start, ElementsAre(10_ps, 20_ps, 30_ps));
}

TEST(Oracle, WaitsForEndsAndStartsWithDelay) {
  HandGraph g;
  g.run(g.role(), g.pass({{9, Stream::tp}, {3}, {1, Stream::dp}, {1, Stream::cp}},
                         {{.op = 1, .on = 0, .delay = 4_ps},
                          {.op = 2, .on = 0, .from_start = true, .delay = 2_ps},
                          {.op = 3, .on = 1, .from_start = true}}));
  EXPECT_THAT(play(g).roles[0].op_start, ElementsAre(0_ps, 13_ps, 2_ps, 13_ps));
}

TEST(Oracle, StartsARendezvousWithItsLastPost) {
  HandGraph g(2);
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId m = g.rendezvous(2, 4);
  g.run(a, g.pass_of(5));  // 2-7
  g.post(a, m);            // at 7
  g.join(a, m, Stream::tp);
  g.post(b, m);  // at 2
  g.join(b, m);
  g.run(b, g.pass_of(1));
  const Times t = play(g);
  EXPECT_EQ(t.rendezvous[0].begin, 7_ps);
  EXPECT_EQ(t.rendezvous[0].end, 11_ps);
  EXPECT_THAT(t.rendezvous[0].posts, ElementsAre(2_ps, 7_ps));
  EXPECT_THAT(t.rendezvous[0].roles, ElementsAre(b, a));
  EXPECT_EQ(t.roles[a].compute_end, 7_ps);
  EXPECT_EQ(t.roles[a].end, 11_ps);
  EXPECT_THAT(t.roles[b].op_start, ElementsAre(11_ps));
}

TEST(Oracle, StampsAnEventWithStreamTimeNotHostTime) {
  HandGraph g(10);
  const uint32_t r = g.role();
  const RendezvousId nothing = g.rendezvous(1, 0);
  g.run(r, g.pass({{3, Stream::tp}}));  // 10-13
  g.post(r, nothing, Stream::dp);       // host at 20
  g.record(r, 0, Stream::tp);
  g.wait(r, 0, Stream::compute);
  EXPECT_EQ(play(g).roles[0].compute_end, 13_ps);
}

TEST(Oracle, KeepsTheHostAtSyncAndAtAJoinItWaitsFor) {
  HandGraph g(10);
  const uint32_t r = g.role();
  const RendezvousId m = g.rendezvous(1, 50);
  g.run(r, g.pass({{100, Stream::tp}}));  // 10-110
  g.sync(r, Stream::tp);
  g.run(r, g.pass_of(1));  // launched by 120
  g.post(r, m);            // at 130
  g.join(r, m, Stream::cp).host_waits = true;
  g.run(r, g.pass_of(1));
  EXPECT_THAT(play(g).roles[0].op_start, ElementsAre(10_ps, 120_ps, 190_ps));
}

TEST(Oracle, NamesTheJoinsOfADeadlock) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId m = g.rendezvous(1, 1);
  g.join(a, m);
  g.post(a, m);
  g.run(b, g.pass_of(7));
  const Times t = play(g);
  ASSERT_EQ(t.blocked.size(), 1U);
  EXPECT_EQ(t.blocked[0].role, a);
  EXPECT_EQ(t.blocked[0].item, 0U);
  EXPECT_EQ(t.blocked[0].rendezvous, m);
  EXPECT_FALSE(t.rendezvous[0].started);
  EXPECT_EQ(t.makespan, 7_ps);
}

}  // namespace
}  // namespace stepcast::oracle::oracle_test
