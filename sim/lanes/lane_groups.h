// SPDX-License-Identifier: Apache-2.0
// Which lanes communicate with which, and how long that takes: the axes of a LaneSet as shapes of
// the lane vector, prices by class, and groups that windows touch.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/lanes/lane_speeds.h"
#include "sim/lanes/lanes.h"

namespace stepcast {

// The times of a vector of lanes, in 1/4096 ps, and bounds on them that cost nothing to keep: they
// tell where a maximum with the host's time can be left out.
struct LaneClock {
  std::vector<int64_t> t;
  int64_t lo = 0, hi = 0;
};

class LaneGroups {
 public:
  // Roles whose lanes an op joins: one for a collective of a pass, several for a rendezvous.
  using Roles = std::span<const uint32_t>;

  LaneGroups(const OpGraph& graph, const Prices& prices, const LaneSet& lanes);

  // Must a collective of the axis be priced or joined lane by lane?
  bool joins(Axis axis) const;
  // Do roles matter to prices at all?
  bool by_role() const { return by_role_; }

  // All lanes of a group get the latest time of it.
  void synchronize(LaneClock& clock, Axis axis) const;
  // From begin to end: adds the price of `work` on each lane's group.
  void add_price(LaneClock& clock, const Work& work, WorkId id, Roles roles) const;
  // synchronize and add_price of lanes that wait for `other` before; nullptr: they do not.
  // `follows`: the clock is no later than `other`.
  void synchronize_and_add(LaneClock& clock, const LaneClock* other, int64_t delay, bool follows,
                           const Work& work, WorkId id, Roles roles) const;
  int64_t nominal(WorkId id) const { return price_[0][static_cast<size_t>(id)]; }

 private:
  // The lanes as an array of outer x n x inner, of which those of one (outer, inner) are joined.
  struct Shape {
    int64_t outer = 1, n = 1, inner = 1;
  };
  // Windows on the links of the lanes of a role, each with its whole group.
  struct LinkWindows {
    int64_t first = INT64_MAX, last = 0;  // nothing changes before and after
    std::vector<std::vector<LaneSpan>> lists;
    std::vector<uint32_t> of;  // [lane]: the list of its group; empty: no windows
  };
  struct Classes {
    bool mixed = false;
    uint8_t same = 0;                // if not mixed
    std::vector<uint8_t> by_lane{};  // if mixed
  };

  const std::vector<uint8_t>& given_classes(Axis axis, uint32_t role) const;
  Classes classes(Axis axis, Roles roles) const;
  void find_link_windows(size_t roles);
  LinkWindows link_windows(Axis axis, uint32_t role) const;
  // Ends of lanes whose groups change class meanwhile.  REQUIRES: the clock stands at the begin.
  std::vector<std::pair<int64_t, int64_t>> ends_in_windows(const LaneClock& clock, Axis axis,
                                                           Roles roles, const Classes& classes,
                                                           std::span<const int64_t> prices) const;
  int64_t group_of(Axis axis, int64_t lane) const;

  const LaneSet& lanes_;
  int64_t n_ = 1;
  bool by_role_ = false;
  std::array<std::vector<Shape>, kAxes> shapes_;
  std::vector<std::vector<int64_t>> price_;              // [class][work]
  std::array<std::vector<LinkWindows>, kAxes> windows_;  // [axis][role]; empty: none
};

// Throws if a time is beyond what lanes count; sharpens a bound that merely seems so.
void check_limit(LaneClock& clock);

}  // namespace stepcast
