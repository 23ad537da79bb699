// SPDX-License-Identifier: Apache-2.0
// Families in which microbatches run through the ranks in both directions: Chimera and DualPipe
// hold two replicas of the model, one with stage s on rank s and one with stage s on rank p-1-s;
// DualPipeV holds one, folded into a V.
//
// With 4 ranks and 4 microbatches, 0 and 1 sent down and 2 and 3 up, Chimera's first two ranks run
// in slots of one action
//
//     slot     0   1   2   3   4   5   6   7   8   9
//     rank 0  0F0  .  0F1 3F2 3B2 3F3 3B3 0B0  .  0B1
//     rank 1   .  1F0 2F2 1F1 2F3 2B2 1B0 2B3 1B1  .
//
// Where a microbatch on its way down leaves a slot empty, one on its way up fills it.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "schedules/families/families.h"

namespace stepcast {
namespace {

// --------------------------------------------------------------------------------------- Chimera
// Microbatches come in units of p/2, down and up in turn.  With one slot for F and for B, unit u of
// its direction starts at slot 2 p u and sends microbatch j of it through stage s in the slots
//     F: 2 p u + s + 2 j,    B: 2 p u + 2 p - 1 - s + 2 j;
// down and up never share a slot, since p is even.  The order of a rank is the order of its slots.

constexpr std::string_view kChimera = "chimera";
constexpr std::string_view kChimeraAliases[] = {"chimera-direct", "bidirectional"};

struct ChimeraSlot {
  int64_t time = 0;
  Action action{};
};

std::optional<Diagnostic> check_two_directions(std::string_view name,
                                               const ScheduleParams& params) {
  if (auto wrong = check_two_chunks(name, params)) return wrong;
  if (params.pp % 2 == 0) return {};
  return refusal(fmt::format("{} runs two pipelines against each other: pp = {} must be even", name,
                             params.pp));
}

std::optional<Diagnostic> check_chimera(const ScheduleParams& params) {
  if (auto wrong = check_two_directions(kChimera, params)) return wrong;
  if (params.microbatches % params.pp == 0) return {};
  return refusal(
      fmt::format("chimera sends pp/2 microbatches each way at a time: {} microbatches must be a "
                  "multiple of pp "
                  "= {}",
                  params.microbatches, params.pp));
}

Schedule chimera_order(const ScheduleParams& params) {
  Schedule schedule = bidirectional_schedule(kChimera, params);
  const int64_t pp = params.pp, unit = pp / 2;
  std::vector<ChimeraSlot> slots(static_cast<size_t>(2 * params.microbatches));
  schedule.reversed.resize(static_cast<size_t>(params.microbatches));
  for (int64_t m = 0; m < params.microbatches; ++m)
    schedule.reversed[static_cast<size_t>(m)] = m / unit % 2 == 1;
  for (int64_t r = 0; r < pp; ++r) {
    for (int64_t m = 0; m < params.microbatches; ++m) {
      const int64_t stage = schedule.reversed[static_cast<size_t>(m)] ? pp - 1 - r : r;
      const int64_t start = m / pp * 2 * pp + m % unit * 2;
      const auto at = static_cast<size_t>(2 * m);
      slots[at] = {start + stage, forward_of(stage, m)};
      slots[at + 1] = {start + 2 * pp - 1 - stage, backward_of(stage, m)};
    }
    std::sort(slots.begin(), slots.end(),
              [](const ChimeraSlot& a, const ChimeraSlot& b) { return a.time < b.time; });
    std::vector<Action>& list = schedule.ranks[static_cast<size_t>(r)];
    list.reserve(slots.size());
    for (const ChimeraSlot& slot : slots) list.push_back(slot.action);
  }
  return schedule;
}

// ------------------------------------------------------------------------- DualPipe and DualPipeV
// The order that both share: a rank that holds two stages, 0 and 1, whose microbatches cross, so
// that a forward of one runs together with a backward of the other.

struct CrossingStage {
  int64_t stage = 0;
  int64_t first_microbatch = 0;
};

// One rank's list: the next microbatch of each direction of each stage is counted here.
struct CrossingOrder {
  std::array<CrossingStage, 2> stages;
  std::vector<Action> list = {};
  std::array<int64_t, 2> forwards = {}, backwards = {};
  std::vector<Action> put_off = {};
  size_t made_up = 0;

  Action next_forward(size_t i) {
    return forward_of(stages[i].stage, stages[i].first_microbatch + forwards[i]++);
  }
  Action next_backward(size_t i) {
    return backward_of(stages[i].stage, stages[i].first_microbatch + backwards[i]++);
  }
  void forward(size_t i) { list.push_back(next_forward(i)); }
  void backward(size_t i) { list.push_back(next_backward(i)); }
  void input(size_t i) {
    const auto [input, weight] = split(next_backward(i));
    list.push_back(input);
    put_off.push_back(weight);
  }
  void weight() { list.push_back(put_off[made_up++]); }
  void pair(size_t forward, size_t backward) {
    const Action f = next_forward(forward);
    add_pair(list, f, next_backward(backward));
  }
};

// With H = `depth`, h = `position` (0 outermost, H - 1 innermost) and n = `microbatches` of each
// stage, 0 and 1 standing for the stages and B for a backward whose weight gradient is not put off:
//   2(H-h-1) F0;  h+1 (F0, F1);  H-h-1 (I1, W1, F1);
//   n-2H+h+1 (F0 || B1, F1 || B0), the very first F0, B1 of the innermost rank one after the other;
//   H-h-1 (B1, F1 || B0);  h+1 (B1, B0), the second half I only;  H-h-1 (W, I0);  W that are left,
// weight gradients put off being made up for in the order of their I.
// REQUIRES: 0 <= position < depth, microbatches >= 2 depth.
std::vector<Action> crossing_order(int64_t depth, int64_t position, int64_t microbatches,
                                   const std::array<CrossingStage, 2>& stages) {
  const int64_t out = depth - position - 1, in = position + 1;
  CrossingOrder o{stages};
  o.list.reserve(static_cast<size_t>(6 * microbatches));
  for (int64_t i = 0; i < 2 * out; ++i) o.forward(0);
  for (int64_t i = 0; i < in; ++i) {
    o.forward(0);
    o.forward(1);
  }
  for (int64_t i = 0; i < out; ++i) {
    o.input(1);
    o.weight();
    o.forward(1);
  }
  for (int64_t i = 0; i < microbatches - 2 * depth + in; ++i) {
    if (i == 0 && out == 0) {
      o.forward(0);
      o.backward(1);
    } else {
      o.pair(0, 1);
    }
    o.pair(1, 0);
  }
  for (int64_t i = 0; i < out; ++i) {
    o.backward(1);
    o.pair(1, 0);
  }
  for (int64_t k = 0; k < 2 * in; ++k) {
    const size_t stage = k % 2 == 0 ? 1 : 0;
    k < in ? o.backward(stage) : o.input(stage);
  }
  for (int64_t i = 0; i < out; ++i) {
    o.weight();
    o.input(0);
  }
  while (o.made_up < o.put_off.size()) o.weight();
  return std::move(o.list);
}

// DualPipe sends microbatches of the first half down the ranks and of the second half up.
// DualPipeV is the same cut in half: one replica, rank r holds stages r and 2p-1-r.

constexpr std::string_view kDual = "dualpipe";
constexpr std::string_view kDualAliases[] = {"dual-pipe", "scheduledualpipe"};
constexpr std::string_view kDualV = "dualpipev";
constexpr std::string_view kDualVAliases[] = {"dual-pipe-v", "dualpipe-v", "scheduledualpipev",
                                              "cut-in-half"};

// Both need two microbatches a rank, one warm-up of the longest rank on either side.
std::optional<Diagnostic> check_dual(const ScheduleParams& params) {
  if (auto wrong = check_two_directions(kDual, params)) return wrong;
  if (auto wrong = check_two_a_rank(kDual, params)) return wrong;
  if (params.microbatches % 2 == 0) return {};
  return refusal(
      fmt::format("{} sends as many microbatches down as up: microbatches = {} must be even", kDual,
                  params.microbatches));
}

Schedule dual_order(const ScheduleParams& params) {
  Schedule schedule = bidirectional_schedule(kDual, params);
  const int64_t pp = params.pp, m = params.microbatches;
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

std::optional<Diagnostic> check_dualpipev(const ScheduleParams& params) {
  if (auto wrong = check_two_chunks(kDualV, params)) return wrong;
  return check_two_a_rank(kDualV, params);
}

Schedule dualpipev_order(const ScheduleParams& params) {
  Schedule schedule = snake_schedule(kDualV, params);
  for (int64_t r = 0; r < params.pp; ++r)
    schedule.ranks[static_cast<size_t>(r)] =
        crossing_order(params.pp, r, params.microbatches, {{{r, 0}, {2 * params.pp - 1 - r, 0}}});
  return schedule;
}

}  // namespace

ScheduleFamily chimera() {
  return {
      kChimera,
      "chimera",
      kChimeraAliases,
      "two replicas in opposite directions; bubble (p-2) [max(tB,tF) + (m/p-1) |tB-tF|], holds p "
      "microbatches, twice the parameters; p even, p divides m, vpp = 2 (two stages a rank)",
      "Li and Hoefler 2021 (arXiv:2107.06925)",
      check_chimera,
      chimera_order};
}

ScheduleFamily dualpipe() {
  ScheduleFamily family{
      kDual,
      "DualPipe",
      kDualAliases,
      "two replicas in opposite directions, forwards and backwards as overlapped units; bubble "
      "about (p/2-1)(tFB+tB-3tW), holds p+1 microbatches, twice the parameters; p even, m "
      "even, m >= 2p, vpp = 2 (two stages a rank)",
      "DeepSeek-AI 2024 (arXiv:2412.19437); deepseek-ai DualPipe",
      check_dual,
      dual_order,
      {},
      P2pStyle::dualpipe};
  family.has_pairs = true;
  return family;
}

ScheduleFamily dualpipev() {
  ScheduleFamily family{
      kDualV,
      "DualPipeV",
      kDualVAliases,
      "DualPipe cut in half: two chunks a rank in a V, overlapped units; bubble about "
      "(p-1)(tFB+tB-3tW) of a chunk, holds 2p+1 chunks; vpp = 2, m >= 2p",
      "Qi et al. 2025, cut-in-half; deepseek-ai DualPipeV; torch.distributed.pipelining "
      "ScheduleDualPipeV",
      check_dualpipev,
      dualpipev_order,
      {},
      P2pStyle::dualpipe};
  family.has_pairs = true;
  return family;
}

}  // namespace stepcast
