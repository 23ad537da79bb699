// SPDX-License-Identifier: Apache-2.0
// cluster.placement: which nodes the job runs on, in the order of its ranks.
#pragma once

#include "scenarios/field_values.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// All nodes in order without the key.  Adds E107 for what is no node, E240 for nodes that the
// cluster does not have, E127 for one that is named twice.
Placement resolve_placement(const FieldValues& values, Problems& problems, const Cluster& cluster);

// GPUs of the nodes that the job runs on.
int64_t gpus_of(const Placement& placement, const Cluster& cluster);

}  // namespace stepcast
