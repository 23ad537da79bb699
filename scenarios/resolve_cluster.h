// SPDX-License-Identifier: Apache-2.0
// The `cluster` section -> Cluster.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/field_values.h"
#include "scenarios/value.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// Writes the presets that `cluster` and `cluster.node.gpu` name into the tree, below what is stated
// beside them.  Adds E125 for unknown names; false if there was one.
bool apply_cluster_presets(Value& root, Problems& problems);

// Nothing if the cluster cannot be made out; the problems say why.  Adds to `warnings` what is odd.
std::optional<Cluster> resolve_cluster(FieldValues& values, Problems& problems,
                                       std::vector<std::string>& warnings);

}  // namespace stepcast
