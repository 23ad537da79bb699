// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/op_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "sim/check.h"
#include "sim/engine/run.h"
#include "sim/graph/host_waits.h"
#include "sim/graph/program.h"
#include "tests/hand_graph.h"

namespace stepcast::op_graph_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

// --- waits --------------------------------------------------------------------------------------

TEST(WaitGraph, GivesTheWaitsOfEachOp) {
  const WaitGraph g(4,
                    {{.op = 3, .on = 1}, {.op = 2, .on = 0, .delay = Time{7}}, {.op = 3, .on = 0}});
  ASSERT_EQ(g.all().size(), 3U);
  EXPECT_EQ(g.all()[0].op, 2U);
  EXPECT_THAT(g.of(0), IsEmpty());
  ASSERT_EQ(g.of(2).size(), 1U);
  EXPECT_EQ(g.of(2)[0].delay, Time{7});
  ASSERT_EQ(g.of(3).size(), 2U);
  EXPECT_EQ(g.of(3)[0].on, 1U);  // in the order given
  EXPECT_EQ(g.of(3)[1].on, 0U);
}

TEST(WaitGraph, MayBeEmptyAndMoved) {
  WaitGraph g;
  EXPECT_THAT(g.all(), IsEmpty());
  EXPECT_THAT(g.find_cycle({}), IsEmpty());
  g = WaitGraph(2, {{.op = 1, .on = 0}});
  const WaitGraph moved = std::move(g);
  EXPECT_EQ(moved.all().size(), 1U);
}

TEST(WaitGraph, RefusesOpsThatDoNotExist) {
  EXPECT_THROW(WaitGraph(2, {{.op = 2, .on = 0}}), InternalError);
  EXPECT_THROW(WaitGraph(2, {{.op = 1, .on = 2}}), InternalError);
}

TEST(WaitGraph, FindsACycleOfWaits) {
  const WaitGraph g(4, {{.op = 1, .on = 2}, {.op = 2, .on = 3}, {.op = 3, .on = 1}});
  const std::array streams = {Stream::compute, Stream::tp, Stream::cp, Stream::dp};
  EXPECT_THAT(g.find_cycle(streams), UnorderedElementsAre(1, 2, 3));
}

TEST(WaitGraph, FindsACycleThroughTheOrderOfAStream) {
  const WaitGraph g(3, {{.op = 0, .on = 2}});
  const std::array one = {Stream::tp, Stream::compute, Stream::tp};
  EXPECT_THAT(g.find_cycle(one), UnorderedElementsAre(0, 2));
  const std::array two = {Stream::tp, Stream::compute, Stream::dp};
  EXPECT_THAT(g.find_cycle(two), IsEmpty());
}

TEST(WaitGraph, AnOpThatWaitsForItselfIsACycle) {
  const WaitGraph g(1, {{.op = 0, .on = 0}});
  EXPECT_THAT(g.find_cycle(std::array{Stream::compute}), ElementsAre(0));
}

// --- check_graph --------------------------------------------------------------------------------

// Two roles that exchange once, with a tensor that lives across two passes.
HandGraph sound_graph() {
  HandGraph g;
  const PassId f = g.pass({{1}, {1, Stream::tp}}, {{.op = 1, .on = 0}});
  const PassId b = g.pass_of(1);
  const uint32_t kept = g.tensor(10);
  g.allocate(f, 0, kept);
  g.free(b, 0, kept);
  const RendezvousId m = g.rendezvous(2, 1);
  for (const uint32_t r : {g.role(), g.role()}) {
    g.run(r, f, forward_of(0, 0));
    g.post(r, m);
    g.join(r, m);
    g.run(r, b, backward_of(0, 0));
  }
  return g;
}

TEST(CheckGraph, AcceptsASoundGraph) {
  EXPECT_NO_THROW(check_graph(sound_graph().graph));
  EXPECT_NO_THROW(check_graph(OpGraph{}));
}

TEST(CheckGraph, RefusesEachUnsoundOne) {
  using Break = std::function<void(HandGraph&)>;
  const std::vector<std::pair<const char*, Break>> breaks = {
      {"work of an op", [](HandGraph& g) { g.graph.passes[0].ops[0].work = WorkId{99}; }},
      {"label of an op", [](HandGraph& g) { g.graph.passes[0].ops[0].label = LabelId{9}; }},
      {"wait for a later op",
       [](HandGraph& g) { g.graph.passes[0].waits = WaitGraph(2, {{.op = 0, .on = 1}}); }},
      {"wait for itself",
       [](HandGraph& g) { g.graph.passes[0].waits = WaitGraph(2, {{.op = 1, .on = 1}}); }},
      {"tensor table", [](HandGraph& g) { g.graph.passes[0].tensors = TensorTableId{1}; }},
      {"tensor", [](HandGraph& g) { g.allocate(PassId{0}, 1, 7); }},
      {"op of a memory event", [](HandGraph& g) { g.graph.passes[0].memory[0].op = 2; }},
      {"order of memory events",
       [](HandGraph& g) {
         g.allocate(PassId{0}, 1, g.tensor(1));
         std::swap(g.graph.passes[0].memory[0], g.graph.passes[0].memory[1]);
       }},
      {"pass of an item", [](HandGraph& g) { g.graph.roles[0].items[0].pass = PassId{2}; }},
      {"rendezvous of a join",
       [](HandGraph& g) { g.graph.roles[0].items[2].rendezvous = RendezvousId{1}; }},
      {"rendezvous of a post",
       [](HandGraph& g) { g.graph.roles[0].items[1].rendezvous = RendezvousId{1}; }},
      {"a missing post",
       [](HandGraph& g) {
         auto& items = g.graph.roles[1].items;
         items.erase(items.begin() + 1);
       }},
      {"a post too many", [](HandGraph& g) { g.graph.rendezvous[0].parties = 1; }},
      {"two posts of one role",
       [](HandGraph& g) {
         g.post(0, RendezvousId{0});
         g.graph.rendezvous[0].parties = 3;
       }},
      {"a tensor never freed", [](HandGraph& g) { g.graph.roles[0].items.pop_back(); }},
      {"a tensor of another microbatch",
       [](HandGraph& g) { g.graph.roles[0].items[3].action.microbatch = 1; }},
      {"a tensor of another stage",
       [](HandGraph& g) { g.graph.roles[0].items[3].action.stage = 1; }},
      {"a tensor allocated twice", [](HandGraph& g) { g.allocate(PassId{0}, 1, 0); }},
      {"a tensor freed twice", [](HandGraph& g) { g.free(PassId{1}, 0, 0); }},
      {"an event of a second action that is not there",
       [](HandGraph& g) {
         for (MemoryEvent& e : g.graph.passes[0].memory) e.second = true;
       }},
      {"a pair of one microbatch",
       [](HandGraph& g) { g.graph.roles[0].items[0].has_second = true; }},
      {"a tensor table that is not there",
       [](HandGraph& g) { g.graph.passes[0].tensors = TensorTableId{7}; }},
      {"a tensor left behind by a pass without action",
       [](HandGraph& g) { g.graph.roles[0].items[0].has_action = false; }},
  };
  for (const auto& [what, damage] : breaks) {
    HandGraph g = sound_graph();
    damage(g);
    EXPECT_THROW(check_graph(g.graph), InternalError) << what;
  }
}

using ::testing::ElementsAre;

TEST(WorkCounts, PassesCountForEachRankAndRendezvousOnce) {
  OpGraph graph;
  graph.works.resize(3);
  graph.passes.resize(1);
  graph.passes[0].ops = {{.work = WorkId{0}}, {.work = WorkId{1}}, {.work = WorkId{0}}};
  graph.rendezvous = {{.work = WorkId{2}, .parties = 2}};
  RoleOps role;
  role.ranks = 4;
  role.items = {{.kind = ItemKind::pass}, {.kind = ItemKind::pass}, {.kind = ItemKind::post}};
  RoleOps other;
  other.ranks = 4;
  other.items = {{.kind = ItemKind::post}, {.kind = ItemKind::join}};
  graph.roles = {role, other};
  EXPECT_THAT(work_counts(graph), ElementsAre(16, 8, 4));
}

// A pass of `ops` kernels of 10 ps on the compute stream, each launched in 3; the launch of op
// `reads` waits for what is before it.
struct Step {
  OpGraph graph;
  Prices prices;

  explicit Step(uint32_t ops, std::optional<uint32_t> reads) {
    graph.labels = {""};
    graph.tensor_tables.emplace_back();
    Work work;
    work.bytes = {1};
    graph.works = {work};
    Price price;
    price.time = Time{10};
    prices.by_work = {price};
    Launch plain, reading;
    plain.add(HostCall::kernel);
    reading.add(HostCall::kernel).add(HostCall::synchronize);
    const LaunchId a = launch_of(graph, plain), b = launch_of(graph, reading);
    prices.by_launch = {Time{0}, Time{3}, Time{5}};
    Pass pass;
    for (uint32_t i = 0; i < ops; ++i) {
      Op op;
      op.launch = reads == i ? b : a;
      pass.ops.push_back(op);
    }
    pass.waits = WaitGraph(ops, {});
    graph.passes.push_back(std::move(pass));
    RoleOps role;
    role.items.push_back({.kind = ItemKind::pass});
    graph.roles.push_back(std::move(role));
  }

  Timeline timeline() {
    add_host_wait_edges(graph, prices);
    return run(compile(graph, prices), Record::account);
  }
};

TEST(HostWaits, WhatFollowsIsLaunchedWhenTheDeviceHasCaughtUp) {
  EXPECT_EQ(Step(4, {}).timeline().makespan, Time{3 + 40});
  // Two ops end at 23, the third is launched 5 later.
  const Timeline t = Step(4, 2).timeline();
  EXPECT_EQ(t.makespan, Time{3 + 20 + 5 + 20});
  EXPECT_EQ(t.roles[0].inside[static_cast<size_t>(Spend::launch)], Time{3 + 5});
}

TEST(HostWaits, TheHostWaitsForTheComputeStreamWhateverElseWasLaunchedSince) {
  for (const Stream other : {Stream::dp, Stream::ep}) {
    Step step(4, 2);
    step.graph.passes[0].ops[1].stream = other;
    // The first op ends at 13, the second, beside it, at 16; the third is launched 5 after 13.
    EXPECT_EQ(step.timeline().makespan, Time{3 + 10 + 5 + 20});
  }
}

TEST(HostWaits, TheFirstOpOfAPassHasNothingToWaitFor) {
  Step first(4, 0);
  EXPECT_EQ(first.timeline().makespan, Time{5 + 40});
  EXPECT_TRUE(first.graph.passes[0].waits.all().empty());
  Step exchanged(4, 1);
  exchanged.graph.passes[0].ops[0].stream = Stream::ep;
  exchanged.timeline();
  EXPECT_TRUE(exchanged.graph.passes[0].waits.all().empty());
}

// CUDA_LAUNCH_BLOCKING=1: device and host take turns, and no op runs beside another.
TEST(HostWaits, AHostThatBlocksAddsItsTimeToEachOp) {
  Step blocking(4, {});
  blocking.graph.host_blocks = true;
  EXPECT_EQ(blocking.timeline().makespan, Time{4 * (3 + 10)});
  Step beside(4, {});
  beside.graph.host_blocks = true;
  beside.graph.passes[0].ops[1].stream = Stream::dp;
  EXPECT_EQ(beside.timeline().makespan, Time{4 * (3 + 10)});
}

TEST(HostWaits, NothingIsAddedWhereTheHostTakesNoTimeOrReadsNothing) {
  Step free(4, 2);
  free.prices.by_launch.clear();
  add_host_wait_edges(free.graph, free.prices);
  EXPECT_TRUE(free.graph.passes[0].waits.all().empty());
  Step never(4, {});
  add_host_wait_edges(never.graph, never.prices);
  EXPECT_TRUE(never.graph.passes[0].waits.all().empty());
}

}  // namespace
}  // namespace stepcast::op_graph_test
