// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/replicas.h"

#include <algorithm>

#include "sim/check.h"

namespace stepcast {

ReplicaTimes summary_of(std::vector<Time> times) {
  STEPCAST_CHECK(!times.empty(), "something to sum up");
  __extension__ using Wide = __int128;
  std::sort(times.begin(), times.end());
  const auto at = [&](size_t percent) {
    return times[std::max<size_t>(1, (times.size() * percent + 99) / 100) - 1];
  };
  Wide sum = 0;
  for (const Time t : times) sum += t.count();
  ReplicaTimes r;
  r.count = static_cast<int64_t>(times.size());
  r.mean = Time{static_cast<int64_t>(sum / static_cast<Wide>(times.size()))};
  r.min = times.front();
  r.p5 = at(5);
  r.p50 = at(50);
  r.p95 = at(95);
  r.max = times.back();
  return r;
}

ReplicaTimes run_replicas(const StepInputs& in, Time LaneResult::*step, const Progress& progress) {
  const Scenario& scenario = in.scenario;
  const StepParts parts = parts_of(in);
  std::vector<Time> times;
  for (int64_t i = 0; i < scenario.replicas; ++i) {
    const uint64_t seed = scenario.seed + static_cast<uint64_t>(i);
    times.push_back(run_ranks(in, parts, seed, {}).ranks.lanes.*step);
    if (progress) progress(i + 1, scenario.replicas);
  }
  ReplicaTimes r = summary_of(std::move(times));
  r.first_seed = scenario.seed;
  return r;
}

}  // namespace stepcast
