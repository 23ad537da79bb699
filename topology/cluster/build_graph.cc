// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/build_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/check.h"
#include "topology/cluster/fabric.h"
#include "topology/cluster/graph_builder_internal.h"

namespace stepcast {

// The inside of nodes first, then the switches between them.

namespace {

// Which of `shares` equal shares of `whole` item i falls into.
int64_t share_of(int64_t i, int64_t whole, int64_t shares) {
  return i * shares / whole;
}

// "gpu", 3 -> "gpu3"
std::string numbered(std::string_view name, int64_t i) {
  return fmt::format("{}{}", name, i);
}

std::string in_node(int64_t n, const char* what, int64_t i) {
  return fmt::format("n{}{}{}", n, what, i);
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
void add_mesh(ClusterGraphBuilder& builder, const Node& node, uint32_t first_gpu) {
  const auto gpus = static_cast<uint32_t>(node.gpus);
  const bool cube = gpus == 8 && (node.nvlinks == 0 || node.nvlinks == 6);
  for (uint32_t i = 0; i < gpus; ++i) {
    for (uint32_t j = i + 1; j < gpus; ++j) {
      const int32_t cables = cube ? kCubeMesh[i][j] : 1;
      if (cables == 0) continue;
      const double share = cube ? cables / 6.0 : 1.0 / (gpus - 1);
      builder.join(first_gpu + i, first_gpu + j, LinkKind::nvlink, node.intra_bandwidth * share,
                   node.intra_latency, cables);
    }
  }
}

void add_nvswitches(ClusterGraphBuilder& builder, const Node& node, int64_t n, uint32_t first_gpu) {
  const int64_t links = std::max(node.nvlinks, node.nvswitches);
  for (int64_t s = 0; s < node.nvswitches; ++s) {
    const auto host = static_cast<int32_t>(node.hosts == 1 ? n : -1);
    const uint32_t chip = builder.add({.kind = DeviceKind::nvswitch,
                                       .name = in_node(n, "/nvswitch", s),
                                       .node = host,
                                       .domain = static_cast<int32_t>(n),
                                       .latency = node.intra_latency});
    // 18 links over 4 chips: 5, 5, 4, 4.
    const int64_t cables = links / node.nvswitches + (s < links % node.nvswitches ? 1 : 0);
    const Bandwidth bandwidth =
        node.intra_bandwidth * (static_cast<double>(cables) / static_cast<double>(links));
    for (uint32_t g = 0; g < node.gpus; ++g) {
      builder.join(first_gpu + g, chip, LinkKind::nvlink, bandwidth, {},
                   static_cast<int32_t>(cables));
    }
  }
}

// The CPUs of host h of node n, all joined to each other.
std::vector<uint32_t> add_cpus(ClusterGraphBuilder& builder, const Node& node, int64_t n,
                               int64_t h) {
  Bandwidth between = node.cpu_bandwidth;
  if (between.value == 0) between = pcie_bandwidth(node, node.nic_bandwidth);
  std::vector<uint32_t> cpus;
  for (int64_t c = 0; c < node.cpus; ++c) {
    cpus.push_back(builder.add({.kind = DeviceKind::cpu,
                                .name = in_node(n, "/cpu", h * node.cpus + c),
                                .node = static_cast<int32_t>(n * node.hosts + h)}));
    for (int64_t o = 0; o < c; ++o) {
      builder.join(cpus[static_cast<size_t>(o)], cpus.back(), LinkKind::host, between);
    }
  }
  return cpus;
}

// What the devices of host h hang on, in order: its PCIe switches or its CPUs.
std::vector<uint32_t> add_roots(ClusterGraphBuilder& builder, const Node& node, int64_t n,
                                int64_t h, const std::vector<uint32_t>& cpus) {
  if (node.pcie_switches == 0) return cpus;
  std::vector<uint32_t> switches;
  for (int64_t s = 0; s < node.pcie_switches; ++s) {
    switches.push_back(builder.add({.kind = DeviceKind::pcie_switch,
                                    .name = in_node(n, "/pcie", h * node.pcie_switches + s),
                                    .node = static_cast<int32_t>(n * node.hosts + h)}));
    const auto cpu = static_cast<size_t>(share_of(s, node.pcie_switches, node.cpus));
    builder.join(switches.back(), cpus[cpu], LinkKind::pcie, pcie_bandwidth(node, {}));
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

void add_gpus(ClusterGraphBuilder& builder, const Node& node, int64_t nodes) {
  for (int64_t n = 0; n < nodes; ++n) {
    const auto domain = static_cast<int32_t>(node.intra == IntraKind::pcie ? -1 : n);
    for (int64_t g = 0; g < node.gpus; ++g) {
      const int64_t host = n * node.hosts + share_of(g, node.gpus, node.hosts);
      builder.add({.kind = DeviceKind::gpu,
                   .name = in_node(n, "/gpu", g),
                   .node = static_cast<int32_t>(host),
                   .domain = domain});
    }
  }
}

std::vector<uint32_t> add_node(ClusterGraphBuilder& builder, const Node& node, int64_t n) {
  STEPCAST_CHECK(node.hosts > 0 && node.cpus > 0 && node.nvswitches > 0, "a host has a CPU");
  const auto first_gpu = static_cast<uint32_t>(n * node.gpus);
  if (node.intra_bandwidth.value > 0 && node.gpus > 1) {
    if (node.intra == IntraKind::nvlink_mesh) add_mesh(builder, node, first_gpu);
    if (node.intra == IntraKind::nvswitch) add_nvswitches(builder, node, n, first_gpu);
  }
  std::vector<uint32_t> roots, cpus;  // of all hosts
  for (int64_t h = 0; h < node.hosts; ++h) {
    const std::vector<uint32_t> sockets = add_cpus(builder, node, n, h);
    const std::vector<uint32_t> here = add_roots(builder, node, n, h, sockets);
    cpus.insert(cpus.end(), sockets.begin(), sockets.end());
    roots.insert(roots.end(), here.begin(), here.end());
  }
  const auto all_roots = static_cast<int64_t>(roots.size());
  const bool pcie = node.intra == IntraKind::pcie;
  for (int64_t g = 0; g < node.gpus; ++g) {
    const uint32_t gpu = first_gpu + static_cast<uint32_t>(g);
    if (node.c2c && node.gpu.host_bandwidth.value > 0) {
      const int64_t cpu = share_of(g, node.gpus, node.hosts * node.cpus);
      builder.join(gpu, cpus[static_cast<size_t>(cpu)], LinkKind::c2c, node.gpu.host_bandwidth);
    } else {
      const int64_t root = share_of(g, node.gpus, all_roots);
      builder.join(gpu, roots[static_cast<size_t>(root)], LinkKind::pcie, pcie_bandwidth(node, {}),
                   pcie ? node.intra_latency / 2 : Time{});
    }
  }
  std::vector<uint32_t> on;
  for (int64_t i = 0; i < node.nics; ++i) {
    on.push_back(roots[static_cast<size_t>(share_of(i, node.nics, all_roots))]);
  }
  return on;
}

uint32_t add_nic(ClusterGraphBuilder& builder, const Node& node, int64_t n, int64_t i, uint32_t on,
                 Bandwidth bandwidth) {
  const int64_t rails = std::max<int64_t>(1, (node.nics + node.hosts - 1) / node.hosts);
  const uint32_t nic = builder.add({.kind = DeviceKind::nic,
                                    .name = in_node(n, "/nic", i),
                                    .node = builder.devices[on].node,
                                    .rail = static_cast<int32_t>(i % rails),
                                    .latency = node.nic_latency / 2});
  builder.join(on, nic, LinkKind::pcie, pcie_bandwidth(node, bandwidth));
  return nic;
}

ClusterGraph cluster_graph(const Cluster& cluster) {
  if (cluster.graph != nullptr) {
    const std::span<const Device> devices = cluster.graph->devices();
    const std::span<const Link> links = cluster.graph->links();
    return ClusterGraph({devices.begin(), devices.end()}, {links.begin(), links.end()});
  }
  const Node& node = cluster.node;
  ClusterGraphBuilder builder;
  const auto devices = static_cast<size_t>(
      cluster.nodes * (node.gpus + node.nvswitches + node.nics + node.hosts * node.cpus));
  builder.devices.reserve(devices + devices / 4);
  builder.links.reserve(devices * 4);
  add_gpus(builder, node, cluster.nodes);
  const bool network = cluster.nodes > 1 && node.nics > 0 && node.nic_bandwidth.value > 0;
  std::vector<std::vector<uint32_t>> nics(static_cast<size_t>(cluster.nodes));
  for (int64_t n = 0; n < cluster.nodes; ++n) {
    const std::vector<uint32_t> on = add_node(builder, node, n);
    if (node.nic_bandwidth.value == 0) continue;
    for (size_t i = 0; i < on.size(); ++i) {
      nics[static_cast<size_t>(n)].push_back(
          add_nic(builder, node, n, static_cast<int64_t>(i), on[i], node.nic_bandwidth));
    }
  }
  if (network) add_fabric(builder, cluster, nics);
  return ClusterGraph(std::move(builder.devices), std::move(builder.links));
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

// The switches between nodes, tier by tier; rules in build_graph.h.

namespace {

// The switches of one block of a tier.
struct Block {
  int64_t first_gpu = 0;
  std::vector<uint32_t> switches;  // by group, then by number in it
};

struct Level {
  std::vector<Block> blocks;  // all with equally many switches
  double down = 0;            // cables of a switch to what is below it
  double bandwidth = 0;       // of these together
};

// How the switches of a tier share those of the tier below out.
struct Design {
  int64_t groups = 1;
  int64_t switches = 1;  // of a group
  int64_t cables = 1;    // from each switch below to each of its group
};

std::string tier_name(const std::vector<Tier>& tiers, size_t t) {
  constexpr const char* kNames[] = {"leaf", "spine", "core", "super-core"};
  std::string name = tiers[t].name.empty() ? kNames[t] : tiers[t].name;
  for (size_t i = 0; i < t; ++i) {
    if (tier_name(tiers, i) == name) name += "-above";
  }
  return name;
}

// NICs -> leaves: one a block and rail, or one a block.
Level add_leaves(ClusterGraphBuilder& builder, const Cluster& cluster,
                 const std::vector<Tier>& tiers, const std::vector<std::vector<uint32_t>>& nics) {
  const Node& node = cluster.node;
  const bool by_rail = cluster.fabric.kind == FabricKind::rail_fat_tree;
  const int64_t rails = by_rail ? std::max<int64_t>(1, node.nics / node.hosts) : 1;
  const std::string name = tier_name(tiers, 0);
  Level level;
  int64_t block = -1, nodes_of_first = 0;
  for (int64_t n = 0; n < cluster.nodes; ++n) {
    if (n * node.gpus / tiers[0].size != block) {
      block = n * node.gpus / tiers[0].size;
      Block& added = level.blocks.emplace_back();
      added.first_gpu = n * node.gpus;
      const auto number = static_cast<int64_t>(level.blocks.size()) - 1;
      for (int64_t r = 0; r < rails; ++r) {
        Device leaf{.kind = DeviceKind::network_switch,
                    .name = numbered(name, number),
                    .rail = by_rail ? static_cast<int32_t>(r) : -1,
                    .tier = 0,
                    .latency = cluster.fabric.hop_latency};
        if (by_rail) leaf.name = numbered(leaf.name + "/rail", r);
        added.switches.push_back(builder.add(std::move(leaf)));
      }
    }
    if (level.blocks.size() == 1) ++nodes_of_first;
    for (uint32_t nic : nics[static_cast<size_t>(n)]) {
      const auto rail = static_cast<size_t>(by_rail ? builder.devices[nic].rail : 0);
      builder.join(nic, level.blocks.back().switches[rail], LinkKind::network, node.nic_bandwidth);
    }
  }
  level.down = static_cast<double>(nodes_of_first * node.nics) / static_cast<double>(rails);
  level.bandwidth = level.down * node.nic_bandwidth.value;
  return level;
}

// `below`: switches below one block, `planes`: of each block below, `up`: cables up of each,
// `ports`: of a switch, downwards; `rails`: planes above rail leaves are grouped by rail.
Design design_tier(int64_t below, int64_t planes, int64_t up, int64_t ports, bool rails) {
  Design design;
  const auto members = [&](int64_t groups) { return (below + groups - 1) / groups; };
  if (below > ports) {
    design.groups = planes;
    for (int64_t g = rails ? planes : 2; g < planes; ++g) {
      if (planes % g != 0 || members(g) > ports) continue;
      design.groups = g;
      break;
    }
  }
  const int64_t least = (members(design.groups) * up + ports - 1) / ports;
  design.switches = std::min(least, up);
  while (up % design.switches != 0) ++design.switches;
  design.cables = up / design.switches;
  return design;
}

int64_t ports_down(const Cluster& cluster, const std::vector<Tier>& tiers, size_t t) {
  const double o = std::max(1.0, tiers[t + 1].oversubscription);
  const double down = static_cast<double>(cluster.fabric.radix) * o / (o + 1);
  return std::max<int64_t>(1, static_cast<int64_t>(down));
}

// Adds tier t above `below`.  `last`: nothing is to come above.
Level add_tier(ClusterGraphBuilder& builder, const Cluster& cluster, const std::vector<Tier>& tiers,
               size_t t, const Level& below, bool& last) {
  const int64_t size = tiers[t].size;
  std::vector<std::pair<size_t, size_t>> ranges;  // blocks below each block
  for (size_t i = 0; i < below.blocks.size(); ++i) {
    const bool same = !ranges.empty() && below.blocks[i].first_gpu / size ==
                                             below.blocks[ranges.back().first].first_gpu / size;
    if (!same) ranges.emplace_back(i, i);
    ranges.back().second = i + 1;
  }
  const auto planes = static_cast<int64_t>(below.blocks.front().switches.size());
  const int64_t members = static_cast<int64_t>(ranges.front().second) * planes;
  const bool all_joined = ranges.size() == 1 && members <= cluster.fabric.radix;
  last = t + 1 == tiers.size() || all_joined;
  const double ratio = std::max(1.0, tiers[t].oversubscription);
  const auto up = std::max<int64_t>(1, static_cast<int64_t>(std::floor(below.down / ratio + 0.5)));
  const int64_t ports = last ? cluster.fabric.radix : ports_down(cluster, tiers, t);
  const bool rails = t == 1 && cluster.fabric.kind == FabricKind::rail_fat_tree;
  const Design design = design_tier(members, planes, up, ports, rails);

  const double cables_up = below.bandwidth / ratio / static_cast<double>(design.switches);
  Level level;
  for (size_t b = 0; b < ranges.size(); ++b) {
    Block& block = level.blocks.emplace_back();
    block.first_gpu = below.blocks[ranges[b].first].first_gpu;
    std::string name = tier_name(tiers, t);
    if (ranges.size() > 1) name = numbered(name, static_cast<int64_t>(b)) + "/";
    for (int64_t s = 0; s < design.groups * design.switches; ++s) {
      block.switches.push_back(builder.add({.kind = DeviceKind::network_switch,
                                            .name = numbered(name, s),
                                            .tier = static_cast<int32_t>(t),
                                            .latency = cluster.fabric.hop_latency}));
    }
    for (size_t i = ranges[b].first; i < ranges[b].second; ++i) {
      for (int64_t p = 0; p < planes; ++p) {
        const auto group = static_cast<size_t>(p % design.groups * design.switches);
        for (size_t s = 0; s < static_cast<size_t>(design.switches); ++s) {
          builder.join(below.blocks[i].switches[static_cast<size_t>(p)], block.switches[group + s],
                       LinkKind::network, {cables_up}, {}, static_cast<int32_t>(design.cables));
        }
      }
    }
  }
  const double each = static_cast<double>(members) / static_cast<double>(design.groups);
  level.down = each * static_cast<double>(design.cables);
  level.bandwidth = each * cables_up;
  return level;
}

}  // namespace

void add_fabric(ClusterGraphBuilder& builder, const Cluster& cluster,
                const std::vector<std::vector<uint32_t>>& nics) {
  const std::vector<Tier> tiers = fabric_tiers(cluster);
  Level level = add_leaves(builder, cluster, tiers, nics);
  bool last = level.blocks.size() == 1;
  for (size_t t = 1; t < tiers.size() && !last; ++t) {
    level = add_tier(builder, cluster, tiers, t, level, last);
  }
}

}  // namespace stepcast
