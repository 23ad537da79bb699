// SPDX-License-Identifier: Apache-2.0
// An order of actions that a search changes move by move, timed anew after each.
//
// A move costs the part of the schedule that comes after it: what starts before the first moved
// action stays as it was.  Timing is given up as soon as the work that a rank still has to do, or
// the way a microbatch still has to go, shows that the order comes out too long.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "schedules/order_timing.h"

namespace stepcast {

class MovedOrder {
 public:
  // Places are positions in all lists one after the other.
  static constexpr uint32_t kNowhere = std::numeric_limits<uint32_t>::max();
  static constexpr int64_t kAnyLength = std::numeric_limits<int64_t>::max();

  // The action at `from` goes to `to`, all between move up.  With `gradient` it is a weight
  // gradient, which is joined with the input gradient at that place, or taken apart from the whole
  // backward there.
  struct Move {
    size_t rank = 0;
    uint32_t from = 0, to = 0;
    uint32_t gradient = kNowhere;
  };

  // `split_backward`: I and W may become B and B be split, where B takes less than both.
  // REQUIRES: `start` is as time_order() requires, does not get stuck and fits the memory.  Keeps
  // the reference to the costs.
  MovedOrder(const PipelineCosts& costs, const Order& start, bool split_backward);

  // Makes the move; false, and nothing is changed, if the memory is too small.
  bool apply(const Move& m);
  // Finds the times after apply(); false if the order gets stuck or ends after `most_end`.
  bool retime(const Move& m, int64_t most_end);
  // Takes the move back, or keeps it: after retime().
  void undo(const Move& m);
  void keep();

  const OrderTimes& times() const { return times_; }            // of the last retime()
  const OrderTimes& kept_times() const { return kept_times_; }  // without a move under way

  // All lists one after the other, and an order made of such.
  const std::vector<Action>& actions() const { return ops_; }
  Order order_of(const std::vector<Action>& actions) const;

  // The kept order, for whoever chooses the next move.
  size_t ranks() const { return ranks_.size(); }
  uint32_t first(size_t rank) const { return first_[rank]; }  // first(ranks()): the end
  size_t rank_of(uint32_t at) const { return costs_.rank_of_stage[ops_[at].stage]; }
  int64_t end(uint32_t at) const { return end_[at]; }
  int64_t start(uint32_t at) const { return end_[at] - time_of(at); }
  // The farthest places that the action can go to and stay in order.
  uint32_t latest(uint32_t at) const;
  uint32_t earliest(uint32_t at) const;
  // What makes the input of an action, and when that arrives; kNowhere: it needs none.
  struct Input {
    uint32_t at = kNowhere;
    int64_t arrival = 0;
  };
  Input input_of(uint32_t at) const;
  // A W that is part of its B: it keeps a place in the list, so that the backward can be split
  // again, and takes nothing.
  bool is_joined(uint32_t at) const { return ops_[at].kind == kJoined; }
  // I, W or B of a stage where both forms are allowed.
  bool can_join(uint32_t at) const {
    return can_join_ && joins_[ops_[at].stage] && ops_[at].kind != ActionKind::forward;
  }
  uint32_t gradient_of(uint32_t at) const;  // I or B of the same stage and microbatch
  uint32_t weight_of(uint32_t at) const;    // W, joined or not

 private:
  // Outside of this class the kind means something else.
  static constexpr ActionKind kJoined = ActionKind::recompute;
  static constexpr size_t kKinds = 5;  // F, B, I, W and kJoined

  struct Rank {
    uint32_t restart = 0, next = 0;
    int64_t end = 0;
    uint32_t waits_for = kNowhere;  // a cell
  };

  static size_t index_of(ActionKind kind) { return static_cast<size_t>(kind); }
  static bool is_weight(ActionKind kind) {
    return kind == ActionKind::backward_weight || kind == kJoined;
  }
  static bool must_stay_before(const Action& first, const Action& second);
  static uint32_t low(const Move& m);
  static uint32_t high(const Move& m);
  // Two for each stage and microbatch: the result of F, and that of B or I.
  size_t cell_of(const Action& a) const {
    return 2 * (size_t{a.stage} * microbatches_ + a.microbatch) +
           (a.kind == ActionKind::forward ? 0 : 1);
  }
  int64_t time_of(uint32_t i) const { return time_[index_of(ops_[i].kind)][ops_[i].stage]; }
  int64_t limit(size_t r) const {
    return costs_.memory_limit.empty() ? kAnyLength : costs_.memory_limit[r];
  }

  void tabulate(bool split_backward);
  void load(const Order& start);
  void note_places(uint32_t begin, uint32_t end);
  bool account(size_t r, uint32_t begin, uint32_t end);
  bool account(const Move& m);
  void rotate(uint32_t from, uint32_t to);
  void toggle(uint32_t gradient, uint32_t weight);

  bool retime_from_start();
  int64_t kept_time_of(const Move& m, uint32_t begin) const;
  bool walk(int64_t most_end);
  bool go_on(size_t r, int64_t most_end);
  bool arrived(uint32_t cell, size_t stage) const {
    return place_[cell] < ranks_[costs_.rank_of_stage[stage]].next;
  }
  void wake(const Action& a);

  const PipelineCosts& costs_;
  uint32_t microbatches_ = 0;
  std::array<std::vector<int64_t>, kKinds> time_, memory_;              // by kind and stage
  std::vector<int64_t> hop_, way_back_, way_through_, least_gradient_;  // by stage
  std::vector<bool> joins_;  // by stage: whether whole backwards are shorter, and both allowed
  bool can_join_ = false;

  std::vector<Action> ops_;             // all lists, one after the other
  std::vector<uint32_t> first_;         // where each begins, and the end
  std::vector<uint32_t> place_;         // of each result (cell_of), in ops_
  std::vector<uint32_t> weight_place_;  // of each weight gradient, by half of cell_of
  std::vector<int64_t> held_;           // memory after each
  std::vector<int64_t> left_;           // work of the rank after each
  std::vector<int64_t> end_, kept_;     // of each; without the move under way
  std::vector<Rank> ranks_;
  std::vector<size_t> ready_;
  OrderTimes times_, kept_times_;
};

}  // namespace stepcast
