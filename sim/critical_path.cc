// SPDX-License-Identifier: Apache-2.0
// The longest chain of a step, found backwards: a role's compute stream is followed until the
// stand-still that a rendezvous ended; from there the chain goes on with the role whose post came
// last, at the time of that post.
#include <algorithm>

#include "sim/account.h"

namespace stepcast {
namespace {

// The last stand-still at a join of role r, among its gaps before `count`, that ended no later than
// `t`.
const Gap* last_join_gap(const RoleTimeline& role, Time t) {
  auto it = std::upper_bound(role.gaps.begin(), role.gaps.end(), t,
                             [](Time x, const Gap& g) { return x < g.end; });
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
  Time t = timeline.makespan;
  while (t > Time{0}) {
    const Gap* gap = last_join_gap(timeline.roles[r], t);
    const Time from = gap == nullptr ? Time{0} : gap->end;
    if (t > from) path.push_back({PathSegment::Kind::role, r, RendezvousId{}, from, t});
    if (gap == nullptr) break;
    const RendezvousTime& met = timeline.rendezvous[gap->id];
    if (met.end > met.begin) {
      path.push_back({PathSegment::Kind::rendezvous, r, RendezvousId{gap->id}, met.begin, met.end});
    }
    r = met.last_role;
    t = met.begin;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace stepcast
