// SPDX-License-Identifier: Apache-2.0
// What the communication of a job puts on shared links of the cluster, for the engine in which
// transfers slow each other down (sim/contention/contention.h): collective_links.h for every group
// of every axis, a route for each transfer of the pipeline.
#pragma once

#include "sim/contention/contention.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/rank_grid.h"
#include "topology/cluster_graph.h"
#include "topology/placement.h"
#include "topology/routes.h"

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

}  // namespace stepcast
