// SPDX-License-Identifier: Apache-2.0
// Chimera: two replicas of the model, one running down the ranks and one up, so that each fills the
// bubbles of the other.
//
// Microbatches come in units of p/2, down and up in turn.  With one slot for F and for B, unit u of
// its direction starts at slot 2 p u and sends microbatch j of it through stage s in the slots
//     F: 2 p u + s + 2 j,    B: 2 p u + 2 p - 1 - s + 2 j;
// down and up never meet in a slot, since p is even.  The order of a rank is the order of its
// slots.
#include <algorithm>
#include <stdexcept>

#include "schedules/families.h"
#include "schedules/placement.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "chimera";
constexpr std::string_view kAliases[] = {"chimera-direct", "bidirectional"};

struct Slot {
  int64_t time = 0;
  Action action{};
};

void check_sizes(const ScheduleParams& params) {
  if (params.pp % 2 != 0)
    throw std::invalid_argument("chimera runs two pipelines against each other: pp = " +
                                std::to_string(params.pp) + " must be even");
  if (params.microbatches % params.pp != 0)
    throw std::invalid_argument(
        "chimera sends pp/2 microbatches each way at a time: " +
        std::to_string(params.microbatches) +
        " microbatches must be a multiple of pp = " + std::to_string(params.pp));
}

Schedule generate(const ScheduleParams& params) {
  Schedule schedule = bidirectional_schedule(kName, params);
  check_sizes(params);
  const int64_t pp = params.pp, unit = pp / 2;
  std::vector<Slot> slots(static_cast<size_t>(2 * params.microbatches));
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
              [](const Slot& a, const Slot& b) { return a.time < b.time; });
    std::vector<Action>& list = schedule.ranks[static_cast<size_t>(r)];
    list.reserve(slots.size());
    for (const Slot& slot : slots) list.push_back(slot.action);
  }
  return schedule;
}

}  // namespace

ScheduleFamily chimera() {
  return {
      kName, kAliases,
      "two replicas in opposite directions; bubble (p-2) [max(tB,tF) + (m/p-1) |tB-tF|], holds p "
      "microbatches, twice the parameters; p even, p divides m, vpp = 2 (two stages a rank)",
      "Li and Hoefler 2021 (arXiv:2107.06925)", generate};
}

}  // namespace stepcast
