// SPDX-License-Identifier: Apache-2.0
#include "schedules/local_search.h"

#include <algorithm>
#include <array>
#include <utility>

#include "schedules/counted_random.h"
#include "schedules/moved_order.h"

namespace stepcast {
namespace {

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
        best_actions_(order_.actions()),
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
    return {order_.order_of(best_actions_), best_, tries};
  }

 private:
  void accept() {
    order_.keep();
    path_.clear();
    if (better(order_.kept_times(), best_)) {
      best_ = order_.kept_times();
      best_actions_ = order_.actions();
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

  // The places on a longest way through the order, last first: of what is to become short, and now
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
      at = static_cast<uint32_t>(random_.below(order_.actions().size()));
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
  std::vector<Action> best_actions_;
  OrderTimes best_;
};

}  // namespace

SearchOutcome improve_order(const PipelineCosts& costs, const Order& start,
                            const SearchGoal& goal) {
  return OrderSearch(costs, start, goal).run();
}

}  // namespace stepcast
