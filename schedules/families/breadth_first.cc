// SPDX-License-Identifier: Apache-2.0
// Breadth-first pipelines over several chunks: all microbatches of a chunk before the next chunk,
// so that each chunk's parameters are gathered and its gradients reduced once a step.
//
// Two forms: torch.distributed.pipelining's looped BFS runs the backwards of a chunk in descending
// order of microbatches (or ascending, on request); Fast-LLM's in ascending order, and can repeat
// the whole for `D` depth-first rounds of `group` microbatches, of which round d takes d, D + d,
// 2 D + d, ...
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

constexpr std::string_view kLooped = "looped-bfs";
constexpr std::string_view kLoopedAliases[] = {"loopedbfs", "scheduleloopedbfs", "breadth-first-pp",
                                               "bfs"};
constexpr std::string_view kFastLlm = "breadth-first";
constexpr std::string_view kFastLlmAliases[] = {"breadthfirst", "breadth-first-fastllm"};

constexpr std::string_view kBackwardOrder = "backward_order";
constexpr ScheduleParameter kLoopedParameters[] = {
    {kBackwardOrder,
     "microbatches of the backwards of a chunk: descending (default) or ascending"}};
constexpr std::string_view kDepth = "depth_first_micro_batches";
constexpr std::string_view kBreadth = "breadth_first_micro_batches";
constexpr ScheduleParameter kFastLlmParameters[] = {
    {kBreadth, "microbatches of a round; default: all"},
    {kDepth, "rounds, one after the other; rounds * microbatches of a round = microbatches"}};

std::optional<std::string> backward_order(ParamReader& in) {
  return in.word(kBackwardOrder, {"descending", "ascending"});
}

std::optional<Diagnostic> check_looped_bfs(const ScheduleParams& params) {
  ParamReader in(params);
  backward_order(in);
  return in.wrong();
}

Schedule looped_bfs_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kLooped, params);
  ParamReader in(params);
  const bool ascending = backward_order(in) == "ascending";
  const int64_t last = params.microbatches - 1;
  for (int64_t r = 0; r < params.pp; ++r) {
    std::vector<Action>& list = schedule.ranks[static_cast<size_t>(r)];
    list.reserve(static_cast<size_t>(2 * params.vpp * params.microbatches));
    for (int64_t c = 0; c < params.vpp; ++c)
      for (int64_t m = 0; m < params.microbatches; ++m)
        list.push_back(forward_of(c * params.pp + r, m));
    for (int64_t c = params.vpp; c-- > 0;)
      for (int64_t m = 0; m <= last; ++m)
        list.push_back(backward_of(c * params.pp + r, ascending ? m : last - m));
  }
  return schedule;
}

// How many rounds the microbatches run in.
int64_t depth_first_rounds(const ScheduleParams& params) {
  ParamReader in(params);
  const std::optional<int64_t> breadth = in.group(kBreadth);
  return breadth ? params.microbatches / *breadth : in.whole(kDepth).value_or(1);
}

std::optional<Diagnostic> check_breadth_first(const ScheduleParams& params) {
  ParamReader in(params);
  const int64_t m = params.microbatches;
  const auto must_divide = [&](std::string_view key, std::optional<int64_t> value) {
    if (value && m % *value != 0)
      in.refuse(fmt::format("{} = {} must divide the {} microbatches", key, *value, m));
  };
  const std::optional<int64_t> breadth = in.group(kBreadth);
  must_divide(params.group > 0 ? "group" : kBreadth, breadth);
  must_divide(kDepth, in.whole(kDepth));
  if (breadth) in.expect(kDepth, m / *breadth, "microbatches / those of a round");
  return in.wrong();
}

Schedule breadth_first_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kFastLlm, params);
  const int64_t m = params.microbatches;
  const int64_t rounds = depth_first_rounds(params);
  for (int64_t r = 0; r < params.pp; ++r) {
    std::vector<Action>& list = schedule.ranks[static_cast<size_t>(r)];
    list.reserve(static_cast<size_t>(2 * params.vpp * m));
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
      kLooped,
      "looped BFS",
      kLoopedAliases,
      "chunk by chunk, backwards in descending order; bubble (p-1)(tF+tB) of a chunk for m >= p, "
      "holds v m chunks; any size",
      "Lamy-Poirier 2022 (arXiv:2211.05953); torch.distributed.pipelining ScheduleLoopedBFS",
      check_looped_bfs,
      looped_bfs_order,
      kLoopedParameters};
}

ScheduleFamily breadth_first() {
  ScheduleFamily family{
      kFastLlm,
      "breadth-first",
      kFastLlmAliases,
      "chunk by chunk, backwards in ascending order, in depth-first rounds of `group` "
      "microbatches (default: all, one round); holds v * group "
      "chunks; bubble (p-1)(tF+tB) of a chunk and round; group must divide m",
      "Lamy-Poirier 2022 (arXiv:2211.05953); Fast-LLM",
      check_breadth_first,
      breadth_first_order,
      kFastLlmParameters};
  family.takes_group = true;
  return family;
}

}  // namespace stepcast
