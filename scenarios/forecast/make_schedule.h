// SPDX-License-Identifier: Apache-2.0
// Schedules that depend on what the stages cost: the prices of a scenario's passes go into a
// cost-driven family, or into the synthesis of an order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "schedules/schedule.h"
#include "sim/result.h"

namespace stepcast {

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
