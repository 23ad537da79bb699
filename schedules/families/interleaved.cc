// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B as Megatron-LM runs it: v chunks on each rank, microbatches in groups of N.
//
// A rank goes through its chunks group by group; warm-up is 2(p-1-r) + (v-1)N forwards.  N = p is
// depth first, N = m breadth first.  The last group may be smaller than N but not than p: a
// microbatch must come round before its next chunk is due.
//
// With expert-parallel overlap the warm-up is one forward longer, so that the forward and the
// backward of a steady step do not depend on each other and run as one overlapped unit.
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

constexpr std::string_view kInterleaved = "interleaved-1f1b";
constexpr std::string_view kInterleavedAliases[] = {
    "interleaved",          "1f1b-interleaved",
    "interleaved-pipeline", "vpp",
    "virtual-pipeline",     "megatron-interleaved",
    "interleavedschedule",  "forward-backward-pipelining-with-interleaving"};
constexpr std::string_view kEpOverlap = "interleaved-1f1b-ep-overlap";
constexpr std::string_view kEpOverlapAliases[] = {
    "interleaved-ep-overlap", "1f1b-ep-overlap", "ep-overlap",
    "1f1b-overlap",           "combined-1f1b",   "overlap-moe-expert-parallel-comm"};

constexpr ScheduleParameter kInterleavedParameters[] = {
    {kMegatronGroup, "N, the microbatches of a group; default pp"},
    {kMegatronOverlap, "transfers run beside compute; default true, and with pp = 2 it must be"},
    {kMegatronOverlapFlush, "... in warm-up and cool-down as well; default false"},
    {kMegatronEpOverlap, "true: the schedule interleaved-1f1b-ep-overlap"},
};

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

void check_group(std::string_view name, const ScheduleParams& params, int64_t group, bool given) {
  const std::string m = std::to_string(params.microbatches);
  const std::string p = std::to_string(params.pp);
  if (params.microbatches < params.pp)
    throw std::invalid_argument(std::string(name) + " needs at least pp = " + p +
                                " microbatches, there are " + m);
  if (is_legal_group(params.pp, params.microbatches, group)) return;
  const std::string g = "group = " + std::to_string(group) + (given ? "" : " (the default, pp)");
  const std::string legal = "; legal with " + m + " microbatches and pp = " + p + ": " +
                            legal_groups(params.pp, params.microbatches);
  if (group < params.pp || group > params.microbatches)
    throw std::invalid_argument(g + " must lie between pp = " + p + " and microbatches = " + m +
                                legal);
  throw std::invalid_argument(g + " leaves a remainder of " +
                              std::to_string(params.microbatches % group) +
                              " microbatches, which must be 0 or at least pp = " + p + legal);
}

// What Megatron-LM's arguments must say together.
void check_overlap(const ScheduleParams& params) {
  const std::optional<bool> overlap = flag_param(params, kMegatronOverlap);
  if (overlap == false && params.pp == 2)
    throw std::invalid_argument(std::string(kMegatronOverlap) +
                                " = false needs pp > 2 when chunks are interleaved: with pp = 2 "
                                "it must be true");
  if (overlap == false && flag_param(params, kMegatronOverlapFlush) == true)
    throw std::invalid_argument(std::string(kMegatronOverlapFlush) + " = true needs " +
                                std::string(kMegatronOverlap) + " = true");
}

// `lead` forwards more in the warm-up than a microbatch needs to come round.
template <typename OrderOfRank>
Schedule interleaved_order(std::string_view name, const ScheduleParams& params, int64_t lead,
                           OrderOfRank order) {
  Schedule schedule = loop_schedule(name, params);
  check_overlap(params);
  const std::optional<int64_t> given = group_param(params, kMegatronGroup);
  const int64_t group = given.value_or(params.pp);
  check_group(name, params, group, given.has_value());
  const std::vector<ChunkStep> steps = grouped_steps(params.vpp, params.microbatches, group);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, params.vpp, r);
    const int64_t warmup = 2 * (params.pp - 1 - r) + (params.vpp - 1) * group + lead;
    schedule.ranks[static_cast<size_t>(r)] = order(rank.forwards, rank.backwards, warmup);
  }
  return schedule;
}

Schedule ep_overlap_order(const ScheduleParams& params) {
  if (params.vpp == 1 && params.pp > 1)
    throw std::invalid_argument(std::string(kEpOverlap) + " needs vpp >= 2 unless pp = 1: vpp = 1");
  if (flag_param(params, kMegatronEpOverlap) == false)
    throw std::invalid_argument(std::string(kMegatronEpOverlap) +
                                " = false must be true, or the schedule interleaved-1f1b");
  return interleaved_order(kEpOverlap, params, 1, overlapped_one_forward_one_backward);
}

Schedule plain_interleaved_order(const ScheduleParams& params) {
  if (flag_param(params, kMegatronEpOverlap) == true) return ep_overlap_order(params);
  if (params.vpp == 1)
    throw std::invalid_argument(std::string(kInterleaved) +
                                " needs vpp >= 2 (Megatron's virtual pipeline size); with vpp = 1 "
                                "the schedule is 1f1b");
  return interleaved_order(kInterleaved, params, 0, one_forward_one_backward);
}

// Interleaved 1F1B as torch.distributed.pipelining runs it: microbatches in R = max(1, m / p)
// rounds of n = m / R, which may be fewer than p.  Where Megatron's rule allows N = n the order is
// the same.

constexpr std::string_view kFlex = "interleaved-1f1b-flex";
constexpr std::string_view kFlexAliases[] = {
    "interleaved1f1b",           "scheduleinterleaved1f1b",
    "flexibleinterleaved1f1b",   "scheduleflexibleinterleaved1f1b",
    "flexible-interleaved-1f1b", "interleaved-flex"};

Schedule flex_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kFlex, params);
  const int64_t round = microbatches_of_round(kFlex, params);
  const std::vector<ChunkStep> steps = grouped_steps(params.vpp, params.microbatches, round);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, params.vpp, r);
    const int64_t warmup = (params.vpp - 1) * round + 2 * (params.pp - 1 - r);
    schedule.ranks[static_cast<size_t>(r)] =
        one_forward_one_backward(rank.forwards, rank.backwards, warmup);
  }
  return schedule;
}

}  // namespace

ScheduleFamily interleaved() {
  return {kInterleaved,
          kInterleavedAliases,
          "v chunks a rank in groups of N microbatches; bubble (p-1)(tF+tB) of a chunk, holds "
          "2(p-1)+(v-1)N+1 chunks; vpp >= 2, p <= N <= m, m % N = 0 or >= p",
          "Narayanan et al. 2021 (arXiv:2104.04473); Megatron-LM "
          "forward_backward_pipelining_with_interleaving",
          plain_interleaved_order,
          kInterleavedParameters,
          P2pStyle::megatron_overlap};
}

ScheduleFamily interleaved_ep_overlap() {
  return {kEpOverlap,
          kEpOverlapAliases,
          "interleaved-1f1b with one more forward of warm-up and steady steps as overlapped units "
          "of forward and backward, to hide all-to-all; bubble (p-1)(2tFB-tF-tB) of a chunk, holds "
          "2(p-1)+(v-1)N+2 chunks; vpp >= 2 or pp = 1, p <= N <= m, m % N = 0 or >= p",
          "Megatron-LM overlap_moe_expert_parallel_comm",
          ep_overlap_order,
          kInterleavedParameters,
          P2pStyle::megatron_overlap};
}

ScheduleFamily interleaved_flex() {
  return {
      kFlex,
      kFlexAliases,
      "v chunks a rank in R = max(1, m/p) rounds of n microbatches; bubble (p-1)(tF+tB) of a "
      "chunk, and (p-n)(v-1)(tF+tB) more if n < p; holds 2(p-1)+(v-1)n+1 chunks; R must divide m",
      "torch.distributed.pipelining ScheduleInterleaved1F1B",
      flex_order,
      kRoundParameters};
}

}  // namespace stepcast
