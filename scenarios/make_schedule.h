// SPDX-License-Identifier: Apache-2.0
// Schedules that depend on what the stages cost: the prices of a scenario's passes go into a
// cost-driven family, or into the synthesis of an order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/cost_table.h"
#include "scenarios/scenario.h"
#include "schedules/order_timing.h"
#include "schedules/schedule.h"
#include "sim/result.h"

namespace stepcast {

// Every rank runs all its forwards, stage by stage, then all its backwards the other way round: an
// order that can run with any placement.
Schedule all_forwards_then_backwards(std::vector<uint16_t> rank_of_stage, int64_t pp,
                                     int64_t microbatches, bool split_backward = false);

// What the actions of each stage take and hold (a whole backward need not take the sum of I and W:
// collectives hide behind weight gradients), from one microbatch of the scenario that is lowered,
// priced and run with whole backwards and with I and W; for each rank what its GPU has left for
// activations beside the memory that is held throughout and the workspace of a pass (memory_limit).
PipelineCosts stage_costs(const Scenario& scenario, const CostTable* table);

struct MadeSchedule {
  Schedule schedule;
  std::optional<SynthesisFacts> synthesis;
  std::vector<std::string> warnings;
};

// REQUIRES: scenario.to_make.  `auto` is the best in whole steps of what synthesis finds and of
// every family with the placement (families_with()): never slower than one of them that fits.
// Throws InputError if no order can be made.
MadeSchedule make_schedule(const Scenario& scenario, const CostTable* table);

// The schedule that the scenario runs: its own, or the one made for it with the shipped cost table.
Schedule schedule_of(const Scenario& scenario);

}  // namespace stepcast
