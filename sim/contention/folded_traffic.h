// SPDX-License-Identifier: Apache-2.0
// Ranks whose transfers load alike links that are loaded alike, merged to one; and the groups of
// lanes that the contention engine works with.  Internal to it; folded_traffic.cc has the proof.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/contention/contention.h"
#include "sim/graph/op_graph.h"
#include "sim/lanes/lane_speeds.h"

namespace stepcast::contention {

// The lanes of one axis: groups of lanes that differ in its digits only.
struct Groups {
  std::vector<uint32_t> of;          // lane -> group
  std::vector<uint32_t> lanes;       // by group, ascending
  std::vector<uint32_t> first;       // of each group in `lanes`; one more at the end
  std::vector<uint32_t> stands_for;  // by group: so many of those given
  uint32_t largest = 1;              // lanes in a group at most

  uint32_t count() const { return static_cast<uint32_t>(stands_for.size()); }
  std::span<const uint32_t> lanes_of(uint32_t group) const {
    return std::span(lanes).subspan(first[group], first[group + 1] - first[group]);
  }
};
using AxisGroups = std::array<Groups, kAxes>;
AxisGroups groups_of_axes(const LaneSet& lanes);

struct FoldedTraffic {
  FoldedLanes lanes;
  Traffic traffic;
  AxisGroups groups;
};

// Nothing where no two lanes are known to be equal, or with jitter.  O(uses of links by all groups,
// a few times).
std::optional<FoldedTraffic> fold_traffic(const OpGraph& graph, const LaneSet& lanes,
                                          const Traffic& traffic);

}  // namespace stepcast::contention
