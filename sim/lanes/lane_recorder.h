// SPDX-License-Identifier: Apache-2.0
// What the engines of lanes and contention record of one lane of each role: the Timeline that
// account.h reads.  Internal to these engines.
//
// They count in fractions of a picosecond (kLaneFractionBits).  Rounded to whole ones, the parts of
// a role no longer sum to the whole; what is missing (less than a picosecond a gap) goes to the
// largest part.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/engine/run.h"
#include "sim/graph/spend.h"
#include "sim/lanes/lanes.h"

namespace stepcast {

// A time in fractions of a picosecond, rounded half up.
constexpr Time to_time(int64_t lane_time) {
  return Time{(lane_time + (int64_t{1} << (kLaneFractionBits - 1))) >> kLaneFractionBits};
}

// A collective as one of its lanes sees it: when it could have started here, and when it did; when
// it would have ended alone, and when it did, if that was later.
struct StragglerWait {
  int64_t ready = 0, begin = 0;
  int64_t alone_end = 0, end = 0;
};

class LaneRecorder {
 public:
  Timeline timeline;

  // REQUIRES: something is to be recorded.
  LaneRecorder(const OpGraph& graph, Record what) {
    timeline.roles.resize(graph.roles.size());
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
    timeline.roles[r].op_start[at] = to_time(begin);
    timeline.roles[r].op_end[at] = to_time(end);
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
    timeline.roles[r].add_gap(item, index, to_time(begin), to_time(end), cause);
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
      book(r, Spend::launch, (to_time(posted) - to_time(begin)).count() << kLaneFractionBits);
      gap(r, item, index, posted, wait.begin, Gap::Cause::straggler);
      begin = wait.begin;
    }
    gap(r, item, index, begin, end, Gap::Cause::rendezvous);
  }

  // The compute stream was at `begin` before the next item of the role, and at `end` after it.
  void item(uint32_t r, const Item& item, int64_t begin, int64_t end) {
    timeline.roles[r].add_item(item, to_time(begin), to_time(end));
  }

  // After the last item of the role; `busy`: nominal ps of its compute stream.
  void finish_role(uint32_t r, int64_t compute_begin, int64_t compute_end, int64_t end,
                   int64_t busy) {
    RoleTimeline& t = timeline.roles[r];
    t.compute_begin = to_time(compute_begin);
    t.compute_end = to_time(compute_end);
    t.end = to_time(end);
    const std::array<int64_t, kSpends>& exact = inside_[r];
    for (size_t s = 0; s < exact.size(); ++s) t.inside[s] = to_time(exact[s]);
    Time rest = t.compute_end - Time{busy};
    for (const Gap& g : t.gaps) rest -= g.end - g.begin;
    for (const Time part : t.inside) rest -= part;
    const auto largest = std::max_element(exact.begin(), exact.end()) - exact.begin();
    t.inside[static_cast<size_t>(largest)] += rest;
  }

 private:
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
    timeline.roles[r].op_end.resize(count);
    first_op_.push_back(std::move(first));
  }

  std::vector<std::array<int64_t, kSpends>> inside_;  // by role; sums of what is not in gaps
  std::vector<std::vector<size_t>> first_op_;         // [role][item], in RoleTimeline::op_start
};

}  // namespace stepcast
