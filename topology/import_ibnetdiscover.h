// SPDX-License-Identifier: Apache-2.0
// What `ibnetdiscover` prints of an InfiniBand fabric, as a graph: switches by tier, the HCAs of
// hosts as NICs, cables with their width and speed.
//
//   * switches are told apart by GUID; names (which repeat) only label them
//   * leaves are the switches with hosts below, and the tier of the others is their distance
//   * SHARP aggregation nodes and hosts on ports of their own (managers) are counted, not in the
//     graph; on fabrics of eight leaves or more, a port of its own is one that fewer than one leaf
//     in eight has a host on
//   * hosts are the first words of the HCAs' descriptions, numbered in their order; an HCA without
//     a name of its own (that of the vendor) is of no node
//   * the rail of an HCA and of its leaf is the place of its number among the numbers that most
//     HCAs of leaves have, if hosts reach several leaves
#pragma once

#include <string>
#include <string_view>

#include "topology/import.h"

namespace stepcast {

// Facts: hosts, sharp_nodes, managers, manager_hcas, unnamed_hcas, leaf_groups, rails.  Warnings:
// slower cables than their like, missing uplinks, cables of which the two ends tell different
// things, switches without a way to others.  Throws InputError (see import.h); E320 too for a host
// that sees nothing but itself.
ImportedTopology import_ibnetdiscover(std::string_view text, const std::string& file);

}  // namespace stepcast
