// SPDX-License-Identifier: Apache-2.0
// NCCL's own picture of a host (NCCL_TOPO_DUMP_FILE, NCCL_TOPO_FILE), as a graph.
//
// system > cpu > pci, nested as bridges are > gpu with nvlink, xgmi, c2c; or nic > net.  What the
// hand-written files of cloud providers leave out (everything below pci) is read off the PCI class
// of the device; RCCL's and dumps of several hosts (host_hash) are read too.
//
//   * link_speed and link_width are those of the way up; width 0 is 16, an unknown speed 8 GT/s;
//     a bridge of 2.5 GT/s is one that a virtual machine made up, and takes the speed below it
//   * nvlink's target is a GPU or an NVSwitch; fffffff:ff:ff.0 are all switches of the domain
//   * each net is a NIC; those of one card divide its PCIe link
//   * a net under several CPUs is one NIC with a link to each
#pragma once

#include <string>
#include <string_view>

#include "topology/import.h"

namespace stepcast {

// Throws InputError (see import.h); E320 too for NCCL's other file, the graph it has found.
ImportedTopology import_nccl_xml(std::string_view text, const std::string& file);

}  // namespace stepcast
