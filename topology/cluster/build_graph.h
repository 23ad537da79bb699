// SPDX-License-Identifier: Apache-2.0
// The cluster's numbers (cluster.h) written out as devices and links.
//
// Inside a host: GPUs and NICs in equal shares behind its PCIe switches, those behind its CPUs;
// NVLink from each GPU to every NVSwitch of the node, or to other GPUs.  Links whose bandwidth is
// not known are as fast as the fastest link beside them.  Latency inside a node is that of passing
// an NVSwitch (or of a direct link), half of a NIC's end-to-end latency that of passing the NIC.
//
// Between nodes, for each tier of fabric_tiers (fabric.h):
//
//   * a leaf has one cable to each NIC below it: of one rail, in rail fabrics;
//   * a switch has as many cables up as down, divided by the oversubscription of the tier above,
//     spread evenly over the switches there: as few of them as have the ports (radix; half of it,
//     at an oversubscription of 1, where there is a further tier above);
//   * where a switch has fewer ports than there are switches below, those above form groups, each
//     for the switches of one position in their blocks: of one rail, above rail leaves;
//   * where not even that is enough, they are chassis: one for each cable up, with the ports it
//     takes.
//
// The outermost tier is the first that joins everything.  This is how the reference designs count
// their switches: DGX A100, 140 nodes: 56 leaves, 80 spines, 28 cores (NVIDIA RA-09950); DGX H100,
// 2,048 nodes: 512, 512, 256 (NVIDIA DGX SuperPOD reference architecture).
#pragma once

#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

// GPUs come first, in rank order.  Devices of host h have `node` h: a node of several hosts counts
// as many.  A copy of cluster.graph if that was written out.  O(devices + links).
ClusterGraph cluster_graph(const Cluster& cluster);

// How many devices and links that has inside its nodes, roughly: to refuse what is too large.
double graph_size(const Cluster& cluster);

}  // namespace stepcast
