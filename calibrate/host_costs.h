// SPDX-License-Identifier: Apache-2.0
// What the calls that a launch is made of cost the host (host_costs.csv has figures and sources).
#pragma once

#include <array>

#include "sim/launch.h"
#include "sim/units.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

using HostCosts = std::array<Time, kHostCalls>;

// By HostCall.  Hosts whose GPUs are linked by NVLink-C2C are Grace, all others x86.
const HostCosts& host_costs(const Node& node);

// Sum over its calls.
Time host_time(const Launch& launch, const HostCosts& costs);

}  // namespace stepcast
