// SPDX-License-Identifier: Apache-2.0
// The engine against the naive one, to the picosecond: 100,000 random graphs in shards that ctest
// runs side by side, and hand-made cases for what a random graph never does (deadlock).
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "sim/program.h"
#include "sim/run.h"
#include "tests/oracle/oracle.h"
#include "tests/oracle/random_graph.h"

namespace stepcast {
namespace {

constexpr uint64_t kShards = 25;
constexpr uint64_t kSeedsPerShard = 4000;

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
uint32_t last_poster(const oracle::RendezvousTimes& meeting) {
  uint32_t last = UINT32_MAX;
  for (size_t i = 0; i < meeting.posts.size(); ++i)
    if (meeting.posts[i] == meeting.begin) last = std::min(last, meeting.roles[i]);
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
          compare_rendezvous(account, want);
  text += compare_totals(run(merged, Record::nothing), want);
  return text;
}

class RandomGraphs : public testing::TestWithParam<uint64_t> {};

TEST_P(RandomGraphs, TakeTheSameTimeInTheEngineAndInTheOracle) {
  const uint64_t first = GetParam() * kSeedsPerShard;
  for (uint64_t seed = first; seed < first + kSeedsPerShard; ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    ASSERT_NO_THROW(check_graph(c.graph)) << "seed " << seed;
    ASSERT_EQ(compare_case(c), "") << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Shard, RandomGraphs, testing::Range<uint64_t>(0, kShards));

}  // namespace
}  // namespace stepcast
