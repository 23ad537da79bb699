// SPDX-License-Identifier: Apache-2.0
// What an importer found (topology/import/imported_topology.h) -> the `cluster` section of a
// scenario, as YAML.
//
// The section names a preset and states beside it what the file tells; comments say what is left to
// the preset, and what was left out.
#pragma once

#include <string>

#include "topology/cluster/cluster.h"
#include "topology/import/imported_topology.h"

namespace stepcast {

struct ClusterSource {
  std::string file;    // as it is shown
  std::string kind;    // "nvidia-smi"
  std::string preset;  // of the cluster, or ""
  std::string gpu;     // preset of the GPU, or "": that of the cluster preset
};

// One node of presets, any of them "".  Throws InputError E125 for an unknown name; numbers that
// neither preset states are the defaults of scenarios.  Without any: a node of unknown GPUs.
Node preset_node(const std::string& preset, const std::string& gpu);

// Throws InputError: E320 where the file has no cluster that can be simulated (imported_cluster.h),
// anything of a scenario where the section would be wrong.
// REQUIRES: a preset or a GPU, of which preset_node() says what there is.
std::string cluster_section(const ImportedTopology& found, const ClusterSource& source);

}  // namespace stepcast
