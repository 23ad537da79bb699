// SPDX-License-Identifier: Apache-2.0
// Breadth-first pipelines over several chunks: all microbatches of a chunk before the next chunk,
// so that each chunk's parameters are gathered and its gradients reduced once a step.
//
// Two forms: torch.distributed.pipelining's looped BFS runs the backwards of a chunk in descending
// order of microbatches; Fast-LLM's in ascending order, and can repeat the whole for `D`
// depth-first rounds of `group` microbatches, of which round d takes d, D + d, 2 D + d, ...
#include <algorithm>
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kLooped = "looped-bfs";
constexpr std::string_view kLoopedAliases[] = {"loopedbfs", "scheduleloopedbfs", "breadth-first-pp",
                                               "bfs"};
constexpr std::string_view kFastLlm = "breadth-first";
constexpr std::string_view kFastLlmAliases[] = {"breadthfirst", "breadth-first-fastllm"};

Schedule looped_bfs_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kLooped, params);
  for (int64_t r = 0; r < params.pp; ++r) {
    std::vector<Action>& list = schedule.ranks[static_cast<size_t>(r)];
    for (int64_t c = 0; c < params.vpp; ++c)
      for (int64_t m = 0; m < params.microbatches; ++m)
        list.push_back(forward_of(c * params.pp + r, m));
    for (int64_t c = params.vpp; c-- > 0;)
      for (int64_t m = params.microbatches; m-- > 0;)
        list.push_back(backward_of(c * params.pp + r, m));
  }
  return schedule;
}

Schedule breadth_first_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kFastLlm, params);
  const int64_t m = params.microbatches;
  if (params.group > 0 && m % params.group != 0)
    throw std::invalid_argument("group = " + std::to_string(params.group) + " must divide the " +
                                std::to_string(m) + " microbatches");
  const int64_t rounds = params.group > 0 ? m / params.group : 1;
  for (int64_t r = 0; r < params.pp; ++r) {
    std::vector<Action>& list = schedule.ranks[static_cast<size_t>(r)];
    for (int64_t d = 0; d < rounds; ++d) {
      for (int64_t c = 0; c < params.vpp; ++c)
        for (int64_t i = d; i < m; i += rounds) list.push_back(forward_of(c * params.pp + r, i));
      for (int64_t c = params.vpp; c-- > 0;)
        for (int64_t i = d; i < m; i += rounds) list.push_back(backward_of(c * params.pp + r, i));
    }
  }
  return schedule;
}

}  // namespace

ScheduleFamily looped_bfs() {
  return {
      kLooped, kLoopedAliases,
      "chunk by chunk, backwards in descending order; bubble (p-1)(tF+tB) of a chunk for m >= p, "
      "holds v m chunks",
      "Lamy-Poirier 2022 (arXiv:2211.05953); torch.distributed.pipelining ScheduleLoopedBFS",
      looped_bfs_order};
}

ScheduleFamily breadth_first() {
  return {kFastLlm, kFastLlmAliases,
          "chunk by chunk, backwards in ascending order, in depth-first rounds of `group` "
          "microbatches (default: all, one round); holds v * group chunks",
          "Lamy-Poirier 2022 (arXiv:2211.05953); Fast-LLM", breadth_first_order};
}

}  // namespace stepcast
