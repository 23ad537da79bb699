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
constexpr ScheduleParameter kParameters[] = {
    {kMegatronGroup, "of no effect with one chunk a rank"},
    {kMegatronOverlap, "must be false: Megatron-LM overlaps transfers only between chunks"},
    {kMegatronOverlapFlush, "must be false, likewise"},
    {kMegatronEpOverlap, "must be false: the schedule interleaved-1f1b-ep-overlap is its true"},
};

void check_megatron_arguments(const ScheduleParams& params) {
  (void)whole_param(params, kMegatronGroup);
  for (const std::string_view key : {kMegatronOverlap, kMegatronOverlapFlush})
    if (flag_param(params, key) == true)
      throw std::invalid_argument(std::string(key) +
                                  " = true must be false with one chunk a rank,"
                                  " or the schedule interleaved-1f1b");
  if (flag_param(params, kMegatronEpOverlap) == true)
    throw std::invalid_argument(std::string(kMegatronEpOverlap) +
                                " = true must be false, or the schedule "
                                "interleaved-1f1b-ep-overlap");
}

Schedule generate(const ScheduleParams& params) {
  require_one_chunk(kName, params, "interleaved-1f1b");
  check_megatron_arguments(params);
  return one_chunk_schedule(kName, params, [&](int64_t rank) { return params.pp - 1 - rank; });
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
          kParameters,
          P2pStyle::megatron};
}

}  // namespace stepcast
