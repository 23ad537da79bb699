// SPDX-License-Identifier: Apache-2.0
// Schedules made of a building block.
//
// V-Min's block for 2 ranks says that a microbatch runs its four passes on rank 0 in slots 0, 3, 4
// and 7 and on rank 1 in slots 1, 2, 5 and 6: each pass right after the one that it needs.  With a
// period of 6 slots (two chunks of F, I and W) no two passes of a rank ever fall on the same slot.
// Repeated, and with weight gradients (W) put into the slots that are left, it gives
//
//     slot     0  1  2  3  4  5   6  7  8  9  10 11   12 13 14
//     rank 0   F0 .  .  F1 I1 W   F0 I0 W  F1 I1 W    F0 I0 W  ...
//     rank 1   .  F0 F1 .  .  I1  I0 F0 F1 W  W  I1   I0 F0 F1 ...
//
// where F0 and F1 are the forwards of the rank's chunks 0 and 1, and the k-th of a kind is that of
// microbatch k.  From slot 6 on both ranks are busy, and what they hold never grows: rank 1 holds 4
// chunks after its F1 in slot 8 and 2 again after two W.  The slots of a block alone decide both.
//
// What a block leaves open are the gaps at the beginning and the end, where there is no microbatch
// before or behind.  Two ways to close them are below:
//
//   reorder, squeeze   one pass over the slots that pulls passes into earlier gaps where the rank
//                      does not come to hold more than the fullest holds anyway; then every pass
//                      starts as early as its needs allow.  v-half and v-min use them.
//   run_ahead          runs the rows as priority lists with given times: a rank whose next pass
//                      cannot start takes one further down its row.  v-controllable-memory uses it.
#include "schedules/families/v_blocks.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

#include "schedules/families/families.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// Slots of the passes of a rank: [pass][k].
using SlotsOfRank = std::array<std::vector<int64_t>, kVPasses>;

SlotsOfRank slots_of(const VRow& row) {
  SlotsOfRank slots;
  for (size_t t = 0; t < row.size(); ++t)
    if (row[t] != VPass::idle) slots[index_of(row[t])].push_back(static_cast<int64_t>(t));
  return slots;
}

void drop_idle_tail(VRow& row) {
  while (!row.empty() && row.back() == VPass::idle) row.pop_back();
}

// Slot of the n-th input gradient of either chunk.
int64_t slot_of_input(const VRow& row, size_t n) {
  size_t seen = 0;
  for (size_t t = 0; t < row.size(); ++t)
    if (is_input(row[t]) && seen++ == n) return static_cast<int64_t>(t);
  return static_cast<int64_t>(row.size());
}

// One pass over all slots in order of time that pulls passes forward.
class Reordering {
 public:
  Reordering(VRows& rows, bool with_weights) : rows_(rows), with_weights_(with_weights) {
    for (const VRow& row : rows_) {
      slots_.push_back(slots_of(row));
      limit_ = std::max(limit_, peak_held(row));
      length_ = std::max(length_, row.size());
    }
    next_.resize(rows_.size());
  }

  void run() {
    for (size_t t = 0; t < length_; ++t)
      for (size_t rank = 0; rank < rows_.size(); ++rank)
        if (t < rows_[rank].size() && rows_[rank][t] != VPass::idle) visit(rank, t);
  }

 private:
  enum class Phase : uint8_t { warm_up, steady, cool_down };

  void visit(size_t rank, size_t t) {
    const VPass pass = rows_[rank][t];
    const size_t k = next_[rank][index_of(pass)]++;
    if (phase_ == Phase::warm_up && pass == VPass::input0 && rank == 0) phase_ = Phase::steady;
    if (phase_ == Phase::steady) {
      if (pass == VPass::forward0 && k + 1 == slots_[0][index_of(pass)].size())
        phase_ = Phase::cool_down;
      return;
    }
    if (phase_ == Phase::warm_up && !with_weights_) return;
    pull_forward(rank, t, k);
  }

  // The first slot at which the needs of the pass have ended.
  size_t earliest(size_t rank, VPass pass, size_t k) const {
    int64_t slot = -1;
    if (k > 0) slot = slots_[rank][index_of(pass)][k - 1];
    if (is_weight(pass)) {
      slot = std::max(slot, slot_of_input(rows_[rank], k));
    } else {
      const VNeed need =
          need_of(pass, static_cast<int64_t>(rank), static_cast<int64_t>(rows_.size()));
      if (need.rank >= 0)
        slot = std::max(slot, slots_[static_cast<size_t>(need.rank)][index_of(need.pass)][k]);
    }
    return static_cast<size_t>(slot + 1);
  }

  void pull_forward(size_t rank, size_t t, size_t k) {
    VRow& row = rows_[rank];
    const VPass pass = row[t];
    row[t] = VPass::idle;
    for (size_t free = earliest(rank, pass, k); free < t; ++free) {
      if (row[free] != VPass::idle) continue;
      row[free] = pass;
      if (peak_held(row) <= limit_) {
        slots_[rank][index_of(pass)][k] = static_cast<int64_t>(free);
        return;
      }
      row[free] = VPass::idle;
    }
    row[t] = pass;
  }

  VRows& rows_;
  bool with_weights_;
  Phase phase_ = Phase::warm_up;
  int64_t limit_ = 0;
  size_t length_ = 0;
  std::vector<SlotsOfRank> slots_;
  std::vector<std::array<size_t, kVPasses>> next_;
};

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

VRows repeat_block(std::span<const VBlock> block, int64_t microbatches, int64_t period) {
  VRows rows;
  for (const VBlock& first : block) {
    const int64_t last =
        *std::max_element(first.begin(), first.end()) + period * (microbatches - 1);
    VRow row(static_cast<size_t>(last + 1), VPass::idle);
    for (size_t pass = 0; pass < kVPasses; ++pass) {
      if (first[pass] == kNoSlot) continue;
      for (int64_t m = 0; m < microbatches; ++m)
        row[static_cast<size_t>(first[pass] + period * m)] = static_cast<VPass>(pass);
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

VNeed need_of(VPass pass, int64_t rank, int64_t pp) {
  switch (pass) {
    case VPass::forward0: return {rank - 1, pass};
    case VPass::forward1:
      return rank + 1 < pp ? VNeed{rank + 1, pass} : VNeed{rank, VPass::forward0};
    case VPass::input1: return rank > 0 ? VNeed{rank - 1, pass} : VNeed{rank, VPass::forward1};
    case VPass::input0: return rank + 1 < pp ? VNeed{rank + 1, pass} : VNeed{rank, VPass::input1};
    case VPass::weight1: return {rank, VPass::input1};
    case VPass::weight0: return {rank, VPass::input0};
    case VPass::idle: break;
  }
  return {};
}

void fill_weights(VRow& row, bool by_chunk) {
  std::array<int64_t, 2> owed{};
  const auto pay = [&]() -> VPass {
    const size_t i = owed[0] > 0 ? 0 : 1;
    if (owed[i] == 0) return VPass::idle;
    --owed[i];
    return i == 0 ? VPass::weight1 : VPass::weight0;
  };
  for (VPass& pass : row) {
    if (is_input(pass)) ++owed[by_chunk && pass == VPass::input0 ? 1 : 0];
    if (pass == VPass::idle) pass = pay();
  }
  while (owed[0] + owed[1] > 0) row.push_back(pay());
}

void drop_weights(VRow& row) {
  for (VPass& pass : row)
    if (is_weight(pass)) pass = VPass::idle;
  drop_idle_tail(row);
}

int64_t peak_held(const VRow& row) {
  int64_t held = 0, peak = 0, owed = 0;
  const bool implicit = std::none_of(row.begin(), row.end(), is_weight);
  for (const VPass pass : row) {
    if (is_forward(pass)) peak = std::max(peak, ++held);
    if (is_input(pass)) ++owed;
    if (is_weight(pass) || (implicit && pass == VPass::idle && owed > 0)) {
      --held;
      --owed;
    }
  }
  return peak;
}

VRows squeeze(const VRows& rows) {
  size_t length = 0;
  for (const VRow& row : rows) length = std::max(length, row.size());
  const auto pp = static_cast<int64_t>(rows.size());
  std::vector<SlotsOfRank> slots(rows.size());
  VRows squeezed(rows.size());
  for (size_t t = 0; t < length; ++t)
    for (size_t rank = 0; rank < rows.size(); ++rank) {
      if (t >= rows[rank].size() || rows[rank][t] == VPass::idle) continue;
      const VPass pass = rows[rank][t];
      VRow& row = squeezed[rank];
      const size_t k = slots[rank][index_of(pass)].size();
      const VNeed need = need_of(pass, static_cast<int64_t>(rank), pp);
      // Weight gradients need nothing that is not before them on the same rank.
      if (!is_weight(pass) && need.rank >= 0) {
        const int64_t from = slots[static_cast<size_t>(need.rank)][index_of(need.pass)].at(k) + 1;
        row.resize(std::max(row.size(), static_cast<size_t>(from)), VPass::idle);
      }
      slots[rank][index_of(pass)].push_back(static_cast<int64_t>(row.size()));
      row.push_back(pass);
    }
  return squeezed;
}

void reorder(VRows& rows, bool with_weights) {
  Reordering(rows, with_weights).run();
}

std::vector<Action> actions_of(const VRow& row, int64_t rank, int64_t pp, bool full_backward) {
  std::array<uint32_t, kVPasses> next{};
  std::vector<Action> list;
  for (const VPass pass : row) {
    if (pass == VPass::idle || (full_backward && is_weight(pass))) continue;
    const bool chunk0 = pass == VPass::forward0 || pass == VPass::input0 || pass == VPass::weight0;
    const ActionKind kind = is_forward(pass)  ? ActionKind::forward
                            : is_weight(pass) ? ActionKind::backward_weight
                            : full_backward   ? ActionKind::backward
                                              : ActionKind::backward_input;
    list.emplace_back(kind, static_cast<uint16_t>(chunk0 ? rank : 2 * pp - 1 - rank),
                      next[index_of(pass)]++);
  }
  return list;
}

std::optional<Diagnostic> check_v_block(std::string_view name, const ScheduleParams& params) {
  if (auto wrong = check_two_chunks(name, params)) return wrong;
  ParamReader in(params);
  for (const ScheduleParameter& p : kVBlockParameters) in.number(p.key);
  return in.wrong();
}

Schedule v_block_schedule(std::string_view name, const ScheduleParams& params,
                          VBlock (*block_of)(int64_t rank, int64_t pp)) {
  Schedule schedule = snake_schedule(name, params);
  std::vector<VBlock> block;
  for (int64_t r = 0; r < params.pp; ++r) block.push_back(block_of(r, params.pp));
  VRows rows = repeat_block(block, params.microbatches);
  for (const bool with_weights : {true, false}) {
    if (with_weights)
      for (VRow& row : rows) fill_weights(row, false);
    reorder(rows, with_weights);
    if (!with_weights)
      for (VRow& row : rows) fill_weights(row, false);
    rows = squeeze(rows);
    for (VRow& row : rows) drop_weights(row);
  }
  for (int64_t r = 0; r < params.pp; ++r) {
    VRow& row = rows[static_cast<size_t>(r)];
    fill_weights(row, true);
    schedule.ranks[static_cast<size_t>(r)] = actions_of(row, r, params.pp, false);
  }
  return schedule;
}

VRun run_ahead(const VRows& rows, const VTimes& times, const VRunRules& rules) {
  return Runner(rows, times, rules).run();
}

}  // namespace stepcast
