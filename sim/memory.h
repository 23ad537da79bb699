// SPDX-License-Identifier: Apache-2.0
// Memory of every role over the step.
//
// Tensors are allocated and freed in program order, as PyTorch's host does, so peaks do not depend
// on times.  What an op on Stream::copy frees is one exception: the copy runs beside the passes
// that follow, so it counts until the next pass that computes has ended.
//
//   allocated  what the framework asked for, by category
//   reserved   what PyTorch's caching allocator holds for it (caching_allocator.h)
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sim/op_graph.h"

namespace stepcast {

using MemoryTable = std::array<Bytes, kMemoryCategories>;

struct MemoryPoint {
  uint32_t item = 0;  // after this item of the role ...
  Bytes allocated{};  // ... that much was allocated
};

struct RoleMemory {
  Bytes peak{};            // allocated, all categories
  MemoryTable at_peak{};   // sums to `peak`
  uint32_t peak_item = 0;  // where: item of the role, op of its pass
  uint32_t peak_op = 0;
  Bytes start{}, end{};    // allocated before the first and after the last item; equal
  int peak_in_flight = 0;  // largest number of (stage, microbatch) whose activations were held
  std::vector<MemoryPoint> curve;  // after each pass item
};

// O(items + memory events of the passes).
std::vector<RoleMemory> trace_memory(const OpGraph& graph);

// Peak of reserved bytes of one role, by running its allocations through the caching allocator of a
// device with so much room; at least its peak of allocated bytes.  More than there is room for: the
// role runs out of memory.  O(allocations of the role * log).
Bytes trace_reserved(const OpGraph& graph, uint32_t role, Bytes room);

// What of the role's peak is held by which tensors (static memory apart), largest first.
std::vector<std::pair<LabelId, Bytes>> peak_by_label(const OpGraph& graph, uint32_t role,
                                                     const RoleMemory& memory);

}  // namespace stepcast
