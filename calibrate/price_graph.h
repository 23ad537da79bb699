// SPDX-License-Identifier: Apache-2.0
// price: op graph -> durations, each with its origin.  The only place where costs are decided.
#pragma once

#include "calibrate/cost_table.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/rank_grid.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// Compute by compute_price.h, communication by communication_prices.h, launches by host_costs.h.
// `table` may be null.
Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
             const CostTable* table, const Placement& placement = {});

}  // namespace stepcast
