// SPDX-License-Identifier: Apache-2.0
// Overlapped pairs of a forward and a backward.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/pair_pass.h"
#include "model/stage_passes.h"
#include "sim/memory/memory.h"
#include "tests/hand_graph.h"
#include "tests/model/sample.h"

namespace stepcast {
namespace {

constexpr Stream kCompute = Stream::compute;
constexpr Stream kEp = Stream::ep;

PassId pair_of(HandGraph& g, PassId forward, PassId backward) {
  GraphBuilder builder(g.graph);
  return add_pair_pass(builder, forward, backward);
}

void run_pair(HandGraph& g, uint32_t role, PassId pair, const Action& first, const Action& second) {
  g.run(role, pair, first);
  g.graph.roles[role].items.back().has_second = true;
  g.graph.roles[role].items.back().second = second;
}

// A layer of experts: attention, dispatch, experts, combine; and the way back.
struct Experts {
  HandGraph g;
  PassId forward = g.pass({{10, kCompute}, {8, kEp}, {11, kCompute}, {8, kEp}},
                          {{.op = 1, .on = 0}, {.op = 2, .on = 1}, {.op = 3, .on = 2}});
  PassId backward = g.pass({{9, kEp}, {20, kCompute}, {9, kEp}, {21, kCompute}},
                           {{.op = 1, .on = 0}, {.op = 2, .on = 1}, {.op = 3, .on = 2}});
};

TEST(PairPass, TheExchangesOfOneRunBesideTheComputeOfTheOther) {
  Experts e;
  const PassId pair = pair_of(e.g, e.forward, e.backward);
  const uint32_t role = e.g.role();
  run_pair(e.g, role, pair, forward_of(0, 1), backward_of(0, 0));
  const Timeline t = e.g.timeline();
  // communication: combine backward | dispatch, dispatch backward | combine
  // compute:       attention | experts backward, experts | attention backward
  const std::vector<Time> starts{Time{0},  Time{0},  Time{10}, Time{10},
                                 Time{30}, Time{30}, Time{41}, Time{41}};
  EXPECT_EQ(t.roles[role].op_start, starts);
  EXPECT_EQ(t.makespan, Time{10 + 20 + 11 + 21});
}

TEST(PairPass, OneAfterTheOtherTheSameTakesLonger) {
  Experts e;
  const uint32_t role = e.g.role();
  e.g.run(role, e.forward, forward_of(0, 1));
  e.g.run(role, e.backward, backward_of(0, 0));
  EXPECT_GT(e.g.timeline().makespan, Time{10 + 20 + 11 + 21});
}

TEST(PairPass, WithoutExchangesTheForwardGoesFirst) {
  HandGraph g;
  const PassId forward = g.pass({{1}, {2, Stream::tp}, {3}}, {{.op = 2, .on = 1}});
  const PassId backward = g.pass({{4}, {5, Stream::tp}}, {{.op = 1, .on = 0}});
  const PassId pair = pair_of(g, forward, backward);
  const Pass& pass = g.graph.passes[static_cast<size_t>(pair)];
  std::vector<int64_t> prices;
  for (const Op& op : pass.ops) {
    prices.push_back(g.prices.by_work[static_cast<size_t>(op.work)].time.count());
  }
  EXPECT_EQ(prices, (std::vector<int64_t>{1, 2, 3, 4, 5}));
  ASSERT_EQ(pass.waits.all().size(), 2U);
  EXPECT_EQ(pass.waits.all()[0].op, 2U);
  EXPECT_EQ(pass.waits.all()[1].op, 4U);
  EXPECT_EQ(pass.waits.all()[1].on, 3U);
}

TEST(PairPass, OneSideMayHaveMoreExchangesThanTheOther) {
  HandGraph g;
  const PassId forward = g.pass({{1}, {1}});
  const PassId backward = g.pass({{1, kEp}, {1}, {1, kEp}, {1}});
  const PassId pair = pair_of(g, forward, backward);
  std::vector<Stream> streams;
  for (const Op& op : g.graph.passes[static_cast<size_t>(pair)].ops) streams.push_back(op.stream);
  EXPECT_EQ(streams, (std::vector<Stream>{kEp, kCompute, kCompute, kCompute, kEp, kCompute}));
}

// A dense stage with both kinds of backward beside the forward of the next microbatch.
TEST(PairPass, KeepsTheMemoryOfTheTwoMicrobatchesApart) {
  HandGraph g;
  GraphBuilder builder(g.graph);
  const Transformer model = sample::gpt(2, 256, 8, 51200, 256);
  const Plan plan = sample::plan(1, 1, 1, 1, 1, 256);
  const PassChoice split{.split = true};
  const StagePasses lower = add_stage_passes(builder, model, plan, {1, true, false}, split);
  const StagePasses upper = add_stage_passes(builder, model, plan, {1, false, true}, split);
  const PassId same = add_pair_pass(builder, lower.forward, lower.backward);
  const PassId mixed = add_pair_pass(builder, lower.forward, upper.input_gradient);
  const uint32_t role = g.role();
  g.run(role, lower.forward, forward_of(0, 0));
  g.run(role, upper.forward, forward_of(1, 0));
  run_pair(g, role, mixed, forward_of(0, 1), {ActionKind::backward_input, 1, 0});
  g.run(role, upper.weight_gradient, Action{ActionKind::backward_weight, 1, 0});
  run_pair(g, role, same, forward_of(0, 2), backward_of(0, 0));
  g.run(role, lower.backward, backward_of(0, 1));
  g.run(role, lower.backward, backward_of(0, 2));
  check_graph(g.graph);
  const RoleMemory memory = trace_memory(g.graph).front();
  EXPECT_EQ(memory.end, memory.start);
  EXPECT_EQ(memory.peak_in_flight, 3);
  EXPECT_GE(trace_reserved(g.graph, role, kEndlessRoom), memory.peak);
  Bytes held;
  for (const auto& [label, bytes] : peak_by_label(g.graph, role, memory)) held += bytes;
  EXPECT_EQ(held, memory.peak);
}

TEST(PairPass, IsNamedAfterBothActions) {
  Item item;
  item.has_action = true;
  item.action = forward_of(5, 3);
  EXPECT_EQ(action_text(item), "5F3");
  item.has_second = true;
  item.second = backward_of(2, 1);
  EXPECT_EQ(action_text(item), "(5F3;2B1)");
}

}  // namespace
}  // namespace stepcast
