// SPDX-License-Identifier: Apache-2.0
// A resolved scenario in lines: what `stepcast explain` lists, and what tells two apart.
#pragma once

#include <string>
#include <vector>

#include "model/transformer.h"
#include "scenarios/field_values.h"
#include "scenarios/scenario.h"
#include "scenarios/value.h"

namespace stepcast {

// Every value and where it comes from, in the order of the field table; the sizes of the model,
// which was `unpruned` before `prune`, where `model` stands.  REQUIRES: `s` has its model and plan.
std::vector<Setting> settings_of(const FieldValues& v, const Scenario& s,
                                 const Transformer& unpruned, const Problems& problems);

// 16 hex digits over all that the result depends on: not over names, and however it was written.
std::string hash_of(const FieldValues& v, const Scenario& s);

}  // namespace stepcast
