// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B as Megatron-LM runs it: v chunks on each rank, microbatches in groups of N.
//
// A rank goes through its chunks group by group; warm-up is 2(p-1-r) + (v-1)N forwards.  N = p is
// depth first, N = m breadth first.  The last group may be smaller than N but not than p: a
// microbatch must come round before its next chunk is due.
#include <algorithm>
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "interleaved-1f1b";
constexpr std::string_view kAliases[] = {"interleaved", "1f1b-interleaved", "interleaved-pipeline",
                                         "vpp",         "virtual-pipeline", "megatron-interleaved"};

bool is_legal_group(int64_t pp, int64_t microbatches, int64_t group) {
  const int64_t rest = microbatches % group;
  return group >= pp && group <= microbatches && (rest == 0 || rest >= pp);
}

// "4, 5 or 9"; a long list is cut.  REQUIRES: microbatches >= pp, so that there is at least one.
std::string legal_groups(int64_t pp, int64_t microbatches) {
  constexpr size_t kMost = 8;
  constexpr int64_t kTried = 10'000;  // the message must not take long when there are few
  std::vector<int64_t> legal;
  for (int64_t g = pp; g < microbatches && g < pp + kTried && legal.size() + 1 < kMost; ++g)
    if (is_legal_group(pp, microbatches, g)) legal.push_back(g);
  legal.push_back(microbatches);  // one group of all is always legal
  std::string text;
  for (size_t i = 0; i < legal.size(); ++i) {
    if (i > 0) text += i + 1 == legal.size() ? " or " : ", ";
    text += std::to_string(legal[i]);
  }
  return text;
}

void check_group(const ScheduleParams& params, int64_t group) {
  const std::string m = std::to_string(params.microbatches);
  const std::string p = std::to_string(params.pp);
  if (params.microbatches < params.pp)
    throw std::invalid_argument(std::string(kName) + " needs at least pp = " + p +
                                " microbatches, there are " + m);
  if (is_legal_group(params.pp, params.microbatches, group)) return;
  const std::string g =
      "group = " + std::to_string(group) + (params.group == 0 ? " (the default, pp)" : "");
  const std::string legal = "; legal with " + m + " microbatches and pp = " + p + ": " +
                            legal_groups(params.pp, params.microbatches);
  if (group < params.pp || group > params.microbatches)
    throw std::invalid_argument(g + " must lie between pp = " + p + " and microbatches = " + m +
                                legal);
  throw std::invalid_argument(g + " leaves a remainder of " +
                              std::to_string(params.microbatches % group) +
                              " microbatches, which must be 0 or at least pp = " + p + legal);
}

Schedule generate(const ScheduleParams& params) {
  if (params.vpp == 1)
    throw std::invalid_argument(std::string(kName) +
                                " needs vpp >= 2 (Megatron's virtual pipeline size); with vpp = 1 "
                                "the schedule is 1f1b");
  Schedule schedule = loop_schedule(kName, params);
  const int64_t group = params.group == 0 ? params.pp : params.group;
  check_group(params, group);
  const std::vector<ChunkStep> steps = grouped_steps(params.vpp, params.microbatches, group);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, params.vpp, r);
    const int64_t warmup = 2 * (params.pp - 1 - r) + (params.vpp - 1) * group;
    schedule.ranks[static_cast<size_t>(r)] =
        one_forward_one_backward(rank.forwards, rank.backwards, warmup);
  }
  return schedule;
}

}  // namespace

ScheduleFamily interleaved() {
  return {kName, kAliases,
          "v chunks a rank in groups of N microbatches; bubble (p-1)(tF+tB) of a chunk, holds "
          "2(p-1)+(v-1)N+1 chunks; vpp >= 2, p <= N <= m, m % N = 0 or >= p",
          "Narayanan et al. 2021 (arXiv:2104.04473); Megatron-LM "
          "forward_backward_pipelining_with_interleaving",
          generate};
}

}  // namespace stepcast
