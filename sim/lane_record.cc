// SPDX-License-Identifier: Apache-2.0
#include "sim/lane_record.h"

#include <algorithm>

#include "sim/lanes.h"

namespace stepcast {

LaneRecord::LaneRecord(const OpGraph& graph) : inside_(graph.roles.size()) {
  timeline.roles.resize(graph.roles.size());
  timeline.rendezvous.resize(graph.rendezvous.size());
  for (size_t r = 0; r < graph.roles.size(); ++r) {
    timeline.roles[r].items.reserve(graph.roles[r].items.size());
  }
}

void LaneRecord::note_wait(uint32_t r, Spend spend, int64_t begin, int64_t end,
                           const StragglerWait& wait) {
  if (end <= begin) return;
  const int64_t straggler =
      std::max(int64_t{0}, std::min(end, wait.begin) - std::max(begin, wait.ready));
  note(r, Spend::straggler, straggler);
  note(r, spend, end - begin - straggler);
}

void LaneRecord::gap(uint32_t r, const Item& item, uint32_t index, int64_t begin, int64_t end,
                     Gap::Cause cause) {
  const Time from = to_time(begin);
  const Time until = to_time(end);
  if (from >= until) return;
  timeline.roles[r].gaps.push_back(
      {.begin = from,
       .end = until,
       .cause = cause,
       .only_sends = item.only_sends,
       .item = index,
       .id = item.kind == ItemKind::join ? static_cast<uint32_t>(item.rendezvous) : item.event});
}

void LaneRecord::event_wait(uint32_t r, const Item& item, uint32_t index, int64_t begin,
                            int64_t end, const StragglerWait& wait) {
  if (end <= begin) return;
  const int64_t from = std::clamp(wait.ready, begin, end);
  const int64_t until = std::clamp(wait.begin, from, end);
  gap(r, item, index, begin, from, Gap::Cause::event);
  gap(r, item, index, from, until, Gap::Cause::straggler);
  gap(r, item, index, until, end, Gap::Cause::event);
}

void LaneRecord::rendezvous_wait(uint32_t r, const Item& item, uint32_t index, int64_t begin,
                                 int64_t end, const StragglerWait& wait) {
  if (end <= begin) return;
  if (wait.ready < wait.begin && begin < wait.begin) {
    // For its own host first, then for another lane.
    const int64_t posted = std::max(begin, wait.ready);
    note(r, Spend::launch, (to_time(posted) - to_time(begin)).count() * kNominal);
    gap(r, item, index, posted, wait.begin, Gap::Cause::straggler);
    begin = wait.begin;
  }
  gap(r, item, index, begin, end, Gap::Cause::rendezvous);
}

void LaneRecord::item(uint32_t r, const Item& item, int64_t begin, int64_t end) {
  RoleTimeline& t = timeline.roles[r];
  t.items.push_back({to_time(begin), to_time(end)});
  if (item.kind != ItemKind::pass || !item.has_action) return;
  if (item.action.kind == ActionKind::forward) t.last_forward = to_time(end);
  const ActionKind last = item.has_second ? item.second.kind : item.action.kind;
  const bool backward = last == ActionKind::backward || last == ActionKind::backward_input;
  if (backward && t.first_backward == Time::max()) t.first_backward = to_time(begin);
}

void LaneRecord::finish_role(uint32_t r, int64_t compute_begin, int64_t compute_end, int64_t end,
                             int64_t busy) {
  RoleTimeline& t = timeline.roles[r];
  t.compute_begin = to_time(compute_begin);
  t.compute_end = to_time(compute_end);
  t.end = to_time(end);
  Time rest = t.compute_end - Time{busy};
  for (const Gap& g : t.gaps) rest -= g.end - g.begin;
  const std::array<int64_t, kSpends>& exact = inside_[r];
  for (size_t s = 0; s < exact.size(); ++s) {
    t.inside[s] = to_time(exact[s]);
    rest -= t.inside[s];
  }
  t.inside[static_cast<size_t>(std::max_element(exact.begin(), exact.end()) - exact.begin())] +=
      rest;
}

}  // namespace stepcast
