// SPDX-License-Identifier: Apache-2.0
// A step whose ranks differ, or get in each other's way, against that of equal ranks.
#pragma once

#include <vector>

#include "scenarios/forecast/rank_run.h"
#include "scenarios/scenario.h"
#include "sim/account/account.h"
#include "sim/lanes/lanes.h"
#include "sim/result.h"

namespace stepcast {

// Whether anything sets ranks apart or lets them get in each other's way.
bool is_disturbed(const Scenario& scenario);

// What a step costs, makespan or span, as how ranks differ and contention are taken away.
struct StepTimes {
  Time now{};
  Time without_contention{};
  Time undisturbed{};  // of equal ranks
};
// `step`: what a step is.  Simulates the second only if it is none of the others.
StepTimes step_times(const StepInputs& in, Time LaneResult::*step, Time undisturbed, Time now);

// "If it were free", of the step without contention.
std::vector<WhatIf> what_if_of_ranks(const StepInputs& in, const SpendTable& account,
                                     Time LaneResult::*step, const StepTimes& times);

// What a run has to say against the undisturbed step.  `undisturbed` is the account of that; `now`
// and `before` are what a step costs.
Disturbance compare_with_equal_ranks(const StepInputs& in, const RankRun& run,
                                     const Account& undisturbed, Time now, Time before);

// Waits for other stages that the undisturbed step does not have are the fault of what disturbs it,
// `cause` (straggler, contention); so are, without stragglers, waits in a collective.  Moves time
// from fill, imbalance, drain and straggler; sums stay.
// REQUIRES: equal roles.
void book_longer_waits(Account& account, const Account& undisturbed, Spend cause);

}  // namespace stepcast
