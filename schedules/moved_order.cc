// SPDX-License-Identifier: Apache-2.0
#include "schedules/moved_order.h"

#include <algorithm>
#include <iterator>

#include "sim/check.h"

namespace stepcast {
namespace {

bool is_gradient(ActionKind kind) {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

}  // namespace

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
  for (size_t k = 0; k < index_of(kJoined); ++k)
    for (size_t s = 0; s < stages; ++s) {
      time_[k].push_back(action_time(costs_, static_cast<ActionKind>(k), s).count());
      memory_[k].push_back(action_memory(costs_, static_cast<ActionKind>(k), s));
    }
  time_[index_of(kJoined)].assign(stages, 0);
  memory_[index_of(kJoined)].assign(stages, 0);
  for (const StageTimes& t : costs_.times) {
    least_gradient_.push_back(std::min(t.backward_input, whole_backward(t)).count());
    const bool pays = whole_backward(t) < t.backward_input + t.backward_weight;
    joins_.push_back(split_backward && pays);
  }
  hop_.assign(stages + 1, 0);  // before stage s
  for (size_t s = 1; s < stages; ++s) hop_[s] = hop_between(costs_, s - 1).count();
  // The shortest way from the end of an action to the end of the last gradient.
  way_back_.assign(stages, 0);
  for (size_t s = 1; s < stages; ++s)
    way_back_[s] = way_back_[s - 1] + hop_[s] + least_gradient_[s - 1];
  way_through_.assign(stages, 0);
  for (size_t s = stages; s-- > 0;) {
    const int64_t gradient = least_gradient_[s];
    way_through_[s] = s + 1 == stages ? gradient + way_back_[s]
                                      : hop_[s + 1] + time_[0][s + 1] + way_through_[s + 1];
  }
}

void MovedOrder::load(const Order& start) {
  first_.assign(1, 0);
  for (const std::vector<Action>& list : start) {
    for (Action a : list) {
      a.overlaps_next = false;
      ops_.push_back(a);
      if (a.kind != ActionKind::backward || !joins_[a.stage]) continue;
      a.kind = kJoined;
      ops_.push_back(a);
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
bool MovedOrder::must_stay_before(const Action& first, const Action& second) {
  const bool alike =
      first.kind == second.kind || (is_gradient(first.kind) && is_gradient(second.kind));
  if (alike && first.stage == second.stage && first.kind != kJoined) return true;
  if (first.microbatch != second.microbatch) return false;
  if (is_weight(first.kind)) return false;
  if (!is_weight(second.kind)) return true;
  return first.kind == ActionKind::forward || first.stage >= second.stage;
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
  const bool join = ops_[weight].kind != kJoined;
  ops_[weight].kind = join ? kJoined : ActionKind::backward_weight;
  ops_[gradient].kind = join ? ActionKind::backward : ActionKind::backward_input;
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
  const Action& a = ops_[at];
  if (a.kind == ActionKind::forward && a.stage > 0) {
    const uint32_t input = place_[cell_of(a) - 2 * microbatches_];
    return {input, end_[input] + hop_[a.stage]};
  }
  if (is_gradient(a.kind) && a.stage + size_t{1} < way_back_.size()) {
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

Order MovedOrder::order_of(const std::vector<Action>& actions) const {
  Order order;
  for (size_t r = 0; r < ranks_.size(); ++r) {
    std::vector<Action>& list = order.emplace_back();
    std::copy_if(actions.begin() + first_[r], actions.begin() + first_[r + 1],
                 std::back_inserter(list), [](const Action& a) { return a.kind != kJoined; });
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
    const bool joined = ops_[begin].kind == ActionKind::backward;
    return time_[index_of(joined ? ActionKind::backward_input : ActionKind::backward)]
                [ops_[begin].stage];
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
    const Action a = ops_[i];
    int64_t start = rank.end, rest = left_[i];
    if (a.kind == ActionKind::forward) {
      if (a.stage > 0) {
        const uint32_t cell = static_cast<uint32_t>(cell_of(a) - 2 * microbatches_);
        if (!arrived(cell, a.stage - size_t{1})) {
          rank.waits_for = cell;
          return true;
        }
        start = std::max(start, end_[place_[cell]] + hop_[a.stage]);
      }
      rest = std::max(rest, way_through_[a.stage]);
    } else if (!is_weight(a.kind)) {
      if (a.stage + size_t{1} < way_back_.size()) {
        const uint32_t cell = static_cast<uint32_t>(cell_of(a) + 2 * microbatches_);
        if (!arrived(cell, a.stage + size_t{1})) {
          rank.waits_for = cell;
          return true;
        }
        start = std::max(start, end_[place_[cell]] + hop_[a.stage + size_t{1}]);
      }
      rest = std::max(rest, way_back_[a.stage]);
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

void MovedOrder::wake(const Action& a) {
  const bool forward = a.kind == ActionKind::forward;
  if (forward ? a.stage + size_t{1} == way_back_.size() : a.stage == 0) return;
  const size_t stage = forward ? a.stage + size_t{1} : a.stage - size_t{1};
  const size_t consumer = costs_.rank_of_stage[stage];
  if (ranks_[consumer].waits_for == cell_of(a)) ready_.push_back(consumer);
}

}  // namespace stepcast
