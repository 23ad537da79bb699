// SPDX-License-Identifier: Apache-2.0
// A scenario down the whole path, for scenarios that nobody chose: what holds of every forecast.
#pragma once

#include "scenarios/scenario.h"
#include "sim/results/result.h"

namespace stepcast::fuzz {

// Whether the path takes well below a second.
bool is_small(const Scenario& scenario);

// Forecasts, with what-ifs and every report; the result.  Throws InternalError where the account
// does not add up, the critical path has holes, memory does not return, a figure is not finite or
// JSON is none; InputError if the scenario cannot be simulated.
Result check_whole_path(const Scenario& scenario);

}  // namespace stepcast::fuzz
