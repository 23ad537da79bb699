// SPDX-License-Identifier: Apache-2.0
// What the ops of a scenario's step cost, and what its host waits for in between.
#pragma once

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast {

// Prices of a graph made of the scenario, on this cluster.  `table` may be null.  Throws InputError
// E123 if all that is done takes longer than can be counted in picoseconds.
Prices price_on(const Cluster& cluster, const OpGraph& graph, const Scenario& scenario,
                const CostTable* table);

// Prices a graph made of the scenario, whose passes get the waits of ops that the host launches
// late (sim/graph/op_graph.h).  Else as price_on().
Prices price_step(OpGraph& graph, const Scenario& scenario, const CostTable* table);

}  // namespace stepcast
