// SPDX-License-Identifier: Apache-2.0
// A fabric whose switches and links are listed one by one, between nodes that are alike.
//
// Its graph has the devices inside nodes that build_graph.h says, a NIC for each cable at a node,
// and the switches as they are listed.  Costs take from it
//
//   * for a transfer, its route; the bandwidth of a link divided by how many GPUs of the sender's
//     node would use it if each sent to its counterpart;
//   * for collectives, the slowest link on the routes of the rings of all groups of an axis, in
//     rank order, each link's bandwidth divided by the rings that it carries.  A group of p ranks a
//     node has p rings, one over each; a hash of each pair of ends chooses among equal paths, so
//     rings may collide on a link while another one idles.
//
// Links inside nodes are priced as for any other cluster, PCIe as never the narrowest.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"
#include "topology/cluster/fabric.h"

namespace stepcast {

struct ExplicitFabric {
  struct Switch {
    std::string name;
    Time latency{};
  };
  struct Link {
    size_t a = 0, b = 0;    // nodes, then switches: switch s is nodes.size() + s
    Bandwidth bandwidth{};  // of one cable, a to b
    Bandwidth back{};       // b to a
    Time latency{};
    int32_t cables = 1;
  };
  std::vector<std::string> nodes;  // names, all different, also from those of switches
  std::vector<Switch> switches;
  std::vector<Link> links;

  // Cables at a node.
  int64_t cables_at(size_t node) const;
};

// GPUs first, in the order of `nodes`.  Switches have tiers by their distance from the nearest
// node.  REQUIRES: ends differ and exist, bandwidths and cables are positive.
ClusterGraph explicit_graph(const ExplicitFabric& fabric, const Node& node);

// route_of (fabric.h) on cluster.graph.  REQUIRES: there is one.
Route explicit_route(const Cluster& cluster, int64_t from, int64_t to);

// The cluster as it is for groups of its GPUs that communicate at the same time: with the NIC
// bandwidth and the network latency that a ring over each group really gets from the graph.  The
// cluster itself if it has no graph or no group is on several nodes.  node.nic_bandwidth of
// `cluster` against that of the graph's first NIC scales all links of the network.
// REQUIRES: GPUs of groups are within the cluster.
Cluster effective_cluster(const Cluster& cluster, std::span<const std::vector<int64_t>> groups);

}  // namespace stepcast
