// SPDX-License-Identifier: Apache-2.0
#include "topology/import_ibnetdiscover.h"

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <map>
#include <set>

#include "topology/ib_records.h"
#include "topology/import_parts.h"
#include "topology/import_text.h"

namespace stepcast {
namespace {

constexpr size_t kFabricOfManyLeaves = 8;

// "host0401 mlx5_5": host and device; the host is empty if the name is the vendor's.
struct HcaName {
  std::string host, device;
};

HcaName hca_name(std::string_view description) {
  const std::vector<ImportWord> words = words_of(description);
  const bool vendor = description.find("Mellanox Technologies") != std::string_view::npos ||
                      description.find("ConnectX") != std::string_view::npos;
  if (words.empty() || vendor) return {};
  return {std::string(words[0].text), words.size() > 1 ? std::string(words[1].text) : ""};
}

// "mlx5_" and 5 of "mlx5_5"; -1 without a number.
std::pair<std::string, int64_t> series_of(const std::string& device) {
  size_t end = device.size();
  while (end > 0 && device[end - 1] >= '0' && device[end - 1] <= '9') --end;
  return {device.substr(0, end), whole_number(std::string_view(device).substr(end))};
}

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

// The value that most have; the largest of several.  0 if there is none.
template <class T>
T most_common(const std::map<T, int64_t>& counts) {
  T best{};
  int64_t most = 0;
  for (const auto& [value, n] : counts)
    if (n >= most) best = value, most = n;
  return best;
}

struct Cables {
  int32_t count = 0;
  double bandwidth = 0;  // of all
};

class FabricBuilder {
 public:
  explicit FabricBuilder(const IbRecords& records) : r_(records) {}

  ImportedTopology build() {
    classify();
    set_managers_apart();
    find_tiers();
    find_rails();
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
  bool is_switch(uint32_t n) const { return r_.nodes[n].kind == IbKind::network_switch; }

  void classify() {
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      const IbNode& node = r_.nodes[n];
      if (node.kind != IbKind::adapter) continue;
      if (node.sharp) {
        ++sharp_;
      } else {
        hcas_.push_back(n);
      }
    }
    names_.resize(r_.nodes.size());
    for (const uint32_t n : hcas_) names_[n] = hca_name(r_.nodes[n].description);
    for (const IbCable& c : r_.cables) {
      for (const auto& [a, b, port] : {std::tuple(c.a, c.b, c.a_port), {c.b, c.a, c.b_port}}) {
        if (is_switch(a) && r_.nodes[b].kind == IbKind::adapter && !r_.nodes[b].sharp)
          host_ports_[a].push_back({port, b});
      }
    }
  }

  void set_managers_apart() {
    if (host_ports_.size() < kFabricOfManyLeaves) return;
    std::map<int64_t, size_t> leaves_with;  // by port
    for (const auto& [leaf, ports] : host_ports_)
      for (const auto& [port, hca] : ports) ++leaves_with[port];
    std::set<uint32_t> apart;
    std::set<std::string> among_others;  // hosts
    for (const auto& [leaf, ports] : host_ports_) {
      for (const auto& [port, hca] : ports) {
        if (leaves_with[port] * kFabricOfManyLeaves < host_ports_.size())
          apart.insert(hca);
        else
          among_others.insert(names_[hca].host);
      }
    }
    std::set<std::string> hosts;
    for (const uint32_t hca : apart) {
      if (names_[hca].host.empty() || among_others.contains(names_[hca].host)) continue;
      managers_.insert(hca);
      hosts.insert(names_[hca].host);
    }
    manager_hosts_.assign(hosts.begin(), hosts.end());
    std::erase_if(hcas_, [&](uint32_t hca) { return managers_.contains(hca); });
    for (auto& [leaf, ports] : host_ports_)
      std::erase_if(ports, [&](const auto& p) { return managers_.contains(p.second); });
    std::erase_if(host_ports_, [](const auto& leaf) { return leaf.second.empty(); });
  }

  void find_tiers() {
    tier_.assign(r_.nodes.size(), -1);
    std::vector<std::vector<uint32_t>> beside(r_.nodes.size());
    for (const IbCable& c : r_.cables) {
      if (!is_switch(c.a) || !is_switch(c.b)) continue;
      beside[c.a].push_back(c.b);
      beside[c.b].push_back(c.a);
    }
    std::deque<uint32_t> ahead;
    for (const auto& [leaf, ports] : host_ports_) {
      tier_[leaf] = 0;
      ahead.push_back(leaf);
    }
    for (; !ahead.empty(); ahead.pop_front()) {
      for (const uint32_t n : beside[ahead.front()]) {
        if (tier_[n] >= 0) continue;
        tier_[n] = tier_[ahead.front()] + 1;
        ahead.push_back(n);
      }
    }
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      if (is_switch(n) && tier_[n] < 0) {
        tier_[n] = 0;
        parts_.warn(r_.nodes[n].line,
                    switch_name(r_.nodes[n].description) + " has no way to a switch with hosts");
      }
    }
  }

  // rail_ of the leaves: the number that most of their HCAs have, as its place among these.
  void find_rails() {
    std::map<std::string, std::set<uint32_t>> leaves_of;  // hosts
    for (const auto& [leaf, ports] : host_ports_)
      for (const auto& [port, hca] : ports)
        if (!names_[hca].host.empty()) leaves_of[names_[hca].host].insert(leaf);
    std::map<size_t, int64_t> fan;
    for (const auto& [host, leaves] : leaves_of) ++fan[leaves.size()];
    leaves_of_a_host_ = most_common(fan);
    join_groups(leaves_of);
    if (leaves_of_a_host_ < 2) return;
    std::map<uint32_t, std::pair<std::string, int64_t>> main;  // series and number of each leaf
    std::map<std::string, std::set<int64_t>> numbers;          // by series
    for (const auto& [leaf, ports] : host_ports_) {
      std::map<std::pair<std::string, int64_t>, int64_t> counts;
      for (const auto& [port, hca] : ports) {
        const auto series = series_of(names_[hca].device);
        if (series.second >= 0) ++counts[series];
      }
      if (counts.empty()) continue;
      main[leaf] = most_common(counts);
      numbers[main[leaf].first].insert(main[leaf].second);
    }
    for (const auto& [leaf, series] : main) {
      const std::set<int64_t>& all = numbers[series.first];
      rail_[leaf] = static_cast<int32_t>(std::distance(all.begin(), all.find(series.second)));
    }
  }

  // Leaves that serve the same hosts.
  void join_groups(const std::map<std::string, std::set<uint32_t>>& leaves_of) {
    for (const auto& [leaf, ports] : host_ports_) group_[leaf] = leaf;
    const auto find = [&](uint32_t l) {
      while (group_[l] != l) l = group_[l] = group_[group_[l]];
      return l;
    };
    // A name that most leaves see is no host's: "localhost".
    for (const auto& [host, leaves] : leaves_of) {
      if (leaves.size() > leaves_of_a_host_) continue;
      for (const uint32_t l : leaves) {
        const uint32_t a = find(l), b = find(*leaves.begin());
        group_[std::max(a, b)] = std::min(a, b);
      }
    }
    for (auto& [leaf, root] : group_) root = find(leaf);
  }

  void add_switches() {
    device_.assign(r_.nodes.size(), UINT32_MAX);
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      if (!is_switch(n)) continue;
      device_[n] = parts_.add(DeviceKind::network_switch, switch_name(r_.nodes[n].description), -1);
      parts_.devices.back().tier = tier_[n];
      if (const auto rail = rail_.find(n); rail != rail_.end())
        parts_.devices.back().rail = rail->second;
    }
  }

  void add_hosts() {
    std::map<std::string, int32_t> hosts;
    for (const uint32_t h : hcas_)
      if (!names_[h].host.empty()) hosts[names_[h].host] = 0;
    int32_t next = 0;
    for (auto& [name, number] : hosts) {
      number = next++;
      host_names_.push_back(name);
    }
    hosts_ = next;
    std::map<uint32_t, uint32_t> leaf_of;
    for (const auto& [leaf, ports] : host_ports_)
      for (const auto& [port, hca] : ports) leaf_of[hca] = leaf;
    for (const uint32_t h : hcas_) {
      const HcaName& name = names_[h];
      unnamed_ += name.host.empty();
      device_[h] =
          parts_.add(DeviceKind::nic,
                     name.host.empty() ? r_.nodes[h].guid
                                       : name.host + (name.device.empty() ? "" : "/") + name.device,
                     name.host.empty() ? -1 : hosts[name.host]);
      const auto leaf = leaf_of.find(h);
      if (leaf == leaf_of.end()) continue;
      if (const auto rail = rail_.find(leaf->second); rail != rail_.end())
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
    const auto between = [&](const IbCable& c) { return std::minmax(tier_[c.a], tier_[c.b]); };
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
    for (const auto& [leaf, root] : group_) number[root] = 0;
    int32_t next = 0;
    for (auto& [root, n] : number) n = next++;
    device_group_.assign(parts_.devices.size(), -1);
    for (const auto& [leaf, ports] : host_ports_) {
      const int32_t n = number[group_[leaf]];
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
    if (leaves_of_a_host_ < 2) return;
    std::map<uint32_t, std::vector<uint32_t>> groups;
    for (const auto& [leaf, root] : group_) groups[root].push_back(leaf);
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
    parts_.fact("host_hcas", static_cast<int64_t>(hcas_.size()), "");
    parts_.fact(
        "hosts", hosts_,
        std::to_string(hosts_) + " hosts by name" +
            (unnamed_ == 0 ? "" : ", " + std::to_string(unnamed_) + " HCAs that name none"));
    parts_.fact("unnamed_hcas", unnamed_, "");
    parts_.fact("sharp_nodes", sharp_,
                sharp_ == 0
                    ? ""
                    : std::to_string(sharp_) +
                          (sharp_ == 1 ? " SHARP aggregation node" : " SHARP aggregation nodes") +
                          " (reduction inside switches), set apart");
    parts_.fact("managers", static_cast<int64_t>(manager_hosts_.size()),
                manager_hosts_.empty()
                    ? ""
                    : some_of(manager_hosts_) + " (" + std::to_string(managers_.size()) +
                          " HCAs) sit on ports of their own: managers, set apart");
    parts_.fact("manager_hcas", static_cast<int64_t>(managers_.size()), "");
    std::set<int32_t> rails;
    for (const auto& [leaf, rail] : rail_) rails.insert(rail);
    parts_.fact("rails", static_cast<int64_t>(rails.size()), "");
    parts_.fact("leaf_groups", groups_,
                groups_ == 0 ? ""
                             : std::to_string(groups_) + " groups of hosts, each below " +
                                   std::to_string(leaves_of_a_group_) + " leaves of its own");
    for (const TopologyWarning& w : r_.warnings) parts_.warnings.push_back(w);
  }

  const IbRecords& r_;
  ImportParts parts_;
  std::vector<uint32_t> hcas_;
  std::vector<HcaName> names_;                                                // by node
  std::map<uint32_t, std::vector<std::pair<int64_t, uint32_t>>> host_ports_;  // leaf: port, HCA
  std::set<uint32_t> managers_;
  std::vector<std::string> manager_hosts_;
  std::vector<int32_t> tier_;  // by node; -1: no switch
  std::map<uint32_t, int32_t> rail_;
  std::map<uint32_t, uint32_t> group_;   // leaf: first of its group
  std::vector<uint32_t> device_;         // by node
  std::map<uint32_t, int64_t> uplinks_;  // cables, by device
  std::vector<std::string> host_names_;
  std::vector<int32_t> device_group_;
  size_t leaves_of_a_host_ = 0;
  int64_t sharp_ = 0, hosts_ = 0, unnamed_ = 0, groups_ = 0, leaves_of_a_group_ = 0;
};

}  // namespace

ImportedTopology import_ibnetdiscover(std::string_view text, const std::string& file) {
  const ImportText lines = lines_of(text, file);
  const IbRecords records = read_ib_records(lines);
  return FabricBuilder(records).build();
}

}  // namespace stepcast
