// SPDX-License-Identifier: Apache-2.0
// Which lanes communicate with which, and over what links.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "scenarios/forecast/disturbed_ranks.h"
#include "sim/graph/op_graph.h"
#include "sim/lanes/lanes.h"

namespace stepcast {

// Groups along an axis: of a collective of a pass, within one role; of a rendezvous, over several.
struct Meeting {
  Axis axis = Axis::none;
  std::vector<uint32_t> roles;  // ascending
  auto operator<=>(const Meeting&) const = default;
};

// Those that the graph has, each once.
std::vector<Meeting> meetings_of(const OpGraph& graph);

// [lane]: the first lane of its group along the axis, which holds the lanes that differ only in the
// digits it covers.
std::vector<int64_t> first_of_group(const std::vector<LaneDigit>& digits, Axis axis);

// [axis][role][lane]: over what the lane meets others along the axis; empty: it never does.
using LinksUsedByLane = std::array<std::vector<std::vector<LinksUsed>>, kAxes>;

// `node_of`[role][lane].
LinksUsedByLane link_uses(const std::vector<Meeting>& meetings,
                          const std::vector<LaneDigit>& digits,
                          const std::vector<std::vector<int64_t>>& node_of);

}  // namespace stepcast
