// SPDX-License-Identifier: Apache-2.0
// Whether a step fits: what its fullest rank reserves.
#pragma once

#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/memory/memory.h"

namespace stepcast {

struct StepMemory {
  uint32_t role = 0;  // the rank that reserves most
  Bytes peak{};       // most that any rank allocates
  Bytes reserved{};   // ... with the gaps of the caching allocator
};

// On a device with so much room: it does not fit if more is reserved.  REQUIRES: memory =
// trace_memory(graph), one role at least.
StepMemory step_memory(const OpGraph& graph, const std::vector<RoleMemory>& memory, Bytes room);

}  // namespace stepcast
