// SPDX-License-Identifier: Apache-2.0
// The longest chain of a step, found backwards: a role's compute stream is followed until the
// stand-still that a rendezvous ended; from there the chain goes on with the role whose post came
// last, at the time of that post.
#include <algorithm>

#include "sim/account.h"

namespace stepcast {
namespace {

// The last stand-still at a join of role r, before its item `item`, that ended no later than `t`.
// The bound on items keeps the walk going back in the order of causes where nothing takes time.
const Gap* last_join_gap(const RoleTimeline& role, uint32_t item, Time t) {
  // Gaps are in the order of items as well as of time.
  auto it = std::partition_point(role.gaps.begin(), role.gaps.end(),
                                 [&](const Gap& g) { return g.end <= t && g.item < item; });
  while (it != role.gaps.begin()) {
    --it;
    if (it->cause == Gap::Cause::rendezvous) return &*it;
  }
  return nullptr;
}

uint32_t last_to_end(const Timeline& timeline) {
  uint32_t last = 0;
  for (uint32_t r = 0; r < timeline.roles.size(); ++r) {
    if (timeline.roles[r].end > timeline.roles[last].end) last = r;
  }
  return last;
}

}  // namespace

std::vector<PathSegment> critical_path(const Program&, const Timeline& timeline) {
  std::vector<PathSegment> path;
  if (timeline.roles.empty()) return path;
  uint32_t r = last_to_end(timeline);
  uint32_t item = UINT32_MAX;
  Time t = timeline.makespan;
  while (t > Time{0}) {
    const Gap* gap = last_join_gap(timeline.roles[r], item, t);
    const Time from = gap == nullptr ? Time{0} : gap->end;
    if (t > from) path.push_back({PathSegment::Kind::role, r, RendezvousId{}, from, t});
    if (gap == nullptr) break;
    const RendezvousTime& met = timeline.rendezvous[gap->id];
    if (met.end > met.begin) {
      path.push_back({PathSegment::Kind::rendezvous, r, RendezvousId{gap->id}, met.begin, met.end});
    }
    r = met.last_role;
    item = met.last_item;
    t = met.begin;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace stepcast
