// SPDX-License-Identifier: Apache-2.0
// Devices and links while a cluster graph is being built.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "topology/cluster/cluster.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

struct ClusterGraphBuilder {
  std::vector<Device> devices;
  std::vector<Link> links;

  uint32_t add(Device device) {
    devices.push_back(std::move(device));
    return static_cast<uint32_t>(devices.size() - 1);
  }
  // Both directions alike.
  void join(uint32_t a, uint32_t b, LinkKind kind, Bandwidth bandwidth, Time latency = {},
            int32_t cables = 1) {
    links.push_back({a, b, kind, bandwidth, bandwidth, latency, cables});
  }
};

// The GPUs of all nodes: devices 0, 1, ...
void add_gpus(ClusterGraphBuilder& builder, const Node& node, int64_t nodes);

// What is inside node n, its GPUs excepted, without NICs.  Returns the device that NIC i of
// `node.nics` hangs on, for each: a PCIe switch or a CPU.
std::vector<uint32_t> add_node(ClusterGraphBuilder& builder, const Node& node, int64_t n);

// One NIC of node n on device `on`.
uint32_t add_nic(ClusterGraphBuilder& builder, const Node& node, int64_t n, int64_t i, uint32_t on,
                 Bandwidth bandwidth);

// Bandwidth of the PCIe link of a GPU or of a NIC of that bandwidth.
Bandwidth pcie_bandwidth(const Node& node, Bandwidth device);

// The switches between nodes; nics[n]: those of node n, in order.
void add_fabric(ClusterGraphBuilder& builder, const Cluster& cluster,
                const std::vector<std::vector<uint32_t>>& nics);

}  // namespace stepcast
