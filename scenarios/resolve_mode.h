// SPDX-License-Identifier: Apache-2.0
// `mode` and what belongs to steps that only run forward: formats of stored weights and caches.
#pragma once

#include "scenarios/resolve_schedule.h"

namespace stepcast {

// What the step does, and that decode steps are captured as graphs; before the rest is resolved.
void resolve_mode(const PlanInputs& in, Plan& plan);

// Formats of weights and cache, and what has no meaning without a backward: adds E127 and E130.
// After everything else of the plan.
void check_mode(const PlanInputs& in, Plan& plan);

// The forwards of a schedule, if the step does not train.  Adds E127.
void strip_schedule(const PlanInputs& in, const Plan& plan, ResolvedSchedule& schedule);

// "prefill" or "decode": what stands in place of the schedule's title.
std::string mode_title(const Plan& plan);

}  // namespace stepcast
