// SPDX-License-Identifier: Apache-2.0
// The exact shapes whose measurement makes the forecast of scenarios better.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calibrate/plan/plan_text.h"
#include "scenarios/scenario.h"

namespace stepcast {

struct CalibrationPlan {
  PlanText text;  // heaviest shape first, equal ones by their key
  // What no table prices, with its share of the steps (as weights): "exchange of experts' tokens in
  // two hops".  Heaviest first.
  std::vector<std::pair<std::string, double>> left_out;
};

// Works of one shape are one row, over all scenarios.  Weights are shares of what all ranks spend
// on works in a step, in the mean over its ranks; those of each scenario add up to 1 with what is
// left out.  Perturbations and contention play no part.  Throws InputError if the step of one
// cannot be priced, or if their GPUs differ (E127).  REQUIRES: at least one.
CalibrationPlan calibration_plan(std::span<const Scenario> scenarios);

}  // namespace stepcast
