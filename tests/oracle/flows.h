// SPDX-License-Identifier: Apache-2.0
// Flows on shared links, the slow and obvious way: what sim/contention/flow_network.h must agree
// with.
//
// Progressive filling in exact fractions of any length, from scratch at every moment at which
// anything changes.  Shares the data type of sim/contention/fair_shares.h, no code.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/contention/fair_shares.h"

namespace stepcast::oracle {

struct FairFlow {
  int64_t cap = 0;
  std::vector<LinkUse> uses;
};

// Max-min fair rates in bytes per second: all rates rise together, a flow stays where it is once it
// is at its cap or one of its links is full.  Rounded down at the very end; at least 1.
std::vector<int64_t> fair_rates(const std::vector<int64_t>& capacity,
                                const std::vector<FairFlow>& flows);

struct CapChange {
  int64_t time = 0;  // ignored unless the flow runs then
  int64_t cap = 0;
};

struct TimedFlow {
  int64_t earliest = 0;         // ps
  std::vector<uint32_t> after;  // flows that must have ended
  int64_t bytes = 0;
  int64_t cap = 0;
  std::vector<LinkUse> uses;
  std::vector<CapChange> changes;  // ascending times
};

// When each flow ends, ps.  REQUIRES: `after` names earlier flows only.
std::vector<int64_t> flow_ends(const std::vector<int64_t>& capacity,
                               const std::vector<TimedFlow>& flows);

// Random small problems, the same for a seed on every machine: 1 to 12 links, 1 to 20 flows.
// Capacities, caps and loads come from small sets, so that levels are often equal; with `wild` from
// the whole range.
struct FlowCase {
  std::vector<int64_t> capacity;
  std::vector<TimedFlow> flows;
};
FlowCase random_flows(uint64_t seed);

}  // namespace stepcast::oracle
