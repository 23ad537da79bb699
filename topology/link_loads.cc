// SPDX-License-Identifier: Apache-2.0
#include "topology/link_loads.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "topology/collective_links.h"
#include "topology/step_groups.h"

namespace stepcast {
namespace {

// Order in which kinds of links are told: from the GPU outwards.
struct LinkClass {
  int order = 0;  // 0 NVLink, 1 PCIe and inside the host, 2 + tier network
  std::string name;
  int64_t links = 0;
};

class Classes {
 public:
  explicit Classes(const ClusterGraph& cluster) : of_(cluster.links().size()) {
    std::map<std::tuple<int, int>, uint32_t> numbers;
    for (uint32_t i = 0; i < of_.size(); ++i) {
      const Link& link = cluster.links()[i];
      const auto key = key_of(cluster, link);
      const auto [it, is_new] = numbers.try_emplace(key, static_cast<uint32_t>(classes_.size()));
      if (is_new) classes_.push_back({std::get<0>(key), name(cluster, link), 0});
      of_[i] = it->second;
      for (uint32_t directed : {2 * i, 2 * i + 1}) {
        if (joint_link(cluster, directed) == directed) ++classes_[it->second].links;
      }
    }
  }

  uint32_t of(uint32_t directed) const { return of_[directed / 2]; }
  const LinkClass& operator[](uint32_t c) const { return classes_[c]; }
  size_t size() const { return classes_.size(); }

 private:
  static std::tuple<int, int> key_of(const ClusterGraph& cluster, const Link& link) {
    if (link.kind == LinkKind::nvlink) return {0, 0};
    if (link.kind != LinkKind::network) return {1, 0};
    const int a = cluster.devices()[link.a].tier, b = cluster.devices()[link.b].tier;
    return {3 + std::min(a, b), std::max(a, b)};
  }

  static std::string name(const ClusterGraph& cluster, const Link& link) {
    if (link.kind == LinkKind::nvlink) return "NVLink";
    if (link.kind != LinkKind::network) return "PCIe";
    const Device* low = &cluster.devices()[link.a];
    const Device* high = &cluster.devices()[link.b];
    if (low->tier > high->tier) std::swap(low, high);
    return switch_word(*low) + " - " + switch_word(*high);
  }

  std::vector<uint32_t> of_;  // of each link
  std::vector<LinkClass> classes_;
};

class LoadsOfStep {
 public:
  LoadsOfStep(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
              const Placement& placement, const ClusterGraph& cluster, const RouteOptions& options)
      : graph_(graph),
        grid_(grid),
        placement_(placement),
        cluster_(cluster),
        router_(cluster, options),
        families_(group_families(graph, prices, grid)),
        classes_(cluster) {}

  LinkLoads sum() {
    LinkLoads loads;
    // Families come by axis.
    for (size_t begin = 0; begin < families_.size();) {
      size_t end = begin;
      while (end < families_.size() && families_[end].axis == families_[begin].axis) ++end;
      add_axis(std::span(families_).subspan(begin, end - begin), loads);
      begin = end;
    }
    add_fullest(loads);
    return loads;
  }

 private:
  // What the groups of one axis put on a link.
  struct OnLink {
    double bytes = 0;
    int64_t groups = 0;
    int64_t last_group = -1;
  };

  void add_axis(std::span<const GroupFamily> families, LinkLoads& loads) {
    on_.assign(2 * cluster_.links().size(), {});
    kinds_.assign(classes_.size(), {});
    LinkCrossing row;
    row.axis = families.front().axis;
    for (const GroupFamily& family : families) {
      for_each_group(grid_, family, [&](std::span<const int64_t> ranks) {
        row.ranks = std::max(row.ranks, static_cast<int64_t>(ranks.size()));
        add_group(family, ranks, row.groups++);
      });
    }
    std::vector<LinkCrossing> rows(classes_.size(), row);
    std::vector<double>& total = totals_.emplace_back(row.axis, on_.size()).second;
    for (uint32_t link = 0; link < on_.size(); ++link) {
      const OnLink& o = on_[link];
      if (o.groups == 0) continue;
      LinkCrossing& r = rows[classes_.of(link)];
      const double seconds = o.bytes / joint_bandwidth(cluster_, link).value;
      ++r.links_used;
      r.groups_per_link = std::max(r.groups_per_link, o.groups);
      if (seconds > r.seconds) {
        r.seconds = seconds;
        r.bytes = o.bytes;
      }
      total[link] = o.bytes;
    }
    for (uint32_t c : outwards()) {
      if (rows[c].links_used == 0) continue;
      rows[c].links = classes_[c].name;
      rows[c].links_there = classes_[c].links;
      std::sort(kinds_[c].begin(), kinds_[c].end());
      rows[c].kinds = std::move(kinds_[c]);
      loads.crossings.push_back(std::move(rows[c]));
    }
  }

  void add_group(const GroupFamily& family, std::span<const int64_t> ranks, int64_t group) {
    gpus_.clear();
    for (int64_t rank : ranks) gpus_.push_back(placement_.gpu_of(rank));
    for (const GroupPattern& pattern : family.patterns) {
      double bytes = 0;
      for (const GroupWork& w : pattern.works) {
        if (w.rate > 0) bytes += static_cast<double>(w.runs) * bytes_of(w);
      }
      if (bytes == 0) continue;
      for (const LinkUse& use :
           collective_links(cluster_, router_, pattern.kind, pattern.algorithm, gpus_)) {
        OnLink& o = on_[use.link];
        o.bytes += bytes * use.load / kFullLoad;
        if (o.last_group != group) ++o.groups;
        o.last_group = group;
        add_kinds(pattern, kinds_[classes_.of(use.link)]);
      }
    }
  }

  double bytes_of(const GroupWork& w) const {
    return static_cast<double>(graph_.works[static_cast<size_t>(w.work)].bytes.value);
  }

  void add_kinds(const GroupPattern& pattern, std::vector<WorkKind>& kinds) const {
    for (const GroupWork& w : pattern.works) {
      if (w.rate == 0) continue;
      const WorkKind kind = graph_.works[static_cast<size_t>(w.work)].kind;
      if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) kinds.push_back(kind);
    }
  }

  std::string end_name(uint32_t device) const {
    const Device& d = cluster_.devices()[device];
    return d.kind == DeviceKind::nvswitch ? "NVSwitches" : d.name;
  }

  std::vector<uint32_t> outwards() const {
    std::vector<uint32_t> order;
    for (uint32_t c = 0; c < classes_.size(); ++c) order.push_back(c);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return classes_[a].order < classes_[b].order; });
    return order;
  }

  void add_fullest(LinkLoads& loads) const {
    std::vector<FullestLink> fullest(classes_.size());
    for (uint32_t link = 0; link < 2 * cluster_.links().size(); ++link) {
      double bytes = 0;
      for (const auto& [axis, total] : totals_) bytes += total[link];
      if (bytes == 0) continue;
      const double seconds = bytes / joint_bandwidth(cluster_, link).value;
      FullestLink& f = fullest[classes_.of(link)];
      if (seconds <= f.seconds) continue;
      f = {classes_[classes_.of(link)].name,
           end_name(cluster_.to(link ^ 1u)),
           end_name(cluster_.to(link)),
           bytes,
           seconds,
           {}};
      for (const auto& [axis, total] : totals_) {
        if (total[link] > 0) f.bytes_by_axis.emplace_back(axis, total[link]);
      }
    }
    for (uint32_t c : outwards()) {
      if (fullest[c].seconds > 0) loads.fullest.push_back(std::move(fullest[c]));
    }
  }

  const OpGraph& graph_;
  const RankGrid& grid_;
  const Placement& placement_;
  const ClusterGraph& cluster_;
  Router router_;
  std::vector<GroupFamily> families_;
  Classes classes_;
  std::vector<OnLink> on_;                                    // of each link: one axis
  std::vector<std::vector<WorkKind>> kinds_;                  // of each class: one axis
  std::vector<std::pair<Axis, std::vector<double>>> totals_;  // of each axis: bytes on each link
  std::vector<int64_t> gpus_;
};

}  // namespace

std::string switch_word(const Device& device) {
  if (device.kind == DeviceKind::nic) return "NIC";
  if (device.tier < 0) return "switch";
  std::string name = device.name.substr(0, device.name.find_first_of("0123456789/"));
  name.erase(name.find_last_not_of("-_. ") + 1);
  return name.empty() ? "switch" : name;
}

LinkLoads link_loads(const OpGraph& graph, const Prices& prices, const RankGrid& grid,
                     const Placement& placement, const ClusterGraph& cluster,
                     const RouteOptions& options) {
  return LoadsOfStep(graph, prices, grid, placement, cluster, options).sum();
}

}  // namespace stepcast
