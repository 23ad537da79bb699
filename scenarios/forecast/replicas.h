// SPDX-License-Identifier: Apache-2.0
// The same step under several seeds.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "scenarios/forecast/rank_run.h"
#include "sim/lanes/lanes.h"
#include "sim/result.h"

namespace stepcast {

// Called after each run with how many are done of how many.
using Progress = std::function<void(int64_t done, int64_t total)>;

// Runs scenario.replicas steps with seeds scenario.seed, + 1, ...; `step` says what a step costs,
// the makespan or the span.  REQUIRES and errors: as run_ranks.
ReplicaTimes run_replicas(const StepInputs& in, Time LaneResult::*step, const Progress& progress);

// Mean (rounded down) and percentiles by nearest rank: the smallest time that p % of the times do
// not exceed.  REQUIRES: at least one.
ReplicaTimes summary_of(std::vector<Time> times);

}  // namespace stepcast
