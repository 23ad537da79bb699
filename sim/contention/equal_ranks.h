// SPDX-License-Identifier: Apache-2.0
// Internal to the contention engine: equal ranks whose compute and communication slow each other,
// on links of their own, where one rank of each role stands for all.
#pragma once

#include "sim/contention/contention.h"
#include "sim/lanes/lane_speeds.h"

namespace stepcast::contention {

// All ranks are one lane as priced: no speeds, classes, windows or jitter.
bool are_equal(const FoldedLanes& folded);

// What run_contended() says of ranks that were folded to one lane.  All roles are recorded with
// `record`.  REQUIRES: are_equal(folded); private traffic; factors from 1 to 1024 in 1/4096.
// Throws as run_contended().
ContentionResult run_equal_ranks(const OpGraph& graph, const Prices& prices,
                                 const FoldedLanes& folded, int64_t slow_compute,
                                 int64_t slow_communication, bool merge, bool record);

}  // namespace stepcast::contention
