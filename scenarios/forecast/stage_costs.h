// SPDX-License-Identifier: Apache-2.0
// What the stages of a scenario cost: the input of schedules that are made for their costs.
#pragma once

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "schedules/synthesis/order_timing.h"

namespace stepcast {

// What the actions of each stage take and hold (a whole backward need not take the sum of I and W:
// collectives hide behind weight gradients), from one microbatch of the scenario that is lowered,
// priced and run with whole backwards and with I and W; for each rank what its GPU has left for
// activations beside the memory that is held throughout and the workspace of a pass (memory_limit).
// Of a step that does not train the backwards are 0.
PipelineCosts stage_costs(const Scenario& scenario, const CostTable* table);

}  // namespace stepcast
