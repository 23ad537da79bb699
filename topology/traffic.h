// SPDX-License-Identifier: Apache-2.0
// What the communication of a job puts on the links of the cluster: from groups to links.
//
// For each group of each axis the directed links that its collectives use and how much of the
// message passes each (a ring: 2(n-1)/n on every link between neighbours), for each transfer of the
// pipeline its route.  What `stepcast explain --links` prints, and what the contention engine
// shares (sim/contention.h).
//
// A GPU spreads what it sends over NVSwitches evenly over all of them, so that its NVLinks count as
// one link here: the first, with the bandwidth of all.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/contention.h"
#include "sim/link_loads.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/rank_grid.h"
#include "topology/cluster_graph.h"
#include "topology/placement.h"
#include "topology/routes.h"

namespace stepcast {

// The link that stands for `directed` here, and what it can carry.
uint32_t joint_link(const ClusterGraph& cluster, uint32_t directed);
Bandwidth joint_bandwidth(const ClusterGraph& cluster, uint32_t directed);

// What switches like this one are called: "leaf" of "leaf2/rail5", "NIC" of a NIC; "switch" for
// names that do not begin with letters.
std::string switch_word(const Device& device);

// Links of one collective of `kind` over the GPUs of a group (in rank order), as `algorithm`
// ("ring", "tree", "pairwise", ...: collective_messages.h) runs it; of send_recv from the first GPU
// to the second.  Loads in bytes over the link for each kFullLoad bytes of the message; ascending
// by link.  REQUIRES: ways between the GPUs exist.
std::vector<LinkUse> collective_links(const ClusterGraph& cluster, Router& router, WorkKind kind,
                                      std::string_view algorithm, std::span<const int64_t> gpus);

// Patterns of all communication works of the graph on all roles and lanes.  Lanes are numbered by
// the coordinates tp, cp, dp of their rank, tp innermost.  What can never be shared is left out:
//
//   * links that one stream of one group uses at a time, links that carry all that their users
//     could send together at the speed of their prices, and links as wide as another one with the
//     same users (a GPU's PCIe beside its NIC);
//   * works that hardly take longer than their latency (a tenth): the gradient norm.
//
// Loads are cut so that a group alone is never slower than its price, which knows better: that of
// the class of links which `lanes` put it in all the time.
// REQUIRES: prices.by_work.size() == graph.works.size(); `lanes` are of the graph, or empty.
Traffic traffic_of(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                   const Placement& placement, const ClusterGraph& cluster,
                   const RouteOptions& options, const LaneSet& lanes = {});

// Which groups cross which kinds of link, and the fullest link of each kind.  Works that hardly
// take longer than their latency are left out here too.
LinkLoads link_loads(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                     const Placement& placement, const ClusterGraph& cluster,
                     const RouteOptions& options);

}  // namespace stepcast
