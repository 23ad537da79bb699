// SPDX-License-Identifier: Apache-2.0
// Local search over orders.
//
// Take 2 ranks with one stage each, 2 microbatches, F = I = W = 1 and free transfers, and the order
//
//     slot     0  1  2  3  4  5  6  7
//     rank 0   F0 F1 .  I0 W0 .  I1 W1
//     rank 1   .  F0 I0 W0 F1 I1 W1
//
// A longest path through it, from its end: W1 of rank 0 follows I1, which waited for I1 of rank 1,
// which follows F1, W0, I0 and F0 there, which waited for F0 of rank 0.  Only a move on such a path
// can shorten the order.  W0 of rank 1 is on it, and nobody waits for it, so it goes to the end of
// the gap that it may move in, right before W1:
//
//     rank 0   F0 F1 .  I0 W0 I1 W1
//     rank 1   .  F0 I0 F1 I1 W0 W1
//
// which is one slot shorter.  Most moves shorten nothing.  Late acceptance (Burke, Bykov 2017)
// takes an order that is no worse than the present one, or than the one some hundred tries ago, so
// that the search gets out of dead ends.
//
// A move takes an action to another place within its rank's list, as far as the order of its stage
// and microbatch allows, or joins an I and its W to one B, or takes a B apart.  Nearly all of the
// cost of a try is the timing of the order, so MovedOrder times only what starts after the first
// place that changed, and gives up as soon as the order must come out too long.  Memory is followed
// meanwhile, and a move that needs more than there is is not made.

#include "schedules/synthesis/local_search.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "sim/check.h"
#include "sim/random.h"

namespace stepcast {
namespace {

// What a place in the list of a rank holds: one of its actions, or the weight gradient that is part
// of a whole backward before it.  The latter takes no time, and keeps its place in the list so that
// the backward can be split again.
enum class OpKind : uint8_t { forward, backward, backward_input, backward_weight, joined_weight };
constexpr size_t kOpKinds = 5;

struct Op {
  OpKind kind = OpKind::forward;
  uint16_t stage = 0;
  uint32_t microbatch = 0;
};

bool is_gradient(OpKind kind) {
  return kind == OpKind::backward || kind == OpKind::backward_input;
}

OpKind kind_of(ActionKind kind) {
  switch (kind) {
    case ActionKind::forward: return OpKind::forward;
    case ActionKind::backward: return OpKind::backward;
    case ActionKind::backward_input: return OpKind::backward_input;
    case ActionKind::backward_weight: return OpKind::backward_weight;
    default: break;
  }
  STEPCAST_CHECK(false, "an action that a search over orders does not know");
  return {};
}

// REQUIRES: not joined.
ActionKind action_kind(OpKind kind) {
  constexpr std::array kKinds = {ActionKind::forward, ActionKind::backward,
                                 ActionKind::backward_input, ActionKind::backward_weight};
  return kKinds[static_cast<size_t>(kind)];
}

// An order of actions that a search changes move by move, timed anew after each.
//
// A move costs the part of the schedule that comes after it: what starts before the first moved
// action stays as it was.  Timing is given up as soon as the work that a rank still has to do, or
// the stages a microbatch still has to go through, shows that the order comes out too long.
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

  // `split_backward`: I and W may become B and B be split, where B takes less than both. REQUIRES:
  // `start` is as time_order() requires, does not get stuck and fits the memory.  Keeps the
  // reference to the costs.
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
  const std::vector<Op>& ops() const { return ops_; }
  Order order_of(const std::vector<Op>& ops) const;

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
  bool is_joined(uint32_t at) const { return ops_[at].kind == OpKind::joined_weight; }
  // I, W or B of a stage where both forms are allowed.
  bool can_join(uint32_t at) const {
    return can_join_ && joins_[ops_[at].stage] && ops_[at].kind != OpKind::forward;
  }
  uint32_t gradient_of(uint32_t at) const;  // I or B of the same stage and microbatch
  uint32_t weight_of(uint32_t at) const;    // W, joined or not

 private:
  static constexpr size_t kKinds = 5;  // F, B, I, W and OpKind::joined_weight

  struct Rank {
    uint32_t restart = 0, next = 0;
    int64_t end = 0;
    uint32_t waits_for = kNowhere;  // a cell
  };

  static size_t index_of(OpKind kind) { return static_cast<size_t>(kind); }
  static bool is_weight(OpKind kind) {
    return kind == OpKind::backward_weight || kind == OpKind::joined_weight;
  }
  static bool must_stay_before(const Op& first, const Op& second);
  static uint32_t low(const Move& m);
  static uint32_t high(const Move& m);
  // Two for each stage and microbatch: the result of F, and that of B or I.
  size_t cell_of(const Op& a) const {
    return 2 * (size_t{a.stage} * microbatches_ + a.microbatch) +
           (a.kind == OpKind::forward ? 0 : 1);
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
  void wake(const Op& a);

  const PipelineCosts& costs_;
  uint32_t microbatches_ = 0;
  std::array<std::vector<int64_t>, kOpKinds> time_,
      memory_;  // by kind and stage
  std::vector<int64_t> hop_, time_back_, time_through_,
      least_gradient_;       // by stage
  std::vector<bool> joins_;  // by stage: whether whole backwards are shorter, and both allowed
  bool can_join_ = false;

  std::vector<Op> ops_;                 // all lists, one after the other
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

MovedOrder::MovedOrder(const PipelineCosts& costs, const Order& start, bool split_backward)
    : costs_(costs) {
  tabulate(split_backward);
  load(start);
  STEPCAST_CHECK(retime_from_start(), "the order that a search starts from gets stuck");
  kept_ = end_;
  kept_times_ = times_;
}

void MovedOrder::tabulate(bool split_backward) {
  const size_t stages = costs_.rank_of_stage.size();
  microbatches_ = static_cast<uint32_t>(costs_.microbatches);
  for (size_t k = 0; k < index_of(OpKind::joined_weight); ++k)
    for (size_t s = 0; s < stages; ++s) {
      time_[k].push_back(action_time(costs_, action_kind(static_cast<OpKind>(k)), s).count());
      memory_[k].push_back(action_memory(costs_, action_kind(static_cast<OpKind>(k)), s));
    }
  time_[index_of(OpKind::joined_weight)].assign(stages, 0);
  memory_[index_of(OpKind::joined_weight)].assign(stages, 0);
  for (const StageTimes& t : costs_.times) {
    least_gradient_.push_back(std::min(t.backward_input, whole_backward(t)).count());
    const bool pays = whole_backward(t) < t.backward_input + t.backward_weight;
    joins_.push_back(split_backward && pays);
  }
  hop_.assign(stages + 1, 0);  // before stage s
  for (size_t s = 1; s < stages; ++s) hop_[s] = hop_between(costs_, s - 1).count();
  // The least time from the end of an action to the end of the last gradient.
  time_back_.assign(stages, 0);
  for (size_t s = 1; s < stages; ++s)
    time_back_[s] = time_back_[s - 1] + hop_[s] + least_gradient_[s - 1];
  time_through_.assign(stages, 0);
  for (size_t s = stages; s-- > 0;) {
    const int64_t gradient = least_gradient_[s];
    time_through_[s] = s + 1 == stages ? gradient + time_back_[s]
                                       : hop_[s + 1] + time_[0][s + 1] + time_through_[s + 1];
  }
}

void MovedOrder::load(const Order& start) {
  first_.assign(1, 0);
  for (const std::vector<Action>& list : start) {
    for (const Action& a : list) {
      ops_.push_back({kind_of(a.kind), a.stage, a.microbatch});
      if (a.kind == ActionKind::backward && joins_[a.stage])
        ops_.push_back({OpKind::joined_weight, a.stage, a.microbatch});
    }
    first_.push_back(static_cast<uint32_t>(ops_.size()));
  }
  can_join_ = std::find(joins_.begin(), joins_.end(), true) != joins_.end();
  ranks_.resize(start.size());
  const size_t cells = costs_.rank_of_stage.size() * microbatches_;
  place_.assign(2 * cells, kNowhere);
  weight_place_.assign(cells, kNowhere);
  end_.assign(ops_.size(), 0);
  kept_.assign(ops_.size(), 0);
  held_.assign(ops_.size(), 0);
  left_.assign(ops_.size(), 0);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    note_places(first_[r], first_[r + 1]);
    account(r, first_[r], first_[r + 1]);
  }
}

// --- the lists

// Whether `first` has to stay before `second`, which comes after it in the list of the same rank.
// Of one stage the microbatches keep their turn: they are all alike.
bool MovedOrder::must_stay_before(const Op& first, const Op& second) {
  const bool alike =
      first.kind == second.kind || (is_gradient(first.kind) && is_gradient(second.kind));
  if (alike && first.stage == second.stage && first.kind != OpKind::joined_weight) return true;
  if (first.microbatch != second.microbatch) return false;
  if (is_weight(first.kind)) return false;
  if (!is_weight(second.kind)) return true;
  return first.kind == OpKind::forward || first.stage >= second.stage;
}

void MovedOrder::note_places(uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i)
    (is_weight(ops_[i].kind) ? weight_place_[cell_of(ops_[i]) / 2] : place_[cell_of(ops_[i])]) = i;
}

// Memory after, and work after, each of the places; false if the memory is too small.
bool MovedOrder::account(size_t r, uint32_t begin, uint32_t end) {
  int64_t held = begin == first_[r] ? 0 : held_[begin - 1];
  bool fits = true;
  for (uint32_t i = begin; i < end; ++i) {
    held += memory_[index_of(ops_[i].kind)][ops_[i].stage];
    held_[i] = held;
    fits = fits && held <= limit(r);
  }
  int64_t left = end == first_[r + 1] ? 0 : left_[end] + time_of(end);
  for (uint32_t i = end; i-- > begin;) {
    left_[i] = left;
    left += time_of(i);
  }
  return fits;
}

// Joining changes the work that is left from the begin of the list on.
bool MovedOrder::account(const Move& m) {
  return account(m.rank, m.gradient == kNowhere ? low(m) : first_[m.rank], high(m));
}

void MovedOrder::rotate(uint32_t from, uint32_t to) {
  const auto at = [&](uint32_t i) { return ops_.begin() + i; };
  if (from < to)
    std::rotate(at(from), at(from + 1), at(to + 1));
  else
    std::rotate(at(to), at(from), at(from + 1));
}

// First place that a move touches, and the one behind the last.
uint32_t MovedOrder::low(const Move& m) {
  return std::min({m.from, m.to, m.gradient});
}
uint32_t MovedOrder::high(const Move& m) {
  return std::max(m.from, m.to) + 1;
}

// The weight gradient at place `weight` into the backward, or out of it.
void MovedOrder::toggle(uint32_t gradient, uint32_t weight) {
  const bool join = ops_[weight].kind != OpKind::joined_weight;
  ops_[weight].kind = join ? OpKind::joined_weight : OpKind::backward_weight;
  ops_[gradient].kind = join ? OpKind::backward : OpKind::backward_input;
}

bool MovedOrder::apply(const Move& m) {
  rotate(m.from, m.to);
  if (m.gradient != kNowhere) toggle(m.gradient, m.to);
  const bool fits = account(m);
  if (!fits) {
    if (m.gradient != kNowhere) toggle(m.gradient, m.to);
    rotate(m.to, m.from);
    account(m);
  } else {
    note_places(low(m), high(m));
  }
  return fits;
}

void MovedOrder::undo(const Move& m) {
  if (m.gradient != kNowhere) toggle(m.gradient, m.to);
  rotate(m.to, m.from);
  account(m);
  note_places(low(m), high(m));
  for (size_t r = 0; r < ranks_.size(); ++r)
    std::copy(kept_.begin() + ranks_[r].restart, kept_.begin() + ranks_[r].next,
              end_.begin() + ranks_[r].restart);
}

void MovedOrder::keep() {
  for (size_t r = 0; r < ranks_.size(); ++r)
    std::copy(end_.begin() + ranks_[r].restart, end_.begin() + ranks_[r].next,
              kept_.begin() + ranks_[r].restart);
  kept_times_ = times_;
}

uint32_t MovedOrder::latest(uint32_t at) const {
  const size_t r = rank_of(at);
  uint32_t to = at;
  while (to + 1 < first_[r + 1] && !must_stay_before(ops_[at], ops_[to + 1])) ++to;
  return to;
}

uint32_t MovedOrder::earliest(uint32_t at) const {
  const size_t r = rank_of(at);
  uint32_t to = at;
  while (to > first_[r] && !must_stay_before(ops_[to - 1], ops_[at])) --to;
  return to;
}

MovedOrder::Input MovedOrder::input_of(uint32_t at) const {
  const Op& a = ops_[at];
  if (a.kind == OpKind::forward && a.stage > 0) {
    const uint32_t input = place_[cell_of(a) - 2 * microbatches_];
    return {input, end_[input] + hop_[a.stage]};
  }
  if (is_gradient(a.kind) && a.stage + size_t{1} < time_back_.size()) {
    const uint32_t input = place_[cell_of(a) + 2 * microbatches_];
    return {input, end_[input] + hop_[a.stage + size_t{1}]};
  }
  return {};
}

uint32_t MovedOrder::gradient_of(uint32_t at) const {
  return is_weight(ops_[at].kind) ? place_[cell_of(ops_[at])] : at;
}
uint32_t MovedOrder::weight_of(uint32_t at) const {
  return weight_place_[cell_of(ops_[at]) / 2];
}

Order MovedOrder::order_of(const std::vector<Op>& ops) const {
  Order order;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    std::vector<Action>& list = order.emplace_back();
    for (uint32_t i = first_[r]; i < first_[r + 1]; ++i)
      if (ops[i].kind != OpKind::joined_weight)
        list.push_back({action_kind(ops[i].kind), ops[i].stage, ops[i].microbatch});
  }
  return order;
}

// --- times

bool MovedOrder::retime_from_start() {
  for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r] = {first_[r], first_[r], 0, kNowhere};
  return walk(kAnyLength);
}

bool MovedOrder::retime(const Move& m, int64_t most_end) {
  // The place of the move had another action in the kept order, which ended at the same place; what
  // started before it started is not touched.
  const uint32_t begin = low(m);
  const int64_t since = kept_[begin] - kept_time_of(m, begin);
  for (size_t r = 0; r < ranks_.size(); ++r) {
    uint32_t restart = begin;
    if (r != m.rank) {
      const auto ends = kept_.begin();
      restart = static_cast<uint32_t>(
          std::lower_bound(ends + first_[r], ends + first_[r + 1], since) - ends);
      while (restart < first_[r + 1] && kept_[restart] - time_of(restart) < since) ++restart;
    }
    ranks_[r] = {restart, restart, restart == first_[r] ? 0 : kept_[restart - 1], kNowhere};
  }
  return walk(most_end);
}

// The time of the action that was at `begin` before the move was applied.
int64_t MovedOrder::kept_time_of(const Move& m, uint32_t begin) const {
  if (m.gradient != kNowhere) {
    const bool joined = ops_[begin].kind == OpKind::backward;
    return time_[index_of(joined ? OpKind::backward_input : OpKind::backward)][ops_[begin].stage];
  }
  return time_of(m.from <= m.to ? m.to : begin + 1);
}

bool MovedOrder::walk(int64_t most_end) {
  ready_.clear();
  for (size_t r = ranks_.size(); r-- > 0;) ready_.push_back(r);
  while (!ready_.empty()) {
    const size_t r = ready_.back();
    ready_.pop_back();
    ranks_[r].waits_for = kNowhere;
    if (!go_on(r, most_end)) return false;
  }
  times_ = {};
  for (size_t r = 0; r < ranks_.size(); ++r) {
    if (ranks_[r].next < first_[r + 1]) return false;
    if (first_[r] == first_[r + 1]) continue;
    const int64_t begin = end_[first_[r]] - time_of(first_[r]);
    times_.makespan = std::max(times_.makespan, Time{ranks_[r].end});
    times_.span = std::max(times_.span, Time{ranks_[r].end - begin});
  }
  return true;
}

bool MovedOrder::go_on(size_t r, int64_t most_end) {
  Rank& rank = ranks_[r];
  for (const uint32_t last = first_[r + 1]; rank.next < last; ++rank.next) {
    const uint32_t i = rank.next;
    const Op a = ops_[i];
    int64_t start = rank.end, rest = left_[i];
    if (a.kind == OpKind::forward) {
      if (a.stage > 0) {
        const uint32_t cell = static_cast<uint32_t>(cell_of(a) - 2 * microbatches_);
        if (!arrived(cell, a.stage - size_t{1})) {
          rank.waits_for = cell;
          return true;
        }
        start = std::max(start, end_[place_[cell]] + hop_[a.stage]);
      }
      rest = std::max(rest, time_through_[a.stage]);
    } else if (!is_weight(a.kind)) {
      if (a.stage + size_t{1} < time_back_.size()) {
        const uint32_t cell = static_cast<uint32_t>(cell_of(a) + 2 * microbatches_);
        if (!arrived(cell, a.stage + size_t{1})) {
          rank.waits_for = cell;
          return true;
        }
        start = std::max(start, end_[place_[cell]] + hop_[a.stage + size_t{1}]);
      }
      rest = std::max(rest, time_back_[a.stage]);
    }
    const int64_t end = start + time_[index_of(a.kind)][a.stage];
    end_[i] = rank.end = end;
    if (end > most_end - rest) {
      ++rank.next;  // undone with the others
      return false;
    }
    if (!is_weight(a.kind)) wake(a);
  }
  return true;
}

void MovedOrder::wake(const Op& a) {
  const bool forward = a.kind == OpKind::forward;
  if (forward ? a.stage + size_t{1} == time_back_.size() : a.stage == 0) return;
  const size_t stage = forward ? a.stage + size_t{1} : a.stage - size_t{1};
  const size_t consumer = costs_.rank_of_stage[stage];
  if (ranks_[consumer].waits_for == cell_of(a)) ready_.push_back(consumer);
}

// ------------------------------ the search

using Move = MovedOrder::Move;

constexpr uint32_t kNowhere = MovedOrder::kNowhere;
constexpr size_t kHistory = 200;      // tries that late acceptance looks back
constexpr int64_t kFirstWeight = 16;  // of what is to become short, against the other

class OrderSearch {
 public:
  OrderSearch(const PipelineCosts& costs, const Order& start, const SearchGoal& goal)
      : goal_(goal),
        random_(goal.seed),
        order_(costs, start, goal.split_backward),
        best_ops_(order_.ops()),
        best_(order_.times()) {}

  SearchOutcome run() {
    std::array<int64_t, kHistory> history;
    history.fill(cost(order_.times()));
    int64_t tries = 0;
    for (int64_t idle = 0; tries < goal_.tries && !good_enough() && idle < 5 * goal_.tries;) {
      Move move;
      if (!pick(move) || !order_.apply(move)) {
        ++idle;
        continue;
      }
      int64_t& before = history[static_cast<size_t>(tries++) % kHistory];
      const int64_t present = cost(order_.kept_times());
      const int64_t most = std::max(present, before);
      const int64_t most_end = goal_.span_first ? MovedOrder::kAnyLength : most / kFirstWeight;
      if (order_.retime(move, most_end) && cost(order_.times()) <= most)
        accept();
      else
        order_.undo(move);
      before = std::min(before, cost(order_.kept_times()));
    }
    return {order_.order_of(best_ops_), best_, tries};
  }

 private:
  void accept() {
    order_.keep();
    path_.clear();
    if (better(order_.kept_times(), best_)) {
      best_ = order_.kept_times();
      best_ops_ = order_.ops();
    }
  }

  int64_t cost(const OrderTimes& t) const {
    return goal_.span_first ? kFirstWeight * t.span.count() + t.makespan.count()
                            : kFirstWeight * t.makespan.count() + t.span.count();
  }
  bool better(const OrderTimes& a, const OrderTimes& b) const {
    const auto key = [&](const OrderTimes& t) {
      return goal_.span_first ? std::pair{t.span, t.makespan} : std::pair{t.makespan, t.span};
    };
    return key(a) < key(b);
  }
  bool good_enough() const {
    return best_.makespan <= goal_.good_enough.makespan && best_.span <= goal_.good_enough.span;
  }

  // The places on a longest path through the order, last first: of what is to become short, and now
  // and then, or if that is as short as can be, of the other.
  void find_path() {
    path_.clear();
    bool span = goal_.span_first;
    const OrderTimes& times = order_.kept_times();
    const bool first_done =
        span ? times.span <= goal_.good_enough.span : times.makespan <= goal_.good_enough.makespan;
    if (first_done || random_.below(4) == 0) span = !span;
    uint32_t at = kNowhere;
    int64_t most = -1;
    for (size_t r = 0; r < order_.ranks(); ++r) {
      const uint32_t first = order_.first(r), behind = order_.first(r + 1);
      if (first == behind) continue;
      const int64_t length = order_.end(behind - 1) - (span ? order_.start(first) : 0);
      if (length > most || (length == most && random_.below(2) == 0)) {
        most = length;
        at = behind - 1;
      }
    }
    while (at != kNowhere) {
      path_.push_back(at);
      at = cause_of(at);
    }
  }
  // What the action at this place waited for last; kNowhere if it started at 0.
  uint32_t cause_of(uint32_t at) {
    const int64_t start = order_.start(at);
    const bool first = at == order_.first(order_.rank_of(at));
    const bool rank_busy = !first && order_.end(at - 1) == start;
    const MovedOrder::Input input = order_.input_of(at);
    const bool waited = input.at != kNowhere && input.arrival == start;
    if (waited && (!rank_busy || random_.below(2) == 0)) return input.at;
    return rank_busy ? at - 1 : kNowhere;
  }

  bool pick(Move& m) {
    if (path_.empty() || random_.below(64) == 0) find_path();
    const auto n = static_cast<uint32_t>(path_.size());
    uint32_t at;
    if (random_.below(16) == 0) {
      at = static_cast<uint32_t>(random_.below(order_.ops().size()));
    } else {
      at = path_[random_.below(n)];
    }
    m.rank = order_.rank_of(at);
    m.from = at;
    m.gradient = kNowhere;
    if (order_.can_join(at) && random_.below(4) == 0) return pick_join(m, at);
    if (order_.is_joined(at)) return false;
    const bool later = random_.below(2) == 0;
    const uint32_t edge = later ? order_.latest(at) : order_.earliest(at);
    if (edge == at) return false;
    uint32_t to = edge;
    switch (random_.below(4)) {
      case 0: break;
      case 1: to = later ? at + 1 : at - 1; break;
      case 2: {
        // To the edge of the stretch without a pause.
        to = at;
        while (to != edge && (later ? order_.start(to + 1) == order_.end(to)
                                    : order_.start(to) == order_.end(to - 1)))
          to = later ? to + 1 : to - 1;
        if (to == at) return false;
        break;
      }
      default: {
        const uint32_t reach = std::min<uint32_t>(later ? edge - at : at - edge, 8);
        const auto by = static_cast<uint32_t>(1 + random_.below(reach));
        to = later ? at + by : at - by;
      }
    }
    m.to = to;
    return true;
  }
  // I and W become B at I's place; B becomes I, and W goes anywhere behind it, often not far.
  bool pick_join(Move& m, uint32_t at) {
    m.gradient = order_.gradient_of(at);
    m.from = m.to = order_.weight_of(at);
    if (!order_.is_joined(m.from)) return true;
    const uint32_t begin = m.gradient + 1, behind = order_.first(m.rank + 1) - begin;
    const uint32_t reach = random_.below(4) == 0 ? behind : std::min<uint32_t>(behind, 12);
    m.to = begin + static_cast<uint32_t>(random_.below(reach));
    return true;
  }

  const SearchGoal& goal_;
  CountedRandom random_;
  MovedOrder order_;
  std::vector<uint32_t> path_;  // places, last first
  std::vector<Op> best_ops_;
  OrderTimes best_;
};

}  // namespace

SearchOutcome improve_order(const PipelineCosts& costs, const Order& start,
                            const SearchGoal& goal) {
  return OrderSearch(costs, start, goal).run();
}

}  // namespace stepcast
