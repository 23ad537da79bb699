// SPDX-License-Identifier: Apache-2.0
// price: op graph -> durations, each with its origin.  The only place where costs are decided.
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/graph/work.h"
#include "sim/rank_grid.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// Prices of works that have been asked for, for the graphs of many steps on one cluster, with one
// table and one placement of ranks: those of compute by work, those of communication by work and
// grid.  They have no text: neither basis nor remark.
class PriceCache {
 public:
  // REQUIRES: for all calls the same cluster, table and placement.
  Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
               const CostTable* table, const Placement& placement);

 private:
  struct OfGrid {
    RankGrid grid;
    std::map<Work, Price> prices;
  };
  int64_t libraries_ = 0;  // of compute_
  std::map<Work, Price> compute_;
  std::vector<OfGrid> grids_;  // last ones
};

// `table` may be null: the data sheet and the communication model answer.  Groups of ranks follow
// from `grid`, their GPUs from `placement`.
Prices price(const OpGraph& graph, const Cluster& cluster, const RankGrid& grid,
             const CostTable* table, const Placement& placement = {});

// Why no row of a table can price this work, in words for a plan of measurements; empty: one may.
std::string beyond_tables(const Work& work);

// What the calls that a launch is made of cost the host, by HostCall (data/host_costs.csv has
// figures and sources).
using HostCosts = std::array<Time, kHostCalls>;

// Hosts whose GPUs are linked by NVLink-C2C are Grace, all others x86.
const HostCosts& host_costs(const Node& node);

// Of one launch: the sum over its calls.
Time host_time(const Launch& launch, const HostCosts& costs);

}  // namespace stepcast
