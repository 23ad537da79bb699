// SPDX-License-Identifier: Apache-2.0
// The whole path in one call: scenario -> lower -> price -> run -> result.
#pragma once

#include <string>

#include "scenarios/scenario.h"
#include "sim/result.h"

namespace stepcast {

struct ForecastOptions {
  bool what_if = true;  // re-simulate with each cost removed
  bool trace = false;   // record the start of every op
  std::string table;    // text of a cost table to use instead of the shipped one; empty = shipped
};

// Throws InputError if the step cannot be simulated (a schedule that deadlocks, a model that is not
// supported yet).
Result forecast(const Scenario& scenario, const ForecastOptions& options = {});

}  // namespace stepcast
