// SPDX-License-Identifier: Apache-2.0
// Generating and checking schedules of p = 64 ranks, v = 8 chunks and m = 512 microbatches: half a
// million actions and more.  The aim is 50 ms for both together, and time and memory linear in the
// number of actions.
#include <benchmark/benchmark.h>

#include "schedules/check.h"
#include "schedules/schedule.h"
#include "sim/check.h"

namespace stepcast {
namespace {

const char* const kFamilies[] = {"interleaved-1f1b",
                                 "looped-bfs",
                                 "interleaved-zero-bubble",
                                 "interleaved-1f1b-flex",
                                 "interleaved-1f1b-ep-overlap",
                                 "breadth-first",
                                 "group-interleaved",
                                 "hanayo"};

ScheduleParams large(int64_t microbatches) {
  return {64, 8, microbatches, 0};
}

int64_t actions_of(const Schedule& schedule) {
  int64_t actions = 0;
  for (const auto& rank : schedule.ranks) actions += static_cast<int64_t>(rank.size());
  return actions;
}

const ScheduleFamily& named(benchmark::State& state, int64_t index) {
  const char* name = kFamilies[index];
  state.SetLabel(name);
  const ScheduleFamily* family = find_schedule_family(name);
  STEPCAST_CHECK(family != nullptr, name);
  return *family;
}

void report(benchmark::State& state, const Schedule& schedule) {
  state.SetItemsProcessed(state.iterations() * actions_of(schedule));
  state.counters["actions"] = static_cast<double>(actions_of(schedule));
}

void generate(benchmark::State& state) {
  const ScheduleFamily& family = named(state, state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(generate_schedule(family, large(512)));
  report(state, generate_schedule(family, large(512)));
}
BENCHMARK(generate)->DenseRange(0, 7)->Unit(benchmark::kMillisecond);

void check(benchmark::State& state) {
  const Schedule schedule = generate_schedule(named(state, state.range(0)), large(512));
  for (auto _ : state) benchmark::DoNotOptimize(check_schedule(schedule));
  report(state, schedule);
}
BENCHMARK(check)->DenseRange(0, 7)->Unit(benchmark::kMillisecond);

// Linear in the number of actions: items per second stay the same.
void generate_and_check(benchmark::State& state) {
  const ScheduleFamily& family = named(state, state.range(0));
  const ScheduleParams params = large(state.range(1));
  for (auto _ : state) {
    const Schedule schedule = generate_schedule(family, params);
    STEPCAST_CHECK(check_schedule(schedule).empty(), "a family's schedule is wrong");
  }
  report(state, generate_schedule(family, params));
}
BENCHMARK(generate_and_check)
    ->ArgsProduct({{0, 1, 2}, {128, 256, 512, 1024}})
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace stepcast
