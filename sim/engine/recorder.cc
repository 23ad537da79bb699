// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/recorder.h"

#include <algorithm>

#include "sim/lanes/lanes.h"

namespace stepcast {

LaneRecord::LaneRecord(const OpGraph& graph, bool ops) : inside_(graph.roles.size()) {
  timeline.roles.resize(graph.roles.size());
  timeline.rendezvous.resize(graph.rendezvous.size());
  for (size_t r = 0; r < graph.roles.size(); ++r) {
    timeline.roles[r].items.reserve(graph.roles[r].items.size());
    if (!ops) continue;
    std::vector<size_t>& first = first_op_.emplace_back();
    size_t count = 0;
    for (const Item& item : graph.roles[r].items) {
      first.push_back(count);
      if (item.kind == ItemKind::pass) {
        count += graph.passes[static_cast<size_t>(item.pass)].ops.size();
      }
    }
    timeline.roles[r].op_start.resize(count);
    timeline.roles[r].op_end.resize(count);
  }
}

void LaneRecord::op(uint32_t r, uint32_t item, uint32_t op, int64_t begin, int64_t end) {
  const size_t at = first_op_[r][item] + op;
  timeline.roles[r].op_start[at] = to_time(begin);
  timeline.roles[r].op_end[at] = to_time(end);
}

void LaneRecord::book_wait(uint32_t r, Spend spend, int64_t begin, int64_t end,
                           const StragglerWait& wait) {
  if (end <= begin) return;
  const auto common = [&](int64_t from, int64_t until) {
    return std::max(int64_t{0}, std::min(end, until) - std::max(begin, from));
  };
  const int64_t straggler = common(wait.ready, wait.begin);
  const int64_t contention = common(wait.alone_end, wait.end);
  book(r, Spend::straggler, straggler);
  book(r, Spend::contention, contention);
  book(r, spend, end - begin - straggler - contention);
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
  const int64_t alone = std::clamp(wait.alone_end, until, end);
  const int64_t contended = std::clamp(wait.end, alone, end);
  gap(r, item, index, begin, from, Gap::Cause::event);
  gap(r, item, index, from, until, Gap::Cause::straggler);
  gap(r, item, index, until, alone, Gap::Cause::event);
  gap(r, item, index, alone, contended, Gap::Cause::contention);
  gap(r, item, index, contended, end, Gap::Cause::event);
}

void LaneRecord::rendezvous_wait(uint32_t r, const Item& item, uint32_t index, int64_t begin,
                                 int64_t end, const StragglerWait& wait) {
  if (end <= begin) return;
  if (wait.ready < wait.begin && begin < wait.begin) {
    // For its own host first, then for another lane.
    const int64_t posted = std::max(begin, wait.ready);
    book(r, Spend::launch, (to_time(posted) - to_time(begin)).count() * kNominal);
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
