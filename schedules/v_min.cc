// SPDX-License-Identifier: Apache-2.0
// V-Min: two chunks a rank in the form of a V, split backward, a third of the activations of 1F1B.
//
// The block: every pass follows the one before without a gap; the backward starts two slots later
// if 3 divides p, so that no two passes of a rank fall on the same slot of the period.
#include "schedules/families.h"
#include "schedules/v_blocks.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "v-min";
constexpr std::string_view kAliases[] = {"vmin", "zbv-min", "v-min-memory"};

VBlock block_of(int64_t rank, int64_t pp) {
  const int64_t wait = pp % 3 == 0 ? 2 : 0;
  return {rank,   2 * pp - rank - 1, 2 * pp + wait + rank, 4 * pp + wait - rank - 1, kNoSlot,
          kNoSlot};
}

Schedule generate(const ScheduleParams& params) {
  return v_block_schedule(kName, params, block_of);
}

}  // namespace

ScheduleFamily v_min() {
  return {kName,
          kAliases,
          "two chunks a rank in a V, split backward; for tF = tI = tW and m >= 2p bubble (4p-5) tF "
          "((4p-7) if 3 divides p), grows with m for other times; holds about 2p/3+2 chunks, a "
          "third of 1f1b; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); zero-bubble's V-Min",
          generate,
          kVBlockParameters};
}

}  // namespace stepcast
