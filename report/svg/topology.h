// SPDX-License-Identifier: Apache-2.0
// A cluster as a picture for documents: SVG with a light background, without scripts or anything
// from outside.
//
// Up to three parts, as far as there is something to draw: the first node (NVSwitches above GPUs
// and NICs in the order of the PCIe tree below them, CPUs at the bottom), its NVLink domain if that
// spans several nodes, and the network by tiers.  Tiers of more than 48 switches are drawn as
// groups of equal ones with their number.  Where most groups of two
// tiers have equally many cables between them, those with fewer are red.
#pragma once

#include <string>

#include "report/text/topology.h"

namespace stepcast {

std::string topology_svg(const TopologyView& view);

}  // namespace stepcast
