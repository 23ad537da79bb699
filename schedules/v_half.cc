// SPDX-License-Identifier: Apache-2.0
// V-Half: two chunks a rank in the form of a V, split backward, half the activations of 1F1B.
//
// The block: chunk 0 goes down with two slots a rank and comes back up with one, the backward
// likewise; the backward starts at once for odd p, three slots later for even p so that no two
// passes of a rank fall on the same slot of the period.
#include "schedules/families.h"
#include "schedules/v_blocks.h"

namespace stepcast {
namespace {

constexpr std::string_view kName = "v-half";
constexpr std::string_view kAliases[] = {"vhalf", "zbv-half", "v-half-memory"};

VBlock block_of(int64_t rank, int64_t pp) {
  const int64_t wait = pp % 2 == 0 ? 3 : 0;
  return {
      2 * rank, 3 * pp - rank - 2, 3 * pp + wait + 2 * rank - 1, 6 * pp + wait - rank - 2, kNoSlot,
      kNoSlot};
}

Schedule generate(const ScheduleParams& params) {
  return v_block_schedule(kName, params, block_of);
}

}  // namespace

ScheduleFamily v_half() {
  return {kName,
          kAliases,
          "two chunks a rank in a V, split backward; for tF = tI = tW and m >= 2p bubble (3p-7) tF "
          "and p+2 chunks held for even p, (3p-4) tF and p+1 for odd p: half of 1f1b; vpp = 2",
          "Qi et al. 2024 (arXiv:2405.15362); zero-bubble's V-Half",
          generate,
          kVBlockParameters};
}

}  // namespace stepcast
