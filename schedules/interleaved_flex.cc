// SPDX-License-Identifier: Apache-2.0
// Interleaved 1F1B as torch.distributed.pipelining runs it: microbatches in R = max(1, m / p)
// rounds of n = m / R, which may be fewer than p.  Where Megatron's rule allows N = n the order is
// the same.
#include <algorithm>
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "interleaved-1f1b-flex";
constexpr std::string_view kAliases[] = {
    "interleaved1f1b",           "scheduleinterleaved1f1b",
    "flexibleinterleaved1f1b",   "scheduleflexibleinterleaved1f1b",
    "flexible-interleaved-1f1b", "interleaved-flex"};

Schedule generate(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kName, params);
  const int64_t round = microbatches_of_round(kName, params);
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

ScheduleFamily interleaved_flex() {
  return {
      kName,
      kAliases,
      "v chunks a rank in R = max(1, m/p) rounds of n microbatches; bubble (p-1)(tF+tB) of a "
      "chunk, and (p-n)(v-1)(tF+tB) more if n < p; holds 2(p-1)+(v-1)n+1 chunks; R must divide m",
      "torch.distributed.pipelining ScheduleInterleaved1F1B",
      generate,
      kRoundParameters};
}

}  // namespace stepcast
