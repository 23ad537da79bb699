// SPDX-License-Identifier: Apache-2.0
// Speed of searches over whole spaces: layouts decided a second, and how many were simulated.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "scenarios/search/search.h"

namespace stepcast {
namespace {

void search(benchmark::State& state, const char* text) {
  const ScenarioDocument document = ScenarioDocument::of_text(text, "search.yaml", "");
  SearchRun run;
  run.jobs = static_cast<int>(state.range(0));
  int64_t layouts = 0, simulated = 0;
  for (auto _ : state) {
    const SearchAnswer answer = search_layouts(document, {}, run);
    layouts += answer.result.layouts;
    simulated += answer.result.simulated;
    benchmark::DoNotOptimize(answer.result.best);
  }
  state.SetItemsProcessed(layouts);
  state.counters["simulated"] =
      benchmark::Counter(static_cast<double>(simulated), benchmark::Counter::kAvgIterations);
}
BENCHMARK_CAPTURE(search, llama3_8b_16_h100,
                  "model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 128, seq: 8192}\n")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, llama3_70b_256_h100,
                  "model: llama3-70b\ncluster: dgx-h100 x 32\nbatch: {global: 1024, seq: 8192}\n")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(search, deepseek_v3_2048_h100,
                  "model: deepseek-v3\ncluster: dgx-h100 x 256\nbatch: {global: 8192, seq: 4096}\n")
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
