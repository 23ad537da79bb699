// SPDX-License-Identifier: Apache-2.0
// moe.routing.trace: how many tokens each expert got in a run, as a CSV file.
#pragma once

#include "scenarios/files.h"
#include "scenarios/resolve_plan.h"

namespace stepcast {

// Lines of counts, one column an expert (a line for each step or layer, say), or one count a line,
// a line an expert; '#' begins a remark.  What all lines count together becomes Routing::shares.
// Does nothing without the key or a model with experts.  Adds E101, E111 for the file, E125, E127
// for what is in it.
void resolve_routing_trace(const PlanInputs& in, ScenarioFiles& files, Plan& plan);

}  // namespace stepcast
