// SPDX-License-Identifier: Apache-2.0
// The matrix that `nvidia-smi topo -m` prints, as a graph of one node.
//
// A cell says how two devices reach each other: NV18 over that many NVLinks; PIX through one PCIe
// switch, PXB through several, PHB through a host bridge, NODE between host bridges of a socket,
// SYS between sockets.  Devices in PIX of each other hang on one PCIe switch, those in PXB below a
// common one, what is nearer than SYS on one CPU.  If more NVLinks are in a row than a GPU has,
// they go through NVSwitches, drawn as one since the matrix does not count them.
//
// Not in the matrix: generations.  Without `arch` they are read off the number of NVLinks (18
// Hopper, 7 to 12 Ampere, 1 to 6 Volta), and PCIe is taken to be that GPU's, 16 lanes.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "topology/cluster.h"
#include "topology/import.h"

namespace stepcast {

// Reads what terminals and pasting do to the matrix: escape sequences, with or without their ESC,
// tabs or blanks, lines before and after it.  Throws InputError (see import.h).
ImportedTopology import_nvidia_smi(std::string_view text, const std::string& file,
                                   std::optional<GpuArch> arch = {});

}  // namespace stepcast
