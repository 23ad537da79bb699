// SPDX-License-Identifier: Apache-2.0
// What a collective or a transfer costs on the cluster: the algorithm and protocol that NCCL's own
// model picks (algorithms.h), and its time with factors fitted to logs (collective_time.h).
//
// `bytes` is the size as nccl-tests counts it (all-gather and reduce-scatter: the gathered size;
// all-to-all: what one rank sends in all).  Formulas and limits: docs/communication.md.
//
// Oversubscribed tiers (fabric.h): a ring leaves a block of switches on one hop of the m that its m
// nodes there make, so it is slowed only if the tier above offers less than 1/m of the bandwidth;
// pairwise exchanges and transfers get the NIC bandwidth divided by the oversubscription.
#pragma once

#include <cstdint>
#include <string>

#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/rank_grid.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/group_shape.h"

namespace stepcast {

// The costliest of axis_shapes (group_shape.h): the one that all groups wait for.  REQUIRES: as
// axis_shapes.
GroupShape worst_shape(const Cluster& cluster, const RankGrid& grid, Axis axis,
                       const Placement& placement = {});

struct CommunicationCost {
  Time time{};
  std::string basis;                      // "ring LL128, 24 channels, 8 ranks on 1 node"
  Time latency{};                         // part of `time` before bytes flow
  Algorithm algorithm = Algorithm::none;  // of a collective: the one that is costed
  Protocol protocol = Protocol::simple;
  int64_t blocks = 0;  // thread blocks of a collective, one SM each (NCCL's channels)
};

// REQUIRES: is_communication(kind), kind neither send_recv nor shift, bytes >= 0; bandwidths of the
// links used are positive.  A group of one costs nothing.
CommunicationCost collective_cost(const Cluster& cluster, WorkKind kind, Bytes bytes,
                                  const GroupShape& shape);

// All-to-all of experts' tokens that cross the network once for each node they go to
// (node_limited_exchange in exchanges.h).  REQUIRES: 0 < network_share <= 1.
CommunicationCost expert_exchange_cost(const Cluster& cluster, Bytes bytes, const GroupShape& shape,
                                       double network_share);

// One message from `from` to `to`, while every other GPU of the node may send one too: between
// nodes it has its GPU's share of the NICs (nics * bandwidth / gpus).  Nothing if from == to.
CommunicationCost transfer_cost(const Cluster& cluster, int64_t from, int64_t to, Bytes bytes);

}  // namespace stepcast
