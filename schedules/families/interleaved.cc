// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B: v chunks of the model on each rank, so that the pipeline fills and drains with
// actions that are 1/v as long, and so is the bubble.
//
// Stage s is on rank s mod p, and microbatches come in groups of N.  A rank goes through its chunks
// group by group: all N forwards of its first chunk, then of its second, ..., then the next group;
// backwards take the chunks in reverse order.  Before its first backward rank r runs
// 2 (p-1-r) + (v-1) N forwards ahead: (v-1) N until its last chunk is due, and 2 for each rank
// between it and the last one, for the way there and back.
//
// With p = 2, v = 2, N = 2 and 4 microbatches, rank 0 has stages 0 and 2, rank 1 stages 1 and 3:
//
//     rank 0   0F0 0F1 2F0 2F1  0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1  2B2 2B3 0B2 0B3
//     rank 1   1F0 1F1          3F0 3B0 3F1 3B1 1F2 1B0 1F3 1B1 3F2 3B2 3F3 3B3  1B2 1B3
//              warm-up          one forward, one backward                       cool-down
//
// N = p is depth first, N = m breadth first.  The last group may be smaller than N but not than p:
// a microbatch has to be back on its first rank before its next chunk is due there.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

// ----------------------------------------------------------------------------------- Megatron-LM
// With expert-parallel overlap the warm-up is one forward longer, so that the forward and the
// backward of a steady step do not depend on each other and run as one overlapped unit.

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
    text += fmt::format("{}", legal[i]);
  }
  return text;
}

std::optional<Diagnostic> check_group(std::string_view name, const ScheduleParams& params,
                                      std::optional<int64_t> given) {
  const int64_t m = params.microbatches, pp = params.pp, group = given.value_or(pp);
  if (m < pp)
    return refusal(
        fmt::format("{} needs at least pp = {} microbatches, there are {}", name, pp, m));
  if (is_legal_group(pp, m, group)) return {};
  const std::string legal =
      fmt::format("legal with {} microbatches and pp = {}: group = {}", m, pp, legal_groups(pp, m));
  const std::string what = fmt::format("group = {}{}", group, given ? "" : " (the default, pp)");
  if (group < pp || group > m)
    return refusal(
        fmt::format("{} must lie between pp = {} and microbatches = {}; {}", what, pp, m, legal));
  return refusal(fmt::format(
      "{} leaves a remainder of {} microbatches, which must be 0 or at least pp = {}; {}; with {} "
      "or {} microbatches group = pp is legal",
      what, m % group, pp, legal, m / pp * pp, (m / pp + 1) * pp));
}

// The group, and what Megatron-LM's arguments must say together.
std::optional<Diagnostic> check_megatron(std::string_view name, const ScheduleParams& params) {
  ParamReader in(params);
  const std::optional<bool> overlap = in.flag(kMegatronOverlap);
  if (overlap == false && params.pp == 2)
    in.refuse(
        fmt::format("{} = false needs pp > 2 when chunks are interleaved: with pp = 2 it "
                    "must be true",
                    kMegatronOverlap));
  if (overlap == false && in.flag(kMegatronOverlapFlush) == true)
    in.refuse(fmt::format("{} = true needs {} = true", kMegatronOverlapFlush, kMegatronOverlap));
  const std::optional<int64_t> group = in.group(kMegatronGroup);
  return in.wrong() ? in.wrong() : check_group(name, params, group);
}

// `lead` forwards more in the warm-up than a microbatch needs to come round.
template <typename OrderOfRank>
Schedule interleaved_order(std::string_view name, const ScheduleParams& params, int64_t lead,
                           OrderOfRank order) {
  Schedule schedule = loop_schedule(name, params);
  const int64_t group = ParamReader(params).group(kMegatronGroup).value_or(params.pp);
  const std::vector<ChunkStep> steps = grouped_steps(params.vpp, params.microbatches, group);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, params.vpp, r);
    const int64_t warmup = 2 * (params.pp - 1 - r) + (params.vpp - 1) * group + lead;
    schedule.ranks[static_cast<size_t>(r)] = order(rank.forwards, rank.backwards, warmup);
  }
  return schedule;
}

std::optional<Diagnostic> check_ep_overlap(const ScheduleParams& params) {
  ParamReader in(params);
  if (params.vpp == 1 && params.pp > 1)
    in.refuse(fmt::format("{} needs vpp >= 2 unless pp = 1: vpp = 1", kEpOverlap));
  if (in.flag(kMegatronEpOverlap) == false)
    in.refuse(fmt::format("{} = false must be true, or the schedule interleaved-1f1b",
                          kMegatronEpOverlap));
  return in.wrong() ? in.wrong() : check_megatron(kEpOverlap, params);
}

Schedule ep_overlap_order(const ScheduleParams& params) {
  return interleaved_order(kEpOverlap, params, 1, overlapped_one_forward_one_backward);
}

// Megatron-LM's switch makes it the other schedule.
bool overlaps_experts(const ScheduleParams& params) {
  return ParamReader(params).flag(kMegatronEpOverlap) == true;
}

std::optional<Diagnostic> check_interleaved(const ScheduleParams& params) {
  if (overlaps_experts(params)) return check_ep_overlap(params);
  ParamReader in(params);
  in.flag(kMegatronEpOverlap);
  if (params.vpp == 1)
    in.refuse(
        fmt::format("{} needs vpp >= 2 (Megatron's virtual pipeline size); with vpp = 1 the "
                    "schedule is 1f1b",
                    kInterleaved));
  return in.wrong() ? in.wrong() : check_megatron(kInterleaved, params);
}

Schedule plain_interleaved_order(const ScheduleParams& params) {
  if (overlaps_experts(params)) return ep_overlap_order(params);
  return interleaved_order(kInterleaved, params, 0, one_forward_one_backward);
}

// --------------------------------------------------------------------------------------- PyTorch
// Interleaved 1F1B as torch.distributed.pipelining runs it: microbatches in R = max(1, m / p)
// rounds of n = m / R, which may be fewer than p.  Where Megatron's rule allows N = n the order is
// the same.

constexpr std::string_view kFlex = "interleaved-1f1b-flex";
constexpr std::string_view kFlexAliases[] = {
    "interleaved1f1b",           "scheduleinterleaved1f1b",
    "flexibleinterleaved1f1b",   "scheduleflexibleinterleaved1f1b",
    "flexible-interleaved-1f1b", "interleaved-flex"};

std::optional<Diagnostic> check_flex(const ScheduleParams& params) {
  return check_rounds(kFlex, params);
}

Schedule flex_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kFlex, params);
  const int64_t round = microbatches_of_round(params);
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
  ScheduleFamily family{
      kInterleaved,
      "interleaved 1F1B",
      kInterleavedAliases,
      "v chunks a rank in groups of N microbatches; bubble (p-1)(tF+tB) of a chunk, holds "
      "2(p-1)+(v-1)N+1 chunks; vpp >= 2, p <= N <= m, m % N = 0 or >= p",
      "Narayanan et al. 2021 (arXiv:2104.04473); Megatron-LM "
      "forward_backward_pipelining_with_interleaving",
      check_interleaved,
      plain_interleaved_order,
      kInterleavedParameters,
      P2pStyle::megatron_overlap};
  family.takes_group = true;
  family.paired = kEpOverlap;
  return family;
}

ScheduleFamily interleaved_ep_overlap() {
  ScheduleFamily family{
      kEpOverlap,
      "interleaved 1F1B with EP overlap",
      kEpOverlapAliases,
      "interleaved-1f1b with one more forward of warm-up and steady steps as overlapped units "
      "of forward and backward, to hide all-to-all; bubble (p-1)(2tFB-tF-tB) of a chunk, holds "
      "2(p-1)+(v-1)N+2 chunks; vpp >= 2 or pp = 1, p <= N <= m, m % N = 0 or >= p",
      "Megatron-LM overlap_moe_expert_parallel_comm",
      check_ep_overlap,
      ep_overlap_order,
      kInterleavedParameters,
      P2pStyle::megatron_overlap};
  family.takes_group = true;
  family.has_pairs = true;
  return family;
}

ScheduleFamily interleaved_flex() {
  return {
      kFlex,
      "interleaved 1F1B flex",
      kFlexAliases,
      "v chunks a rank in R = max(1, m/p) rounds of n microbatches; bubble (p-1)(tF+tB) of a "
      "chunk, and (p-n)(v-1)(tF+tB) more if n < p; holds 2(p-1)+(v-1)n+1 chunks; R must divide m",
      "torch.distributed.pipelining ScheduleInterleaved1F1B",
      check_flex,
      flex_order,
      kRoundParameters};
}

}  // namespace stepcast
