// SPDX-License-Identifier: Apache-2.0
// What the importers make of files that describe a cluster as it was found.
//
// Three formats: `nvidia-smi topo -m`, NCCL's XML, ibnetdiscover.  Bandwidths of the graph are
// those of the data sheet, one direction (link_speeds.h); devices have no latency, since none of
// the files tells it.  Imports never guess silently: what is taken for granted is a fact of its
// own, what does not fit is a warning with its line, and what cannot be read is an InputError:
//   E320 not a topology that can be read      E321 malformed, at a place      E322 cut off
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"

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

// The matrix that `nvidia-smi topo -m` prints, as a graph of one node.
//
// A cell says how two devices reach each other: NV18 over that many NVLinks; PIX through one PCIe
// switch, PXB through several, PHB through a host bridge, NODE between host bridges of a socket,
// SYS between sockets.  Devices in PIX of each other hang on one PCIe switch, those in PXB below a
// common one, what is nearer than SYS on one CPU.  If more NVLinks are in a row than a GPU has,
// they go through NVSwitches, drawn as one since the matrix does not count them.
//
// Not in the matrix: generations.  Without `arch` they are read off the number of NVLinks (18
// Hopper, 7 to 12 Ampere, 1 to 6 Volta: gpu_architecture.h), and PCIe is taken to be that GPU's,
// 16 lanes.

// Reads what terminals and pasting do to the matrix: escape sequences, with or without their ESC,
// tabs or blanks, lines before and after it.  Throws InputError (see the top).
ImportedTopology import_nvidia_smi(std::string_view text, const std::string& file,
                                   std::optional<GpuArch> arch = {});

// NCCL's own picture of a host (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), as a graph.
//
// system > cpu > pci, nested as bridges are > gpu with nvlink, xgmi, c2c; or nic > net.  What the
// hand-written files of cloud providers leave out (everything below pci) is read off the PCI class
// of the device; RCCL's and dumps of several hosts (host_hash) are read too.
//
//   * link_speed and link_width are those of the link up; width 0 is 16, an unknown speed 8 GT/s;
//     a bridge of 2.5 GT/s is one that a virtual machine made up, and takes the speed below it
//   * nvlink's target is a GPU or an NVSwitch; fffffff:ff:ff.0 are all switches of the domain
//   * each net is a NIC; those of one card divide its PCIe link
//   * a net under several CPUs is one NIC with a link to each

// Throws InputError (see the top); E320 too for NCCL's other file, the graph it has found.
ImportedTopology import_nccl_xml(std::string_view text, const std::string& file);

// What `ibnetdiscover` prints of an InfiniBand fabric, as a graph: switches by tier, the HCAs of
// hosts as NICs, cables with their width and speed.
//
//   * switches are told apart by GUID; names (which repeat) only label them
//   * leaves are the switches with hosts below, and the tier of the others is their distance
//   * SHARP aggregation nodes and managers are counted but are not in the graph; on fabrics of
//     eight leaves or more, a host is a manager if it only hangs on ports (by number) at which
//     fewer than one leaf in eight has a host
//   * hosts are the first words of the HCAs' descriptions, numbered in their order; an HCA without
//     a name of its own (that of the vendor) is of no node
//   * the rail of an HCA and of its leaf is the place of its number among the numbers that most
//     HCAs of leaves have, if hosts reach several leaves

// Facts: hosts, sharp_nodes, managers, manager_hcas, unnamed_hcas, leaf_groups, rails.  Warnings:
// slower cables than their like, missing uplinks, cables of which the two ends tell different
// things, switches that no cable joins to others.  Throws InputError (see the top); E320 too for a
// host that sees nothing but itself.
ImportedTopology import_ibnetdiscover(std::string_view text, const std::string& file);

}  // namespace stepcast
