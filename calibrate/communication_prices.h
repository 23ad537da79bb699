// SPDX-License-Identifier: Apache-2.0
// Prices of the communication of one plan on one cluster: of a collective on the costliest of the
// groups of its axis, of a transfer between the farthest of the pairs that run it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>

#include "calibrate/cost_table.h"
#include "sim/price.h"
#include "sim/rank_grid.h"
#include "sim/work.h"
#include "topology/cluster/cluster.h"
#include "topology/nccl/collectives.h"

namespace stepcast {

// Keeps what works of one axis have in common.  Refers to its arguments.
class CommunicationPrices {
 public:
  // `table` may be null: the communication model (topology/collectives.h) answers.
  CommunicationPrices(const Cluster& cluster, const RankGrid& grid, const CostTable* table,
                      const Placement& placement)
      : cluster_(cluster), grid_(grid), table_(table), placement_(placement) {}

  // By the table, if it has the group's rows, else by the model, which has the latency and the name
  // of the algorithm in either case.  REQUIRES: is_communication(work.kind).
  Price of(const Work& work);

 private:
  Price transfer(const Work& work) const;
  Price shift(const Work& work) const;
  GroupShape pair_shape(const Work& work) const;
  const Cluster& seen_by_groups(const Work& work);
  const GroupShape& shape_of_axis(Axis axis);
  int64_t gpu_of(const Coordinates& c) const { return placement_.gpu_of(grid_.rank(c)); }

  const Cluster& cluster_;
  const RankGrid& grid_;
  const CostTable* table_;
  const Placement& placement_;
  std::array<std::optional<GroupShape>, kAxes> shapes_;
  std::map<std::array<int64_t, 3>, Cluster> seen_;  // by axis or pair of stages
};

}  // namespace stepcast
