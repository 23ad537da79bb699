// SPDX-License-Identifier: Apache-2.0
// Whether a step fits: what its fullest rank reserves.
#pragma once

#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/memory/memory.h"

namespace stepcast {

struct StepMemory {
  uint32_t peak_role = 0;      // the rank that allocates most
  Bytes peak{};                // by it
  uint32_t reserved_role = 0;  // the rank that reserves most: the gaps of the caching allocator
  Bytes reserved{};            // count too
};

// On a device with so much room: it does not fit if more is reserved.  REQUIRES: memory =
// trace_memory(graph), one role at least.
StepMemory step_memory(const OpGraph& graph, const std::vector<RoleMemory>& memory, Bytes room);

}  // namespace stepcast
