// SPDX-License-Identifier: Apache-2.0
// All-to-all by the links' shares, and the two-step exchange of expert parallelism.
//
// NCCL runs an all-to-all as sends and receives and neither chooses nor models it.  Each rank sends
// every other 1/n of its message: what stays inside a node passes NVLink, what leaves it the NICs
// (with PXN by way of the GPU beside the receiver's rail, which loads NVLink a second time).  Both
// go on at once, so the fullest kind of link decides.
#pragma once

#include <vector>

#include "topology/cluster/cluster.h"
#include "topology/cluster/group_shape.h"
#include "topology/nccl/algorithms.h"

namespace stepcast {

// By LL and by Simple.  Inside a node NCCL takes LL up to a number of bytes for each peer, Simple
// above: there the larger message may be the faster one.  Over nodes the bound depends on NICs and
// version; it is left open, so that the lower one counts.  REQUIRES: as collective_cost,
// shape.ranks > 1.
std::vector<Candidate> exchange_candidates(const Cluster& cluster, const GroupShape& shape);

// Experts' tokens that go to several GPUs of a node cross the network once for that node, on the
// sender's rail, and are passed on over NVLink there.  `network_share`: of the bytes bound for
// other nodes, those that cross (nodes reached / experts reached of a token). REQUIRES: as
// exchange_candidates, 0 < network_share <= 1.
Candidate node_limited_exchange(const Cluster& cluster, const GroupShape& shape,
                                double network_share);

}  // namespace stepcast
