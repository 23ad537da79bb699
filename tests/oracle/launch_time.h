// SPDX-License-Identifier: Apache-2.0
// How long a launch keeps the host busy, for the oracles.
#pragma once

#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"

namespace stepcast::oracle {

inline Time launch_time(const Prices& prices, LaunchId id) {
  return prices.by_launch.empty() ? Time{} : prices.by_launch[static_cast<size_t>(id)];
}

}  // namespace stepcast::oracle
