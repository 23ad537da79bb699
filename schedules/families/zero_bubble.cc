// SPDX-License-Identifier: Apache-2.0
// ZB-H1 and ZB-H2: 1F1B with the backward split, weight gradients put off until they fill the
// bubble.
//
//   H1  warm-up p-1-r, the weight gradients of rank r lag r microbatches behind: memory of 1F1B.
//   H2  warm-up 2(p-1-r), lag 2r: no bubble within the span for equal times, twice the memory.
//
// Hand-made orders of Qi et al. 2023; interleaved-zero-bubble, below, carries H1 over to several
// chunks.
#include <algorithm>
#include <stdexcept>
#include <utility>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

constexpr std::string_view kH1 = "zb-h1";
constexpr std::string_view kH1Aliases[] = {"zbh1", "zero-bubble-h1", "zerobubble-h1"};
constexpr std::string_view kH2 = "zb-h2";
constexpr std::string_view kH2Aliases[] = {"zbh2", "zero-bubble-h2", "zerobubble-h2"};

Schedule hand_order(std::string_view name, const ScheduleParams& params, int64_t depth,
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

Schedule h1_order(const ScheduleParams& params) {
  return hand_order(kH1, params, 1, "; zb-h1-quickstart takes any number");
}

Schedule h2_order(const ScheduleParams& params) {
  return hand_order(kH2, params, 2, "");
}

// ZB-H1 as a small change to 1F1B: rank r splits only as many backwards as it has bubbles to fill
// (its first r, the last one of the steady phase and those of the cool-down), all others stay
// whole.

constexpr std::string_view kQuickstart = "zb-h1-quickstart";
constexpr std::string_view kQuickstartAliases[] = {"zb-h1-quick-start", "zbh1-quickstart"};

// The order of rank `r`: weight gradients put off are made up for first come first served, from the
// end of the steady phase on.
std::vector<Action> quickstart_of_rank(const RankActions& rank, int64_t pp, int64_t r) {
  const auto m = static_cast<int64_t>(rank.forwards.size());
  const int64_t warmup = std::min(pp - 1 - r, m);
  const int64_t steady = m - warmup;
  std::vector<Action> order(rank.forwards.begin(), rank.forwards.begin() + warmup);
  std::vector<Action> put_off;
  size_t made_up = 0;
  for (int64_t i = 0; i < m; ++i) {
    if (i < steady) order.push_back(rank.forwards[static_cast<size_t>(warmup + i)]);
    const Action& backward = rank.backwards[static_cast<size_t>(i)];
    const bool late = i + 1 >= steady;  // last of the steady phase, or cool-down
    if (r == 0 || (i >= r && !late)) {
      order.push_back(backward);
      continue;
    }
    const auto [input, weight] = split(backward);
    order.push_back(input);
    put_off.push_back(weight);
    if (late && i >= r) order.push_back(put_off[made_up++]);
  }
  order.insert(order.end(), put_off.begin() + static_cast<ptrdiff_t>(made_up), put_off.end());
  return order;
}

Schedule quickstart_order(const ScheduleParams& params) {
  require_one_chunk(kQuickstart, params, "interleaved-zero-bubble");
  Schedule schedule = loop_schedule(kQuickstart, params);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        quickstart_of_rank(loop_actions(steps, params.pp, 1, r), params.pp, r);
  return schedule;
}

// Interleaved 1F1B with split backward: the warm-up needs one forward a rank less of a lead than
// with whole backwards (multiplier 1 instead of 2), and the weight gradients of rank r lag r
// actions behind.

constexpr std::string_view kInterleavedZb = "interleaved-zero-bubble";
constexpr std::string_view kInterleavedZbAliases[] = {
    "interleavedzerobubble", "scheduleinterleavedzerobubble", "interleaved-zb", "interleaved-zb1p",
    "interleaved-zb-h1"};

Schedule interleaved_zb_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kInterleavedZb, params);
  const int64_t round = microbatches_of_round(kInterleavedZb, params);
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

ScheduleFamily zb_h1() {
  return {
      kH1, kH1Aliases,
      "1F1B with split backward; bubble (p-1) max(tF+tI-tW, tF, tI), holds p microbatches; vpp = "
      "1, m >= 2p",
      "Qi et al. 2023 (arXiv:2401.10241); sail-sg zero-bubble, hand schedule", h1_order};
}

ScheduleFamily zb_h2() {
  return {
      kH2, kH2Aliases,
      "as zb-h1 with twice the warm-up; bubble of the span (p-1) max(0, tF+tI-2tW, tI-tF), holds "
      "2p-1 microbatches; vpp = 1, m >= 2p",
      "Qi et al. 2023 (arXiv:2401.10241); sail-sg zero-bubble, hand schedule", h2_order};
}

ScheduleFamily zb_h1_quickstart() {
  return {kQuickstart,
          kQuickstartAliases,
          "zb-h1 that splits only the backwards it must; bubble as zb-h1 for m >= p, holds p "
          "microbatches; vpp = 1, any m",
          "sail-sg zero-bubble, branch zb-h1-quick-start",
          quickstart_order,
          {},
          P2pStyle::megatron};  // a patch of Megatron-LM's 1F1B
}

ScheduleFamily interleaved_zero_bubble() {
  return {kInterleavedZb,
          kInterleavedZbAliases,
          "interleaved 1F1B with split backward; bubble (p-1) max(tF+tI-tW, tF, tI) of a chunk, "
          "holds v p chunks; max(1, m/p) must divide m",
          "torch.distributed.pipelining ScheduleInterleavedZeroBubble",
          interleaved_zb_order,
          kRoundParameters};
}

}  // namespace stepcast
