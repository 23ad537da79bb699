// SPDX-License-Identifier: Apache-2.0
// What a collective or a transfer costs on the cluster, by a first topology-aware alpha-beta model.
//
//   time = alpha * steps + bytes on the slowest link / its bandwidth
//
// for ring and tree, the better of the two as NCCL would choose; inside a node over NVLink, between
// nodes over the NICs.  `bytes` is the size as nccl-tests counts it (all-gather and reduce-scatter:
// the gathered size). Formulas: nccl_model in docs/communication.md.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "sim/rank_grid.h"
#include "sim/units.h"
#include "sim/work.h"
#include "topology/cluster.h"

namespace stepcast {

// How a group lies on the nodes: all that the cost of a collective depends on.
struct GroupShape {
  int64_t ranks = 1;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;  // most on any node
  int64_t tier = 0;     // highest fabric tier it crosses: 0 inside a leaf, 1 ...; -1 inside a node
  int64_t sharing = 1;  // groups of the same axis that use a node's NICs at the same time
  auto operator<=>(const GroupShape&) const = default;
};

// REQUIRES: ranks ascending, within the cluster.
GroupShape shape_of(const Cluster& cluster, std::span<const int64_t> ranks);

// The costliest shape among the groups of `axis`: the one that all of them wait for.  O(world).
GroupShape worst_shape(const Cluster& cluster, const RankGrid& grid, Axis axis);

struct CommunicationCost {
  Time time{};
  std::string basis;  // "ring, 8 ranks on 1 node"
};

// REQUIRES: is_communication(kind), kind != send_recv.  A group of one costs nothing.
CommunicationCost collective_cost(const Cluster& cluster, WorkKind kind, Bytes bytes,
                                  const GroupShape& shape);

// One message from `from` to `to`, nothing else on the links.
CommunicationCost transfer_cost(const Cluster& cluster, int64_t from, int64_t to, Bytes bytes);

}  // namespace stepcast
