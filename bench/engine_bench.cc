// SPDX-License-Identifier: Apache-2.0
// Speed of the engine: nanoseconds for each device op of a step.
//
// The step is a synthetic 1F1B of 16 stages and 16 microbatches with 8 layers a stage: 21,504 ops a
// role, a twelfth of them tp collectives on a stream of their own that compute waits for, and
// pipeline transfers between neighbours.  Equal lanes are merged beforehand, so one lane a role.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/account/account.h"
#include "sim/engine/run.h"
#include "sim/graph/program.h"
#include "sim/memory/memory.h"

namespace stepcast {
namespace {

constexpr uint32_t kStages = 16;
constexpr uint32_t kMicrobatches = 16;
constexpr uint32_t kLayers = 8;
constexpr uint32_t kGroupsForward = 4;  // of a layer: kernels, then a collective
constexpr uint32_t kGroupsBackward = 8;
constexpr uint32_t kKernels = 13;  // of a group

struct Step {
  OpGraph graph;
  Prices prices;
};

WorkId add_work(Step& step, WorkKind kind, Axis axis, int64_t ps) {
  Work work;
  work.kind = kind;
  work.axis = axis;
  step.graph.works.push_back(work);
  step.prices.by_work.push_back({Time{ps}, Origin::roofline, {}});
  return WorkId{static_cast<uint32_t>(step.graph.works.size()) - 1};
}

PassId add_pass(Step& step, uint32_t groups, Phase phase) {
  const WorkId gemm = add_work(step, WorkKind::gemm, Axis::none, 180'000'000);
  const WorkId kernel = add_work(step, WorkKind::memory_bound, Axis::none, 9'000'000);
  const WorkId reduce = add_work(step, WorkKind::reduce_scatter, Axis::tp, 60'000'000);
  Pass pass;
  std::vector<Wait> waits;
  const auto add = [&](WorkId work, Stream stream) {
    pass.ops.push_back({work, stream, phase, LabelId{}, 0});
    return static_cast<uint32_t>(pass.ops.size()) - 1;
  };
  uint32_t collective = 0;
  for (uint32_t group = 0; group < groups * kLayers; ++group) {
    for (uint32_t i = 0; i < kKernels; ++i) {
      const uint32_t op = add(i % 4 == 0 ? gemm : kernel, Stream::compute);
      if (i == 0 && group > 0) waits.push_back({.op = op, .on = collective});
    }
    collective = add(reduce, Stream::tp);
    waits.push_back({.op = collective, .on = collective - 1});
  }
  pass.waits = WaitGraph(static_cast<uint32_t>(pass.ops.size()), std::move(waits));
  step.graph.passes.push_back(std::move(pass));
  return PassId{static_cast<uint32_t>(step.graph.passes.size()) - 1};
}

// Transfers of one direction: [from stage][microbatch].
using Transfers = std::vector<std::vector<RendezvousId>>;

Transfers add_transfers(Step& step, WorkId work) {
  Transfers all(kStages);
  for (std::vector<RendezvousId>& of_stage : all) {
    for (uint32_t m = 0; m < kMicrobatches; ++m) {
      of_stage.push_back(RendezvousId{static_cast<uint32_t>(step.graph.rendezvous.size())});
      step.graph.rendezvous.push_back({work, 1, LabelId{}});
    }
  }
  return all;
}

void add_meeting(RoleOps& role, ItemKind kind, RendezvousId id) {
  Item item;
  item.kind = kind;
  item.rendezvous = id;
  role.items.push_back(item);
}

// Waits for what `from` sends (if there is such a stage), runs the pass, sends on.
void add_action(RoleOps& role, PassId pass, Action action, const Transfers& transfers,
                bool receives, uint32_t from, bool sends) {
  if (receives) add_meeting(role, ItemKind::join, transfers[from][action.microbatch]);
  Item item;
  item.pass = pass;
  item.has_action = true;
  item.action = action;
  role.items.push_back(item);
  if (sends) add_meeting(role, ItemKind::post, transfers[action.stage][action.microbatch]);
}

// Each transfer has one party, the sender; the unused ones of the outer stages are posted by them.
Step make_step() {
  Step step;
  step.graph.labels = {""};
  step.prices.by_launch = {Time{4'000'000}};
  const PassId forward = add_pass(step, kGroupsForward, Phase::forward);
  const PassId backward = add_pass(step, kGroupsBackward, Phase::backward_input);
  const WorkId wire = add_work(step, WorkKind::send_recv, Axis::pp, 300'000'000);
  const Transfers down = add_transfers(step, wire), up = add_transfers(step, wire);
  for (uint32_t s = 0; s < kStages; ++s) {
    RoleOps role;
    role.name = "stage " + std::to_string(s);
    const auto run_forward = [&](uint32_t m) {
      add_action(role, forward, {ActionKind::forward, static_cast<uint16_t>(s), m}, down, s > 0,
                 s - 1, true);
    };
    const auto run_backward = [&](uint32_t m) {
      add_action(role, backward, {ActionKind::backward, static_cast<uint16_t>(s), m}, up,
                 s + 1 < kStages, s + 1, true);
    };
    const uint32_t warmup = kStages - 1 - s;
    for (uint32_t m = 0; m < warmup; ++m) run_forward(m);
    for (uint32_t m = warmup; m < kMicrobatches; ++m) {
      run_forward(m);
      run_backward(m - warmup);
    }
    for (uint32_t m = kMicrobatches - warmup; m < kMicrobatches; ++m) run_backward(m);
    step.graph.roles.push_back(std::move(role));
  }
  check_graph(step.graph);
  return step;
}

void set_counters(benchmark::State& state, int64_t ops) {
  const auto count = static_cast<double>(ops);
  state.SetItemsProcessed(state.iterations() * ops);
  state.counters["ops"] = count;
  state.counters["ns_per_op"] = benchmark::Counter(
      count / 1e9, benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void run_engine(benchmark::State& state, bool merged, Record record) {
  const Step step = make_step();
  const Program program = compile(step.graph, step.prices, {}, merged);
  int64_t ops = 0;
  for ([[maybe_unused]] auto _ : state) {
    const Timeline timeline = run(program, record);
    ops = timeline.rank_ops;
    benchmark::DoNotOptimize(timeline.makespan);
  }
  set_counters(state, ops);
}

BENCHMARK_CAPTURE(run_engine, unmerged, false, Record::nothing)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run_engine, unmerged_account, false, Record::account)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run_engine, unmerged_all, false, Record::all)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run_engine, merged, true, Record::nothing)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(run_engine, merged_account, true, Record::account)->Unit(benchmark::kMicrosecond);

void compile_program(benchmark::State& state) {
  const Step step = make_step();
  for ([[maybe_unused]] auto _ : state)
    benchmark::DoNotOptimize(compile(step.graph, step.prices).passes.data());
}
BENCHMARK(compile_program)->Unit(benchmark::kMicrosecond);

void account_and_path(benchmark::State& state) {
  const Step step = make_step();
  const Program program = compile(step.graph, step.prices);
  const Timeline timeline = run(program);
  for ([[maybe_unused]] auto _ : state) {
    benchmark::DoNotOptimize(make_account(program, timeline).critical_role);
    benchmark::DoNotOptimize(critical_path(program, timeline).data());
  }
  set_counters(state, timeline.rank_ops);
}
BENCHMARK(account_and_path)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace stepcast
