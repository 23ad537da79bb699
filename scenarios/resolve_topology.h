// SPDX-License-Identifier: Apache-2.0
// `cluster.topology`: nodes, switches and links written out by hand -> ExplicitFabric.
#pragma once

#include <optional>

#include "scenarios/field_values.h"
#include "scenarios/value.h"
#include "topology/cluster/explicit_fabric.h"

namespace stepcast {

// Takes what the first of `cluster.topology.nodes` says of itself (preset, gpu, gpus) for what all
// nodes are, where `cluster` does not say so itself: in the tree, before presets are applied.
void lift_node_kind(Value& cluster);

// REQUIRES: the key is there.  Nothing if it is wrong: E220 where a node cannot be reached, E221
// for ids and ends, E229 for nodes that differ.
std::optional<ExplicitFabric> read_topology(FieldValues& values, Problems& problems);

// Numbers of the cluster that follow: nodes, nics.count, nics.bw.
void derive_from_topology(FieldValues& values, const ExplicitFabric& fabric, Problems& problems);

}  // namespace stepcast
