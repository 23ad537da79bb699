// SPDX-License-Identifier: Apache-2.0
// The channels that NCCL finds for a group: how many, and how fast NCCL takes each to be.
//
// NCCL searches its topology for parallel rings, trees and in-switch reductions, trying one speed
// of a list after the other.  Here the outcome of that search in closed form, for nodes whose GPUs
// are alike (docs/communication.md).  The speeds are NCCL's own reckoning, for its choice between
// algorithms; the links themselves are not bound to the steps of the list, so costs take `smooth`.
// After NVIDIA/nccl src/graph/search.cc, 2.28.9 to 2.30.7.
#pragma once

#include <cstdint>

#include "topology/cluster/cluster.h"
#include "topology/cluster/group_shape.h"

namespace stepcast {

// How NCCL is set up beside what the wires say.  No scenario states it; logs of benchmarks do.
struct NcclSetup {
  // Bits by Algorithm (NCCL_ALGO, of an all-reduce) and by Protocol (NCCL_PROTO); 0: not stated,
  // all that the NICs' software leaves, which sets the same variables.
  uint32_t algorithms = 0;
  uint32_t protocols = 0;
  bool merges_ports = true;  // the ports of a NIC are one device (2.24 and later)
};

enum class ChannelPattern : uint8_t { ring, tree, nvls, collnet };

// Of one channel; bytes per second and direction.
struct ChannelSpeed {
  double intra = 0;  // inside a node
  double inter = 0;  // between nodes; 0 if the group lies on one
};

struct Channels {
  int64_t count = 0;    // 0: no such channels
  ChannelSpeed found;   // of the list
  ChannelSpeed smooth;  // what the links have for each
  int64_t blocks = 0;   // thread blocks (so SMs) once connected
};

// `sharing` counts for `smooth` only: a communicator does not know of others on its NICs.
// REQUIRES: a group of several ranks; bandwidths of its links are positive.
Channels search_channels(const Cluster& cluster, const GroupShape& shape, ChannelPattern pattern,
                         const NcclSetup& setup = {});

// Usable bandwidth of one GPU towards the rest of the group inside its node.
double usable_intra(const Cluster& cluster, const GroupShape& shape);

}  // namespace stepcast
