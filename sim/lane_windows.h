// SPDX-License-Identifier: Apache-2.0
// Ops whose speed changes while they run, because a window (LaneWindow) begins or ends: one lane or
// one group at a time.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/lanes.h"

namespace stepcast {

// A window of one lane, in 1/4096 ps.
struct LaneSpan {
  int64_t from = 0, until = 0;
  Slowness slowness = kNominal;
  uint8_t link_class = 0;  // of the groups of one axis
  bool operator==(const LaneSpan&) const = default;
};
LaneSpan span_of(const LaneWindow& window, Axis axis);

// When an op of compute ends that begins at `begin` and takes `ps` at slowness 1, on a lane of
// slowness `own` in these windows.  `factor`: its jitter, in 1/4096.
int64_t end_of_compute(int64_t begin, int64_t ps, Slowness own, uint32_t factor,
                       std::span<const LaneSpan> windows);

// When communication ends whose group has class `own` and takes prices[class]; `lanes` joins
// classes.
int64_t end_of_communication(int64_t begin, std::span<const int64_t> prices, uint8_t own,
                             std::span<const LaneSpan> windows, const LaneSet& lanes);

}  // namespace stepcast
