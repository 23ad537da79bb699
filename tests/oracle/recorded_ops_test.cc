// SPDX-License-Identifier: Apache-2.0
// What the engines say of single ops, and of a step with other prices, on random graphs.
#include <gtest/gtest.h>

#include <vector>

#include "sim/contention/contention.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "sim/lanes/lanes.h"
#include "tests/oracle/random_graph.h"
#include "tests/random_cases.h"

namespace stepcast::recorded_ops_test {
namespace {

uint64_t seeds() {
  return testing::random_cases(500);
}
constexpr LaneOptions kRecordOps{.record = true, .ops = true};

// Start plus price.
std::vector<Time> ends_of(const oracle::RandomCase& c, const RoleOps& role,
                          const std::vector<Time>& starts) {
  std::vector<Time> ends;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : c.graph.passes[static_cast<size_t>(item.pass)].ops)
      ends.push_back(starts[ends.size()] + c.prices.by_work[static_cast<size_t>(op.work)].time);
  }
  return ends;
}

TEST(RecordedOps, OfOneLaneAreThoseOfTheEngineOfEqualRanks) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    const Timeline expected = run(compile(c.graph, c.prices, {}, false), Record::all);
    const Timeline lanes = run_lanes(c.graph, c.prices, {}, kRecordOps).timeline;
    const Timeline contended =
        run_contended(c.graph, c.prices, {}, {}, {}, kRecordOps).lanes.timeline;
    for (size_t r = 0; r < expected.roles.size(); ++r) {
      const std::vector<Time>& starts = expected.roles[r].op_start;
      const std::vector<Time> ends = ends_of(c, c.graph.roles[r], starts);
      for (const Timeline* t : {&lanes, &contended}) {
        ASSERT_EQ(t->roles[r].op_start, starts) << "seed " << seed;
        ASSERT_EQ(t->roles[r].op_end, ends) << "seed " << seed;
      }
    }
  }
}

TEST(RecordedOps, OfASlowLaneTakeAsMuchLonger) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    LaneSet lanes;
    lanes.slowness.assign(c.graph.roles.size(), {3 * kNominal});
    Prices slow = c.prices;
    for (size_t w = 0; w < slow.by_work.size(); ++w)
      if (!is_communication(c.graph.works[w].kind)) slow.by_work[w].time *= 3;
    const Timeline expected = run(compile(c.graph, slow, {}, false), Record::all);
    const Timeline now = run_lanes(c.graph, c.prices, lanes, kRecordOps).timeline;
    for (size_t r = 0; r < expected.roles.size(); ++r)
      ASSERT_EQ(now.roles[r].op_start, expected.roles[r].op_start) << "seed " << seed;
  }
}

Variation random_variation(oracle::Draws& draws, const OpGraph& graph) {
  Variation v;
  for (double& scale : v.axis_scale) scale = draws.below(5) / 2.0;
  v.launch_scale = draws.below(3);
  v.optimizer_scale = draws.below(3);
  v.recompute_scale = draws.below(3);
  if (draws.chance(50))
    for (size_t p = 0; p < graph.passes.size(); ++p) v.pass_scale.push_back(draws.below(7) / 3.0);
  return v;
}

TEST(Varied, TimesAreThoseOfTheVariedProgram) {
  for (uint64_t seed = 0; seed < seeds(); ++seed) {
    const oracle::RandomCase c = oracle::random_case(seed);
    oracle::Draws draws(seed);
    const Variation variation = random_variation(draws, c.graph);
    const VariedStep varied = vary(c.graph, c.prices, variation);
    check_graph(varied.graph);
    const Timeline expected = run(compile(c.graph, c.prices, variation));
    const Timeline now = run(compile(varied.graph, varied.prices));
    ASSERT_EQ(now.makespan, expected.makespan) << "seed " << seed;
    ASSERT_EQ(now.span, expected.span) << "seed " << seed;
  }
}

}  // namespace
}  // namespace stepcast::recorded_ops_test
