// SPDX-License-Identifier: Apache-2.0
// Runs a list of timed flows on the FlowNetwork, as an engine would.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/oracle/flows.h"

namespace stepcast::oracle {

// When each flow ends, ps.  With `peeks` the network is asked for its next end and its rates after
// every single change, which must not change anything.
std::vector<int64_t> network_ends(const std::vector<int64_t>& capacity,
                                  const std::vector<TimedFlow>& flows, bool peeks = false);

}  // namespace stepcast::oracle
