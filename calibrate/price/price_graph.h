// SPDX-License-Identifier: Apache-2.0
// price: op graph -> durations, each with its origin.  The only place where costs are decided.
#pragma once

#include <array>

#include "calibrate/table/cost_table.h"
#include "sim/launch.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/rank_grid.h"
#include "sim/units.h"
#include "topology/cluster.h"
#include "topology/placement.h"

namespace stepcast {

// Compute by compute_price.h, communication by communication_prices.h, launches by host_costs.h.
// `table` may be null.
Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
             const CostTable* table, const Placement& placement = {});

// -------------------- host_costs.h
// What the calls that a launch is made of cost the host (host_costs.csv has figures and sources).

using HostCosts = std::array<Time, kHostCalls>;

// By HostCall.  Hosts whose GPUs are linked by NVLink-C2C are Grace, all others x86.
const HostCosts& host_costs(const Node& node);

// Sum over its calls.
Time host_time(const Launch& launch, const HostCosts& costs);

}  // namespace stepcast
