// SPDX-License-Identifier: Apache-2.0
// Runs the rows of a V schedule as priority lists: a rank with nothing to do takes the next pass of
// its row that can run, though others stand before it, as long as it will never hold more than a
// limit.  Time runs with the costs given, so that what was made for slots becomes an order made for
// those costs; and it runs forward or backward, so that both warm-up and cool-down close up.
#pragma once

#include <cstdint>

#include "schedules/v_blocks.h"

namespace stepcast {

// In any unit; passes of both chunks alike.  REQUIRES: forward, input, weight > 0; hop >= 0.
struct VTimes {
  int64_t forward = 1, input = 1, weight = 1;
  int64_t hop = 0;  // between ranks, latency alone
  bool operator==(const VTimes&) const = default;
};

// Which of the passes that can run a rank takes.
enum class VChoice : uint8_t {
  first_of_row,       // the one nearest to the head of the row
  inputs_first_late,  // an input gradient if there is one, once all forwards of the rank are done
};

struct VRunRules {
  VChoice choice = VChoice::first_of_row;
  int64_t limit = INT64_MAX;  // chunk activations held; REQUIRES: the rows in order keep to it
  // Time runs backward, from the end of the step: what can be late becomes late.
  bool backward = false;
};

struct VRun {
  VRows rows;  // without idle slots, in order of (forward) time
  int64_t makespan = 0, span = 0;
};

// REQUIRES: rows that can be run in order, with all weight gradients and as many microbatches of
// each pass; idle slots are not looked at.  O(passes * log pp).
VRun run_ahead(const VRows& rows, const VTimes& times, const VRunRules& rules);

}  // namespace stepcast
