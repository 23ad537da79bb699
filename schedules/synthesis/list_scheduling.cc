// SPDX-License-Identifier: Apache-2.0
// List scheduling.
//
// Take 2 ranks with one stage each, 3 microbatches, F = I = W = 1 and free transfers, and the
// plainest rules: an input gradient before a forward, a weight gradient where nothing else can run,
// at most 2 microbatches in flight on rank 0 and 1 on rank 1.  Time runs from 0; the rank that has
// to decide first decides.
//
//     time  rank 0                              rank 1
//     0     F0: there is nothing else           nothing has arrived: decides again at 1
//     1     F1: no gradient yet                 F0
//     2     2 in flight: no F2, waits           I0: before F1, which has arrived as well
//     3     I0                                  F1: there is no other gradient
//     4     F2: 1 in flight again               I1
//     5     I1                                  F2
//     6     W0, since nothing else is there     I2
//     7     I2                                  W0
//
// and the weight gradients that are left.  What a rank needs to know in order to decide is what has
// been sent to it, also if it is still under way: then it may be worth a wait (patience) to run an
// input gradient that somebody waits for before a forward or a weight gradient.
//
// Of each stage the microbatches go in turn, so a rank has at most one forward, one input gradient
// and one weight gradient of each of its stages to choose from.  A forward is begun only if the
// rank keeps room for the later stages of the same microbatch and for its gradients
// (memory_to_enter()): whatever is begun can be ended, and no order gets stuck for want of memory.

#include "schedules/synthesis/list_scheduling.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>

#include "sim/check.h"

namespace stepcast {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// A candidate: of which stage, and when its input is there.
struct NextAction {
  int64_t stage = -1;
  int64_t microbatch = 0;
  int64_t ready = kNever;
};

class ListScheduler {
 public:
  ListScheduler(const PipelineCosts& costs, const ListRules& rules)
      : costs_(costs),
        rules_(rules),
        stages_(costs.rank_of_stage.size()),
        microbatches_(static_cast<size_t>(costs.microbatches)),
        to_enter_(memory_to_enter(costs, rules.split_backward)),
        forward_at_(stages_ * microbatches_, kNever),
        gradient_at_(stages_ * microbatches_, kNever),
        stage_(stages_),
        rank_(static_cast<size_t>(costs.pp)),
        decides_at_(static_cast<size_t>(costs.pp), 0),
        order_(static_cast<size_t>(costs.pp)) {
    for (size_t s = 0; s < stages_; ++s) {
      for (size_t k = 0; k < time_.size(); ++k) {
        const auto kind = static_cast<ActionKind>(k);
        time_[k].push_back(action_time(costs, kind, s).count());
        memory_[k].push_back(action_memory(costs, kind, s));
      }
      hop_.push_back(s + 1 < stages_ ? hop_between(costs, s).count() : 0);
      rank_[costs.rank_of_stage[s]].stages.push_back(s);
      total_ += microbatches_ * (rules.split_backward ? 3 : 2);
    }
    std::fill_n(forward_at_.begin(), microbatches_, 0);
    for (size_t r = 0; r < rank_.size(); ++r)
      order_[r].reserve(rank_[r].stages.size() * microbatches_ * 3);
  }

  Order run() {
    while (total_ > 0) {
      const auto next = std::min_element(decides_at_.begin(), decides_at_.end());
      STEPCAST_CHECK(*next != kNever, "list schedule got stuck");
      decide(static_cast<size_t>(next - decides_at_.begin()), *next);
    }
    return std::move(order_);
  }

 private:
  struct Stage {
    size_t forwards = 0, gradients = 0;  // begun so far
    std::vector<size_t> behind;          // microbatches of which an input gradient has run
    size_t weights = 0;                  // of those the weight gradients begun
  };
  struct Rank {
    std::vector<size_t> stages;
    int64_t free_at = 0;
    int64_t memory = 0;
    int64_t weights_behind = 0;
  };

  void decide(size_t r, int64_t now) {
    const Rank& rank = rank_[r];
    const RankRules& rules = rules_.ranks[r];
    if (rank.weights_behind > rules.most_weights_behind) return run_weight(r);
    const NextAction gradient = best(r, now, ActionKind::backward_input);
    const NextAction forward = best(r, now, ActionKind::forward);
    const bool gradient_now = gradient.ready <= now, forward_now = forward.ready <= now;
    if (gradient_now && !(rules_.forward_first && forward_now)) return run_gradient(r, gradient);
    if (forward_now && (gradient_now || !worth_waiting(gradient.ready - now, rules.forward_patience,
                                                       ActionKind::forward, forward.stage)))
      return begin(r, ActionKind::forward, forward);
    const int64_t next = std::min(gradient.ready, forward_now ? kNever : forward.ready);
    if (rank.weights_behind > 0) {
      const bool wait =
          next != kNever && worth_waiting(next - now, rules.weight_patience,
                                          ActionKind::backward_weight, oldest_weight(r).stage);
      if (!wait) return run_weight(r);
    }
    decides_at_[r] = next;
  }

  // Whether something that comes in `wait` is worth more than starting an action of this kind now.
  bool worth_waiting(int64_t wait, int32_t patience, ActionKind kind, int64_t stage) const {
    const int64_t time = time_[static_cast<size_t>(kind)][static_cast<size_t>(stage)];
    return wait < time / 100 * patience;
  }

  void run_gradient(size_t r, const NextAction& c) {
    begin(r, splits(r, c.microbatch) ? ActionKind::backward_input : ActionKind::backward, c);
  }
  bool splits(size_t r, int64_t m) const {
    const RankRules& rules = rules_.ranks[r];
    return rules_.split_backward &&
           (m < rules.split_first || m >= costs_.microbatches - rules.split_last);
  }
  void run_weight(size_t r) { begin(r, ActionKind::backward_weight, oldest_weight(r)); }

  // The best of those that are ready, or else the one that is ready first.
  NextAction best(size_t r, int64_t now, ActionKind kind) const {
    NextAction best;
    for (const size_t s : rank_[r].stages) {
      const NextAction c = next_of(r, s, kind);
      if (c.ready == kNever) continue;
      if (best.stage < 0 || goes_before(c, best, now, kind)) best = c;
    }
    return best;
  }
  bool goes_before(const NextAction& a, const NextAction& b, int64_t now, ActionKind kind) const {
    if (a.ready > now || b.ready > now) return a.ready < b.ready;
    const ChunkOrder rule = kind == ActionKind::forward ? rules_.forwards : rules_.backwards;
    if (rule == ChunkOrder::lower_microbatch && a.microbatch != b.microbatch)
      return a.microbatch < b.microbatch;
    return a.stage > b.stage;
  }
  // The next microbatch of stage s; ready == kNever if it may not run or has not been sent.
  NextAction next_of(size_t r, size_t s, ActionKind kind) const {
    const bool forward = kind == ActionKind::forward;
    const size_t m = forward ? stage_[s].forwards : stage_[s].gradients;
    if (m == microbatches_ || !(forward ? may_enter(r, s) : fits(r, s))) return {};
    const std::vector<int64_t>& at = forward ? forward_at_ : gradient_at_;
    return {static_cast<int64_t>(s), static_cast<int64_t>(m), at[s * microbatches_ + m]};
  }
  bool may_enter(size_t r, size_t s) const {
    const auto in_flight = static_cast<int64_t>(stage_[s].forwards - stage_[s].gradients);
    if (in_flight >= std::max<int64_t>(rules_.most_in_flight[s], 1)) return false;
    return costs_.memory_limit.empty() || rank_[r].memory + to_enter_[s] <= costs_.memory_limit[r];
  }
  bool fits(size_t r, size_t s) const {
    return costs_.memory_limit.empty() || !splits(r, static_cast<int64_t>(stage_[s].gradients)) ||
           rank_[r].memory + costs_.memory[s].backward_input <= costs_.memory_limit[r];
  }
  // REQUIRES: there is one.
  NextAction oldest_weight(size_t r) const {
    NextAction best;
    for (const size_t s : rank_[r].stages) {
      const Stage& stage = stage_[s];
      if (stage.weights == stage.behind.size()) continue;
      const auto m = static_cast<int64_t>(stage.behind[stage.weights]);
      if (best.stage < 0 || m <= best.microbatch) best = {static_cast<int64_t>(s), m, 0};
    }
    return best;
  }

  void begin(size_t r, ActionKind kind, const NextAction& c) {
    const auto s = static_cast<size_t>(c.stage);
    Rank& rank = rank_[r];
    const int64_t end = decides_at_[r] + time_[static_cast<size_t>(kind)][s];
    order_[r].push_back({kind, static_cast<uint16_t>(s), static_cast<uint32_t>(c.microbatch)});
    --total_;
    rank.memory += memory_[static_cast<size_t>(kind)][s];
    rank.free_at = decides_at_[r] = end;
    const size_t m = static_cast<size_t>(c.microbatch);
    if (kind == ActionKind::forward) {
      ++stage_[s].forwards;
      if (s + 1 < stages_)
        deliver(forward_at_, s + 1, m, end + hop_[s]);
      else
        deliver(gradient_at_, s, m, end);
    } else if (kind == ActionKind::backward_weight) {
      ++stage_[s].weights;
      --rank.weights_behind;
    } else {
      ++stage_[s].gradients;
      if (kind == ActionKind::backward_input) {
        ++rank.weights_behind;
        stage_[s].behind.push_back(m);
      } else if (rules_.split_backward) {
        --total_;  // the weight gradient that is in it
      }
      if (s > 0) deliver(gradient_at_, s - 1, m, end + hop_[s - 1]);
    }
  }

  // What is under round_trip is known to the receiver, which may have nothing else to wait for.
  void deliver(std::vector<int64_t>& at, size_t s, size_t m, int64_t arrival) {
    at[s * microbatches_ + m] = arrival;
    const size_t receiver = costs_.rank_of_stage[s];
    decides_at_[receiver] =
        std::min(decides_at_[receiver], std::max(arrival, rank_[receiver].free_at));
  }

  const PipelineCosts& costs_;
  const ListRules& rules_;
  size_t stages_, microbatches_;
  std::array<std::vector<int64_t>, 4> time_, memory_;  // by kind (F, B, I, W) and stage
  std::vector<int64_t> hop_;                           // behind each stage
  std::vector<int64_t> to_enter_;
  std::vector<int64_t> forward_at_, gradient_at_;  // when the input arrives, by stage, microbatch
  std::vector<Stage> stage_;
  std::vector<Rank> rank_;
  std::vector<int64_t> decides_at_;  // by rank; kNever: when something is sent to it
  Order order_;
  size_t total_ = 0;  // actions left
};

constexpr int64_t kShares[] = {150, 250, 0, 120, 200, 300};
constexpr int32_t kPatience[] = {0, 50, 75};

// How many activations a stage has to hold so that the work of the busiest rank fills the
// round_trip of a microbatch from its forward to its gradient, in hundredths.
std::vector<int64_t> natural_in_flight(const PipelineCosts& costs) {
  const size_t stages = costs.times.size();
  std::vector<int64_t> work(static_cast<size_t>(costs.pp), 0), round_trip(stages, 0);
  int64_t onward = 0;  // from the start of the forward to the end of the gradient
  for (size_t s = stages; s-- > 0;) {
    const StageTimes& t = costs.times[s];
    onward += (t.forward + t.backward_input).count();
    if (s + 1 < stages) onward += 2 * hop_between(costs, s).count();
    work[costs.rank_of_stage[s]] += (t.forward + t.backward_input + t.backward_weight).count();
    round_trip[s] = onward;
  }
  const int64_t period = std::max<int64_t>(1, *std::max_element(work.begin(), work.end()) / 100);
  for (int64_t& t : round_trip) t /= period;
  return round_trip;
}

}  // namespace

std::vector<int64_t> memory_to_enter(const PipelineCosts& costs, bool split_backward) {
  const auto pp = static_cast<size_t>(costs.pp);
  std::vector<int64_t> held(pp, 0), input(pp, 0);
  for (size_t s = 0; s < costs.memory.size(); ++s) {
    int64_t& most = input[costs.rank_of_stage[s]];
    if (split_backward) most = std::max(most, costs.memory[s].backward_input);
  }
  std::vector<int64_t> needed(costs.memory.size());
  for (size_t s = costs.memory.size(); s-- > 0;) {
    const size_t r = costs.rank_of_stage[s];
    held[r] += costs.memory[s].forward;
    needed[s] = held[r] + input[r];
  }
  return needed;
}

Order list_schedule(const PipelineCosts& costs, const ListRules& rules) {
  return ListScheduler(costs, rules).run();
}

RulesToTry::RulesToTry(const PipelineCosts& costs, bool split_backward, bool mixes)
    : costs_(costs),
      split_backward_(split_backward),
      mixes_(mixes),
      natural_(natural_in_flight(costs)) {}

// Rules alike for all ranks.  `share`: of natural_, in percent; 0: as many as memory allows.
ListRules RulesToTry::alike(int64_t share, const RankRules& rank) const {
  ListRules rules;
  rules.split_backward = split_backward_;
  rules.ranks.assign(static_cast<size_t>(costs_.pp), rank);
  for (const int64_t natural : natural_)
    rules.most_in_flight.push_back(share == 0 ? costs_.microbatches
                                              : (natural * share / 100 + 99) / 100);
  return rules;
}

size_t RulesToTry::plain_count() const {
  return (mixes_ ? 2 : 1) * std::size(kShares) * std::size(kPatience) * (has_chunks() ? 4 : 2);
}

// Where whole backwards pay, all in turn with whole backwards and split.
ListRules RulesToTry::plain(size_t i) const {
  RankRules rank;
  if (mixes_ && i % 2 == 0) rank.split_first = 0;
  if (mixes_) i /= 2;
  rank.weight_patience = kPatience[i / 2 % std::size(kPatience)];
  const size_t rest = i / 2 / std::size(kPatience);
  ListRules rules = alike(kShares[rest % std::size(kShares)], rank);
  rules.forward_first = i % 2 == 1;
  if (rest >= std::size(kShares)) rules.forwards = rules.backwards = ChunkOrder::lower_microbatch;
  return rules;
}

ListRules RulesToTry::drawn(CountedRandom& random) const {
  RankRules rank;
  rank.forward_patience = static_cast<int32_t>(random.below(2) * random.below(5) * 25);
  rank.weight_patience = static_cast<int32_t>(random.below(5) * 25);
  if (random.below(4) == 0) rank.most_weights_behind = static_cast<int64_t>(random.below(8));
  if (mixes_ && random.below(4) > 0) {
    const auto most = static_cast<uint64_t>(std::min(2 * costs_.pp, costs_.microbatches));
    rank.split_first = static_cast<int64_t>(random.below(2) * random.below(most + 1));
    rank.split_last = static_cast<int64_t>(random.below(2) * random.below(most + 1));
  }
  const auto share = static_cast<int64_t>(70 + random.below(240));
  ListRules rules = alike(random.below(4) == 0 ? 0 : share, rank);
  rules.forward_first = random.below(2) == 0;
  rules.forwards = ChunkOrder{static_cast<uint8_t>(random.below(2))};
  rules.backwards = ChunkOrder{static_cast<uint8_t>(random.below(2))};
  return rules;
}

void RulesToTry::step(int64_t& split, int64_t by) const {
  split = std::clamp<int64_t>(std::min(split, costs_.microbatches) + by, 0, costs_.microbatches);
}

ListRules RulesToTry::varied(const ListRules& best, CountedRandom& random) const {
  static constexpr int64_t kSteps[] = {-2, -1, 1, 2};
  ListRules rules = best;
  const size_t pp = rules.ranks.size();
  const size_t from = random.below(pp);
  const size_t to = random.below(2) == 0 ? from + 1 : from + 1 + random.below(pp - from);
  const uint64_t what = random.below(mixes_ ? 7 : 5);
  const uint64_t amount = random.below(4);
  for (size_t r = from; r < to; ++r) {
    if (what == 0) rules.ranks[r].weight_patience = static_cast<int32_t>(amount * 33);
    if (what == 1) rules.ranks[r].forward_patience = static_cast<int32_t>(amount * 33);
    if (what == 5) step(rules.ranks[r].split_first, kSteps[amount]);
    if (what == 6) step(rules.ranks[r].split_last, kSteps[amount]);
  }
  for (size_t s = 0; s < natural_.size() && (what > 1 && what < 5); ++s) {
    const size_t r = costs_.rank_of_stage[s];
    if (r < from || r >= to || (what == 2 && s >= pp) || (what == 3 && s < pp)) continue;
    int64_t& most = rules.most_in_flight[s];
    most = std::max<int64_t>(1, std::min(most, costs_.microbatches) + kSteps[amount]);
  }
  return rules;
}

}  // namespace stepcast
