// SPDX-License-Identifier: Apache-2.0
// The step of a scenario whose ranks differ: every rank a lane of the engine.
#pragma once

#include <cstdint>

#include "calibrate/cost_table.h"
#include "scenarios/scenario.h"
#include "sim/account.h"
#include "sim/contention.h"
#include "sim/lanes.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/result.h"

namespace stepcast {

// Whether anything sets ranks apart or lets them get in each other's way.
bool is_disturbed(const Scenario& scenario);

// What a step is run from.  Nothing is owned.
struct StepInputs {
  const Scenario& scenario;
  const OpGraph& graph;
  const Prices& prices;
  const CostTable* table = nullptr;
};

// The step rank by rank: what is drawn is drawn from `seed`, ways through the fabric too.
// REQUIRES: graph and prices are those of the scenario.  Throws Deadlock, and InputError: E123 for
// a step of more than 19 minutes, E127 if interference is on and was not measured.
struct RankRun {
  LaneSet lanes;
  ContentionResult ranks;  // with contention, the timeline is that of the same step without it
  bool shared_links = false, interference = false;
};
RankRun run_ranks(const StepInputs& in, uint64_t seed, const LaneOptions& options);

// What a run has to say against the undisturbed step.  `undisturbed` is the account of that; `now`
// and `before` are what a step costs.
Disturbance compare_with_equal_ranks(const StepInputs& in, const RankRun& run,
                                     const Account& undisturbed, Time now, Time before);

// Waits for other stages that the undisturbed step does not have are the stragglers' fault.  Moves
// time from warmup, imbalance and drain; sums stay.  REQUIRES: equal roles.
void book_stragglers(Account& account, const Account& undisturbed);

}  // namespace stepcast
