// SPDX-License-Identifier: Apache-2.0
// The times of an order, and times that no order can beat.
//
// Take 2 ranks with one stage each and 2 microbatches; F takes 1, B takes 2, a hop 1.
//
//     rank 0   F0 0..1, F1 1..2, B0 6..8, B1 9..11
//     rank 1   F0 2..3, B0 3..5, F1 5..6, B1 6..8
//
// time_order() walks a rank along its list until an input is missing: rank 0 runs F0 and F1 and
// stops at B0.  It is taken up again when rank 1 has made the missing result: B0 of rank 1 ends at
// 5, so after the hop B0 of rank 0 starts at 6.  Nothing is sorted by time, and an action is
// visited once or twice.
//
// Could another order be shorter than 11?  Rank 1 has 2 * (1 + 2) = 6 of work.  It cannot start
// before 2, when the first forward can have come to it (head_), and after its last gradient comes
// the time back through stage 0, a hop and a backward: 3 (tail_).  That is 11, so this order is as
// good as any.  Rank 0 gives less: 6 of work and a pause.  From its first forward to its first
// gradient lie 6, of which the two forwards can fill 2, hence a pause of 4 and a bound of 10.
// With memory for one microbatch only, one of the forwards could not come that early, and the pause
// would be longer.

#include "schedules/synthesis/order_timing.h"

#include <algorithm>
#include <vector>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr uint64_t kNothing = UINT64_MAX;

bool is_forward(ActionKind kind) {
  return kind == ActionKind::forward;
}

// The result that an action makes, or waits for: forwards are even, gradients odd.
uint64_t result_of(const PipelineCosts& costs, const Action& a) {
  const uint64_t cell =
      uint64_t{a.stage} * static_cast<uint64_t>(costs.microbatches) + a.microbatch;
  return 2 * cell + (is_forward(a.kind) ? 0 : 1);
}

// The walk: ranks go on as long as what they wait for is there; a rank that gets stuck is taken up
// again when that result is made.
class Walk {
 public:
  Walk(const PipelineCosts& costs, const Order& order)
      : costs_(costs),
        order_(order),
        end_(2 * costs.rank_of_stage.size() * static_cast<size_t>(costs.microbatches), -1),
        ranks_(order.size()) {}

  std::optional<OrderTimes> run() {
    for (size_t r = 0; r < ranks_.size(); ++r) ready_.push_back(r);
    while (!ready_.empty()) {
      const size_t r = ready_.back();
      ready_.pop_back();
      ranks_[r].waits_for = kNothing;
      go_on(r);
    }
    OrderTimes times;
    for (size_t r = 0; r < ranks_.size(); ++r) {
      if (ranks_[r].next < order_[r].size()) return std::nullopt;
      times.makespan = std::max(times.makespan, Time{ranks_[r].end});
      times.span = std::max(times.span, Time{ranks_[r].end - ranks_[r].first_start});
    }
    return times;
  }

 private:
  struct Rank {
    size_t next = 0;
    int64_t end = 0, first_start = 0;
    uint64_t waits_for = kNothing;
  };

  void go_on(size_t r) {
    Rank& rank = ranks_[r];
    const std::vector<Action>& list = order_[r];
    for (; rank.next < list.size(); ++rank.next) {
      const Action& a = list[rank.next];
      int64_t start = rank.end;
      if (const uint64_t input = input_of(a); input != kNothing) {
        if (end_[input] < 0) {
          rank.waits_for = input;
          return;
        }
        start = std::max(start, end_[input] + hop_before(a));
      }
      if (rank.next == 0) rank.first_start = start;
      rank.end = start + action_time(costs_, a.kind, a.stage).count();
      if (a.kind != ActionKind::backward_weight) deliver(a, rank.end);
    }
  }

  uint64_t input_of(const Action& a) const {
    if (a.kind == ActionKind::backward_weight) return kNothing;
    const bool forward = is_forward(a.kind);
    if (forward ? a.stage == 0 : a.stage + size_t{1} == costs_.rank_of_stage.size())
      return kNothing;
    Action before = a;
    before.stage = static_cast<uint16_t>(forward ? a.stage - 1 : a.stage + 1);
    return result_of(costs_, before);
  }
  int64_t hop_before(const Action& a) const {
    return hop_between(costs_, is_forward(a.kind) ? a.stage - size_t{1} : a.stage).count();
  }

  void deliver(const Action& a, int64_t end) {
    const uint64_t result = result_of(costs_, a);
    end_[result] = end;
    const bool forward = is_forward(a.kind);
    if (forward ? a.stage + size_t{1} == costs_.rank_of_stage.size() : a.stage == 0) return;
    const size_t consumer =
        costs_.rank_of_stage[forward ? a.stage + size_t{1} : a.stage - size_t{1}];
    if (ranks_[consumer].waits_for == result) ready_.push_back(consumer);
  }

  const PipelineCosts& costs_;
  const Order& order_;
  std::vector<int64_t> end_;  // by result; -1: not yet made
  std::vector<Rank> ranks_;
  std::vector<size_t> ready_;
};

// Something of which `count` may be taken, each with this memory, for this time.
struct Item {
  int64_t memory = 0;
  int64_t time = 0;
  int64_t count = 0;
};

// The most time that fits into `memory`, parts of an item allowed (so not less than the true
// most): items in the order of time over memory.  Rounded up.
int64_t most_time(std::vector<Item> items, int64_t memory) {
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return static_cast<double>(a.time) * static_cast<double>(b.memory) >
           static_cast<double>(b.time) * static_cast<double>(a.memory);
  });
  int64_t time = 0;
  for (const Item& item : items) {
    const int64_t n = item.memory <= 0
                          ? item.count
                          : std::min(item.count, std::max<int64_t>(memory, 0) / item.memory);
    time += n * item.time;
    if (item.memory <= 0) continue;
    memory -= n * item.memory;
    if (n == item.count) continue;
    if (memory <= 0) return time;
    const double part = static_cast<double>(memory) / static_cast<double>(item.memory);
    return time + static_cast<int64_t>(part * static_cast<double>(item.time)) + 1;
  }
  return time;
}

class Bounds {
 public:
  Bounds(const PipelineCosts& costs, bool split) : costs_(costs), m_(costs.microbatches) {
    const size_t stages = costs.times.size();
    for (size_t s = 0; s < stages; ++s) {
      const StageTimes& t = costs.times[s];
      const StageMemory& memory = costs.memory[s];
      // A whole backward may be shorter than its two halves.  Then every microbatch is given the
      // shorter of both forms and the earlier of both gradients, which no order can beat.
      const Time whole = whole_backward(t);
      const Time gradient = split ? std::min(t.backward_input, whole) : whole;
      const Time both = split ? std::min(t.backward_input + t.backward_weight, whole) : whole;
      forward_.push_back(t.forward.count());
      gradient_.push_back(gradient.count());
      weight_.push_back((both - gradient).count());
      hop_.push_back(s == 0 ? 0 : hop_between(costs, s - 1).count());
      held_.push_back(memory.forward);
      // A whole backward that runs at once does not hold what the input gradient adds.
      const int64_t kept = memory.forward + std::min<int64_t>(0, memory.backward_input);
      held_for_weight_.push_back(split ? std::max<int64_t>(0, kept) : 0);
    }
    head_.assign(stages, 0);  // until a forward can be at stage s
    back_.assign(stages, 0);  // from the end of a gradient of stage s to that of stage 0
    tail_.assign(stages, 0);  // ... until all weight gradients on that way can have ended
    for (size_t s = 1; s < stages; ++s) {
      head_[s] = head_[s - 1] + forward_[s - 1] + hop_[s];
      back_[s] = back_[s - 1] + gradient_[s - 1] + hop_[s];
    }
    for (size_t s = 0; s < stages; ++s)
      for (size_t t = 0; t <= s; ++t)
        tail_[s] = std::max(tail_[s], back_[s] - back_[t] + weight_[t]);
    turn_ = head_.back() + forward_.back();
  }

  OrderTimes all() const {
    OrderTimes bounds;
    for (size_t r = 0; r < static_cast<size_t>(costs_.pp); ++r) {
      std::vector<size_t> stages;
      for (size_t s = 0; s < forward_.size(); ++s)
        if (costs_.rank_of_stage[s] == r) stages.push_back(s);
      if (stages.empty()) continue;
      const OrderTimes of_rank = of(r, stages);
      bounds.makespan = std::max(bounds.makespan, of_rank.makespan);
      bounds.span = std::max(bounds.span, of_rank.span);
    }
    return bounds;
  }

 private:
  bool limited() const { return !costs_.memory_limit.empty(); }

  OrderTimes of(size_t r, const std::vector<size_t>& stages) const {
    const size_t low = stages.front(), top = stages.back();
    int64_t forwards = 0, gradients = 0, weights = 0;
    for (const size_t s : stages) {
      forwards += m_ * forward_[s];
      gradients += m_ * gradient_[s];
      weights += m_ * weight_[s];
    }
    // From the first forward of the rank to its first gradient lies the time from the lowest stage
    // to the last and back to the top one, and the rank can do nothing but forwards.
    const int64_t first_round = turn_ - head_[low] + time_back_to(top);
    const int64_t early = std::min(forwards, most_forwards(r, stages));
    const int64_t fill_pause = std::max<int64_t>(0, first_round - early);
    // The last forward is one of the top stage, and its gradient cannot start before it has been to
    // the last stage and back: meanwhile there is what memory holds of other microbatches.
    const int64_t last_round = turn_ - head_[top] - forward_[top] + time_back_to(top);
    const int64_t other_work = std::min(most_backwards(r, stages, top),
                                        gradients + weights - gradient_[top] - weight_[top]);
    const int64_t drain_pause = std::max<int64_t>(0, last_round - other_work);
    // If all forwards could be done before the first gradient, the pauses may be one and the same.
    const int64_t pauses =
        early < forwards ? fill_pause + drain_pause : std::max(fill_pause, drain_pause);
    const int64_t span = forwards + gradients + weights + pauses;
    // Before the last gradient of the lowest stage come all forwards and gradients, and the weight
    // gradients that memory cannot keep until after it.
    const int64_t weights_before = std::max<int64_t>(0, weights - most_weights(r, stages));
    const int64_t last = forwards + gradients + weights_before + pauses + tail_[low];
    const int64_t makespan = head_[low] + std::max({span, last, area_time(r, stages)});
    return {Time{makespan}, Time{std::max(span, area_time(r, stages))}};
  }

  // From the end of the forward of the last stage to the start of the gradient of stage s.
  int64_t time_back_to(size_t s) const {
    return back_.back() - back_[s] + gradient_.back() - gradient_[s];
  }

  int64_t within(size_t r, const std::vector<Item>& items, int64_t reserved) const {
    if (limited()) return most_time(items, costs_.memory_limit[r] - reserved);
    int64_t time = 0;
    for (const Item& item : items) time += item.count * item.time;
    return time;
  }
  // Most time of forwards that the rank can hold at a time.
  int64_t most_forwards(size_t r, const std::vector<size_t>& stages) const {
    std::vector<Item> items;
    for (const size_t s : stages) items.push_back({held_[s], forward_[s], m_});
    return within(r, items, 0);
  }
  // Most time of gradients and weight gradients whose activations the rank can hold at a time,
  // beside one of stage `top`.
  int64_t most_backwards(size_t r, const std::vector<size_t>& stages, size_t top) const {
    std::vector<Item> items;
    for (const size_t s : stages) {
      items.push_back({held_[s], gradient_[s] + weight_[s], m_});
      items.push_back({held_for_weight_[s], weight_[s], m_});
    }
    return within(r, items, held_[top]);
  }
  int64_t most_weights(size_t r, const std::vector<size_t>& stages) const {
    std::vector<Item> items;
    for (const size_t s : stages) items.push_back({held_for_weight_[s], weight_[s], m_});
    return within(r, items, 0);
  }

  // A microbatch holds the memory of stage s from the start of its forward to the end of its
  // gradient, and what is left of it while its weight gradient runs; at no time more than the
  // limit.  Rounded down by more than doubles can be wrong.
  int64_t area_time(size_t r, const std::vector<size_t>& stages) const {
    if (!limited() || costs_.memory_limit[r] <= 0) return 0;
    double area = 0;
    for (const size_t s : stages) {
      const int64_t there = turn_ - head_[s] + time_back_to(s) + gradient_[s];
      area += static_cast<double>(m_) *
              (static_cast<double>(held_[s]) * static_cast<double>(there) +
               static_cast<double>(held_for_weight_[s]) * static_cast<double>(weight_[s]));
    }
    return static_cast<int64_t>(area / static_cast<double>(costs_.memory_limit[r]) * (1 - 1e-12));
  }

  const PipelineCosts& costs_;
  int64_t m_;
  std::vector<int64_t> forward_, gradient_, weight_, hop_, held_, held_for_weight_;
  std::vector<int64_t> head_, back_, tail_;
  int64_t turn_ = 0;
};

}  // namespace

PipelineCosts level_costs(int64_t pp, int64_t microbatches, std::vector<uint16_t> rank_of_stage,
                          const StageTimes& times, const StageMemory& memory, Time hop,
                          std::optional<int64_t> memory_limit) {
  PipelineCosts costs;
  costs.pp = pp;
  costs.microbatches = microbatches;
  const size_t stages = rank_of_stage.size();
  costs.rank_of_stage = std::move(rank_of_stage);
  costs.times.assign(stages, times);
  costs.memory.assign(stages, memory);
  costs.hops.assign(stages == 0 ? 0 : stages - 1, hop);
  if (memory_limit) costs.memory_limit.assign(static_cast<size_t>(pp), *memory_limit);
  return costs;
}

Time action_time(const PipelineCosts& costs, ActionKind kind, size_t stage) {
  const StageTimes& t = costs.times[stage];
  switch (kind) {
    case ActionKind::forward: return t.forward;
    case ActionKind::backward: return whole_backward(t);
    case ActionKind::backward_input: return t.backward_input;
    case ActionKind::backward_weight: return t.backward_weight;
    default: break;
  }
  STEPCAST_CHECK(false, "an action that the evaluator of orders does not know");
  return {};
}

int64_t action_memory(const PipelineCosts& costs, ActionKind kind, size_t stage) {
  const StageMemory& m = costs.memory[stage];
  switch (kind) {
    case ActionKind::forward: return m.forward;
    case ActionKind::backward: return m.backward_input + m.backward_weight;
    case ActionKind::backward_input: return m.backward_input;
    case ActionKind::backward_weight: return m.backward_weight;
    default: break;
  }
  STEPCAST_CHECK(false, "an action that the evaluator of orders does not know");
  return 0;
}

Time hop_between(const PipelineCosts& costs, size_t stage) {
  if (costs.rank_of_stage[stage] == costs.rank_of_stage[stage + 1]) return Time{0};
  return costs.hops[stage];
}

std::optional<OrderTimes> time_order(const PipelineCosts& costs, const Order& order) {
  return Walk(costs, order).run();
}

std::vector<int64_t> peak_memory(const PipelineCosts& costs, const Order& order) {
  std::vector<int64_t> peaks;
  for (const std::vector<Action>& list : order) {
    int64_t held = 0, peak = 0;
    for (const Action& a : list) {
      held += action_memory(costs, a.kind, a.stage);
      peak = std::max(peak, held);
    }
    peaks.push_back(peak);
  }
  return peaks;
}

bool fits_memory(const PipelineCosts& costs, const Order& order) {
  if (costs.memory_limit.empty()) return true;
  const std::vector<int64_t> peaks = peak_memory(costs, order);
  for (size_t r = 0; r < peaks.size(); ++r)
    if (peaks[r] > costs.memory_limit[r]) return false;
  return true;
}

OrderTimes schedule_bounds(const PipelineCosts& costs, bool split_backward) {
  return Bounds(costs, split_backward).all();
}

}  // namespace stepcast
