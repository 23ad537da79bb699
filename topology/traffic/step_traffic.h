// SPDX-License-Identifier: Apache-2.0
// What the communication of a step puts on the links of the cluster: collective_links.h for every
// group of every axis, a route for each transfer of the pipeline.  Asked for twice: by the engine
// in which transfers slow each other down (sim/contention/contention.h), and by `stepcast explain
// --links`.
#pragma once

#include <cstdint>
#include <string>

#include "sim/contention/contention.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/rank_grid.h"
#include "sim/results/link_loads.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"
#include "topology/cluster/routes.h"

namespace stepcast {

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

// What switches like this one are called: "leaf" of "leaf2/rail5", "NIC" of a NIC; "switch" for
// names that do not begin with letters.
std::string switch_word(const Device& device);

// What `stepcast explain --links` prints: which groups cross which kinds of link, and the fullest
// link of each kind.  Works that hardly take longer than their latency are left out here too.
LinkLoads link_loads(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                     const Placement& placement, const ClusterGraph& cluster,
                     const RouteOptions& options);

}  // namespace stepcast
