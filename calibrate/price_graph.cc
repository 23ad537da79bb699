// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price_graph.h"

#include "calibrate/communication_prices.h"
#include "calibrate/compute_price.h"
#include "calibrate/host_costs.h"

namespace stepcast {

Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
             const CostTable* table, const Placement& placement) {
  Prices prices;
  prices.by_work.reserve(graph.works.size());
  CommunicationPrices communication(cluster, grid, table, placement);
  for (const Work& work : graph.works) {
    prices.by_work.push_back(is_communication(work.kind)
                                 ? communication.of(work)
                                 : compute_price(work, cluster.node.gpu, table));
  }
  HostCosts costs = host_costs(cluster.node);
  if (table != nullptr) {
    Time& kernel = costs[static_cast<size_t>(HostCall::kernel)];
    kernel = table->launch().value_or(kernel);
    Time& graph_replay = costs[static_cast<size_t>(HostCall::graph)];
    graph_replay = table->graph_launch().value_or(graph_replay);
  }
  for (const Launch& launch : graph.launches) prices.by_launch.push_back(host_time(launch, costs));
  return prices;
}

}  // namespace stepcast
