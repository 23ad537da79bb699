// SPDX-License-Identifier: Apache-2.0
// lower: model + plan + schedule -> the op graph of one training step, one role for each pipeline
// rank.
//
// Roles are laid out as a framework of the Megatron family runs them: parameter gather (or what is
// left of it), the schedule with its pipeline transfers, gradient reduction, embedding-gradient
// all-reduce, gradient norm, optimizer.
#pragma once

#include "model/plan.h"
#include "model/transformer.h"
#include "schedules/schedule.h"
#include "sim/op_graph.h"

namespace stepcast {

// REQUIRES: check_schedule(schedule) is empty; schedule.pp, vpp and microbatches equal the plan's.
OpGraph lower(const Transformer& model, const Plan& plan, const Schedule& schedule);

// The schedule alone, with given costs: every forward of a chunk takes `forward`, B takes input +
// weight, a hop between ranks takes `hop` (latency, no occupancy).  Compute only; what `eval` of
// the vectors defines (docs/schedules.md).
struct UnitCosts {
  Time forward{}, backward_input{}, backward_weight{}, hop{};
  int64_t slow_rank = -1;  // every action on this pipeline rank ...
  double slow_factor = 1;  // ... takes that many times as long
};
OpGraph lower_unit(const Schedule& schedule, const UnitCosts& costs,
                   std::vector<Time>& durations_by_work);

}  // namespace stepcast
