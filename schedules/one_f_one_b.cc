// SPDX-License-Identifier: Apache-2.0
// 1F1B (PipeDream-flush): rank r runs p-1-r forwards ahead, then one forward and one backward in
// turn.  Fewer microbatches than ranks are legal, as in Megatron-LM.
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/params.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "1f1b";
constexpr std::string_view kAliases[] = {"schedule1f1b",
                                         "pipedream-flush",
                                         "dapple",
                                         "one-forward-one-backward",
                                         "1-f-1-b",
                                         "pipedream",
                                         "onefoneb",
                                         "non-interleaved",
                                         "non-interleaved-1f1b",
                                         "trainschedule",
                                         "oneforwardonebackwardschedule",
                                         "oneforwardonebackwardpipelineengine",
                                         "forward-backward-pipelining-without-interleaving"};

// Megatron-LM's arguments, which it also takes without interleaving.
constexpr std::string_view kOverlap = "overlap_p2p_comm";
constexpr std::string_view kOverlapFlush = "overlap_p2p_comm_warmup_flush";
constexpr std::string_view kGroup = "microbatch_group_size_per_vp_stage";
constexpr std::string_view kEpOverlap = "overlap_moe_expert_parallel_comm";
constexpr ScheduleParameter kParameters[] = {
    {kGroup, "of no effect with one chunk a rank"},
    {kOverlap, "must be false: Megatron-LM overlaps transfers only between chunks"},
    {kOverlapFlush, "must be false, likewise"},
    {kEpOverlap, "must be false: the schedule interleaved-1f1b-ep-overlap is its true"},
};

void check_megatron_arguments(const ScheduleParams& params) {
  (void)whole_param(params, kGroup);
  for (const std::string_view key : {kOverlap, kOverlapFlush})
    if (flag_param(params, key) == true)
      throw std::invalid_argument(std::string(key) +
                                  " = true must be false with one chunk a rank,"
                                  " or the schedule interleaved-1f1b");
  if (flag_param(params, kEpOverlap) == true)
    throw std::invalid_argument(std::string(kEpOverlap) +
                                " = true must be false, or the schedule "
                                "interleaved-1f1b-ep-overlap");
}

Schedule generate(const ScheduleParams& params) {
  require_one_chunk(kName, params, "interleaved-1f1b");
  check_megatron_arguments(params);
  Schedule schedule = loop_schedule(kName, params);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, 1, r);
    schedule.ranks[static_cast<size_t>(r)] =
        one_forward_one_backward(rank.forwards, rank.backwards, params.pp - 1 - r);
  }
  return schedule;
}

}  // namespace

ScheduleFamily one_f_one_b() {
  return {kName,
          kAliases,
          "one forward, one backward; bubble (p-1)(tF+tB), rank r holds min(p-r, m) microbatches; "
          "vpp = 1",
          "Narayanan et al. 2021 (arXiv:2006.09503); Megatron-LM "
          "forward_backward_pipelining_without_interleaving",
          generate,
          kParameters};
}

}  // namespace stepcast
