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
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/memory/caching_allocator.h"
#include "sim/units.h"

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
// The peak of each role alone.
std::vector<Bytes> peak_memory(const OpGraph& graph);

// Of one pass: what it leaves allocated, and how far it rises above its begin on the way.
struct PassBytes {
  Bytes left{}, rise{};
};
PassBytes bytes_of(const OpGraph& graph, const Pass& pass);

// Peak of reserved bytes of one role, by running its allocations through the caching allocator of a
// device with that much room; at least its peak of allocated bytes.  More than there is room for:
// the role runs out of memory.  Where the role's list repeats itself (repetition.h) and the
// allocator has come back to a state that it was in, what follows is not played again: the peak is
// the same.  O(allocations of the passes that are played * log).  For tests; forecasts ask
// ReservedTraces.
Bytes trace_reserved(const OpGraph& graph, uint32_t role, Bytes room,
                     Segments segments = Segments::fixed);
// The same, every pass played.  For tests, which compare the two.
Bytes trace_reserved_in_full(const OpGraph& graph, uint32_t role, Bytes room,
                             Segments segments = Segments::fixed);

// The same of several roles, or in several rooms: what the passes ask for is found once.
struct PassScripts;
class ReservedTraces {
 public:
  // The graph must outlive this.
  explicit ReservedTraces(const OpGraph& graph);
  ~ReservedTraces();

  struct Reserved {
    Bytes peak{};              // trace_reserved()
    bool lacked_room = false;  // if not, a device of any room from `peak` on gives the same
  };
  Reserved trace(uint32_t role, Bytes room, Segments segments) const;
  // Whether trace_reserved() is at most the room.  Ends as soon as it is not.
  bool fits(uint32_t role, Bytes room, Segments segments) const;
  // Whether two roles hold the same all the time and ask for the same, one after the other, so that
  // the same is reserved for both.  O(items).
  bool alike(uint32_t a, uint32_t b) const;

 private:
  const OpGraph& graph_;
  std::unique_ptr<const PassScripts> scripts_;
  std::vector<uint64_t> check_sums_;  // of the passes of each role
};

// Which tensors hold how much of the role's peak (static memory apart), largest first.
std::vector<std::pair<LabelId, Bytes>> peak_by_label(const OpGraph& graph, uint32_t role,
                                                     const RoleMemory& memory);

}  // namespace stepcast
