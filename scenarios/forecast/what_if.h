// SPDX-License-Identifier: Apache-2.0
// "If it were free": the step simulated again with one cost removed.  Never a subtraction, because
// what one cost hides another may uncover.
#pragma once

#include <functional>
#include <vector>

#include "scenarios/forecast/step.h"
#include "sim/account/account.h"
#include "sim/graph/program.h"
#include "sim/graph/spend.h"
#include "sim/results/result.h"

namespace stepcast {

// The variation in which every stage costs what the stages cost on average, forward and backward
// apart.  `program`: compile(step.graph, step.prices).
Variation level_stages(const PricedStep& step, const Program& program);

// One answer for each line of `account` that an experiment can remove: communication of an axis,
// recomputation, the optimizer, launches.  For stage imbalance every stage gets the mean cost of
// all; that is asked even where the account has no imbalance, for it may be that of the slowest
// stage, which waits for nobody, and answered then if something is saved.  Below 0: uneven stages
// suit the schedule.
// `time_of` says what the step takes under a variation, `now` what it does without one; `levelled`
// is level_stages() of it.
std::vector<WhatIf> what_if(const SpendTable& account, const Variation& levelled, Time now,
                            const std::function<Time(const Variation&)>& time_of);

}  // namespace stepcast
