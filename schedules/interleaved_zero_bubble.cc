// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B with split backward: the warm-up needs one forward a rank less of a lead than
// with whole backwards (multiplier 1 instead of 2), and the weight gradients of rank r lag r
// actions behind.
#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "interleaved-zero-bubble";
constexpr std::string_view kAliases[] = {"interleavedzerobubble", "scheduleinterleavedzerobubble",
                                         "interleaved-zb", "interleaved-zb1p", "interleaved-zb-h1"};

Schedule generate(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kName, params);
  const int64_t round = microbatches_of_round(kName, params);
  const std::vector<ChunkStep> steps = grouped_steps(params.vpp, params.microbatches, round);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, params.vpp, r);
    const int64_t warmup = (params.vpp - 1) * round + params.pp - 1 - r;
    schedule.ranks[static_cast<size_t>(r)] =
        split_backward_order(rank.forwards, rank.backwards, warmup, r);
  }
  return schedule;
}

}  // namespace

ScheduleFamily interleaved_zero_bubble() {
  return {kName,
          kAliases,
          "interleaved 1F1B with split backward; bubble (p-1) max(tF+tI-tW, tF, tI) of a chunk, "
          "holds v p chunks; max(1, m/p) must divide m",
          "torch.distributed.pipelining ScheduleInterleavedZeroBubble",
          generate,
          kRoundParameters};
}

}  // namespace stepcast
