// SPDX-License-Identifier: Apache-2.0
// Clusters for the tests of this folder, with the numbers of the presets of the same name.
#pragma once

#include "topology/cluster/cluster.h"
#include "topology/cluster/group_shape.h"

namespace stepcast::test {

constexpr Time microseconds(double us) {
  return Time{static_cast<int64_t>(us * 1e6 + 0.5)};
}

inline Cluster dgx_a100(int64_t nodes) {
  using namespace literals;
  Cluster c;
  c.name = "dgx-a100-80g";
  c.nodes = nodes;
  c.node.gpu.arch = GpuArch::ampere;
  c.node.intra_bandwidth = {300e9};
  c.node.intra_latency = 1_us;
  c.node.nic_bandwidth = {25e9};
  c.node.nic_latency = 2_us;
  c.fabric.radix = 40;
  c.fabric.hop_latency = microseconds(0.2);
  return c;
}

inline Cluster dgx_h100(int64_t nodes) {
  Cluster c = dgx_a100(nodes);
  c.name = "dgx-h100";
  c.node.gpu.arch = GpuArch::hopper;
  c.node.intra_bandwidth = {450e9};
  c.node.intra_latency = microseconds(0.9);
  c.node.sharp = true;
  c.node.nic_bandwidth = {50e9};
  c.fabric.radix = 64;
  return c;
}

inline Cluster dgx_b200(int64_t nodes) {
  Cluster c = dgx_h100(nodes);
  c.node.gpu.arch = GpuArch::blackwell;
  c.node.intra_bandwidth = {900e9};
  return c;
}

inline Cluster nvl72(int64_t racks) {
  Cluster c = dgx_b200(racks);
  c.node.gpus = 72;
  c.node.nics = 72;
  return c;
}

// Racks of 2 nodes, pods of 384 nodes, 1:7 above (the 24K GPU cluster of Llama 3).
inline Cluster grand_teton(int64_t nodes) {
  Cluster c = dgx_h100(nodes);
  c.name = "meta-grand-teton";
  c.fabric.kind = FabricKind::clos;
  c.fabric.tiers = {{"rack", 16, 1}, {"pod", 3072, 1}, {"spine", 24576, 7}};
  return c;
}

// All ranks of `nodes` nodes.
inline GroupShape full(int64_t nodes, int64_t per_node = 8) {
  GroupShape s;
  s.ranks = nodes * per_node;
  s.nodes = nodes;
  s.ranks_per_node = per_node;
  s.tier = nodes == 1 ? -1 : 0;
  return s;
}

}  // namespace stepcast::test
