// SPDX-License-Identifier: Apache-2.0
// Schedules against each other in whole steps of a scenario: what schedule: auto takes in the end.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "schedules/schedule.h"

namespace stepcast {

// What the step takes with a schedule, by the same path as a forecast of it.
struct StepOutcome {
  Time time{};   // makespan; the span with post-validation
  Bytes peak{};  // most that any rank allocates
};

// std::nullopt if the schedule cannot be run: its transfers do not go with the scenario's style, or
// it deadlocks with them.
std::optional<StepOutcome> step_outcome(const Scenario& scenario, const CostTable* table,
                                        const Schedule& schedule);

// By how much the step with this schedule is beyond the memory; 0 or less if it fits.  REQUIRES: it
// has a step_outcome().
Bytes beyond_memory(const Scenario& scenario, const Schedule& schedule);

// Whether a is better than b: faster, or as fast with less memory.
bool better(const StepOutcome& a, const StepOutcome& b);

// The families that have a list for these sizes with this placement, each with its own name, in
// the order of schedule_families(); `prices` are parameters by key, taken by those that know them.
// Left out: two replicas of the model, microbatches in pieces
// (other actions than the scenario's), and families that search for long on their own.
std::vector<Schedule> families_with(const ScheduleParams& sizes,
                                    const std::vector<uint16_t>& rank_of_stage,
                                    const std::map<std::string, std::string, std::less<>>& prices);

}  // namespace stepcast
