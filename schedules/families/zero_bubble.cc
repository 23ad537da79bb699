// SPDX-License-Identifier: Apache-2.0
// Zero-bubble schedules by rule: the backward is split into I, which the rank before waits for, and
// W, which nobody waits for and which is put off until it fills the bubble.
//
// With 3 ranks and 6 microbatches, and weight gradients that lag r microbatches behind on rank r,
//
//     rank 0   F0 F1 F2 I0 W0 F3 I1 W1 F4 I2 W2 F5 I3 W3 I4 W4 I5 W5
//     rank 1   F0 F1 I0 F2 I1 W0 F3 I2 W1 F4 I3 W2 F5 I4 W3 I5 W4 W5
//     rank 2   F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 F4 I4 W2 F5 I5 W3 W4 W5
//
// I2 of rank 2 does not wait for W0 and W1, so that the gradients reach rank 0 earlier than those
// of 1F1B, and rank 2 ends with the weight gradients that it owes where 1F1B lets it idle.
//
//   zb-h1   warm-up p-1-r, lag r, as here: the memory of 1F1B.
//   zb-h2   warm-up 2 (p-1-r), lag 2r: no bubble within the span for equal times, twice the memory.
//
// Both are hand-made orders of Qi et al. 2023.  interleaved-zero-bubble carries H1 over to several
// chunks, zb-h1-quickstart leaves whole what need not be split.  The orders of zero_bubble_auto.cc
// are made for the times given.
#include <algorithm>
#include <utility>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

// ---------------------------------------------------------------------------------- ZB-H1, ZB-H2
constexpr std::string_view kH1 = "zb-h1";
constexpr std::string_view kH1Aliases[] = {"zbh1", "zero-bubble-h1", "zerobubble-h1"};
constexpr std::string_view kH2 = "zb-h2";
constexpr std::string_view kH2Aliases[] = {"zbh2", "zero-bubble-h2", "zerobubble-h2"};

std::optional<Diagnostic> check_one_chunk_zb(std::string_view name, const ScheduleParams& params) {
  return check_one_chunk(name, params, "interleaved-zero-bubble");
}

std::optional<Diagnostic> check_h1(const ScheduleParams& params) {
  if (auto wrong = check_one_chunk_zb(kH1, params)) return wrong;
  return check_two_a_rank(kH1, params, "; zb-h1-quickstart takes any number");
}

std::optional<Diagnostic> check_h2(const ScheduleParams& params) {
  if (auto wrong = check_one_chunk_zb(kH2, params)) return wrong;
  return check_two_a_rank(kH2, params);
}

Schedule hand_order(std::string_view name, const ScheduleParams& params, int64_t depth) {
  Schedule schedule = loop_schedule(name, params);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r) {
    const RankActions rank = loop_actions(steps, params.pp, 1, r);
    schedule.ranks[static_cast<size_t>(r)] =
        split_backward_order(rank.forwards, rank.backwards, depth * (params.pp - 1 - r), depth * r);
  }
  return schedule;
}

Schedule h1_order(const ScheduleParams& params) {
  return hand_order(kH1, params, 1);
}

Schedule h2_order(const ScheduleParams& params) {
  return hand_order(kH2, params, 2);
}

// ------------------------------------------------------------------------------ zb-h1-quickstart
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

std::optional<Diagnostic> check_quickstart(const ScheduleParams& params) {
  return check_one_chunk_zb(kQuickstart, params);
}

Schedule quickstart_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kQuickstart, params);
  const std::vector<ChunkStep> steps = grouped_steps(1, params.microbatches, params.microbatches);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        quickstart_of_rank(loop_actions(steps, params.pp, 1, r), params.pp, r);
  return schedule;
}

// ----------------------------------------------------------------------- interleaved-zero-bubble
// Interleaved 1F1B with split backward: the warm-up needs one forward a rank less of a lead than
// with whole backwards (multiplier 1 instead of 2), and the weight gradients of rank r lag r
// actions behind.

constexpr std::string_view kInterleavedZb = "interleaved-zero-bubble";
constexpr std::string_view kInterleavedZbAliases[] = {
    "interleavedzerobubble", "scheduleinterleavedzerobubble", "interleaved-zb", "interleaved-zb1p",
    "interleaved-zb-h1"};

std::optional<Diagnostic> check_interleaved_zb(const ScheduleParams& params) {
  return check_rounds(kInterleavedZb, params);
}

Schedule interleaved_zb_order(const ScheduleParams& params) {
  Schedule schedule = loop_schedule(kInterleavedZb, params);
  const int64_t round = microbatches_of_round(params);
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
      kH1,
      "ZB-H1",
      kH1Aliases,
      "1F1B with split backward; bubble (p-1) max(tF+tI-tW, tF, tI), holds p microbatches; vpp = "
      "1, m >= 2p",
      "Qi et al. 2023 (arXiv:2401.10241); sail-sg zero-bubble, hand schedule",
      check_h1,
      h1_order};
}

ScheduleFamily zb_h2() {
  return {
      kH2,
      "ZB-H2",
      kH2Aliases,
      "as zb-h1 with twice the warm-up; bubble of the span (p-1) max(0, tF+tI-2tW, tI-tF), holds "
      "2p-1 microbatches; vpp = 1, m >= 2p",
      "Qi et al. 2023 (arXiv:2401.10241); sail-sg zero-bubble, hand schedule",
      check_h2,
      h2_order};
}

ScheduleFamily zb_h1_quickstart() {
  return {kQuickstart,
          "ZB-H1 quickstart",
          kQuickstartAliases,
          "zb-h1 that splits only the backwards it must; bubble as zb-h1 for m >= p, holds p "
          "microbatches; vpp = 1, any m",
          "sail-sg zero-bubble, branch zb-h1-quick-start",
          check_quickstart,
          quickstart_order,
          {},
          P2pStyle::megatron};  // a patch of Megatron-LM's 1F1B
}

ScheduleFamily interleaved_zero_bubble() {
  return {kInterleavedZb,
          "interleaved zero bubble",
          kInterleavedZbAliases,
          "interleaved 1F1B with split backward; bubble (p-1) max(tF+tI-tW, tF, tI) of a chunk, "
          "holds v p chunks; max(1, m/p) must divide m",
          "torch.distributed.pipelining ScheduleInterleavedZeroBubble",
          check_interleaved_zb,
          interleaved_zb_order,
          kRoundParameters};
}

}  // namespace stepcast
