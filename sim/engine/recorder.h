// SPDX-License-Identifier: Apache-2.0
// What an engine records of a step, or of one lane of it: the Timeline that account.h reads.  All
// three engines write to it.  Internal to the engines.
//
// The engines of lanes and contention count in 1/4096 ps (kFractionBits = 12), the engine of one
// lane a role in whole ones (0).  Rounded to picoseconds, the parts of a role no longer sum to the
// whole; what is missing (less than a picosecond a gap) goes to the largest part.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/run.h"
#include "sim/graph/spend.h"

namespace stepcast {

// A time in 1/4096 ps, rounded half up.
constexpr Time to_time(int64_t lane_time) {
  return Time{(lane_time + (int64_t{1} << 11)) >> 12};
}

// A collective as one of its lanes sees it: when it could have started here, and when it did; when
// it would have ended alone, and when it did, if that was later.
struct StragglerWait {
  int64_t ready = 0, begin = 0;
  int64_t alone_end = 0, end = 0;
};

template <int kFractionBits>
class Recorder {
 public:
  static_assert(kFractionBits == 0 || kFractionBits == 12);

  Timeline timeline;

  Recorder(const OpGraph& graph, Record what) {
    timeline.roles.resize(graph.roles.size());
    if (what == Record::nothing) return;
    inside_.resize(graph.roles.size());
    timeline.rendezvous.resize(graph.rendezvous.size());
    for (size_t r = 0; r < graph.roles.size(); ++r) {
      timeline.roles[r].items.reserve(graph.roles[r].items.size());
      if (what == Record::all) prepare_ops(graph, r);
    }
  }

  bool has_ops() const { return !first_op_.empty(); }
  // Op `op` of pass item `item` of role r ran in [begin, end).  REQUIRES: has_ops().
  void op(uint32_t r, uint32_t item, uint32_t op, int64_t begin, int64_t end) {
    const size_t at = first_op_[r][item] + op;
    timeline.roles[r].op_start[at] = rounded(begin);
    timeline.roles[r].op_end[at] = rounded(end);
  }

  // The compute stream of role r stood still inside a pass, or was busy for longer than priced.
  void book(uint32_t r, Spend spend, int64_t time) {
    inside_[r][static_cast<size_t>(spend)] += time;
  }

  // What has been booked of role r so far.  REQUIRES: something is recorded.
  const std::array<int64_t, kSpends>& booked(uint32_t r) const { return inside_[r]; }

  // It stood still in [begin, end) for a collective that waited for a slower lane, and took longer
  // than alone, as `wait` says.
  void book_wait(uint32_t r, Spend spend, int64_t begin, int64_t end, const StragglerWait& wait) {
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

  // It stood still in [begin, end) at item number `index`.
  void gap(uint32_t r, const Item& item, uint32_t index, int64_t begin, int64_t end,
           Gap::Cause cause) {
    const Time from = rounded(begin);
    const Time until = rounded(end);
    if (from >= until) return;
    timeline.roles[r].gaps.push_back(
        {.begin = from,
         .end = until,
         .cause = cause,
         .only_sends = item.only_sends,
         .item = index,
         .id = item.kind == ItemKind::join ? static_cast<uint32_t>(item.rendezvous) : item.event});
  }

  // It stood in [begin, end) at an item that waits for an event.  `wait` as in book_wait.
  void event_wait(uint32_t r, const Item& item, uint32_t index, int64_t begin, int64_t end,
                  const StragglerWait& wait) {
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

  // It stood in [begin, end) at a join.  `wait`: if the last to post was a lane of its own role,
  // when this lane did and when that one did.
  void rendezvous_wait(uint32_t r, const Item& item, uint32_t index, int64_t begin, int64_t end,
                       const StragglerWait& wait) {
    if (end <= begin) return;
    if (wait.ready < wait.begin && begin < wait.begin) {
      // For its own host first, then for another lane.
      const int64_t posted = std::max(begin, wait.ready);
      book(r, Spend::launch, (rounded(posted) - rounded(begin)).count() << kFractionBits);
      gap(r, item, index, posted, wait.begin, Gap::Cause::straggler);
      begin = wait.begin;
    }
    gap(r, item, index, begin, end, Gap::Cause::rendezvous);
  }

  // The compute stream was at `begin` before the next item of the role, and at `end` after it.
  void item(uint32_t r, const Item& item, int64_t begin, int64_t end) {
    RoleTimeline& t = timeline.roles[r];
    t.items.push_back({rounded(begin), rounded(end)});
    if (item.kind != ItemKind::pass || !item.has_action) return;
    if (item.action.kind == ActionKind::forward) t.last_forward = rounded(end);
    const ActionKind last = item.has_second ? item.second.kind : item.action.kind;
    const bool backward = last == ActionKind::backward || last == ActionKind::backward_input;
    if (backward && t.first_backward == Time::max()) t.first_backward = rounded(begin);
  }

  // After the last item of the role; `busy`: nominal ps of its compute stream, which nothing needs
  // where times are whole picoseconds.
  void finish_role(uint32_t r, int64_t compute_begin, int64_t compute_end, int64_t end,
                   int64_t busy = 0) {
    RoleTimeline& t = timeline.roles[r];
    t.compute_begin = rounded(compute_begin);
    t.compute_end = rounded(compute_end);
    t.end = rounded(end);
    if (inside_.empty()) return;
    const std::array<int64_t, kSpends>& exact = inside_[r];
    for (size_t s = 0; s < exact.size(); ++s) t.inside[s] = rounded(exact[s]);
    if constexpr (kFractionBits > 0) {
      Time rest = t.compute_end - Time{busy};
      for (const Gap& g : t.gaps) rest -= g.end - g.begin;
      for (const Time part : t.inside) rest -= part;
      const auto largest = std::max_element(exact.begin(), exact.end()) - exact.begin();
      t.inside[static_cast<size_t>(largest)] += rest;
    }
  }

 private:
  static constexpr Time rounded(int64_t time) {
    return kFractionBits == 0 ? Time{time} : to_time(time);
  }

  void prepare_ops(const OpGraph& graph, size_t r) {
    std::vector<size_t> first;
    size_t count = 0;
    for (const Item& item : graph.roles[r].items) {
      first.push_back(count);
      if (item.kind == ItemKind::pass) {
        count += graph.passes[static_cast<size_t>(item.pass)].ops.size();
      }
    }
    timeline.roles[r].op_start.resize(count);
    if constexpr (kFractionBits == 0) return;  // an op ends its price after its start
    timeline.roles[r].op_end.resize(count);
    first_op_.push_back(std::move(first));
  }

  std::vector<std::array<int64_t, kSpends>> inside_;  // by role; sums of what is not in gaps
  std::vector<std::vector<size_t>> first_op_;         // [role][item], in RoleTimeline::op_start
};

using LaneRecorder = Recorder<12>;

}  // namespace stepcast
