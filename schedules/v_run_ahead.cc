// SPDX-License-Identifier: Apache-2.0
#include "schedules/v_run_ahead.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int64_t kUnknown = INT64_MAX;

// need_of() with time running backward: a pass follows the one it sends its result to.
VNeed backward_need_of(VPass pass, int64_t rank, int64_t pp) {
  switch (pass) {
    case VPass::input0: return {rank - 1, pass};
    case VPass::input1: return rank + 1 < pp ? VNeed{rank + 1, pass} : VNeed{rank, VPass::input0};
    case VPass::forward1: return rank > 0 ? VNeed{rank - 1, pass} : VNeed{rank, VPass::input1};
    case VPass::forward0:
      return rank + 1 < pp ? VNeed{rank + 1, pass} : VNeed{rank, VPass::forward1};
    default: return {};
  }
}

// A row and how far it has been run: passes may be done ahead of the head.
struct Lane {
  VRow row;
  std::vector<bool> done;
  std::vector<size_t> position;         // [pass][microbatch] in the row
  std::array<size_t, kVPasses> next{};  // microbatch, by pass
  std::array<VNeed, kVPasses> needs{};
  size_t head = 0, left = 0;
  int64_t clock = 0;  // free, or to be looked at again; kUnknown: when something arrives
  bool waiting = false;
  int64_t held = 0, begin = 0;
  VRow order;
};

class Runner {
 public:
  Runner(const VRows& rows, const VTimes& times, const VRunRules& rules)
      : times_(times), rules_(rules) {
    const VRow& some = rows.front();
    microbatches_ = static_cast<size_t>(std::count(some.begin(), some.end(), VPass::forward0));
    ends_.resize(rows.size() * kVPasses * microbatches_, kUnknown);
    for (size_t r = 0; r < rows.size(); ++r) {
      lanes_.push_back(lane_of(rows[r], r, rows.size()));
      queue_.emplace(0, r);
    }
  }

  VRun run() {
    while (!queue_.empty()) {
      const auto [clock, rank] = queue_.top();
      queue_.pop();
      // What was put in before the rank was woken up earlier is out of date.
      if (lanes_[rank].left > 0 && lanes_[rank].clock == clock) step(rank);
    }
    VRun result;
    for (Lane& lane : lanes_) {
      STEPCAST_CHECK(lane.left == 0, "the rows of a V schedule get stuck");
      result.makespan = std::max(result.makespan, lane.clock);
      result.span = std::max(result.span, lane.clock - lane.begin);
      if (rules_.backward) std::reverse(lane.order.begin(), lane.order.end());
      result.rows.push_back(std::move(lane.order));
    }
    return result;
  }

 private:
  struct Choice {
    VPass pass = VPass::idle;
    size_t position = SIZE_MAX;
    bool urgent = false;
  };

  Lane lane_of(const VRow& row, size_t rank, size_t pp) const {
    Lane lane;
    lane.row.reserve(kVPasses * microbatches_);
    for (const VPass pass : row)
      if (pass != VPass::idle) lane.row.push_back(pass);
    if (rules_.backward) std::reverse(lane.row.begin(), lane.row.end());
    lane.position.resize(kVPasses * microbatches_);
    for (size_t i = 0; i < lane.row.size(); ++i) {
      const size_t pass = index_of(lane.row[i]);
      lane.position[pass * microbatches_ + lane.next[pass]++] = i;
    }
    lane.next.fill(0);
    for (size_t pass = 0; pass < kVPasses; ++pass)
      lane.needs[pass] = (rules_.backward ? backward_need_of : need_of)(
          static_cast<VPass>(pass), static_cast<int64_t>(rank), static_cast<int64_t>(pp));
    lane.left = lane.row.size();
    lane.done.resize(lane.left);
    lane.order.reserve(lane.left);
    return lane;
  }

  int64_t duration(VPass pass) const {
    return is_forward(pass) ? times_.forward : is_input(pass) ? times_.input : times_.weight;
  }
  // What a pass adds to the activations held.
  int64_t gain(VPass pass) const {
    const int64_t gain = is_forward(pass) ? 1 : is_weight(pass) ? -1 : 0;
    return rules_.backward ? -gain : gain;
  }
  int64_t& end_of(size_t rank, size_t pass, size_t microbatch) {
    return ends_[(rank * kVPasses + pass) * microbatches_ + microbatch];
  }

  // When the next microbatch of the pass can start; kUnknown if what it needs has not been run.
  int64_t ready(size_t rank, VPass pass) {
    const Lane& lane = lanes_[rank];
    const size_t k = lane.next[index_of(pass)];
    int64_t from = 0;
    // Backward in time an input gradient also comes after its weight gradient.
    if (rules_.backward && is_input(pass)) from = end_of(rank, index_of(pass) + 2, k);
    const VNeed& need = lane.needs[index_of(pass)];
    if (need.rank < 0 || from == kUnknown) return from;
    const auto source = static_cast<size_t>(need.rank);
    const int64_t end = end_of(source, index_of(need.pass), k);
    if (end == kUnknown) return kUnknown;
    return std::max(from, end + (source == rank ? 0 : times_.hop));
  }

  // Whether the pass at `position` may be run now: with it, what stands before it still fits.
  bool fits(const Lane& lane, size_t position) const {
    int64_t held = lane.held + 1;
    for (size_t i = lane.head; i < position && held <= rules_.limit; ++i)
      if (!lane.done[i]) held += gain(lane.row[i]);
    return held <= rules_.limit;
  }

  bool is_urgent(const Lane& lane, VPass pass) const {
    if (rules_.choice != VChoice::inputs_first_late || rules_.backward || !is_input(pass))
      return false;
    return lane.next[0] == microbatches_ && lane.next[1] == microbatches_;
  }

  // The rank is free: takes a pass, or waits.
  void step(size_t rank) {
    Lane& lane = lanes_[rank];
    int64_t next_look = kUnknown;
    Choice best;
    for (size_t p = 0; p < kVPasses; ++p) {
      const auto pass = static_cast<VPass>(p);
      if (lane.next[p] == microbatches_) continue;
      const int64_t from = ready(rank, pass);
      if (from > lane.clock) {
        next_look = std::min(next_look, from);
        continue;
      }
      const size_t position = lane.position[p * microbatches_ + lane.next[p]];
      const bool urgent = is_urgent(lane, pass);
      if (urgent != best.urgent ? best.urgent : position > best.position) continue;
      if (gain(pass) > 0 && !fits(lane, position)) continue;
      best = {pass, position, urgent};
    }
    lane.waiting = best.pass == VPass::idle;
    if (lane.waiting) {
      set_clock(rank, next_look);
    } else {
      take(rank, best);
    }
  }

  void take(size_t rank, const Choice& choice) {
    Lane& lane = lanes_[rank];
    const size_t pass = index_of(choice.pass);
    if (lane.order.empty()) lane.begin = lane.clock;
    const int64_t end = lane.clock + duration(choice.pass);
    end_of(rank, pass, lane.next[pass]++) = end;
    lane.order.push_back(choice.pass);
    lane.done[choice.position] = true;
    while (lane.head < lane.row.size() && lane.done[lane.head]) ++lane.head;
    --lane.left;
    lane.held += gain(choice.pass);
    set_clock(rank, end);
    if (is_weight(choice.pass)) return;
    if (rank > 0) wake(rank - 1, end + times_.hop);
    if (rank + 1 < lanes_.size()) wake(rank + 1, end + times_.hop);
  }

  // Something may arrive at that time for a rank that stands still.
  void wake(size_t rank, int64_t time) {
    if (lanes_[rank].waiting && time < lanes_[rank].clock) set_clock(rank, time);
  }

  void set_clock(size_t rank, int64_t time) {
    lanes_[rank].clock = time;
    if (time != kUnknown && lanes_[rank].left > 0) queue_.emplace(time, rank);
  }

  using Look = std::pair<int64_t, size_t>;  // time, rank

  VTimes times_;
  VRunRules rules_;
  size_t microbatches_ = 0;
  std::vector<Lane> lanes_;
  std::vector<int64_t> ends_;  // [rank][pass][microbatch]
  std::priority_queue<Look, std::vector<Look>, std::greater<>> queue_;
};

}  // namespace

VRun run_ahead(const VRows& rows, const VTimes& times, const VRunRules& rules) {
  return Runner(rows, times, rules).run();
}

}  // namespace stepcast
