// SPDX-License-Identifier: Apache-2.0
// What a collective or a transfer costs on the cluster: the algorithm and protocol that NCCL's own
// model picks (alternatives.h), and its time with factors fitted to logs (collective_time.h).
//
// `bytes` is the size as nccl-tests counts it (all-gather and reduce-scatter:
// the gathered size; all-to-all: what one rank sends in all).  Formulas and limits:
// docs/communication.md.
//
// Oversubscribed tiers (fabric.h): a ring leaves a block of switches on one hop of the m that its m
// nodes there make, so it is slowed only if the tier above offers less than 1/m of the bandwidth;
// pairwise exchanges and transfers get the NIC bandwidth divided by the oversubscription.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "sim/rank_grid.h"
#include "sim/units.h"
#include "sim/work.h"
#include "topology/cluster.h"
#include "topology/fabric.h"
#include "topology/placement.h"

namespace stepcast {

// How a group lies on the nodes: all that the cost of a collective depends on.
struct GroupShape {
  int64_t ranks = 1;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;  // most on any node
  int64_t tier = 0;     // highest fabric tier it crosses: 0 inside a leaf, 1 ...; -1 inside a node
  int64_t sharing = 1;  // groups of the same axis that use a node's NICs at the same time
  // For each tier below `tier`: nodes of the group in one block of that tier, on average (rounded
  // down); 0 from `tier` on.
  std::array<int64_t, kMaxTiers> block_nodes{};
  int64_t fewest_per_node = 0;  // ranks on the node with fewest; 0: as many as on the others
  // Inside a PCIe node: groups of the same axis that lie on both sides of its CPU sockets and cross
  // between them at the same time; 0: this one does not.
  int64_t crossing = 0;
  auto operator<=>(const GroupShape&) const = default;
};

// The group by itself: `sharing` is 1.  REQUIRES: GPUs ascending, at least one, within the cluster.
GroupShape shape_of(const Cluster& cluster, std::span<const int64_t> gpus);

// The costliest shape among the groups of `axis`: the one that all of them wait for; `sharing` is
// that of the node with most groups.  Ranks lie on GPUs as `placement` says, in order by default.
// O(world).  REQUIRES: grid.world() <= cluster.gpus(), placement.holds(grid.world()), axis != ep.
GroupShape worst_shape(const Cluster& cluster, const RankGrid& grid, Axis axis,
                       const Placement& placement = {});

struct CommunicationCost {
  Time time{};
  std::string basis;        // "ring LL128, 24 channels, 8 ranks on 1 node"
  Time latency{};           // part of `time` before bytes flow
  std::string algorithm{};  // of a collective: "ring LL128", the one that is costed
  int64_t blocks = 0;       // thread blocks of a collective, one SM each (NCCL's channels)
};

// REQUIRES: is_communication(kind), kind neither send_recv nor shift, bytes >= 0; bandwidths of the
// links used are positive.  A group of one costs nothing.
CommunicationCost collective_cost(const Cluster& cluster, WorkKind kind, Bytes bytes,
                                  const GroupShape& shape);

// All-to-all of experts' tokens that cross the network once for each node they go to
// (node_limited_exchange in exchange.h).  REQUIRES: 0 < network_share <= 1.
CommunicationCost expert_exchange_cost(const Cluster& cluster, Bytes bytes, const GroupShape& shape,
                                       double network_share);

// One message from `from` to `to`, while every other GPU of the node may send one too: between
// nodes it has its GPU's share of the NICs (nics * bandwidth / gpus).  Nothing if from == to.
CommunicationCost transfer_cost(const Cluster& cluster, int64_t from, int64_t to, Bytes bytes);

}  // namespace stepcast
