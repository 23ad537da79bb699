// SPDX-License-Identifier: Apache-2.0
// The ways NCCL can run a collective on a group, each as a straight line over the message size.
//
//   time(bytes) = latency + bytes / bandwidth
//
// One line for each algorithm (ring, tree, in-switch reduction, pairwise exchange) and protocol;
// the collective takes the lowest at its size.  docs/communication.md derives the terms.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/work.h"
#include "topology/cluster.h"
#include "topology/collectives.h"

namespace stepcast {

struct Alternative {
  const char* name = "";  // "ring LL128"
  double latency = 0;     // seconds
  double bandwidth = 0;   // bytes of the message (nccl-tests' size) per second
};

// REQUIRES: as collective_cost, shape.ranks > 1.  At least one.
std::vector<Alternative> alternatives(const Cluster& cluster, WorkKind kind,
                                      const GroupShape& shape);

}  // namespace stepcast
