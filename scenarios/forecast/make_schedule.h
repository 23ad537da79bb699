// SPDX-License-Identifier: Apache-2.0
// Schedules that depend on what the stages cost: the prices of a scenario's passes go into a
// cost-driven family, or into the synthesis of an order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "schedules/schedule.h"
#include "sim/results/result.h"

namespace stepcast {

struct MadeSchedule {
  Schedule schedule;
  std::optional<SynthesisFacts> synthesis;
  std::vector<std::string> warnings;
};

// Lists of families that are made for costs, for scenarios that come to the same sizes and costs:
// by all that a family makes its list of.
class MadeLists {
 public:
  // As generate_schedule().
  Schedule of(const ScheduleFamily& family, const ScheduleParams& params);

 private:
  // The family, and its parameters.
  using Key = std::tuple<std::string_view, int64_t, int64_t, int64_t, int64_t,
                         decltype(ScheduleParams::more)>;
  std::map<Key, Schedule> kept_;
  size_t actions_ = 0;  // in them
};

// REQUIRES: scenario.to_make.  `auto` is the best in whole steps of what synthesis finds and of
// every family with the placement (families_with()): never slower than one of them that fits.
// Throws InputError if no order can be made.
// `lists` may be null: where the lists of a family are kept.
MadeSchedule make_schedule(const Scenario& scenario, const CostTable* table,
                           MadeLists* lists = nullptr);

// The schedule that the scenario runs: its own, or the one made for it with the shipped cost table.
Schedule schedule_of(const Scenario& scenario);

}  // namespace stepcast
