// SPDX-License-Identifier: Apache-2.0
// Whole forecasts, from the scenario file to the result, and their parts.
#include <benchmark/benchmark.h>

#include <string>

#include "calibrate/price/price_graph.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"
#include "sim/account/account.h"
#include "sim/engine/run.h"

namespace {

using namespace stepcast;

std::string example(const char* name) {
  return std::string(STEPCAST_SOURCE_DIR) + "/scenarios/examples/" + name + ".yaml";
}

void file_to_result(benchmark::State& state, const char* name) {
  const std::string path = example(name);
  for (auto _ : state) {
    const Result result = forecast(load_scenario(path));
    benchmark::DoNotOptimize(result.step_time);
  }
}
BENCHMARK_CAPTURE(file_to_result, gpt3_175b_64_a100, "gpt3-175b-64xa100")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(file_to_result, llama3_405b_16384_h100, "llama3-405b-16384xh100")
    ->Unit(benchmark::kMillisecond);

void load(benchmark::State& state, const char* name) {
  const std::string path = example(name);
  for (auto _ : state) benchmark::DoNotOptimize(load_scenario(path));
}
BENCHMARK_CAPTURE(load, gpt3_175b_64_a100, "gpt3-175b-64xa100")->Unit(benchmark::kMillisecond);

void lowering(benchmark::State& state, const char* name) {
  const Scenario s = load_scenario(example(name));
  for (auto _ : state) benchmark::DoNotOptimize(lower(s.model, s.plan, s.schedule, {.p2p = s.p2p}));
}
BENCHMARK_CAPTURE(lowering, gpt3_175b_64_a100, "gpt3-175b-64xa100")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(lowering, llama3_405b_16384_h100, "llama3-405b-16384xh100")
    ->Unit(benchmark::kMillisecond);

// The engine alone on a real step; ns_per_op counts device ops.
void engine(benchmark::State& state, const char* name, bool merged, Record record) {
  const Scenario s = load_scenario(example(name));
  const OpGraph graph = lower(s.model, s.plan, s.schedule, {.p2p = s.p2p});
  const Prices prices =
      price(graph, s.cluster, s.plan.grid, shipped_table(s.cluster.node.gpu.name));
  const Program program = compile(graph, prices, {}, merged);
  int64_t ops = 0;
  for (auto _ : state) {
    const Timeline t = run(program, record);
    ops += t.rank_ops;
    benchmark::DoNotOptimize(t.makespan);
  }
  state.SetItemsProcessed(ops);
}
BENCHMARK_CAPTURE(engine, gpt3_merged, "gpt3-175b-64xa100", true, Record::nothing);
BENCHMARK_CAPTURE(engine, gpt3_merged_account, "gpt3-175b-64xa100", true, Record::account);
BENCHMARK_CAPTURE(engine, gpt3_one_instruction_an_op, "gpt3-175b-64xa100", false, Record::nothing);
BENCHMARK_CAPTURE(engine, llama3_merged, "llama3-405b-16384xh100", true, Record::nothing);

}  // namespace
