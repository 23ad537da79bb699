// SPDX-License-Identifier: Apache-2.0
// Which GPU each rank runs on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stepcast {

// GPU of the cluster for each rank; ranks fill the GPUs of a node in order, and the nodes in the
// order of a list.
struct Placement {
  std::vector<int64_t> nodes;  // node list; empty: 0, 1, 2, ...
  int64_t gpus_per_node = 8;

  int64_t gpu_of(int64_t rank) const {
    const int64_t slot = rank / gpus_per_node;
    const int64_t node = nodes.empty() ? slot : nodes[static_cast<size_t>(slot)];
    return node * gpus_per_node + rank % gpus_per_node;
  }
  bool in_order() const { return nodes.empty(); }
  // Whether the listed nodes have a GPU for each of so many ranks.
  bool holds(int64_t ranks) const {
    return in_order() || ranks <= static_cast<int64_t>(nodes.size()) * gpus_per_node;
  }
};

}  // namespace stepcast
