// SPDX-License-Identifier: Apache-2.0
// Speed of the lanes engine: rank-ops a second on one core, on real steps with every rank of its
// own, and how the cost grows with their number.  `triad` is the memory bandwidth of the same
// process, to compare machines by.
#include <benchmark/benchmark.h>
#include <sys/resource.h>

#include <cstdint>
#include <string>
#include <vector>

#include "calibrate/price/price_graph.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"
#include "sim/lanes/lanes.h"

namespace {

using namespace stepcast;

struct Step {
  OpGraph graph;
  Prices prices;
  LaneSet lanes;
};

Step make_step(const Scenario& s) {
  Step step;
  step.graph = lower(s.model, s.plan, s.schedule, {.p2p = s.p2p});
  step.prices = price(step.graph, s.cluster, s.plan.grid, shipped_table(s.cluster.node.gpu.name));
  step.lanes.digits = {
      {Axis::tp, s.plan.grid.tp}, {Axis::cp, s.plan.grid.cp}, {Axis::dp, s.plan.grid.dp}};
  return step;
}

Step llama_405b() {
  return make_step(load_scenario(std::string(STEPCAST_SOURCE_DIR) +
                                 "/scenarios/examples/llama3-405b-16384xh100.yaml"));
}

// TP 8, PP 8, DP 16, 16 microbatches, on 1,024 GPUs.
// 16 microbatches of each replica.
Step gpt3(int64_t gpus) {
  const int64_t dp = gpus / 64;
  const std::string text =
      "schema: 1\nname: gpt3\nmodel: gpt3-175b\ncluster: {preset: dgx-a100-80g, nodes: " +
      std::to_string(gpus / 8) + "}\nparallel: {tp: 8, pp: 8, dp: " + std::to_string(dp) +
      "}\nbatch: {global: " + std::to_string(16 * dp) +
      ", micro: 1, seq: 2048}\nschedule: 1f1b\nprecision: bf16-mixed\n";
  return make_step(load_scenario_text(text, "gpt3.yaml"));
}

// Speeds within 6 % of each other, from a linear congruential generator.
void give_each_its_own_speed(Step& step) {
  uint32_t x = 1;
  step.lanes.slowness.assign(step.graph.roles.size(), {});
  for (auto& role : step.lanes.slowness) {
    for (int64_t i = 0; i < step.lanes.lanes(); ++i) {
      x = x * 1664525 + 1013904223;
      role.push_back(kNominal + static_cast<Slowness>(x >> 24));
    }
  }
}

void run_step(benchmark::State& state, const Step& step, const LaneOptions& options) {
  int64_t ops = 0;
  for ([[maybe_unused]] auto _ : state) {
    const LaneResult result = run_lanes(step.graph, step.prices, step.lanes, options);
    ops = result.rank_ops;
    benchmark::DoNotOptimize(result.makespan);
  }
  state.SetItemsProcessed(state.iterations() * ops);
  state.counters["rank_ops"] = static_cast<double>(ops);
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_MiB"] = static_cast<double>(usage.ru_maxrss) / 1024;
}

void llama_each_its_own_speed(benchmark::State& state) {
  Step step = llama_405b();
  give_each_its_own_speed(step);
  run_step(state, step, {});
}
BENCHMARK(llama_each_its_own_speed)->Unit(benchmark::kMillisecond);

void llama_each_its_own_speed_unmerged(benchmark::State& state) {
  Step step = llama_405b();
  give_each_its_own_speed(step);
  run_step(state, step, {.merge = false});
}
BENCHMARK(llama_each_its_own_speed_unmerged)->Unit(benchmark::kMillisecond);

void llama_equal_ranks_unfolded(benchmark::State& state) {
  run_step(state, llama_405b(), {.fold = false});
}
BENCHMARK(llama_equal_ranks_unfolded)->Unit(benchmark::kMillisecond);

void llama_jitter(benchmark::State& state) {
  Step step = llama_405b();
  step.lanes.jitter = Jitter{.sigma = 0.02, .seed = 1};
  run_step(state, step, {});
}
BENCHMARK(llama_jitter)->Unit(benchmark::kMillisecond);

void llama_one_slow_node_folded(benchmark::State& state) {
  Step step = llama_405b();
  step.lanes.slowness.assign(step.graph.roles.size(), {});
  std::vector<Slowness>& role = step.lanes.slowness[3];
  role.assign(static_cast<size_t>(step.lanes.lanes()), kNominal);
  for (size_t i = 8; i < 16; ++i) role[i] = kNominal * 5 / 4;
  run_step(state, step, {});
}
BENCHMARK(llama_one_slow_node_folded)->Unit(benchmark::kMillisecond);

// The argument: GPUs.
void gpt3_every_rank(benchmark::State& state) {
  run_step(state, gpt3(state.range(0)), {.fold = false});
}
BENCHMARK(gpt3_every_rank)->Arg(64)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

void gpt3_each_its_own_speed(benchmark::State& state) {
  Step step = gpt3(state.range(0));
  give_each_its_own_speed(step);
  run_step(state, step, {});
}
BENCHMARK(gpt3_each_its_own_speed)->Arg(64)->Arg(1024)->Arg(16384)->Unit(benchmark::kMillisecond);

// Growth: one role that runs `range` ops on 1,024 lanes (fewer than 1,024 ops: as many lanes as
// ops), in layers of 13 kernels, a collective and the waits between.
void growth(benchmark::State& state) {
  const int64_t rank_ops = state.range(0);
  const int64_t lanes = rank_ops < 100'000 ? 8 : 1024;
  Step step;
  step.graph.labels = {""};
  step.prices.by_launch = {Time{4'000'000}};
  const auto add_work = [&](WorkKind kind, Axis axis, int64_t ps) {
    Work work;
    work.kind = kind;
    work.axis = axis;
    step.graph.works.push_back(work);
    step.prices.by_work.push_back({Time{ps}, Origin::roofline, {}});
    return WorkId{static_cast<uint32_t>(step.graph.works.size()) - 1};
  };
  const WorkId kernel = add_work(WorkKind::gemm, Axis::none, 40'000'000);
  const WorkId reduce = add_work(WorkKind::all_reduce, Axis::tp, 60'000'000);
  Pass pass;
  for (uint32_t i = 0; i < 12; ++i) {
    pass.ops.push_back({kernel, Stream::compute, Phase::forward, LabelId{}, 0});
  }
  pass.ops.push_back({reduce, Stream::tp, Phase::forward, LabelId{}, 0});
  pass.ops.push_back({kernel, Stream::compute, Phase::forward, LabelId{}, 0});
  pass.waits = WaitGraph(14, {{.op = 12, .on = 11}, {.op = 13, .on = 12}});
  step.graph.passes.push_back(std::move(pass));
  step.graph.roles.emplace_back();
  Item item;
  step.graph.roles[0].items.assign(static_cast<size_t>(std::max<int64_t>(1, rank_ops / lanes / 14)),
                                   item);
  step.lanes.digits = {{Axis::tp, 8}, {Axis::dp, lanes / 8}};
  give_each_its_own_speed(step);
  run_step(state, step, {});
}
BENCHMARK(growth)->RangeMultiplier(10)->Range(100, 1'000'000'000)->Unit(benchmark::kMicrosecond);

// a = b + s * c over 3 x 128 MiB: bytes a second as STREAM counts them.
void triad(benchmark::State& state) {
  constexpr size_t kSize = size_t{16} << 20;
  std::vector<double> a(kSize), b(kSize, 1.0), c(kSize, 2.0);
  for ([[maybe_unused]] auto _ : state) {
    for (size_t i = 0; i < kSize; ++i) a[i] = b[i] + 3.0 * c[i];
    benchmark::DoNotOptimize(a.data());
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(3 * kSize * sizeof(double)));
}
BENCHMARK(triad)->Unit(benchmark::kMillisecond);

}  // namespace
