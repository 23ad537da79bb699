// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/op_graph.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "sim/engine/run.h"
#include "sim/graph/program.h"

namespace stepcast {
namespace {

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
    launch_after_host_waits(graph, prices);
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

TEST(HostWaits, NothingIsAddedWhereTheHostTakesNoTimeOrReadsNothing) {
  Step free(4, 2);
  free.prices.by_launch.clear();
  launch_after_host_waits(free.graph, free.prices);
  EXPECT_TRUE(free.graph.passes[0].waits.all().empty());
  Step never(4, {});
  launch_after_host_waits(never.graph, never.prices);
  EXPECT_TRUE(never.graph.passes[0].waits.all().empty());
}

}  // namespace
}  // namespace stepcast
