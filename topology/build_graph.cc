// SPDX-License-Identifier: Apache-2.0
// The inside of nodes; the switches between them: build_fabric.cc.
#include "topology/build_graph.h"

#include <algorithm>
#include <array>

#include "sim/check.h"
#include "topology/graph_parts.h"

namespace stepcast {
namespace {

// Which of `parts` equal shares of `whole` item i falls into.
int64_t share_of(int64_t i, int64_t whole, int64_t parts) {
  return i * parts / whole;
}

std::string in_node(int64_t n, const char* what, int64_t i) {
  std::string name = "n";
  name += std::to_string(n);
  name += what;
  name += std::to_string(i);
  return name;
}

// NVLinks between each pair of GPUs of a DGX-1 (V100), of the 6 a GPU has, as `nvidia-smi topo -m`
// shows them (NVIDIA DGX-1 with Tesla V100 system architecture, WP-08437-002, figure 4).
constexpr std::array<std::array<int8_t, 8>, 8> kCubeMesh{{{0, 1, 1, 2, 2, 0, 0, 0},
                                                          {1, 0, 2, 1, 0, 2, 0, 0},
                                                          {1, 2, 0, 2, 0, 0, 1, 0},
                                                          {2, 1, 2, 0, 0, 0, 0, 1},
                                                          {2, 0, 0, 0, 0, 1, 1, 2},
                                                          {0, 2, 0, 0, 1, 0, 2, 1},
                                                          {0, 0, 1, 0, 1, 2, 0, 2},
                                                          {0, 0, 0, 1, 2, 1, 2, 0}}};

// Direct NVLinks: the hybrid cube mesh of eight GPUs with six, else all pairs alike.
void add_mesh(GraphParts& parts, const Node& node, uint32_t first_gpu) {
  const auto gpus = static_cast<uint32_t>(node.gpus);
  const bool cube = gpus == 8 && (node.nvlinks == 0 || node.nvlinks == 6);
  for (uint32_t i = 0; i < gpus; ++i) {
    for (uint32_t j = i + 1; j < gpus; ++j) {
      const int32_t cables = cube ? kCubeMesh[i][j] : 1;
      if (cables == 0) continue;
      const double share = cube ? cables / 6.0 : 1.0 / (gpus - 1);
      parts.join(first_gpu + i, first_gpu + j, LinkKind::nvlink, node.intra_bandwidth * share,
                 node.intra_latency, cables);
    }
  }
}

void add_nvswitches(GraphParts& parts, const Node& node, int64_t n, uint32_t first_gpu) {
  const int64_t links = std::max(node.nvlinks, node.nvswitches);
  for (int64_t s = 0; s < node.nvswitches; ++s) {
    const auto host = static_cast<int32_t>(node.hosts == 1 ? n : -1);
    const uint32_t chip = parts.add({.kind = DeviceKind::nvswitch,
                                     .name = in_node(n, "/nvswitch", s),
                                     .node = host,
                                     .domain = static_cast<int32_t>(n),
                                     .latency = node.intra_latency});
    // 18 links over 4 chips: 5, 5, 4, 4.
    const int64_t cables = links / node.nvswitches + (s < links % node.nvswitches ? 1 : 0);
    const Bandwidth bandwidth =
        node.intra_bandwidth * (static_cast<double>(cables) / static_cast<double>(links));
    for (uint32_t g = 0; g < node.gpus; ++g) {
      parts.join(first_gpu + g, chip, LinkKind::nvlink, bandwidth, {},
                 static_cast<int32_t>(cables));
    }
  }
}

// The CPUs of host h of node n, all joined to each other.
std::vector<uint32_t> add_cpus(GraphParts& parts, const Node& node, int64_t n, int64_t h) {
  Bandwidth between = node.cpu_bandwidth;
  if (between.value == 0) between = pcie_bandwidth(node, node.nic_bandwidth);
  std::vector<uint32_t> cpus;
  for (int64_t c = 0; c < node.cpus; ++c) {
    cpus.push_back(parts.add({.kind = DeviceKind::cpu,
                              .name = in_node(n, "/cpu", h * node.cpus + c),
                              .node = static_cast<int32_t>(n * node.hosts + h)}));
    for (int64_t o = 0; o < c; ++o) {
      parts.join(cpus[static_cast<size_t>(o)], cpus.back(), LinkKind::host, between);
    }
  }
  return cpus;
}

// What the devices of host h hang on, in order: its PCIe switches or its CPUs.
std::vector<uint32_t> add_roots(GraphParts& parts, const Node& node, int64_t n, int64_t h,
                                const std::vector<uint32_t>& cpus) {
  if (node.pcie_switches == 0) return cpus;
  std::vector<uint32_t> switches;
  for (int64_t s = 0; s < node.pcie_switches; ++s) {
    switches.push_back(parts.add({.kind = DeviceKind::pcie_switch,
                                  .name = in_node(n, "/pcie", h * node.pcie_switches + s),
                                  .node = static_cast<int32_t>(n * node.hosts + h)}));
    const auto cpu = static_cast<size_t>(share_of(s, node.pcie_switches, node.cpus));
    parts.join(switches.back(), cpus[cpu], LinkKind::pcie, pcie_bandwidth(node, {}));
  }
  return switches;
}

}  // namespace

Bandwidth pcie_bandwidth(const Node& node, Bandwidth device) {
  constexpr Bandwidth kSlowest{15.75e9};  // PCIe 3.0 x16: where nothing at all is known
  if (node.intra == IntraKind::pcie && node.intra_bandwidth.value > 0 && device.value == 0)
    return node.intra_bandwidth;
  if (node.pcie_bandwidth.value > 0) return node.pcie_bandwidth;
  const Bandwidth host = node.c2c ? Bandwidth{} : node.gpu.host_bandwidth;
  return std::max({kSlowest, host, device, node.nic_bandwidth});
}

void add_gpus(GraphParts& parts, const Node& node, int64_t nodes) {
  for (int64_t n = 0; n < nodes; ++n) {
    const auto domain = static_cast<int32_t>(node.intra == IntraKind::pcie ? -1 : n);
    for (int64_t g = 0; g < node.gpus; ++g) {
      const int64_t host = n * node.hosts + share_of(g, node.gpus, node.hosts);
      parts.add({.kind = DeviceKind::gpu,
                 .name = in_node(n, "/gpu", g),
                 .node = static_cast<int32_t>(host),
                 .domain = domain});
    }
  }
}

std::vector<uint32_t> add_node(GraphParts& parts, const Node& node, int64_t n) {
  STEPCAST_CHECK(node.hosts > 0 && node.cpus > 0 && node.nvswitches > 0, "a host has a CPU");
  const auto first_gpu = static_cast<uint32_t>(n * node.gpus);
  if (node.intra_bandwidth.value > 0 && node.gpus > 1) {
    if (node.intra == IntraKind::nvlink_mesh) add_mesh(parts, node, first_gpu);
    if (node.intra == IntraKind::nvswitch) add_nvswitches(parts, node, n, first_gpu);
  }
  std::vector<uint32_t> roots, cpus;  // of all hosts
  for (int64_t h = 0; h < node.hosts; ++h) {
    const std::vector<uint32_t> sockets = add_cpus(parts, node, n, h);
    const std::vector<uint32_t> here = add_roots(parts, node, n, h, sockets);
    cpus.insert(cpus.end(), sockets.begin(), sockets.end());
    roots.insert(roots.end(), here.begin(), here.end());
  }
  const auto all_roots = static_cast<int64_t>(roots.size());
  const bool pcie = node.intra == IntraKind::pcie;
  for (int64_t g = 0; g < node.gpus; ++g) {
    const uint32_t gpu = first_gpu + static_cast<uint32_t>(g);
    if (node.c2c && node.gpu.host_bandwidth.value > 0) {
      const int64_t cpu = share_of(g, node.gpus, node.hosts * node.cpus);
      parts.join(gpu, cpus[static_cast<size_t>(cpu)], LinkKind::c2c, node.gpu.host_bandwidth);
    } else {
      const int64_t root = share_of(g, node.gpus, all_roots);
      parts.join(gpu, roots[static_cast<size_t>(root)], LinkKind::pcie, pcie_bandwidth(node, {}),
                 pcie ? node.intra_latency / 2 : Time{});
    }
  }
  std::vector<uint32_t> on;
  for (int64_t i = 0; i < node.nics; ++i) {
    on.push_back(roots[static_cast<size_t>(share_of(i, node.nics, all_roots))]);
  }
  return on;
}

uint32_t add_nic(GraphParts& parts, const Node& node, int64_t n, int64_t i, uint32_t on,
                 Bandwidth bandwidth) {
  const int64_t rails = std::max<int64_t>(1, (node.nics + node.hosts - 1) / node.hosts);
  const uint32_t nic = parts.add({.kind = DeviceKind::nic,
                                  .name = in_node(n, "/nic", i),
                                  .node = parts.devices[on].node,
                                  .rail = static_cast<int32_t>(i % rails),
                                  .latency = node.nic_latency / 2});
  parts.join(on, nic, LinkKind::pcie, pcie_bandwidth(node, bandwidth));
  return nic;
}

ClusterGraph cluster_graph(const Cluster& cluster) {
  if (cluster.graph != nullptr) {
    const std::span<const Device> devices = cluster.graph->devices();
    const std::span<const Link> links = cluster.graph->links();
    return ClusterGraph({devices.begin(), devices.end()}, {links.begin(), links.end()});
  }
  const Node& node = cluster.node;
  GraphParts parts;
  const auto devices = static_cast<size_t>(
      cluster.nodes * (node.gpus + node.nvswitches + node.nics + node.hosts * node.cpus));
  parts.devices.reserve(devices + devices / 4);
  parts.links.reserve(devices * 4);
  add_gpus(parts, node, cluster.nodes);
  const bool network = cluster.nodes > 1 && node.nics > 0 && node.nic_bandwidth.value > 0;
  std::vector<std::vector<uint32_t>> nics(static_cast<size_t>(cluster.nodes));
  for (int64_t n = 0; n < cluster.nodes; ++n) {
    const std::vector<uint32_t> on = add_node(parts, node, n);
    if (node.nic_bandwidth.value == 0) continue;
    for (size_t i = 0; i < on.size(); ++i) {
      nics[static_cast<size_t>(n)].push_back(
          add_nic(parts, node, n, static_cast<int64_t>(i), on[i], node.nic_bandwidth));
    }
  }
  if (network) add_fabric(parts, cluster, nics);
  return ClusterGraph(std::move(parts.devices), std::move(parts.links));
}

double graph_size(const Cluster& cluster) {
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const Node& node = cluster.node;
  double size = real(node.gpus) * (2 + real(node.nvswitches)) + real(node.nvswitches);
  if (node.intra == IntraKind::nvlink_mesh) size += real(node.gpus) * real(node.gpus) / 2;
  size +=
      real(node.hosts) * (real(node.cpus) * real(node.cpus + 1) / 2 + 2 * real(node.pcie_switches));
  return real(cluster.nodes) * (size + 3 * real(node.nics));
}

}  // namespace stepcast
