// SPDX-License-Identifier: Apache-2.0
#include "report/topology_view.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <tuple>

namespace stepcast {
namespace {

// Near the GPUs first; PCIe switches and CPUs before NICs, leaves before spines.
int order_of(const ViewDevice& d) {
  switch (d.kind) {
    case ViewKind::gpu: return 0;
    case ViewKind::nvswitch: return 1;
    case ViewKind::nic: return 2;
    case ViewKind::pcie_switch: return 3;
    case ViewKind::cpu: return 4;
    case ViewKind::network_switch: return 5 + d.tier;
  }
  return 0;
}

std::vector<LinkClass> link_classes(const TopologyView& view) {
  std::map<std::tuple<ViewLinkKind, int, int, double, double, int32_t>, LinkClass> classes;
  for (const ViewLink& l : view.links) {
    uint32_t a = l.a, b = l.b;
    Bandwidth out = l.bandwidth, back = l.back;
    if (order_of(view.devices[a]) > order_of(view.devices[b])) {
      std::swap(a, b);
      std::swap(out, back);
    }
    const auto key = std::tuple(l.kind, order_of(view.devices[a]), order_of(view.devices[b]),
                                -out.value, -back.value, l.cables);
    const auto [it, fresh] = classes.try_emplace(key);
    if (fresh)
      it->second = {l.kind, view.devices[a], view.devices[b], 0, l.cables, out, back, l.nccl};
    ++it->second.links;
  }
  std::vector<LinkClass> sorted;
  for (auto& [key, c] : classes) sorted.push_back(std::move(c));
  return sorted;
}

std::vector<TierSummary> tiers_of(const TopologyView& view) {
  struct OfSwitch {
    double down = 0, up = 0;
  };
  std::vector<OfSwitch> load(view.devices.size());
  std::map<int32_t, TierSummary> tiers;
  for (const ViewDevice& d : view.devices) {
    if (d.kind != ViewKind::network_switch) continue;
    tiers[d.tier].tier = d.tier;
    if (tiers[d.tier].switches == 0) tiers[d.tier].name = kind_name(d);
    ++tiers[d.tier].switches;
  }
  const auto end = [&](uint32_t here, uint32_t there, const ViewLink& l, Bandwidth outwards) {
    const ViewDevice& d = view.devices[here];
    if (d.kind != ViewKind::network_switch) return;
    const ViewDevice& other = view.devices[there];
    const int32_t tier = other.kind == ViewKind::network_switch ? other.tier : -1;
    TierSummary& t = tiers[d.tier];
    if (tier > d.tier) {
      t.up += l.cables;
      t.up_bandwidth += outwards;
      load[here].up += outwards.value;
    } else if (tier < d.tier) {
      t.down += l.cables;
      t.down_bandwidth += outwards;
      load[here].down += outwards.value;
    }
  };
  for (const ViewLink& l : view.links) {
    end(l.a, l.b, l, l.bandwidth);
    end(l.b, l.a, l, l.back);
  }
  for (uint32_t d = 0; d < load.size(); ++d) {
    if (load[d].up <= 0) continue;
    TierSummary& t = tiers[view.devices[d].tier];
    t.worst = std::max(t.worst, load[d].down / load[d].up);
  }
  std::vector<TierSummary> sorted;
  for (const auto& [tier, summary] : tiers) sorted.push_back(summary);
  return sorted;
}

// Groups of devices that links of the chosen kinds join: the smallest device of each.
template <class Chosen>
std::vector<uint32_t> joined(const TopologyView& view, Chosen chosen) {
  std::vector<uint32_t> root(view.devices.size());
  std::iota(root.begin(), root.end(), 0U);
  const auto find = [&](uint32_t d) {
    while (root[d] != d) d = root[d] = root[root[d]];
    return d;
  };
  for (const ViewLink& l : view.links) {
    if (!chosen(l)) continue;
    const uint32_t a = find(l.a), b = find(l.b);
    root[std::max(a, b)] = std::min(a, b);
  }
  for (uint32_t d = 0; d < root.size(); ++d) root[d] = find(d);
  return root;
}

std::vector<std::string> far_from_nics(const TopologyView& view) {
  const std::vector<uint32_t> socket = joined(view, [](const ViewLink& l) {
    return l.kind == ViewLinkKind::pcie || l.kind == ViewLinkKind::c2c;
  });
  std::set<uint32_t> with_nic;
  std::set<int32_t> nodes_with_nic;
  for (uint32_t d = 0; d < socket.size(); ++d) {
    if (view.devices[d].kind != ViewKind::nic || view.devices[d].node < 0) continue;
    with_nic.insert(socket[d]);
    nodes_with_nic.insert(view.devices[d].node);
  }
  std::vector<std::string> far;
  for (uint32_t d = 0; d < socket.size(); ++d) {
    const ViewDevice& v = view.devices[d];
    if (v.kind == ViewKind::gpu && nodes_with_nic.contains(v.node) && !with_nic.contains(socket[d]))
      far.push_back(v.name);
  }
  return far;
}

}  // namespace

TopologySummary summarize(const TopologyView& view) {
  TopologySummary s;
  std::set<int32_t> nodes, rails;
  std::map<int32_t, int64_t> domains;
  for (const ViewDevice& d : view.devices) {
    ++s.counts[static_cast<size_t>(d.kind)];
    if (d.node >= 0 && (d.kind == ViewKind::gpu || d.kind == ViewKind::nic)) nodes.insert(d.node);
    if (d.rail >= 0) rails.insert(d.rail);
    if (d.kind == ViewKind::gpu && d.domain >= 0) ++domains[d.domain];
  }
  s.nodes = static_cast<int64_t>(nodes.size());
  s.rails = static_cast<int64_t>(rails.size());
  std::map<int64_t, int64_t> sizes;
  for (const auto& [domain, gpus] : domains) ++sizes[gpus];
  s.domains.assign(sizes.begin(), sizes.end());
  s.links = link_classes(view);
  s.tiers = tiers_of(view);
  const std::vector<uint32_t> root = joined(view, [](const ViewLink&) { return true; });
  for (uint32_t d = 0; d < root.size(); ++d) s.parts += root[d] == d;
  s.far_from_nics = far_from_nics(view);
  return s;
}

std::string kind_name(const ViewDevice& device) {
  switch (device.kind) {
    case ViewKind::gpu: return "GPU";
    case ViewKind::nvswitch: return "NVSwitch";
    case ViewKind::pcie_switch: return "PCIe switch";
    case ViewKind::cpu: return "CPU";
    case ViewKind::nic: return "NIC";
    case ViewKind::network_switch: break;
  }
  if (!device.tier_word.empty()) return device.tier_word;
  switch (device.tier) {
    case 0: return "leaf";
    case 1: return "spine";
    case 2: return "core";
    case -1: return "switch";
    default: return "tier " + std::to_string(device.tier);
  }
}

}  // namespace stepcast
