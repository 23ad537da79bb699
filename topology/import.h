// SPDX-License-Identifier: Apache-2.0
// What an importer makes of a file that describes a cluster as it was found.
//
// Three formats: import_nvidia_smi.h, import_nccl_xml.h, import_ibnetdiscover.h.  Bandwidths of the
// graph are those of the data sheet, one direction (link_speeds.h); devices have no latency, since
// none of the files tells it.  Imports never guess silently: what is taken for granted is a fact of
// its own, what does not fit is a warning with its line, and what cannot be read is an InputError:
//   E320 not a topology that can be read      E321 malformed, at a place      E322 cut off
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster_graph.h"

namespace stepcast {

// Something that the file tells and the graph does not.
struct TopologyFact {
  std::string key;  // for programs: "sharp_nodes"
  int64_t value = 0;
  std::string text;  // for people, with the value in it where that says something
};

struct TopologyWarning {
  int line = 0;  // from 1; 0: of no line
  std::string text;
};

struct ImportedTopology {
  ClusterGraph graph;
  // What NCCL's search for channels counts with, for each link, one direction; 0: not known.
  std::vector<Bandwidth> nccl;
  std::vector<TopologyFact> facts;
  std::vector<TopologyWarning> warnings;
  Bandwidth nic_bandwidth{};       // of most NICs on the network, one direction; 0: not told
  std::vector<std::string> hosts;  // names by Device::node; empty: not told
  // Of each device of a fabric: number of its group, which is leaves that serve the same hosts and
  // the NICs below them; -1: none.  Empty: no fabric.
  std::vector<int32_t> leaf_group;
};

// The value of a fact, `missing` if the import does not tell it.
int64_t fact_of(const ImportedTopology& topology, std::string_view key, int64_t missing = 0);

enum class TopologyFormat : uint8_t { nvidia_smi, nccl_xml, ibnetdiscover, other };

// By what is in the text; `other` may be a scenario, or anything.
TopologyFormat topology_format_of(std::string_view text);

}  // namespace stepcast
