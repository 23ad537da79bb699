// SPDX-License-Identifier: Apache-2.0
// A host as an importer found it (imported_topology.h), in the numbers that a cluster states of its
// nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "topology/cluster/cluster.h"
#include "topology/cluster/explicit_fabric.h"
#include "topology/import/imported_topology.h"

namespace stepcast {

// As in Node (cluster.h); 0, or nothing: the file does not tell.  Bandwidths are those of the data
// sheet, one direction.
struct ImportedNode {
  int64_t nodes = 1;
  int64_t gpus = 0;   // of a node
  int64_t hosts = 1;  // that share the NVLink domain of a node
  std::optional<IntraKind> intra;
  Bandwidth intra_bandwidth{};  // of the GPU that has least
  int64_t nvlinks = 0, nvswitches = 0;
  int64_t nics = 0;  // of those that have a rail
  Bandwidth nic_bandwidth{};
  int64_t cpus = 0;  // of a host
  Bandwidth cpu_bandwidth{};
  bool c2c = false;
  std::optional<int64_t> pcie_switches;  // of a host: those nearest to GPUs that NICs are below too
  Bandwidth pcie_bandwidth{};            // of a GPU
  // What these numbers cannot say, or are the least of: sentences.
  std::vector<std::string> notes;
};

// Hosts of one NVLink domain are one node, others a node each.  Throws InputError E320, with
// `file`, if the graph has no GPUs or its hosts differ in how many they have.
ImportedNode imported_node(const ImportedTopology& topology, const std::string& file);

// A fabric as `ibnetdiscover` found it, as an ExplicitFabric.

struct ImportedFabric {
  ExplicitFabric fabric;           // switches without a latency: the file tells none
  std::vector<std::string> notes;  // what was left out: sentences
};

// Nodes are hosts; if a node of `kind` is several (an NVLink rack), the hosts and HCAs below leaves
// of their own.  Links of a node go by rail, then as in the file.  What the largest connected part
// does not reach is left out, and so are HCAs that name no host where hosts are nodes.  Throws
// InputError E320, with `file`, if there are no hosts by name, or more NICs below leaves of their
// own than a rack has.
ImportedFabric imported_fabric(const ImportedTopology& topology, const Node& kind,
                               const std::string& file);

}  // namespace stepcast
