// SPDX-License-Identifier: Apache-2.0
// How groups of ranks lie on nodes and switch blocks.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/rank_grid.h"
#include "topology/cluster/cluster.h"
#include "topology/cluster/fabric.h"

namespace stepcast {

// All of a group that the cost of a collective depends on.
struct GroupShape {
  int64_t ranks = 1;
  int64_t nodes = 1;
  int64_t ranks_per_node = 1;  // most on any node
  int64_t tier = 0;     // highest fabric tier it crosses: 0 inside a leaf, 1 ...; -1 inside a node
  int64_t sharing = 1;  // groups of the same axis that use a node's NICs at the same time
  // For each tier below `tier`: nodes of the group in one block of that tier, on average (rounded
  // down); 0 from `tier` on.
  std::array<int64_t, kMaxTiers> block_nodes{};
  int64_t fewest_per_node = 0;  // ranks on the node with fewest; 0: as many as on the others
  // Inside a PCIe node: groups of the same axis that lie on both sides of its CPU sockets and cross
  // between them at the same time; 0: this one does not.
  int64_t crossing = 0;
  auto operator<=>(const GroupShape&) const = default;
};

// The group by itself: `sharing` is 1.  REQUIRES: GPUs ascending, at least one, within the cluster.
GroupShape shape_of(const Cluster& cluster, std::span<const int64_t> gpus);

// The group of the first GPUs of the cluster.  O(1).  REQUIRES: 0 < count <= cluster.gpus().
GroupShape shape_of_first(const Cluster& cluster, int64_t count);

// The different shapes among the groups of `axis`, ascending, each once; `sharing` is that of the
// node with most groups.  Ranks lie on GPUs as `placement` says.  O(world).  REQUIRES: grid.world()
// <= cluster.gpus(), placement.holds(grid.world()).
std::vector<GroupShape> axis_shapes(const Cluster& cluster, const RankGrid& grid, Axis axis,
                                    const Placement& placement);

}  // namespace stepcast
