// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/step_prices.h"

#include "calibrate/price_graph.h"
#include "sim/host_waits.h"

namespace stepcast {

Prices price_step(OpGraph& graph, const Scenario& scenario, const CostTable* table) {
  Prices prices = price(graph, scenario.cluster, scenario.plan.grid, table, scenario.placement);
  launch_after_host_waits(graph, prices);
  return prices;
}

}  // namespace stepcast
