// SPDX-License-Identifier: Apache-2.0
// ZB-H1 and ZB-H2: 1F1B with the backward split, weight gradients put off until they fill the
// bubble.
//
//   H1  warm-up p-1-r, the weight gradients of rank r lag r microbatches behind: memory of 1F1B.
//   H2  warm-up 2(p-1-r), lag 2r: no bubble within the span for equal times, twice the memory.
//
// Hand-made orders of Qi et al. 2023; interleaved_zero_bubble.cc carries H1 over to several chunks.
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/order.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kH1 = "zb-h1";
constexpr std::string_view kH1Aliases[] = {"zbh1", "zero-bubble-h1", "zerobubble-h1"};
constexpr std::string_view kH2 = "zb-h2";
constexpr std::string_view kH2Aliases[] = {"zbh2", "zero-bubble-h2", "zerobubble-h2"};

Schedule generate(std::string_view name, const ScheduleParams& params, int64_t depth,
                  const char* otherwise) {
  require_one_chunk(name, params, "interleaved-zero-bubble");
  Schedule schedule = loop_schedule(name, params);
  if (params.microbatches < 2 * params.pp)
    throw std::invalid_argument(
        std::string(name) + " needs at least 2 * pp = " + std::to_string(2 * params.pp) +
        " microbatches, there are " + std::to_string(params.microbatches) + otherwise);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, 1, r);
    schedule.ranks[static_cast<size_t>(r)] =
        split_backward_order(rank.forwards, rank.backwards, depth * (params.pp - 1 - r), depth * r);
  }
  return schedule;
}

Schedule generate_h1(const ScheduleParams& params) {
  return generate(kH1, params, 1, "; zb-h1-quickstart takes any number");
}

Schedule generate_h2(const ScheduleParams& params) {
  return generate(kH2, params, 2, "");
}

}  // namespace

ScheduleFamily zb_h1() {
  return {
      kH1, kH1Aliases,
      "1F1B with split backward; bubble (p-1) max(tF+tI-tW, tF, tI), holds p microbatches; vpp = "
      "1, m >= 2p",
      "Qi et al. 2023 (arXiv:2401.10241); sail-sg zero-bubble, hand schedule", generate_h1};
}

ScheduleFamily zb_h2() {
  return {
      kH2, kH2Aliases,
      "as zb-h1 with twice the warm-up; bubble of the span (p-1) max(0, tF+tI-2tW, tI-tF), holds "
      "2p-1 microbatches; vpp = 1, m >= 2p",
      "Qi et al. 2023 (arXiv:2401.10241); sail-sg zero-bubble, hand schedule", generate_h2};
}

}  // namespace stepcast
