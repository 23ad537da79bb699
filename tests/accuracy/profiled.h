// SPDX-License-Identifier: Apache-2.0
// Steps from measured stage times: what is left for the order of actions to get wrong.
#pragma once

#include <optional>

#include "scenarios/document/value.h"

namespace stepcast::accuracy {

// Seconds of a step of a record's schedule with its `profiled_ms`: T_F, T_B (input gradient), T_W
// and T_comm, of a stage and microbatch; the chunks of a rank share them.  The step is the makespan
// of order_timing.h.  nullopt if there are none, or the schedule is no family's or does not fit the
// sizes.
std::optional<double> profiled_step_s(const Value& record);

}  // namespace stepcast::accuracy
