// SPDX-License-Identifier: Apache-2.0
// The directed links that one collective of a group uses, and how much of its message passes each
// (a ring: 2(n-1)/n on every link between neighbours).
//
// A GPU spreads what it sends over NVSwitches evenly over all of them, so that its NVLinks count as
// one link here: the first, with the bandwidth of all.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/contention.h"
#include "sim/price.h"
#include "sim/work.h"
#include "topology/cluster_graph.h"
#include "topology/routes.h"

namespace stepcast {

// The link that stands for `directed` here, and what it can carry.
uint32_t joint_link(const ClusterGraph& cluster, uint32_t directed);
Bandwidth joint_bandwidth(const ClusterGraph& cluster, uint32_t directed);

// Links of one collective of `kind` over the GPUs of a group (in rank order), as `algorithm`
// runs it (collective_messages.h); of send_recv from the first GPU
// to the second.  Loads in bytes over the link for each kFullLoad bytes of the message; ascending
// by link.  REQUIRES: ways between the GPUs exist.
std::vector<LinkUse> collective_links(const ClusterGraph& cluster, Router& router, WorkKind kind,
                                      Algorithm algorithm, std::span<const int64_t> gpus);

}  // namespace stepcast
