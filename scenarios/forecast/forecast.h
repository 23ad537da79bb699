// SPDX-License-Identifier: Apache-2.0
// The whole path in one call: scenario -> lower -> price -> run -> result.
//
// Equal ranks are simulated once (sim/engine/run.h); where they differ, each is a lane
// (sim/lanes/lanes.h), and timeline, account and critical path are those of the lane that ends
// last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/for_each_item.h"
#include "sim/results/result.h"

namespace stepcast {

class MadeLists;  // make_schedule.h

// A lane has a rank in each stage; each that is traced is simulated once more.
constexpr size_t kMostTracedLanes = 16;

struct ForecastOptions {
  bool what_if = true;         // re-simulate with each cost removed, where that is quick
  bool every_what_if = false;  // also where so many ranks differ that it takes long
  bool trace = false;          // record start and end of every op
  // Which ranks of the job are traced, ascending.  Empty: one of each stage; where ranks differ,
  // those in the lane of the rank that ends last.
  std::vector<int64_t> trace_ranks{};
  bool all_ranks = false;  // simulate each rank by itself, equal ones too
  Progress progress{};     // of replicas
  // Threads, this one among them, on which progress is called: each stage's memory is traced beside
  // the run.  The answer is the same for any number.
  int jobs = 1;
  MadeLists* lists = nullptr;            // kept from one forecast to the next; null: none are
  bool remark_on_older_software = true;  // if not, Result::older_software alone says it
};

// Throws InputError if the step cannot be simulated (a schedule that deadlocks, a model that is not
// supported yet).  REQUIRES: trace_ranks in the job, of at most kMostTracedLanes lanes.
Result forecast(const Scenario& scenario, const ForecastOptions& options = {});

// Result::utilization.mfu_full_attention of a training step that takes so long.
double training_mfu(const Scenario& scenario, Time step);

// What the step holds alone, which needs neither prices nor a run: everything else of the result
// but the summary is empty.  Nothing for a schedule that is made for its costs, and for steps that
// forecast() refuses as too large.  Throws InputError as forecast() does where a step cannot be
// written out.
std::optional<Result> forecast_memory(const Scenario& scenario);

}  // namespace stepcast
