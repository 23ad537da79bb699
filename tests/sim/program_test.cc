// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/program.h"

#include <gtest/gtest.h>

#include "sim/check.h"
#include "tests/hand_graph.h"

namespace stepcast::program_test {
namespace {

CompiledPass compile_one(const HandGraph& g, bool merged = true, const Variation& v = {}) {
  return compile(g.graph, g.prices, v, merged).passes[0];
}

// The lead of a chain by its definition: op i cannot start before i launches were made, and all
// from it to the last run after that.
int64_t lead_by_definition(const std::vector<int64_t>& durations, int64_t launch) {
  int64_t lead = 0;
  for (size_t i = 0; i < durations.size(); ++i) {
    int64_t sum = static_cast<int64_t>(i + 1) * launch;
    for (size_t j = i; j < durations.size(); ++j) sum += durations[j];
    lead = std::max(lead, sum);
  }
  return lead;
}

TEST(Compile, OneOpIsOneInstruction) {
  HandGraph g(2);
  g.pass({{7, Stream::dp}});
  for (const bool merged : {false, true}) {
    const CompiledPass p = compile_one(g, merged);
    ASSERT_EQ(p.code.size(), 1U);
    EXPECT_EQ(p.code[0].code, OpCode::run);
    EXPECT_EQ(p.code[0].duration, 7);
    EXPECT_EQ(p.code[0].lead, 9);
    EXPECT_EQ(p.code[0].launch, 2);
    EXPECT_EQ(p.code[0].stream, Stream::dp);
    EXPECT_EQ(p.device_ops, 1U);
    EXPECT_EQ(p.slots, 0U);
  }
}

TEST(Compile, AChainOfOneStreamBecomesOneInstruction) {
  const std::vector<int64_t> durations = {3, 1, 4, 1, 5};
  for (const int64_t launch : {0, 1, 2, 5, 100}) {
    HandGraph g(launch);
    g.pass({{3}, {1}, {4}, {1}, {5}});
    const CompiledPass p = compile_one(g);
    ASSERT_EQ(p.code.size(), 1U);
    EXPECT_EQ(p.code[0].duration, 14);
    EXPECT_EQ(p.code[0].launch, 5 * launch);
    EXPECT_EQ(p.code[0].lead, lead_by_definition(durations, launch)) << "launch " << launch;
    EXPECT_EQ(p.device_ops, 5U);
  }
}

TEST(Compile, UnmergedKeepsOneInstructionAnOp) {
  HandGraph g(1);
  g.pass({{3}, {1}, {4}});
  const CompiledPass p = compile_one(g, false);
  ASSERT_EQ(p.code.size(), 3U);
  for (uint32_t i = 0; i < 3; ++i) EXPECT_EQ(p.code[i].op, i);
}

TEST(Compile, AnotherStreamEndsAChain) {
  HandGraph g;
  g.pass({{3}, {1}, {4, Stream::tp}, {1}, {5}});
  const CompiledPass p = compile_one(g);
  ASSERT_EQ(p.code.size(), 3U);
  EXPECT_EQ(p.code[0].duration, 4);
  EXPECT_EQ(p.code[1].stream, Stream::tp);
  EXPECT_EQ(p.code[2].op, 3U);
  EXPECT_EQ(p.code[2].duration, 6);
}

TEST(Compile, AnOpWhoseEndIsWaitedForEndsItsChain) {
  HandGraph g;
  g.pass({{3}, {1}, {9}, {4, Stream::tp}}, {{.op = 3, .on = 1}});
  const CompiledPass p = compile_one(g);
  ASSERT_EQ(p.code.size(), 4U);
  EXPECT_EQ(p.code[0].code, OpCode::run_mark_end);
  EXPECT_EQ(p.code[0].duration, 4);
  EXPECT_EQ(p.code[1].duration, 9);
  EXPECT_EQ(p.code[2].code, OpCode::wait);
  EXPECT_EQ(p.code[2].stream, Stream::tp);
  EXPECT_EQ(p.code[2].slot, p.code[0].slot);
  ASSERT_EQ(p.slots, 1U);
  EXPECT_EQ(p.slot_spend[0], Spend::matmul);
}

TEST(Compile, AnOpWhoseStartIsWaitedForStandsAlone) {
  HandGraph g;
  g.pass({{3}, {1}, {4, Stream::tp}}, {{.op = 2, .on = 1, .from_start = true}});
  const CompiledPass p = compile_one(g);
  ASSERT_EQ(p.code.size(), 4U);
  EXPECT_EQ(p.code[1].code, OpCode::run_mark_start);
  EXPECT_EQ(p.code[1].duration, 1);
}

TEST(Compile, StartAndEndOfOneOpTakeTwoSlots) {
  HandGraph g;
  g.pass({{1}, {4, Stream::tp}, {4, Stream::dp}},
         {{.op = 1, .on = 0, .from_start = true}, {.op = 2, .on = 0}});
  const CompiledPass p = compile_one(g);
  EXPECT_EQ(p.code[0].code, OpCode::run_mark_both);
  EXPECT_EQ(p.slots, 2U);
  EXPECT_EQ(p.code[1].slot, p.code[0].slot + 1);  // the wait for the start
  EXPECT_EQ(p.code[3].slot, p.code[0].slot);
}

TEST(Compile, AWaitThatTheStreamKeepsAnywayIsDropped) {
  HandGraph g;
  g.pass({{3}, {1}, {4}},
         {{.op = 1, .on = 0}, {.op = 2, .on = 0}, {.op = 2, .on = 1, .from_start = true}});
  EXPECT_EQ(compile_one(g).code.size(), 1U);
  EXPECT_EQ(compile_one(g).slots, 0U);
}

TEST(Compile, ADelayIsKeptEvenOnOneStream) {
  HandGraph g;
  g.pass({{3}, {1}}, {{.op = 1, .on = 0, .delay = Time{5}}});
  const CompiledPass p = compile_one(g);
  ASSERT_EQ(p.code.size(), 3U);
  EXPECT_EQ(p.code[1].code, OpCode::wait);
  EXPECT_EQ(p.code[1].duration, 5);
}

TEST(Compile, BusyTimeIsTheComputeStreamByWhatFor) {
  HandGraph g;
  g.pass({{3},
          {5, Stream::compute, Phase::forward, kernel_work(Kernel::layer_norm)},
          {7, Stream::compute, Phase::recompute},
          {11, Stream::compute, Phase::optimizer, kernel_work(Kernel::adam)},
          {2, Stream::compute, Phase::forward, communication(Axis::tp)},
          {100, Stream::tp}});
  for (const bool merged : {false, true}) {
    const CompiledPass p = compile_one(g, merged);
    int64_t sum = 0;
    for (const int64_t ps : p.busy) sum += ps;
    EXPECT_EQ(sum, 28);
    EXPECT_EQ(p.busy[static_cast<size_t>(Spend::matmul)], 3);
    EXPECT_EQ(p.busy[static_cast<size_t>(Spend::norm)], 5);
    EXPECT_EQ(p.busy[static_cast<size_t>(Spend::recompute)], 7);
    EXPECT_EQ(p.busy[static_cast<size_t>(Spend::optimizer)], 11);
    EXPECT_EQ(p.busy[static_cast<size_t>(Spend::exposed_tp)], 2);
  }
}

// --- variations ---------------------------------------------------------------------------------

TEST(Variation, ScalesOneAxisOfCommunicationAndNoOther) {
  HandGraph g;
  g.pass({{10}, {20, Stream::tp}, {30, Stream::dp}});
  g.rendezvous(1, 40, Axis::pp);
  g.rendezvous(1, 50, Axis::model);
  Variation v;
  v.axis_scale[static_cast<size_t>(Axis::tp)] = 0.5;
  v.axis_scale[static_cast<size_t>(Axis::pp)] = 0;
  const Program p = compile(g.graph, g.prices, v, false);
  EXPECT_EQ(p.passes[0].code[0].duration, 10);
  EXPECT_EQ(p.passes[0].code[1].duration, 10);
  EXPECT_EQ(p.passes[0].code[2].duration, 30);
  EXPECT_EQ(p.rendezvous_ps[0], 0);
  EXPECT_EQ(p.rendezvous_ps[1], 50);
}

TEST(Variation, ScalesTheLaunchCostOfOpsAndPosts) {
  HandGraph g(10);
  g.pass({{7}});
  Variation v;
  v.launch_scale = 0.5;
  const Program p = compile(g.graph, g.prices, v);
  EXPECT_EQ(p.passes[0].code[0].launch, 5);
  EXPECT_EQ(p.passes[0].code[0].lead, 12);
  EXPECT_EQ(p.launch_ps, std::vector<int64_t>{5});
}

TEST(Variation, ScalesPhasesAndPasses) {
  HandGraph g;
  g.pass({{10, Stream::compute, Phase::optimizer}, {10, Stream::compute, Phase::recompute}, {10}});
  g.pass({{10}});
  Variation v;
  v.optimizer_scale = 2;
  v.recompute_scale = 3;
  v.pass_scale = {10, 1};
  const Program p = compile(g.graph, g.prices, v, false);
  EXPECT_EQ(p.passes[0].code[0].duration, 200);
  EXPECT_EQ(p.passes[0].code[1].duration, 300);
  EXPECT_EQ(p.passes[0].code[2].duration, 100);
  EXPECT_EQ(p.passes[1].code[0].duration, 10);
}

TEST(Variation, RoundsHalfUp) {
  HandGraph g;
  g.pass({{5}, {7}});
  Variation v;
  v.pass_scale = {0.5};
  const CompiledPass p = compile_one(g, false, v);
  EXPECT_EQ(p.code[0].duration, 3);
  EXPECT_EQ(p.code[1].duration, 4);
}

TEST(Compile, NeedsAPriceForEachWork) {
  HandGraph g;
  g.pass_of(3);
  g.prices.by_work.pop_back();
  EXPECT_THROW(compile(g.graph, g.prices), InternalError);
}

}  // namespace
}  // namespace stepcast::program_test
