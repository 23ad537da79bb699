// SPDX-License-Identifier: Apache-2.0
#include "topology/ib_layout.h"

#include <algorithm>
#include <deque>
#include <iterator>
#include <string_view>
#include <tuple>

#include "topology/import_parts.h"
#include "topology/import_text.h"

namespace stepcast {
namespace {

// Leaves from which on a port that few of them have a host on is one of its own: one leaf in so
// many.
constexpr size_t kFabricOfManyLeaves = 8;

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

class LayoutReader {
 public:
  explicit LayoutReader(const IbRecords& records) : r_(records) {}

  IbLayout read() {
    classify();
    set_managers_apart();
    find_tiers();
    find_rails();
    return std::move(l_);
  }

 private:
  bool is_switch(uint32_t n) const { return r_.nodes[n].kind == IbKind::network_switch; }

  void classify() {
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      const IbNode& node = r_.nodes[n];
      if (node.kind != IbKind::adapter) continue;
      if (node.sharp) {
        ++l_.sharp;
      } else {
        l_.hcas.push_back(n);
      }
    }
    l_.names.resize(r_.nodes.size());
    for (const uint32_t n : l_.hcas) l_.names[n] = hca_name(r_.nodes[n].description);
    for (const IbCable& c : r_.cables) {
      for (const auto& [a, b, port] : {std::tuple(c.a, c.b, c.a_port), {c.b, c.a, c.b_port}}) {
        if (is_switch(a) && r_.nodes[b].kind == IbKind::adapter && !r_.nodes[b].sharp)
          l_.host_ports[a].push_back({port, b});
      }
    }
  }

  void set_managers_apart() {
    if (l_.host_ports.size() < kFabricOfManyLeaves) return;
    std::map<int64_t, size_t> leaves_with;  // by port
    for (const auto& [leaf, ports] : l_.host_ports)
      for (const auto& [port, hca] : ports) ++leaves_with[port];
    std::set<uint32_t> apart;
    std::set<std::string> among_others;  // hosts
    for (const auto& [leaf, ports] : l_.host_ports) {
      for (const auto& [port, hca] : ports) {
        if (leaves_with[port] * kFabricOfManyLeaves < l_.host_ports.size())
          apart.insert(hca);
        else
          among_others.insert(l_.names[hca].host);
      }
    }
    std::set<std::string> hosts;
    for (const uint32_t hca : apart) {
      if (l_.names[hca].host.empty() || among_others.contains(l_.names[hca].host)) continue;
      l_.managers.insert(hca);
      hosts.insert(l_.names[hca].host);
    }
    l_.manager_hosts.assign(hosts.begin(), hosts.end());
    std::erase_if(l_.hcas, [&](uint32_t hca) { return l_.managers.contains(hca); });
    for (auto& [leaf, ports] : l_.host_ports)
      std::erase_if(ports, [&](const auto& p) { return l_.managers.contains(p.second); });
    std::erase_if(l_.host_ports, [](const auto& leaf) { return leaf.second.empty(); });
  }

  void find_tiers() {
    l_.tier.assign(r_.nodes.size(), -1);
    std::vector<std::vector<uint32_t>> beside(r_.nodes.size());
    for (const IbCable& c : r_.cables) {
      if (!is_switch(c.a) || !is_switch(c.b)) continue;
      beside[c.a].push_back(c.b);
      beside[c.b].push_back(c.a);
    }
    std::deque<uint32_t> ahead;
    for (const auto& [leaf, ports] : l_.host_ports) {
      l_.tier[leaf] = 0;
      ahead.push_back(leaf);
    }
    for (; !ahead.empty(); ahead.pop_front()) {
      for (const uint32_t n : beside[ahead.front()]) {
        if (l_.tier[n] >= 0) continue;
        l_.tier[n] = l_.tier[ahead.front()] + 1;
        ahead.push_back(n);
      }
    }
    for (uint32_t n = 0; n < r_.nodes.size(); ++n) {
      if (!is_switch(n) || l_.tier[n] >= 0) continue;
      l_.tier[n] = 0;
      l_.stray_switches.push_back(n);
    }
  }

  // Rails of the leaves: the number that most of their HCAs have, as its place among these.
  void find_rails() {
    std::map<std::string, std::set<uint32_t>> leaves_of;  // hosts
    for (const auto& [leaf, ports] : l_.host_ports)
      for (const auto& [port, hca] : ports)
        if (!l_.names[hca].host.empty()) leaves_of[l_.names[hca].host].insert(leaf);
    std::map<size_t, int64_t> fan;
    for (const auto& [host, leaves] : leaves_of) ++fan[leaves.size()];
    l_.leaves_of_a_host = most_common(fan);
    join_groups(leaves_of);
    if (l_.leaves_of_a_host < 2) return;
    std::map<uint32_t, std::pair<std::string, int64_t>> main;  // series and number of each leaf
    std::map<std::string, std::set<int64_t>> numbers;          // by series
    for (const auto& [leaf, ports] : l_.host_ports) {
      std::map<std::pair<std::string, int64_t>, int64_t> counts;
      for (const auto& [port, hca] : ports) {
        const auto series = series_of(l_.names[hca].device);
        if (series.second >= 0) ++counts[series];
      }
      if (counts.empty()) continue;
      main[leaf] = most_common(counts);
      numbers[main[leaf].first].insert(main[leaf].second);
    }
    for (const auto& [leaf, series] : main) {
      const std::set<int64_t>& all = numbers[series.first];
      l_.rail[leaf] = static_cast<int32_t>(std::distance(all.begin(), all.find(series.second)));
    }
  }

  // Leaves that serve the same hosts.
  void join_groups(const std::map<std::string, std::set<uint32_t>>& leaves_of) {
    for (const auto& [leaf, ports] : l_.host_ports) l_.group[leaf] = leaf;
    const auto find = [&](uint32_t l) {
      while (l_.group[l] != l) l = l_.group[l] = l_.group[l_.group[l]];
      return l;
    };
    // A name that most leaves see is no host's: "localhost".
    for (const auto& [host, leaves] : leaves_of) {
      if (leaves.size() > l_.leaves_of_a_host) continue;
      for (const uint32_t l : leaves) {
        const uint32_t a = find(l), b = find(*leaves.begin());
        l_.group[std::max(a, b)] = std::min(a, b);
      }
    }
    for (auto& [leaf, root] : l_.group) root = find(leaf);
  }

  const IbRecords& r_;
  IbLayout l_;
};

}  // namespace

IbLayout ib_layout(const IbRecords& records) {
  return LayoutReader(records).read();
}

}  // namespace stepcast
