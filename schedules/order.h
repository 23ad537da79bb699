// SPDX-License-Identifier: Apache-2.0
// The order that most families share: a warm-up of forwards, a steady phase of one forward and one
// backward in turn, a cool-down of backwards.  Families differ in what the k-th forward and the
// k-th backward of a rank are, and in the length of the warm-up.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "schedules/schedule.h"
#include "sim/graph/action.h"

namespace stepcast {

// `warmup` forwards; then forward warmup + k and backward k for k = 0, 1, ... while forwards are
// left; then the remaining backwards.  REQUIRES: equal sizes.  A warm-up longer than the list means
// all of it.
std::vector<Action> one_forward_one_backward(std::span<const Action> forwards,
                                             std::span<const Action> backwards, int64_t warmup);

// The same, with the forward and the backward of each steady step as one overlapped unit.
std::vector<Action> overlapped_one_forward_one_backward(std::span<const Action> forwards,
                                                        std::span<const Action> backwards,
                                                        int64_t warmup);

// `forward` and `backward` as one overlapped unit at the end of `order`.
void add_pair(std::vector<Action>& order, Action forward, const Action& backward);

// The input and the weight gradient that make up a full backward.  REQUIRES: kind is backward.
std::pair<Action, Action> split(const Action& backward);

// The same order with every backward split: I where B was; after the I of backward k the W of
// backward k - lag, and at the end the W that are left.
std::vector<Action> split_backward_order(std::span<const Action> forwards,
                                         std::span<const Action> backwards, int64_t warmup,
                                         int64_t lag);

// The k-th forward of a rank: chunk and microbatch.
struct ChunkStep {
  int64_t chunk = 0;
  int64_t microbatch = 0;
};

// Megatron's schedule table: microbatches in groups of `group` (the last one takes what is left);
// of each group first all microbatches of chunk 0, then all of chunk 1, ...  REQUIRES: all >= 1.
std::vector<ChunkStep> grouped_steps(int64_t chunks, int64_t microbatches, int64_t group);

// PyTorch's rule for the size of such a group: the microbatches in max(1, m / pp) equal rounds.
// Throws std::invalid_argument with a sentence for the user if the rounds do not come out equal, or
// if kRoundParameters are given and say otherwise.
int64_t microbatches_of_round(std::string_view name, const ScheduleParams& params);

// The outcome of that rule, which PyTorch's schedules carry; given here they are only compared.
inline constexpr ScheduleParameter kRoundParameters[] = {
    {"rounds", "rounds of microbatches; must be max(1, m / pp)"},
    {"microbatches_per_round", "microbatches of a round; must be m / rounds"},
};

// Forwards and backwards of `rank` in a loop placement, in the order of `steps`; backwards take the
// chunks the other way round.
struct RankActions {
  std::vector<Action> forwards, backwards;
};
RankActions loop_actions(std::span<const ChunkStep> steps, int64_t pp, int64_t chunks,
                         int64_t rank);

// One chunk a rank, microbatches in ascending order: the order at the top of this file, of which
// rank r runs `warmup(r)` forwards ahead.  Throws as loop_schedule.
Schedule one_chunk_schedule(std::string_view name, const ScheduleParams& params,
                            const std::function<int64_t(int64_t rank)>& warmup);

}  // namespace stepcast
