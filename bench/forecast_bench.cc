// SPDX-License-Identifier: Apache-2.0
// Whole forecasts, from the scenario file to the result, their parts, and shorter answers.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "calibrate/price/price_graph.h"
#include "scenarios/forecast/evaluator.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step.h"
#include "scenarios/pricing_table.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"
#include "sim/account/account.h"
#include "sim/engine/run.h"

namespace {

thread_local int64_t allocations = 0;

}  // namespace

// Counts what a benchmark allocates.  Not inlined: g++ would see free() beside a new that it does
// not take for these.
[[gnu::noinline]] void* operator new(size_t size) {
  ++allocations;
  if (void* p = std::malloc(size)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept {
  std::free(p);
}

namespace {

using namespace stepcast;

std::string example(const char* name) {
  return std::string(STEPCAST_SOURCE_DIR) + "/scenarios/examples/" + name + ".yaml";
}

// GPT-3 175B on 64 GPUs, 1F1B, 16 microbatches: as few ops as a step of that model has.
const std::string kPlain =
    "model: gpt3-175b\ncluster: dgx-a100-80g x 8\nparallel: {tp: 8, pp: 8}\n"
    "batch: {global: 16, micro: 1, seq: 2048}\nschedule: 1f1b\n";

Scenario scenario_of(const std::string& name) {
  return name == "plain" ? load_scenario_text(kPlain, "plain.yaml")
                         : load_scenario(example(name.c_str()));
}

void count_allocations(benchmark::State& state, int64_t before) {
  state.counters["allocations"] =
      benchmark::Counter(static_cast<double>(allocations - before) /
                         static_cast<double>(std::max<int64_t>(1, state.iterations())));
}

void file_to_result(benchmark::State& state, const char* name) {
  int64_t before = allocations;
  for (auto _ : state) {
    const Result result = forecast(scenario_of(name));
    benchmark::DoNotOptimize(result.step_time);
  }
  count_allocations(state, before);
}
BENCHMARK_CAPTURE(file_to_result, plain, "plain")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(file_to_result, gpt3_175b_64_a100, "gpt3-175b-64xa100")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(file_to_result, llama3_405b_16384_h100, "llama3-405b-16384xh100")
    ->Unit(benchmark::kMillisecond);

void load(benchmark::State& state, const char* name) {
  for (auto _ : state) benchmark::DoNotOptimize(scenario_of(name));
}
BENCHMARK_CAPTURE(load, plain, "plain")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(load, gpt3_175b_64_a100, "gpt3-175b-64xa100")->Unit(benchmark::kMillisecond);

void lowering(benchmark::State& state, const char* name) {
  const Scenario s = load_scenario(example(name));
  for (auto _ : state) benchmark::DoNotOptimize(lower(s.model, s.plan, s.schedule, {.p2p = s.p2p}));
}
BENCHMARK_CAPTURE(lowering, gpt3_175b_64_a100, "gpt3-175b-64xa100")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(lowering, llama3_405b_16384_h100, "llama3-405b-16384xh100")
    ->Unit(benchmark::kMillisecond);

// Time and peak of layouts that share model and cluster: one after the other with sequences of four
// lengths, whose passes and prices are known.  `share`: through one evaluator; else each by itself.
enum class Answer { bound, step, alone };

void layouts(benchmark::State& state, const char* name, Answer answer) {
  std::vector<Scenario> all;
  for (const char* seq : {"2048", "1536", "1024", "512"}) {
    LoadOptions options;
    options.set = {{"batch.seq", seq}};
    all.push_back(std::string(name) == "plain" ? load_scenario_text(kPlain, "plain.yaml", options)
                                               : load_scenario(example(name), options));
  }
  Evaluator evaluator;
  for (const Scenario& s : all) {  // the first of each
    benchmark::DoNotOptimize(evaluator.bound(s));
    benchmark::DoNotOptimize(evaluator.step(s));
  }
  size_t i = 0;
  const int64_t before = allocations;
  for (auto _ : state) {
    const Scenario& s = all[i++ % all.size()];
    if (answer == Answer::bound) {
      benchmark::DoNotOptimize(evaluator.bound(s));
    } else if (answer == Answer::step) {
      benchmark::DoNotOptimize(evaluator.step(s));
    } else {
      benchmark::DoNotOptimize(
          evaluate(price_step(lower_step(s, s.schedule), pricing_table(s).table)));
    }
  }
  count_allocations(state, before);
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(layouts, plain_bound, "plain", Answer::bound)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(layouts, plain_step, "plain", Answer::step)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(layouts, plain_alone, "plain", Answer::alone)->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(layouts, gpt3_bound, "gpt3-175b-64xa100", Answer::bound)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(layouts, gpt3_step, "gpt3-175b-64xa100", Answer::step)
    ->Unit(benchmark::kMicrosecond);
BENCHMARK_CAPTURE(layouts, gpt3_alone, "gpt3-175b-64xa100", Answer::alone)
    ->Unit(benchmark::kMicrosecond);

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
