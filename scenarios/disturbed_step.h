// SPDX-License-Identifier: Apache-2.0
// The step of a scenario whose ranks differ: every rank a lane of the engine.
#pragma once

#include <cstdint>

#include "scenarios/scenario.h"
#include "sim/account.h"
#include "sim/lanes.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/result.h"

namespace stepcast {

// Whether anything sets ranks apart.
bool is_disturbed(const Scenario& scenario);

// The step with what is drawn drawn from `seed`.  REQUIRES: graph and prices are those of the
// scenario.  Throws Deadlock, and InputError E123 for a step of more than 19 minutes.
LaneResult run_ranks(const Scenario& scenario, const OpGraph& graph, const Prices& prices,
                     const LaneSet& lanes, const LaneOptions& options);

// What `ranks`, a run of `lanes`, has to say against the undisturbed step.  `undisturbed` is the
// account of that; `now` and `before` are what a step costs.
Disturbance compare_with_equal_ranks(const Scenario& scenario, const OpGraph& graph,
                                     const LaneSet& lanes, const LaneResult& ranks,
                                     const Account& undisturbed, Time now, Time before);

// Waits for other stages that the undisturbed step does not have are the stragglers' fault.  Moves
// time from warmup, imbalance and drain; sums stay.  REQUIRES: equal roles.
void book_stragglers(Account& account, const Account& undisturbed);

}  // namespace stepcast
