// SPDX-License-Identifier: Apache-2.0
// price: op graph -> durations, each with its origin.  The only place where costs are decided.
#pragma once

#include "calibrate/cost_table.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/rank_grid.h"
#include "topology/cluster.h"
#include "topology/placement.h"

namespace stepcast {

// Looks each work of the graph up in `table` (may be null), then falls back to the roofline
// (roofline.h) or to the communication model (topology/collectives.h).
Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
             const CostTable* table, const Placement& placement = {});

}  // namespace stepcast
