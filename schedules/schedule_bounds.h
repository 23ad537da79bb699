// SPDX-License-Identifier: Apache-2.0
// Times that no order of a pipeline goes below, its memory limits considered.
//
// For each rank: its work; before it, the way of a forward to the rank; the pause until the first
// gradient comes back that memory does not allow to fill with forwards; the pause after the last
// forward that the gradients and weight gradients in memory cannot fill; after it, the way of the
// last gradient back to stage 0.  And the memory times time that the microbatches occupy at least,
// over the limit.  Proofs stand beside the terms.
#pragma once

#include "schedules/order_timing.h"
#include "sim/units.h"

namespace stepcast {

struct ScheduleBounds {
  Time makespan{};
  Time span{};
};

// REQUIRES: as synthesize().  O(stages^2).
ScheduleBounds schedule_bounds(const PipelineCosts& costs, bool split_backward);

}  // namespace stepcast
