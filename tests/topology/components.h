// SPDX-License-Identifier: Apache-2.0
// What hangs together in a cluster graph.
#pragma once

#include <cstdint>
#include <vector>

#include "topology/cluster/cluster_graph.h"

namespace stepcast::test {

// Number of the connected component of each device, from 0, by their first devices.
inline std::vector<uint32_t> components(const ClusterGraph& graph) {
  constexpr uint32_t kNone = UINT32_MAX;
  std::vector<uint32_t> component(graph.devices().size(), kNone), ahead;
  uint32_t count = 0;
  for (uint32_t d = 0; d < component.size(); ++d) {
    if (component[d] != kNone) continue;
    component[d] = count;
    ahead.push_back(d);
    while (!ahead.empty()) {
      const uint32_t at = ahead.back();
      ahead.pop_back();
      for (const uint32_t link : graph.leaving(at)) {
        if (component[graph.to(link)] != kNone) continue;
        component[graph.to(link)] = count;
        ahead.push_back(graph.to(link));
      }
    }
    ++count;
  }
  return component;
}

}  // namespace stepcast::test
