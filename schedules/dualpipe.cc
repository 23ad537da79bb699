// SPDX-License-Identifier: Apache-2.0
// DualPipe: two replicas of the model run against each other, microbatches of the first half down
// the ranks and of the second half up, with forwards of one and backwards of the other as
// overlapped units.  DualPipeV is the same cut in half: one replica, folded into a V.
#include <algorithm>
#include <stdexcept>

#include "schedules/crossing_order.h"
#include "schedules/families.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kDual = "dualpipe";
constexpr std::string_view kDualAliases[] = {"dual-pipe", "scheduledualpipe"};
constexpr std::string_view kV = "dualpipev";
constexpr std::string_view kVAliases[] = {"dual-pipe-v", "dualpipe-v", "scheduledualpipev",
                                          "cut-in-half"};

// One warm-up of the longest rank on either side.
void require_filled(std::string_view name, const ScheduleParams& params) {
  if (params.microbatches < 2 * params.pp)
    throw std::invalid_argument(std::string(name) +
                                " needs at least 2 * pp = " + std::to_string(2 * params.pp) +
                                " microbatches, there are " + std::to_string(params.microbatches));
}

Schedule generate_dual(const ScheduleParams& params) {
  Schedule schedule = bidirectional_schedule(kDual, params);
  const int64_t pp = params.pp, m = params.microbatches;
  if (pp % 2 != 0)
    throw std::invalid_argument(
        std::string(kDual) + " runs two pipelines against each other: pp = " + std::to_string(pp) +
        " must be even");
  require_filled(kDual, params);
  if (m % 2 != 0)
    throw std::invalid_argument(std::string(kDual) +
                                " sends as many microbatches down as up: microbatches = " +
                                std::to_string(m) + " must be even");
  schedule.reversed.resize(static_cast<size_t>(m));
  std::fill(schedule.reversed.begin() + m / 2, schedule.reversed.end(), true);
  for (int64_t r = 0; r < pp; ++r) {
    // A rank's own direction is the one that starts on its side.
    const int64_t position = std::min(r, pp - 1 - r), near = r < pp / 2 ? 0 : m / 2;
    schedule.ranks[static_cast<size_t>(r)] = crossing_order(
        pp / 2, position, m / 2, {{{position, near}, {pp - 1 - position, m / 2 - near}}});
  }
  return schedule;
}

Schedule generate_v(const ScheduleParams& params) {
  Schedule schedule = v_schedule(kV, params);
  require_filled(kV, params);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        crossing_order(params.pp, r, params.microbatches, {{{r, 0}, {2 * params.pp - 1 - r, 0}}});
  return schedule;
}

}  // namespace

ScheduleFamily dualpipe() {
  return {kDual,
          kDualAliases,
          "two replicas in opposite directions, forwards and backwards as overlapped units; bubble "
          "about (p/2-1)(tFB+tB-3tW), holds p+1 microbatches, twice the parameters; p even, m "
          "even, m >= 2p, vpp = 2 (two stages a rank)",
          "DeepSeek-AI 2024 (arXiv:2412.19437); deepseek-ai DualPipe",
          generate_dual,
          {},
          P2pStyle::dualpipe};
}

ScheduleFamily dualpipev() {
  return {kV,
          kVAliases,
          "DualPipe cut in half: two chunks a rank in a V, overlapped units; bubble about "
          "(p-1)(tFB+tB-3tW) of a chunk, holds 2p+1 chunks; vpp = 2, m >= 2p",
          "Qi et al. 2025, cut-in-half; deepseek-ai DualPipeV; torch.distributed.pipelining "
          "ScheduleDualPipeV",
          generate_v,
          {},
          P2pStyle::dualpipe};
}

}  // namespace stepcast
