// SPDX-License-Identifier: Apache-2.0
// The switches between nodes, seen as nested blocks: how far apart two GPUs are.
//
// Tier 0 is the leaf (in a rail fabric: the set of rail leaves of one scalable unit), tier 1 the
// spine, and so on.  A block of tier t holds `size` GPUs; two GPUs whose smallest common block is
// of tier t have 2t + 1 switches between them.  In a rail fabric that holds for any pair: below
// one leaf a message to another rail first goes over NVLink to the GPU beside the NIC of that rail
// (NCCL's PXN).
//
// Oversubscription of a tier is that of the links INTO it: {rack 16}, {pod 3072}, {spine, 7} says
// that a pod's links up to the spine have a seventh of the bandwidth of what is below.  Ratios of
// nested tiers multiply.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

constexpr int kMaxTiers = 4;

// The tiers as given, or derived from kind, radix and oversubscription if none are: leaves with
// radix * o / (o + 1) ports down (a host takes one port of each rail leaf, a node `nics` ports of
// one leaf in other fabrics); spines with a port for every leaf, if they have that many; else pods
// of radix / 2 leaves (of each rail), radix pods, ... until the cluster fits.  The last tier holds
// the whole cluster, whatever size was given.  At least one, at most kMaxTiers.
std::vector<Tier> fabric_tiers(const Cluster& cluster);

// The smallest one with a block that holds both GPUs.
int64_t tier_between(const std::vector<Tier>& tiers, int64_t from, int64_t to);

// Bandwidth that leaves a block of tier t-1 is 1 / oversubscription_into(tiers, t) of what its NICs
// have.
double oversubscription_into(const std::vector<Tier>& tiers, int64_t tier);

// End to end between two NICs of different nodes whose smallest common block is of `tier` (below 0:
// as 0).
Time network_latency(const Cluster& cluster, int64_t tier);

// The route between two different GPUs when nothing else uses it.
struct Route {
  int64_t tier = -1;            // smallest common block; -1 inside a node
  int64_t switches = 0;         // of the fabric, NVSwitches not counted
  Bandwidth bandwidth{};        // of the narrowest part: NVLink, or the GPU's share of the NICs
  double oversubscription = 1;  // of the tiers crossed
  Time latency{};
};

// REQUIRES: from != to, both within the cluster.  O(tiers).
Route route_of(const Cluster& cluster, int64_t from, int64_t to);

// Share of a GPU's NVLink bandwidth that reaches `ranks` GPUs of its node (itself included): all of
// it through NVSwitches; in a full mesh of g GPUs (ranks-1)/(g-1); in the 8-GPU hybrid cube mesh of
// DGX-1 ranks/6, since of a GPU's six links two go to one neighbour and four stay in its quad.
double intra_share(const Node& node, int64_t ranks);

}  // namespace stepcast
