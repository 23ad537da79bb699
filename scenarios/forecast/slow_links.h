// SPDX-License-Identifier: Apache-2.0
// The cluster graph of a scenario: as built, but for links that `perturb` slows all the time.
#pragma once

#include "scenarios/scenario.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

// Bandwidths of the network links of slow NICs, and of the NVLinks of GPUs (where there are none,
// of their PCIe), times the factors of the list.  An item counts once for a NIC, however many of
// the GPUs that use it are concerned; between two GPUs the slower end decides.  What `from` and
// `until` limit is left out.
ClusterGraph disturbed_graph(const Scenario& scenario);

}  // namespace stepcast
