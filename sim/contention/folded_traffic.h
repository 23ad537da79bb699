// SPDX-License-Identifier: Apache-2.0
// Ranks whose transfers load alike links that are loaded alike, merged to one; and the groups of
// lanes that the contention engine works with.  Internal to it; folded_traffic.cc has the proof.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
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

// A pattern as one group of one role uses it.
struct GroupFlow {
  Axis axis = Axis::none;
  uint32_t role = 0, group = 0, pattern = 0;
  uint64_t works = 0;  // which ones, hashed
  auto operator<=>(const GroupFlow&) const = default;
};

struct FoldedTraffic {
  FoldedLanes lanes;
  Traffic traffic;  // its patterns are the kinds of flows
  AxisGroups groups;
  std::vector<std::pair<uint32_t, uint32_t>> flows;  // pattern as given, kind: of each group's
};

// A flow of a kind while it ran, in the times of the engine.
struct FlowSpan {
  uint32_t kind = 0;
  int64_t begin = 0, end = 0;
  int64_t cap = 0;  // the most that it could do at any moment, bytes per second
};

class TrafficFolder {
 public:
  // REQUIRES: all outlive this.
  TrafficFolder(const OpGraph& graph, const LaneSet& lanes, const Traffic& traffic);

  // As if the links that are not counted (at first those like few others) were never full.  Nothing
  // where no two lanes are known to be equal, or with jitter.  O(uses of links by all groups, a few
  // times).
  std::optional<FoldedTraffic> fold() const;
  // Counts the links that could have held a flow back when the step of `folded` ran so, and those
  // like them.  False if there were none: then the step is that of all links.
  bool count_full_links(const FoldedTraffic& folded, const std::vector<FlowSpan>& flows);
  void count_all() { counted_.assign(counted_.size(), true); }

 private:
  const OpGraph& graph_;
  const LaneSet& lanes_;
  const Traffic& traffic_;
  AxisGroups groups_;
  std::vector<GroupFlow> flows_;
  std::vector<uint32_t> likeness_;  // of each link: equal where works load them alike
  std::vector<bool> counted_;       // by link
};

}  // namespace stepcast::contention
