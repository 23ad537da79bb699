// SPDX-License-Identifier: Apache-2.0
#include "topology/import_ibnetdiscover.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "topology/ib_layout.h"
#include "topology/ib_records.h"
#include "topology/import_parts.h"
#include "topology/import_text.h"

namespace stepcast {
namespace {

// "LEAF-04-04" of "MF0;LEAF-04-04:MQM9701/U1"; chips of a director keep what tells them apart:
// "core1/L01" of "MF0;core1:MCS8500/L01/U1".
std::string switch_name(std::string_view description) {
  std::string_view s = description.substr(description.find(';') + 1);
  const size_t colon = s.find(':');
  if (colon == std::string_view::npos) return std::string(s);
  std::string name(s.substr(0, colon));
  std::string_view chip = s.substr(colon);
  chip.remove_prefix(std::min(chip.find('/'), chip.size()));
  if (const size_t last = chip.rfind('/'); last != std::string_view::npos)
    name += chip.substr(0, last);
  return name;
}

struct Cables {
  int32_t count = 0;
  double bandwidth = 0;  // of all
};

class FabricBuilder {
 public:
  explicit FabricBuilder(const IbRecords& records) : r_(records), l_(ib_layout(records)) {}

  ImportedTopology build() {
    for (const uint32_t n : l_.stray_switches)
      parts_.warn(r_.nodes[n].line,
                  switch_name(r_.nodes[n].description) + " has no way to a switch with hosts");
    add_switches();
    add_hosts();
    add_cables();
    number_groups();
    warn_of_slow_cables();
    warn_of_missing_uplinks();
    warn_of_missing_leaves();
    tell();
    ImportedTopology made = finished(std::move(parts_));
    made.hosts = std::move(host_names_);
    made.leaf_group = std::move(device_group_);
    return made;
  }

 private:
  void add_switches() {
    device_.assign(r_.nodes.size(), UINT32_MAX);
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      if (r_.nodes[n].kind != IbKind::network_switch) continue;
      device_[n] = parts_.add(DeviceKind::network_switch, switch_name(r_.nodes[n].description), -1);
      parts_.devices.back().tier = l_.tier[n];
      if (const auto rail = l_.rail.find(n); rail != l_.rail.end())
        parts_.devices.back().rail = rail->second;
    }
  }

  void add_hosts() {
    std::map<std::string, int32_t> hosts;
    for (const uint32_t h : l_.hcas)
      if (!l_.names[h].host.empty()) hosts[l_.names[h].host] = 0;
    int32_t next = 0;
    for (auto& [name, number] : hosts) {
      number = next++;
      host_names_.push_back(name);
    }
    std::map<uint32_t, uint32_t> leaf_of;
    for (const auto& [leaf, ports] : l_.host_ports)
      for (const auto& [port, hca] : ports) leaf_of[hca] = leaf;
    for (const uint32_t h : l_.hcas) {
      const HcaName& name = l_.names[h];
      unnamed_ += name.host.empty();
      device_[h] =
          parts_.add(DeviceKind::nic,
                     name.host.empty() ? r_.nodes[h].guid
                                       : name.host + (name.device.empty() ? "" : "/") + name.device,
                     name.host.empty() ? -1 : hosts[name.host]);
      const auto leaf = leaf_of.find(h);
      if (leaf == leaf_of.end()) continue;
      if (const auto rail = l_.rail.find(leaf->second); rail != l_.rail.end())
        parts_.devices.back().rail = rail->second;
    }
  }

  void add_cables() {
    std::map<std::pair<uint32_t, uint32_t>, Cables> bundles;
    for (const IbCable& c : r_.cables) {
      const uint32_t a = device_[c.a], b = device_[c.b];
      if (a == UINT32_MAX || b == UINT32_MAX) continue;  // SHARP, managers
      Cables& bundle = bundles[std::minmax(a, b)];
      ++bundle.count;
      bundle.bandwidth += c.bandwidth.value;
    }
    for (const auto& [ends, bundle] : bundles) {
      const Bandwidth one{bundle.bandwidth / bundle.count};
      parts_.join(ends.first, ends.second, LinkKind::network, {one, one}, bundle.count);
      const int32_t a = parts_.devices[ends.first].tier, b = parts_.devices[ends.second].tier;
      if (a < 0 || b < 0 || std::abs(a - b) != 1) continue;
      uplinks_[a < b ? ends.first : ends.second] += bundle.count;
    }
  }

  // Cables slower than most of those between the same tiers.
  void warn_of_slow_cables() {
    const auto between = [&](const IbCable& c) { return std::minmax(l_.tier[c.a], l_.tier[c.b]); };
    std::map<std::pair<int32_t, int32_t>, std::map<double, int64_t>> speeds;
    const auto counts = [&](const IbCable& c) {
      return device_[c.a] != UINT32_MAX && device_[c.b] != UINT32_MAX;
    };
    for (const IbCable& c : r_.cables)
      if (counts(c)) ++speeds[between(c)][c.bandwidth.value];
    int64_t degraded = 0;
    for (const IbCable& c : r_.cables) {
      if (!counts(c)) continue;
      const double usual = most_common(speeds[between(c)]);
      if (c.bandwidth.value >= usual) continue;
      ++degraded;
      parts_.warn(c.line, parts_.devices[device_[c.a]].name + " to " +
                              parts_.devices[device_[c.b]].name + ": " + std::string(c.speed) +
                              ", where most have " + gigabits(usual));
    }
    parts_.fact("degraded_cables", degraded,
                degraded == 0
                    ? ""
                    : std::to_string(degraded) + (degraded == 1 ? " cable is" : " cables are") +
                          " slower than their like");
  }

  // device_group_: numbers of the groups in the order of their first leaves.
  void number_groups() {
    std::map<uint32_t, int32_t> number;  // by root
    for (const auto& [leaf, root] : l_.group) number[root] = 0;
    int32_t next = 0;
    for (auto& [root, n] : number) n = next++;
    device_group_.assign(parts_.devices.size(), -1);
    for (const auto& [leaf, ports] : l_.host_ports) {
      const int32_t n = number[l_.group[leaf]];
      device_group_[device_[leaf]] = n;
      for (const auto& [port, hca] : ports) device_group_[device_[hca]] = n;
    }
  }

  static std::string gigabits(double bytes_per_second) {
    const auto tenths = static_cast<int64_t>(bytes_per_second * 8 / 1e8 + 0.5);
    return std::to_string(tenths / 10) + (tenths % 10 ? "." + std::to_string(tenths % 10) : "") +
           " Gb/s";
  }

  // Each switch against what most switches of its tier have.
  void warn_of_missing_uplinks() {
    int32_t top = 0;
    for (const Device& d : parts_.devices) top = std::max(top, d.tier);
    for (int32_t tier = 0; tier < top; ++tier) {
      std::map<int64_t, int64_t> counts;
      for (uint32_t d = 0; d < parts_.devices.size(); ++d)
        if (parts_.devices[d].tier == tier) ++counts[uplinks_[d]];
      const int64_t usual = most_common(counts);
      int64_t missing = 0, switches = 0;
      std::vector<std::pair<int64_t, std::string>> lacking;
      for (uint32_t d = 0; d < parts_.devices.size(); ++d) {
        if (parts_.devices[d].tier != tier) continue;
        ++switches;
        if (uplinks_[d] >= usual) continue;
        missing += usual - uplinks_[d];
        lacking.emplace_back(uplinks_[d] - usual, parts_.devices[d].name);
      }
      const std::string key = tier == 0 ? "" : "_of_tier_" + std::to_string(tier);
      parts_.fact("uplinks_expected" + key, usual * switches, "");
      parts_.fact("uplinks_missing" + key, missing, "");
      if (missing == 0) continue;
      std::stable_sort(lacking.begin(), lacking.end(),
                       [](const auto& a, const auto& b) { return a.first < b.first; });
      std::vector<std::string> names;
      for (const auto& [n, name] : lacking) names.push_back(name + " (" + std::to_string(-n) + ")");
      parts_.warn(0, std::to_string(missing) + " of " + std::to_string(usual * switches) +
                         " uplinks are missing, " + std::to_string(usual) + " being usual" + ": " +
                         some_of(names));
    }
  }

  void warn_of_missing_leaves() {
    if (l_.leaves_of_a_host < 2) return;
    std::map<uint32_t, std::vector<uint32_t>> groups;
    for (const auto& [leaf, root] : l_.group) groups[root].push_back(leaf);
    std::map<size_t, int64_t> sizes;
    for (const auto& [root, leaves] : groups) ++sizes[leaves.size()];
    const size_t usual = most_common(sizes);
    groups_ = static_cast<int64_t>(groups.size());
    leaves_of_a_group_ = static_cast<int64_t>(usual);
    for (const auto& [root, leaves] : groups) {
      if (leaves.size() >= usual) continue;
      std::vector<std::string> names;
      for (const uint32_t l : leaves) names.push_back(parts_.devices[device_[l]].name);
      parts_.warn(r_.nodes[root].line,
                  "the hosts of " + some_of(names) + " reach " + std::to_string(leaves.size()) +
                      " leaves, those of others " + std::to_string(usual) + ": a leaf is missing");
    }
  }

  void tell() {
    parts_.fact("host_hcas", static_cast<int64_t>(l_.hcas.size()), "");
    const auto hosts = std::ssize(host_names_);
    parts_.fact(
        "hosts", hosts,
        std::to_string(hosts) + " hosts by name" +
            (unnamed_ == 0 ? "" : ", " + std::to_string(unnamed_) + " HCAs that name none"));
    parts_.fact("unnamed_hcas", unnamed_, "");
    parts_.fact("sharp_nodes", l_.sharp,
                l_.sharp == 0
                    ? ""
                    : std::to_string(l_.sharp) +
                          (l_.sharp == 1 ? " SHARP aggregation node" : " SHARP aggregation nodes") +
                          " (reduction inside switches), set apart");
    parts_.fact("managers", static_cast<int64_t>(l_.manager_hosts.size()),
                l_.manager_hosts.empty()
                    ? ""
                    : some_of(l_.manager_hosts) + " (" + std::to_string(l_.managers.size()) +
                          " HCAs) sit on ports of their own: managers, set apart");
    parts_.fact("manager_hcas", static_cast<int64_t>(l_.managers.size()), "");
    std::set<int32_t> rails;
    for (const auto& [leaf, rail] : l_.rail) rails.insert(rail);
    parts_.fact("rails", static_cast<int64_t>(rails.size()), "");
    parts_.fact("leaf_groups", groups_,
                groups_ == 0 ? ""
                             : std::to_string(groups_) + " groups of hosts, each below " +
                                   std::to_string(leaves_of_a_group_) + " leaves of its own");
    for (const TopologyWarning& w : r_.warnings) parts_.warnings.push_back(w);
  }

  const IbRecords& r_;
  IbLayout l_;
  ImportParts parts_;
  std::vector<uint32_t> device_;         // by node
  std::map<uint32_t, int64_t> uplinks_;  // cables, by device
  std::vector<std::string> host_names_;
  std::vector<int32_t> device_group_;
  int64_t unnamed_ = 0, groups_ = 0, leaves_of_a_group_ = 0;
};

}  // namespace

ImportedTopology import_ibnetdiscover(std::string_view text, const std::string& file) {
  const ImportText lines = lines_of(text, file);
  const IbRecords records = read_ib_records(lines);
  return FabricBuilder(records).build();
}

}  // namespace stepcast
