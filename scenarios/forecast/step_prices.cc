// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/step_prices.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

#include "calibrate/price/price_graph.h"
#include "sim/diagnostic.h"
#include "sim/graph/op_graph.h"

namespace stepcast {
namespace {

// No less than the step takes: everything that the ranks do, one after the other.
double longest_seconds(const OpGraph& graph, const Prices& prices) {
  double sum = 0;
  const std::vector<double> counts = work_counts(graph);
  for (size_t w = 0; w < counts.size(); ++w) sum += counts[w] * to_seconds(prices.by_work[w].time);
  int64_t ranks = std::numeric_limits<int64_t>::max();  // alike, of a role
  for (const RoleOps& role : graph.roles) ranks = std::min<int64_t>(ranks, role.ranks);
  return sum / static_cast<double>(ranks);
}

}  // namespace

Prices price_on(const Cluster& cluster, const OpGraph& graph, const Scenario& scenario,
                const CostTable* table) {
  constexpr double kLongestStep = 4e6;  // half of what is counted: stragglers take longer
  try {
    Prices prices = price(graph, cluster, scenario.plan.grid, table, scenario.placement);
    if (longest_seconds(graph, prices) < kLongestStep) return prices;
  } catch (const TimeTooLong&) {
    // one op alone is longer
  }
  throw file_error(
      "E123", "the step takes months, more than can be counted", scenario.file,
      "a bandwidth or another rate of the cluster is far too low, or the batch too large");
}

Prices price_step(OpGraph& graph, const Scenario& scenario, const CostTable* table) {
  Prices prices = price_on(scenario.cluster, graph, scenario, table);
  launch_after_host_waits(graph, prices);
  return prices;
}

}  // namespace stepcast
