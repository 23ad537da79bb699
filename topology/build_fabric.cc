// SPDX-License-Identifier: Apache-2.0
// The switches between nodes, tier by tier; rules in build_graph.h.
#include <algorithm>
#include <cmath>

#include "topology/fabric.h"
#include "topology/graph_parts.h"

namespace stepcast {
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
Level add_leaves(GraphParts& parts, const Cluster& cluster, const std::vector<Tier>& tiers,
                 const std::vector<std::vector<uint32_t>>& nics) {
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
        added.switches.push_back(parts.add(std::move(leaf)));
      }
    }
    if (level.blocks.size() == 1) ++nodes_of_first;
    for (uint32_t nic : nics[static_cast<size_t>(n)]) {
      const auto rail = static_cast<size_t>(by_rail ? parts.devices[nic].rail : 0);
      parts.join(nic, level.blocks.back().switches[rail], LinkKind::network, node.nic_bandwidth);
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
Level add_tier(GraphParts& parts, const Cluster& cluster, const std::vector<Tier>& tiers, size_t t,
               const Level& below, bool& last) {
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
      block.switches.push_back(parts.add({.kind = DeviceKind::network_switch,
                                          .name = numbered(name, s),
                                          .tier = static_cast<int32_t>(t),
                                          .latency = cluster.fabric.hop_latency}));
    }
    for (size_t i = ranges[b].first; i < ranges[b].second; ++i) {
      for (int64_t p = 0; p < planes; ++p) {
        const auto group = static_cast<size_t>(p % design.groups * design.switches);
        for (size_t s = 0; s < static_cast<size_t>(design.switches); ++s) {
          parts.join(below.blocks[i].switches[static_cast<size_t>(p)], block.switches[group + s],
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

void add_fabric(GraphParts& parts, const Cluster& cluster,
                const std::vector<std::vector<uint32_t>>& nics) {
  const std::vector<Tier> tiers = fabric_tiers(cluster);
  Level level = add_leaves(parts, cluster, tiers, nics);
  bool last = level.blocks.size() == 1;
  for (size_t t = 1; t < tiers.size() && !last; ++t) {
    level = add_tier(parts, cluster, tiers, t, level, last);
  }
}

}  // namespace stepcast
