// SPDX-License-Identifier: Apache-2.0
// What `stepcast explain --links` prints: which groups of a step cross which links, and how full
// these are.
#pragma once

#include <string>

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/rank_grid.h"
#include "sim/result.h"
#include "topology/cluster_graph.h"
#include "topology/placement.h"
#include "topology/routes.h"

namespace stepcast {

// What switches like this one are called: "leaf" of "leaf2/rail5", "NIC" of a NIC; "switch" for
// names that do not begin with letters.
std::string switch_word(const Device& device);

// Which groups cross which kinds of link, and the fullest link of each kind.  Works that hardly
// take longer than their latency are left out here too.
LinkLoads link_loads(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                     const Placement& placement, const ClusterGraph& cluster,
                     const RouteOptions& options);

}  // namespace stepcast
