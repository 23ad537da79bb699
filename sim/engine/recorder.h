// SPDX-License-Identifier: Apache-2.0
// What the lanes engine writes down of one lane: the Timeline that account.h and critical_path.h
// read, with waits for slower lanes of a group kept apart.
//
// Times are in 1/4096 ps.  Rounded to picoseconds, the parts of a role no longer sum to the whole;
// what is missing (less than a picosecond a gap) goes to the largest part.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/run.h"

namespace stepcast {

// Half up.
constexpr Time to_time(int64_t lane_time) {
  return Time{(lane_time + (int64_t{1} << 11)) >> 12};
}

// When a collective could have started on this lane, and when it did; when it would have ended
// alone, and when it did, if that was later.
struct StragglerWait {
  int64_t ready = 0, begin = 0;
  int64_t alone_end = 0, end = 0;
};

class LaneRecord {
 public:
  Timeline timeline;

  // `ops`: with the start and end of every op.
  LaneRecord(const OpGraph& graph, bool ops);

  bool has_ops() const { return !first_op_.empty(); }
  // Op `op` of pass item `item` of role r ran in [begin, end).  REQUIRES: has_ops().
  void op(uint32_t r, uint32_t item, uint32_t op, int64_t begin, int64_t end);

  // The compute stream of role r stood still inside a pass, or was busy for longer than priced.
  void book(uint32_t r, Spend spend, int64_t time) {
    inside_[r][static_cast<size_t>(spend)] += time;
  }
  // It stood still in [begin, end) for a collective that waited for a slower lane, and took longer
  // than alone, as `wait` says.
  void book_wait(uint32_t r, Spend spend, int64_t begin, int64_t end, const StragglerWait& wait);
  // It stood in [begin, end) at an item that waits for an event, of which the same holds.
  void event_wait(uint32_t r, const Item& item, uint32_t index, int64_t begin, int64_t end,
                  const StragglerWait& wait);
  // It stood in [begin, end) at a join.  `wait`: if the last to post was a lane of its own role,
  // when this lane did and when that one did.
  void rendezvous_wait(uint32_t r, const Item& item, uint32_t index, int64_t begin, int64_t end,
                       const StragglerWait& wait);
  void item(uint32_t r, const Item& item, int64_t begin, int64_t end);
  // `busy`: nominal ps of the compute stream.
  void finish_role(uint32_t r, int64_t compute_begin, int64_t compute_end, int64_t end,
                   int64_t busy);

 private:
  void gap(uint32_t r, const Item& item, uint32_t index, int64_t begin, int64_t end,
           Gap::Cause cause);

  std::vector<std::array<int64_t, kSpends>> inside_;  // by role; sums of what is not in gaps
  std::vector<std::vector<size_t>> first_op_;         // [role][item], in RoleTimeline::op_start
};

}  // namespace stepcast
