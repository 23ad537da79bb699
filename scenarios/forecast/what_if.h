// SPDX-License-Identifier: Apache-2.0
// "If it were free": the step simulated again with one cost removed.  Never a subtraction, because
// what one cost hides another may uncover.
#pragma once

#include <functional>
#include <vector>

#include "sim/account/account.h"
#include "sim/graph/program.h"
#include "sim/result.h"

namespace stepcast {

// The variation in which every stage costs what the stages cost on average, forward and backward
// apart.
Variation level_stages(const OpGraph& graph, const Prices& prices);

// One answer for each line of `account` that an experiment can remove: communication of an axis,
// recomputation, the optimizer, launches; for stage imbalance every stage gets the mean cost of
// all, also where the account has none: it is of the slowest stage, which waits for nobody.
// `step` says what a step takes, `now` what it does without a variation.
std::vector<WhatIf> what_if(const OpGraph& graph, const Prices& prices, const SpendTable& account,
                            Time now, const std::function<Time(const Variation&)>& step);

}  // namespace stepcast
