// SPDX-License-Identifier: Apache-2.0
// Collectives on a vector of lanes.
//
// With tp = 2 and dp = 3 the lanes of a role are, tp innermost,
//
//     (tp, dp)   (0,0) (1,0) | (0,1) (1,1) | (0,2) (1,2)
//
// A collective of tp joins neighbours: the vector is an array of 3 x 2 x 1, and the middle index is
// the one over which the maximum is taken.  One of dp joins every second lane: 1 x 3 x 2.  An axis
// that covers several digits has such a shape for each of them, and takes the maximum over one
// after the other.
//
// After the maximum all lanes of a group have the same time, and the price is added.  If all groups
// cost the same, that is one number.  If some have slow links, each lane has the class of its
// group, and prices[class] is added.  If links slow down for a while (windows), only groups that
// such a window can touch are taken one by one: bounds of the clock tell when there are none.

#include "sim/lanes/lane_groups.h"

#include <algorithm>
#include <map>

#include "sim/check.h"
#include "sim/lanes/lane_kernels.h"
#include "sim/lanes/lane_program.h"

namespace stepcast {
namespace kernels = lane_kernels;

void check_limit(LaneClock& clock) {
  if (clock.hi < kLongestLaneTime) return;
  clock.hi = kernels::largest(clock.t.data(), std::ssize(clock.t));
  if (clock.hi >= kLongestLaneTime) throw_step_too_long();
}

LaneGroups::LaneGroups(const OpGraph& graph, const Prices& prices, const LaneSet& lanes)
    : lanes_(lanes), n_(lanes.lanes()) {
  for (size_t axis = 0; axis < shapes_.size(); ++axis) {
    int64_t inner = 1;
    for (const LaneDigit& d : lanes.digits) {
      const bool joined = covers(static_cast<Axis>(axis), d) && d.size > 1;
      if (joined) shapes_[axis].push_back({n_ / (inner * d.size), d.size, inner});
      inner *= d.size;
    }
    by_role_ = by_role_ || !lanes.group_class[axis].empty();
  }
  const auto add_prices = [&](const auto& ps_of, size_t count) {
    STEPCAST_CHECK(count == graph.works.size(), "one price for each work and class");
    std::vector<int64_t>& fixed = price_.emplace_back();
    for (size_t i = 0; i < count; ++i) {
      const int64_t ps = ps_of(i);
      if (ps >= kLongestLaneTime >> kLaneFractionBits) throw_step_too_long();
      fixed.push_back(ps << kLaneFractionBits);
    }
  };
  add_prices([&](size_t i) { return prices.by_work[i].time.count(); }, prices.by_work.size());
  for (const std::vector<int64_t>& ps : lanes.class_ps) {
    add_prices([&](size_t i) { return ps[i]; }, ps.size());
  }
  find_link_windows(graph.roles.size());
}

void LaneGroups::find_link_windows(size_t roles) {
  for (size_t axis = 0; axis < windows_.size() && !lanes_.windows.empty(); ++axis) {
    const bool slows = std::ranges::any_of(lanes_.window_lists, [&](const auto& list) {
      return std::ranges::any_of(list, [&](const LaneWindow& w) {
        STEPCAST_CHECK(w.link_class[axis] < price_.size(), "a window names a class without prices");
        return w.link_class[axis] != 0;
      });
    });
    if (!slows) continue;
    by_role_ = true;
    for (uint32_t role = 0; role < roles; ++role)
      windows_[axis].push_back(link_windows(static_cast<Axis>(axis), role));
  }
}

// What one group sees is found once for all groups whose lanes have the same lists.
LaneGroups::LinkWindows LaneGroups::link_windows(Axis axis, uint32_t role) const {
  LinkWindows out;
  if (role >= lanes_.windows.size() || lanes_.windows[role].empty()) return out;
  std::vector<std::vector<uint32_t>> lists_of(static_cast<size_t>(n_));  // by first lane of a group
  for (int64_t lane = 0; lane < n_; ++lane) {
    auto& lists = lists_of[static_cast<size_t>(group_of(axis, lane))];
    const uint32_t list = lanes_.windows[role][static_cast<size_t>(lane)];
    const auto at = std::ranges::lower_bound(lists, list);
    if (at == lists.end() || *at != list) lists.insert(at, list);
  }
  std::map<std::vector<uint32_t>, uint32_t> known;
  for (int64_t lane = 0; lane < n_; ++lane) {
    const auto& lists = lists_of[static_cast<size_t>(group_of(axis, lane))];
    const auto [at, fresh] = known.try_emplace(lists, static_cast<uint32_t>(known.size()));
    out.of.push_back(at->second);
    if (!fresh) continue;
    std::vector<LaneSpan>& spans = out.lists.emplace_back();
    for (const uint32_t list : lists) {
      for (const LaneWindow& window : lanes_.window_lists[list]) {
        LaneSpan span = span_of(window, axis);
        if (span.link_class == 0) continue;
        span.slowness = kNominal;
        if (std::ranges::find(spans, span) == spans.end()) spans.push_back(span);
        out.first = std::min(out.first, span.from);
        out.last = std::max(out.last, span.until);
      }
    }
  }
  return out;
}

bool LaneGroups::joins(Axis axis) const {
  return !shapes_[static_cast<size_t>(axis)].empty() || by_role_;
}

const std::vector<uint8_t>& LaneGroups::given_classes(Axis axis, uint32_t role) const {
  static const std::vector<uint8_t> kNone;
  const auto& by_role = lanes_.group_class[static_cast<size_t>(axis)];
  return role < by_role.size() ? by_role[role] : kNone;
}

LaneGroups::Classes LaneGroups::classes(Axis axis, Roles roles) const {
  Classes out;
  for (const uint32_t role : roles) {
    const std::vector<uint8_t>& given = given_classes(axis, role);
    if (given.empty()) continue;
    const bool mixed =
        std::adjacent_find(given.begin(), given.end(), std::not_equal_to<>()) != given.end();
    if (mixed && !out.mixed) {
      out.mixed = true;
      out.by_lane.assign(static_cast<size_t>(n_), out.same);
    }
    if (!mixed) out.same = lanes_.joined(out.same, given.front());
    if (!out.mixed) continue;
    for (size_t i = 0; i < given.size(); ++i)
      out.by_lane[i] = lanes_.joined(out.by_lane[i], given[i]);
  }
  return out;
}

int64_t LaneGroups::group_of(Axis axis, int64_t lane) const {
  int64_t group = 0;
  int64_t stride = 1;
  for (const LaneDigit& d : lanes_.digits) {
    const int64_t digit = lane / stride % d.size;
    if (!covers(axis, d)) group += digit * stride;
    stride *= d.size;
  }
  return group;
}

std::vector<std::pair<int64_t, int64_t>> LaneGroups::ends_in_windows(
    const LaneClock& clock, Axis axis, Roles roles, const Classes& classes,
    std::span<const int64_t> prices) const {
  std::vector<std::pair<int64_t, int64_t>> ends;
  const auto& of_axis = windows_[static_cast<size_t>(axis)];
  const int64_t longest = *std::max_element(prices.begin(), prices.end());
  std::vector<const LinkWindows*> open;  // that can matter now
  for (const uint32_t role : roles) {
    if (role >= of_axis.size() || of_axis[role].of.empty()) continue;
    const LinkWindows& w = of_axis[role];
    if (clock.lo < w.last && clock.hi > w.first - longest) open.push_back(&w);
  }
  if (open.empty()) return ends;
  std::vector<LaneSpan> spans;
  for (size_t lane = 0; lane < clock.t.size(); ++lane) {
    spans.clear();
    for (const LinkWindows* w : open) {
      for (const LaneSpan& s : w->lists[w->of[lane]])
        if (clock.t[lane] < s.until && clock.t[lane] + longest > s.from) spans.push_back(s);
    }
    if (spans.empty()) continue;
    const uint8_t own = classes.mixed ? classes.by_lane[lane] : classes.same;
    ends.emplace_back(static_cast<int64_t>(lane),
                      end_of_communication(clock.t[lane], prices, own, spans, lanes_));
  }
  return ends;
}

void LaneGroups::synchronize(LaneClock& clock, Axis axis) const {
  for (const Shape& s : shapes_[static_cast<size_t>(axis)]) {
    kernels::group_max(clock.t.data(), s.outer, s.n, s.inner, 0);
  }
}

void LaneGroups::add_price(LaneClock& clock, const Work& work, WorkId id, Roles roles) const {
  const auto w = static_cast<size_t>(id);
  if (!by_role_) {
    kernels::add(clock.t.data(), n_, price_[0][w]);
    clock.lo += price_[0][w];
    clock.hi += price_[0][w];
    check_limit(clock);
    return;
  }
  const Classes of = classes(work.axis, roles);
  std::vector<int64_t> prices;
  for (const std::vector<int64_t>& p : price_) prices.push_back(p[w]);
  const auto ends = ends_in_windows(clock, work.axis, roles, of, prices);
  if (of.mixed) {
    kernels::add_by_class(clock.t.data(), of.by_lane.data(), prices.data(), n_);
  } else {
    kernels::add(clock.t.data(), n_, prices[of.same]);
  }
  for (const auto& [lane, end] : ends) clock.t[static_cast<size_t>(lane)] = end;
  clock.lo += *std::min_element(prices.begin(), prices.end());
  clock.hi += *std::max_element(prices.begin(), prices.end());
  check_limit(clock);
}

void LaneGroups::synchronize_and_add(LaneClock& clock, const LaneClock* other, int64_t delay,
                                     bool follows, const Work& work, WorkId id, Roles roles) const {
  const std::vector<Shape>& shapes = shapes_[static_cast<size_t>(work.axis)];
  if (other != nullptr) {
    clock.lo = std::max(clock.lo, other->lo + delay);
    clock.hi = std::max(clock.hi, other->hi + delay);
  }
  if (by_role_ || shapes.size() != 1) {
    if (other != nullptr) kernels::raise(clock.t.data(), other->t.data(), n_, delay);
    synchronize(clock, work.axis);
    add_price(clock, work, id, roles);
    return;
  }
  const Shape& s = shapes.front();
  const int64_t price = price_[0][static_cast<size_t>(id)];
  if (other != nullptr && follows) {
    clock.hi = other->hi + delay;
    kernels::set_group_max(clock.t.data(), other->t.data(), s.outer, s.n, s.inner, delay + price);
  } else if (other != nullptr) {
    kernels::raise_group_max(clock.t.data(), other->t.data(), s.outer, s.n, s.inner, delay, price);
  } else {
    kernels::group_max(clock.t.data(), s.outer, s.n, s.inner, price);
  }
  clock.lo += price;
  clock.hi += price;
  check_limit(clock);
}

}  // namespace stepcast
