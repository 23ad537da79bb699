// SPDX-License-Identifier: Apache-2.0
// The whole path in one call: scenario -> lower -> price -> run -> result.
//
// Equal ranks are simulated once (run.h); where they differ, each is a lane (lanes.h), and
// timeline, account and critical path are those of the lane that ends last.
#pragma once

#include <string>

#include "scenarios/replicas.h"
#include "scenarios/scenario.h"
#include "sim/result.h"

namespace stepcast {

struct ForecastOptions {
  bool what_if = true;  // re-simulate with each cost removed
  bool trace = false;   // record the start of every op
  std::string table;    // text of a cost table to use instead of the shipped one; empty = shipped
  bool all_ranks = false;  // simulate each rank by itself, equal ones too
  Progress progress;       // of replicas
};

// Throws InputError if the step cannot be simulated (a schedule that deadlocks, a model that is not
// supported yet, a trace of ranks that differ).
Result forecast(const Scenario& scenario, const ForecastOptions& options = {});

}  // namespace stepcast
