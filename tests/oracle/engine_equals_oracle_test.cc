// SPDX-License-Identifier: Apache-2.0
// The engine against the naive one, to the picosecond: 100,000 random graphs with `tools/test -C
// full`, by default a quarter of them (random_cases.h), and hand-made cases for what a random graph
// never does (deadlock).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "tests/hand_graph.h"
#include "tests/oracle/oracle.h"
#include "tests/oracle/random_graph.h"
#include "tests/random_cases.h"

namespace stepcast::engine_equals_oracle_test {
namespace {

constexpr uint64_t kShards = 25;

// Each returns the first difference in words, or nothing.
std::string difference(const char* what, size_t at, Time engine, Time oracle) {
  if (engine == oracle) return {};
  return std::string(what) + " " + std::to_string(at) + ": engine " +
         std::to_string(engine.count()) + ", oracle " + std::to_string(oracle.count()) + "\n";
}

Time oracle_span(const oracle::Times& want) {
  Time span{};
  for (const oracle::RoleTimes& role : want.roles)
    span = std::max(span, role.end - role.compute_begin);
  return span;
}

std::string compare_totals(const Timeline& got, const oracle::Times& want) {
  std::string text = difference("makespan", 0, got.makespan, want.makespan) +
                     difference("span", 0, got.span, oracle_span(want));
  if (got.rank_ops != want.ops) text += "rank_ops " + std::to_string(got.rank_ops) + "\n";
  return text;
}

std::string compare_roles(const Timeline& got, const oracle::Times& want) {
  if (got.roles.size() != want.roles.size()) return "number of roles\n";
  std::string text;
  for (size_t r = 0; r < got.roles.size(); ++r) {
    text +=
        difference("compute_begin of", r, got.roles[r].compute_begin, want.roles[r].compute_begin);
    text += difference("compute_end of", r, got.roles[r].compute_end, want.roles[r].compute_end);
    text += difference("end of", r, got.roles[r].end, want.roles[r].end);
  }
  return text;
}

// Who let the rendezvous start: the latest post, the lowest role of equal ones.
uint32_t last_poster(const oracle::RendezvousTimes& rendezvous) {
  uint32_t last = UINT32_MAX;
  for (size_t i = 0; i < rendezvous.posts.size(); ++i)
    if (rendezvous.posts[i] == rendezvous.begin) last = std::min(last, rendezvous.roles[i]);
  return last;
}

std::string compare_rendezvous(const Timeline& got, const oracle::Times& want) {
  if (got.rendezvous.size() != want.rendezvous.size()) return "number of rendezvous\n";
  std::string text;
  for (size_t i = 0; i < got.rendezvous.size(); ++i) {
    text += difference("begin of rendezvous", i, got.rendezvous[i].begin, want.rendezvous[i].begin);
    text += difference("end of rendezvous", i, got.rendezvous[i].end, want.rendezvous[i].end);
    if (got.rendezvous[i].last_role != last_poster(want.rendezvous[i]))
      text += "last role of rendezvous " + std::to_string(i) + "\n";
  }
  return text;
}

std::string compare_ops(const Timeline& got, const oracle::Times& want) {
  std::string text;
  for (size_t r = 0; r < got.roles.size(); ++r) {
    if (got.roles[r].op_start.size() != want.roles[r].op_start.size()) return "number of ops\n";
    for (size_t i = 0; i < got.roles[r].op_start.size(); ++i)
      text += difference("start of op", i, got.roles[r].op_start[i], want.roles[r].op_start[i]);
  }
  return text;
}

// Stand-stills inside passes, where passes that are held up as others before are looked up, and
// where they are run op by op.
std::string compare_inside(const Timeline& got, const Timeline& op_by_op) {
  std::string text;
  for (size_t r = 0; r < got.roles.size(); ++r)
    for (size_t s = 0; s < got.roles[r].inside.size(); ++s)
      text += difference("stand-stills inside passes of", r, got.roles[r].inside[s],
                         op_by_op.roles[r].inside[s]);
  return text;
}

std::string compare_case(const oracle::RandomCase& c) {
  const oracle::Times want = oracle::play(c.graph, c.prices);
  if (!want.blocked.empty()) return "the oracle deadlocks\n";
  const Program merged = compile(c.graph, c.prices);
  const Program unmerged = compile(c.graph, c.prices, {}, false);
  const Timeline all = run(unmerged, Record::all);
  std::string text = compare_totals(all, want) + compare_roles(all, want) +
                     compare_rendezvous(all, want) + compare_ops(all, want);
  const Timeline account = run(merged, Record::account);
  text += compare_totals(account, want) + compare_roles(account, want) +
          compare_rendezvous(account, want) + compare_inside(account, all);
  text += compare_totals(run(merged, Record::nothing), want);
  return text;
}

class RandomGraphs : public ::testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphs, TakeTheSameTimeInTheEngineAndInTheOracle) {
  const uint64_t count = testing::random_cases(1000), first = GetParam() * count;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    ASSERT_NO_THROW(check_graph(c.graph)) << "seed " << seed;
    ASSERT_EQ(compare_case(c), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomGraphs, ::testing::Range<uint64_t>(0, kShards));

// --- deadlock -----------------------------------------------------------------------------------

TEST(Deadlock, IsSeenByBothAtTheSameJoins) {
  HandGraph g;
  const uint32_t a = g.role(), bystander = g.role(), b = g.role();
  const RendezvousId first = g.rendezvous(2, 1), second = g.rendezvous(2, 1);
  g.run(a, g.pass_of(3));
  g.post(a, first);
  g.join(a, first);
  g.post(a, second);
  g.run(bystander, g.pass_of(5));
  g.post(b, second);
  g.join(b, second);
  g.post(b, first);
  check_graph(g.graph);
  const oracle::Times want = oracle::play(g.graph, g.prices);
  ASSERT_EQ(want.blocked.size(), 2U);
  EXPECT_EQ(want.makespan, Time{5});
  try {
    run(compile(g.graph, g.prices));
    FAIL() << "no deadlock";
  } catch (const Deadlock& deadlock) {
    ASSERT_EQ(deadlock.waiting.size(), 2U);
    for (size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(deadlock.waiting[i].role, want.blocked[i].role);
      EXPECT_EQ(deadlock.waiting[i].item, want.blocked[i].item);
      EXPECT_EQ(deadlock.waiting[i].rendezvous, want.blocked[i].rendezvous);
    }
  }
}

// The engine goes through a role's items strictly in order.  A join on a side stream that stands
// before a post of another stream, which the other role needs first, is more than it takes; the
// machine itself would get through.
TEST(Deadlock, IsCalledEarlierByTheEngineWhereASideStreamJoinsBeforeAPost) {
  HandGraph g;
  const uint32_t a = g.role(), b = g.role();
  const RendezvousId needs_b = g.rendezvous(2, 1), needed_by_b = g.rendezvous(1, 2);
  g.post(a, needs_b, Stream::dp);
  g.join(a, needs_b, Stream::dp);
  g.post(a, needed_by_b);
  g.join(b, needed_by_b);
  g.post(b, needs_b);
  EXPECT_TRUE(oracle::play(g.graph, g.prices).blocked.empty());
  EXPECT_THROW(run(compile(g.graph, g.prices)), Deadlock);
}

// Exchanges two posts or joins somewhere, which a deadlock may come of.
bool confuse(OpGraph& graph, oracle::Draws& draws) {
  RoleOps& role = graph.roles[draws.below(static_cast<uint32_t>(graph.roles.size()))];
  std::vector<size_t> places;
  for (size_t i = 0; i < role.items.size(); ++i)
    if (role.items[i].kind == ItemKind::post || role.items[i].kind == ItemKind::join)
      places.push_back(i);
  if (places.size() < 2) return false;
  const auto count = static_cast<uint32_t>(places.size());
  std::swap(role.items[places[draws.below(count)]], role.items[places[draws.below(count)]]);
  return true;
}

TEST(Deadlock, OfTheMachineIsAlwaysOneOfTheEngine) {
  int deadlocks = 0, sound = 0;
  for (uint64_t seed = 0; seed < 2000; ++seed) {
    oracle::RandomCase c = oracle::random_case(seed);
    oracle::Draws draws(seed);
    if (!confuse(c.graph, draws)) continue;
    const oracle::Times want = oracle::play(c.graph, c.prices);
    try {
      const Timeline got = run(compile(c.graph, c.prices));
      ASSERT_TRUE(want.blocked.empty()) << "seed " << seed;
      ASSERT_EQ(compare_totals(got, want) + compare_rendezvous(got, want), "") << "seed " << seed;
      ++sound;
    } catch (const Deadlock& deadlock) {
      ++deadlocks;
      for (const Deadlock::Waiting& w : deadlock.waiting)
        ASSERT_EQ(c.graph.roles[w.role].items[w.item].kind, ItemKind::join) << "seed " << seed;
    }
  }
  EXPECT_GT(deadlocks, 50);
  EXPECT_GT(sound, 500);
}

}  // namespace
}  // namespace stepcast::engine_equals_oracle_test
