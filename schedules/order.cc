// SPDX-License-Identifier: Apache-2.0
#include "schedules/order.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "schedules/params.h"
#include "schedules/placement.h"

namespace stepcast {

std::vector<Action> one_forward_one_backward(std::span<const Action> forwards,
                                             std::span<const Action> backwards, int64_t warmup) {
  const size_t warm = std::min(static_cast<size_t>(warmup), forwards.size());
  std::vector<Action> order;
  order.reserve(forwards.size() + backwards.size());
  order.insert(order.end(), forwards.begin(), forwards.begin() + static_cast<ptrdiff_t>(warm));
  for (size_t k = 0; k < backwards.size(); ++k) {
    if (warm + k < forwards.size()) order.push_back(forwards[warm + k]);
    order.push_back(backwards[k]);
  }
  return order;
}

std::vector<Action> overlapped_one_forward_one_backward(std::span<const Action> forwards,
                                                        std::span<const Action> backwards,
                                                        int64_t warmup) {
  std::vector<Action> order = one_forward_one_backward(forwards, backwards, warmup);
  const size_t warm = std::min(static_cast<size_t>(warmup), forwards.size());
  for (size_t k = warm; k < forwards.size(); ++k) order[2 * k - warm].overlaps_next = true;
  return order;
}

void add_pair(std::vector<Action>& order, Action forward, const Action& backward) {
  forward.overlaps_next = true;
  order.push_back(forward);
  order.push_back(backward);
}

std::pair<Action, Action> split(const Action& backward) {
  return {{ActionKind::backward_input, backward.stage, backward.microbatch},
          {ActionKind::backward_weight, backward.stage, backward.microbatch}};
}

std::vector<Action> split_backward_order(std::span<const Action> forwards,
                                         std::span<const Action> backwards, int64_t warmup,
                                         int64_t lag) {
  std::vector<Action> order;
  order.reserve(forwards.size() + 2 * backwards.size());
  size_t next_weight = 0;
  for (const Action& a : one_forward_one_backward(forwards, backwards, warmup)) {
    if (a.kind == ActionKind::forward) {
      order.push_back(a);
      continue;
    }
    order.push_back(split(a).first);
    if (lag-- <= 0) order.push_back(split(backwards[next_weight++]).second);
  }
  while (next_weight < backwards.size()) order.push_back(split(backwards[next_weight++]).second);
  return order;
}

std::vector<ChunkStep> grouped_steps(int64_t chunks, int64_t microbatches, int64_t group) {
  std::vector<ChunkStep> steps;
  steps.reserve(static_cast<size_t>(chunks * microbatches));
  for (int64_t first = 0; first < microbatches; first += group) {
    const int64_t last = std::min(microbatches, first + group);
    for (int64_t chunk = 0; chunk < chunks; ++chunk)
      for (int64_t m = first; m < last; ++m) steps.push_back({chunk, m});
  }
  return steps;
}

int64_t microbatches_of_round(std::string_view name, const ScheduleParams& params) {
  const int64_t m = params.microbatches;
  const int64_t rounds = std::max<int64_t>(1, m / params.pp);
  if (m % rounds == 0) {
    expect_param(params, "rounds", rounds, "max(1, microbatches / pp)");
    expect_param(params, "microbatches_per_round", m / rounds, "microbatches / rounds");
    return m / rounds;
  }
  // Any multiple of pp is legal, so there is one on either side.
  const auto legal = [&](int64_t n) { return n % std::max<int64_t>(1, n / params.pp) == 0; };
  int64_t below = m - 1;
  while (!legal(below)) --below;
  int64_t above = m + 1;
  while (!legal(above)) ++above;
  throw std::invalid_argument(
      std::string(name) + " runs max(1, microbatches / pp) = " + std::to_string(rounds) +
      " equal rounds, which " + std::to_string(m) + " microbatches do not fill; " +
      std::to_string(below) + " or " + std::to_string(above) + " would");
}

RankActions loop_actions(std::span<const ChunkStep> steps, int64_t pp, int64_t chunks,
                         int64_t rank) {
  RankActions actions;
  actions.forwards.reserve(steps.size());
  actions.backwards.reserve(steps.size());
  for (const ChunkStep& step : steps) {
    actions.forwards.push_back(forward_of(step.chunk * pp + rank, step.microbatch));
    actions.backwards.push_back(
        backward_of((chunks - 1 - step.chunk) * pp + rank, step.microbatch));
  }
  return actions;
}

Schedule one_chunk_schedule(std::string_view name, const ScheduleParams& params,
                            const std::function<int64_t(int64_t rank)>& warmup) {
  Schedule schedule = loop_schedule(name, params);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, 1, r);
    schedule.ranks[static_cast<size_t>(r)] =
        one_forward_one_backward(rank.forwards, rank.backwards, warmup(r));
  }
  return schedule;
}

}  // namespace stepcast
