// SPDX-License-Identifier: Apache-2.0
#include "schedules/rules_to_try.h"

#include <algorithm>
#include <iterator>

namespace stepcast {
namespace {

constexpr int64_t kShares[] = {150, 250, 0, 120, 200, 300};
constexpr int32_t kPatience[] = {0, 50, 75};

// How many activations a stage has to hold so that the work of the busiest rank fills the way of
// a microbatch from its forward to its gradient, in hundredths.
std::vector<int64_t> natural_in_flight(const PipelineCosts& costs) {
  const size_t stages = costs.times.size();
  std::vector<int64_t> work(static_cast<size_t>(costs.pp), 0), way(stages, 0);
  int64_t onward = 0;  // from the start of the forward to the end of the gradient
  for (size_t s = stages; s-- > 0;) {
    const StageTimes& t = costs.times[s];
    onward += (t.forward + t.backward_input).count();
    if (s + 1 < stages) onward += 2 * hop_between(costs, s).count();
    work[costs.rank_of_stage[s]] += (t.forward + t.backward_input + t.backward_weight).count();
    way[s] = onward;
  }
  const int64_t period = std::max<int64_t>(1, *std::max_element(work.begin(), work.end()) / 100);
  for (int64_t& w : way) w /= period;
  return way;
}

}  // namespace

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
