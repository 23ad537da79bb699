// SPDX-License-Identifier: Apache-2.0
// A fabric as `ibnetdiscover` found it (import_ibnetdiscover.h), as one that is written out.
#pragma once

#include <string>
#include <vector>

#include "topology/import.h"
#include "topology/written_fabric.h"

namespace stepcast {

struct ImportedFabric {
  WrittenFabric fabric;            // switches without a latency: the file tells none
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
