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

}  // namespace stepcast
