// SPDX-License-Identifier: Apache-2.0
// Speed of synthesis: p = 16, m = 64, every stage with times of its own, so that no bound ends the
// search early.  An order has 3072 actions, with two chunks a rank in a V 6144.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "schedules/synthesis/list_scheduling.h"
#include "schedules/synthesis/local_search.h"
#include "schedules/synthesis/order_timing.h"
#include "schedules/synthesis/synthesis.h"
#include "sim/random.h"

namespace stepcast {
namespace {

constexpr int64_t kRanks = 16, kMicrobatches = 64;

// Memory of 1.2 times 1F1B's.
PipelineCosts pipeline(int64_t chunks) {
  std::vector<uint16_t> ranks;
  for (int64_t s = 0; s < kRanks * chunks; ++s)
    ranks.push_back(static_cast<uint16_t>(s < kRanks ? s : 2 * kRanks - 1 - s));
  PipelineCosts costs = level_costs(kRanks, kMicrobatches, std::move(ranks), {}, {100, -57, -43},
                                    Time{50'000'000}, 120 * kRanks * chunks);
  CountedRandom random(1);
  const auto time = [&](uint64_t us) {
    return Time{static_cast<int64_t>((us + random.below(us / 4)) * 1'000'000) / chunks};
  };
  for (StageTimes& t : costs.times) {
    t.forward = time(1000);
    t.backward_input = time(1100);
    t.backward_weight = time(700);
  }
  return costs;
}

Order greedy(const PipelineCosts& costs) {
  ListRules rules;
  rules.ranks.assign(kRanks, {});
  rules.most_in_flight.assign(costs.rank_of_stage.size(), kMicrobatches);
  return list_schedule(costs, rules);
}

void BM_synthesize(benchmark::State& state) {
  SynthesisProblem problem;
  problem.costs = pipeline(state.range(0));
  Synthesis made;
  for (auto _ : state) benchmark::DoNotOptimize(made = synthesize(problem));
  state.counters["gap_percent"] = 100 * made.gap;
  state.counters["orders"] = static_cast<double>(made.orders_tried);
}
BENCHMARK(BM_synthesize)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

void BM_list_schedule(benchmark::State& state) {
  const PipelineCosts costs = pipeline(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(greedy(costs));
}
BENCHMARK(BM_list_schedule)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond);

void BM_time_order(benchmark::State& state) {
  const PipelineCosts costs = pipeline(state.range(0));
  const Order order = greedy(costs);
  for (auto _ : state) benchmark::DoNotOptimize(time_order(costs, order));
}
BENCHMARK(BM_time_order)->Arg(1)->Arg(2)->Unit(benchmark::kMicrosecond);

// Orders a second.
void BM_local_search(benchmark::State& state) {
  const PipelineCosts costs = pipeline(state.range(0));
  const Order order = greedy(costs);
  SearchGoal goal;
  goal.tries = 2000;
  int64_t tries = 0;
  for (auto _ : state) tries += improve_order(costs, order, goal).tries;
  state.counters["orders"] =
      benchmark::Counter(static_cast<double>(tries), benchmark::Counter::kIsRate);
}
BENCHMARK(BM_local_search)->Arg(1)->Arg(2)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
