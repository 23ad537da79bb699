// SPDX-License-Identifier: Apache-2.0
// The naive engine with lanes, for tests only: every lane of every role is a machine of its own
// with a host and six streams, played moment by moment.
//
// As oracle.h, which see for hosts, streams and rendezvous; it shares no code with sim/ but reads
// the plain structs.  What lanes add:
//
//   * The clock counts 1/4096 ps.
//   * An op of compute has so many 1/4096 ps of its lane to do; when the slowness of the lane
//     changes (a window begins or ends), what is left is multiplied by new / old, rounded down.
//   * A collective of a pass brings lanes together: one that has it in front of its stream, and
//     all its waits satisfied, has arrived; it starts on all of them when the last has.
//   * A rendezvous is complete for each group of lanes by itself, with the posts of all its lanes
//     and parties.  It runs until its price in its class is done; classes change as slowness does.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/lanes/lanes.h"

namespace stepcast::oracle {

struct LaneTimes {
  // [role][lane], in 1/4096 ps.
  std::vector<std::vector<int64_t>> end, compute_begin;
  int64_t ops = 0;
  bool deadlock = false;
};

// REQUIRES: as run_lanes.  `lanes.jitter` must be empty, unless `factor` gives the factor of an op
// in 1/4096 (by role, lane, instance).
using FactorOf = uint32_t (*)(const LaneSet&, uint32_t role, int64_t lane, uint64_t instance);
LaneTimes play_lanes(const OpGraph& graph, const Prices& prices, const LaneSet& lanes,
                     FactorOf factor = nullptr);

}  // namespace stepcast::oracle
