// SPDX-License-Identifier: Apache-2.0
// Random lanes for a random graph: which axes, how many of each, and how they differ.
#pragma once

#include <cstdint>

#include "sim/graph/op_graph.h"
#include "sim/lanes/lanes.h"
#include "tests/oracle/random_graph.h"

namespace stepcast::oracle {

struct LaneVariety {
  bool speeds = true, classes = true, windows = true;
};

// 1 to 18 lanes a role.  Slices are often alike, so that there is something to fold.
LaneSet random_lanes(const OpGraph& graph, Draws& draws, const LaneVariety& variety = {});

// Lets collectives of passes go over other groups: of experts, of shards, ...
void use_other_groups(OpGraph& graph, Draws& draws);

}  // namespace stepcast::oracle
