// SPDX-License-Identifier: Apache-2.0
#include "schedules/order_timing.h"

#include <algorithm>

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

}  // namespace stepcast
