// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/host_waits.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace stepcast {

void add_host_wait_edges(OpGraph& graph, const Prices& prices) {
  if (prices.by_launch.empty()) return;
  constexpr auto kReads = static_cast<size_t>(HostCall::synchronize);
  for (Pass& pass : graph.passes) {
    std::vector<Wait> added;
    if (graph.host_blocks)
      for (uint32_t i = 1; i < pass.ops.size(); ++i)
        added.push_back({.op = i,
                         .on = i - 1,
                         .delay = prices.by_launch[static_cast<size_t>(pass.ops[i].launch)]});
    std::optional<uint32_t> computed;  // the last op on the compute stream
    std::optional<uint32_t> read;      // what the host has waited for
    Time since{};
    for (uint32_t i = 0; i < pass.ops.size() && !graph.host_blocks; ++i) {
      const auto launch = static_cast<size_t>(pass.ops[i].launch);
      if (computed && graph.launches[launch].calls[kReads] > 0) {
        read = computed;
        since = {};
      }
      if (pass.ops[i].stream == Stream::compute) computed = i;
      if (!read) continue;
      since += prices.by_launch[launch];
      added.push_back({.op = i, .on = *read, .delay = since});
    }
    if (added.empty()) continue;
    const auto all = pass.waits.all();
    std::vector<Wait> waits(all.begin(), all.end());
    waits.insert(waits.end(), added.begin(), added.end());
    pass.waits = WaitGraph(static_cast<uint32_t>(pass.ops.size()), std::move(waits));
  }
}

}  // namespace stepcast
