// SPDX-License-Identifier: Apache-2.0
// Whether compute and communication of a step slow each other down (`contention.interference`).
//
// They do where the cost table of the GPU has measured factors.  `auto`, the default, leaves it out
// of steps that are too long to be counted in fractions of picoseconds, and where ranks differ or
// share links and every op of all of them would be an event: where that takes more than some
// seconds (forecast.cc).
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "sim/contention/contention.h"
#include "sim/units.h"

namespace stepcast {

// Ranks differ, or their transfers share links.
bool is_perturbed(const Scenario& scenario);

// Whether interference is left out where it takes long: it is `auto`, and ranks differ or share
// links for certain.
bool may_leave_out_interference(const Scenario& scenario);

struct InterferenceChoice {
  std::optional<Interference> factors;  // of the run; nothing: none
  std::string left_out;  // a remark on why `auto` leaves out what was measured; empty: it does not
};

// The remark that `auto` leaves it out, `why`.
std::string interference_left_out(std::string_view why);

// `undisturbed`: what equal ranks take without.  Throws InputError E127 if interference is on and
// was not measured.
InterferenceChoice choose_interference(const Scenario& scenario, const CostTable* table,
                                       Time undisturbed);

}  // namespace stepcast
