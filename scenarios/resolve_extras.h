// SPDX-License-Identifier: Apache-2.0
// The sections `measured` and `compare`: what a scenario is held against.
#pragma once

#include <string>
#include <vector>

#include "scenarios/field_values.h"
#include "scenarios/scenario.h"

namespace stepcast {

// The scenario's own figures first, then each variant; empty without the section.
std::vector<Measured> resolve_measured(FieldValues& values, Problems& problems);

// Fills `compare` and `compare_baseline` (the first case if none is named).
void resolve_compare(FieldValues& values, Problems& problems, Scenario& scenario);

}  // namespace stepcast
