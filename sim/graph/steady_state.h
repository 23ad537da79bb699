// SPDX-License-Identifier: Apache-2.0
// Where all roles of a step do again and again what they have done before, for later microbatches.
//
// 1F1B on two ranks with six microbatches, transfers left out:
//
//     role 0   F0 F1 B0   F2 B1  F3 B2  F4 B3  F5 B4   B5
//     role 1   F0 B0  F1 B1  F2 B2  F3 B3  F4 B4  F5 B5
//
// From F1 on role 0 repeats two passes, and role 1 does from the first: both windows have the
// length 2, and what joins the roles in one period joins them alike, one microbatch later, in the
// next.  Interleaved schedules of pp ranks repeat with pp microbatches.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "sim/graph/op_graph.h"

namespace stepcast {

struct SteadyState {
  static constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

  // Items of a role: from begin to end - length - 1 each is done again `length` items later.
  struct Window {
    uint32_t begin = 0, end = 0;
    uint32_t length = 0;
  };
  std::vector<Window> roles;

  // By rendezvous: what it is one period later, and which one it was a period before.  kNone: none.
  std::vector<uint32_t> later, earlier;
};

// Windows hold no joins for which the host waits; none is shorter than three periods.  Events are
// those of the same place in the period.  Nothing if there are none such.  O(items).
std::optional<SteadyState> find_steady_state(const OpGraph& graph);

}  // namespace stepcast
