// SPDX-License-Identifier: Apache-2.0
#include "topology/host_ways.h"

#include <algorithm>

namespace stepcast {

HostWays::HostWays(const ClusterGraph& graph)
    : graph_(graph),
      own_nics_(graph.devices().size()),
      entered_by_(graph.devices().size()),
      link_to_(graph.devices().size()),
      marks_(graph.devices().size()) {
  int32_t hosts = 0;
  for (const Device& d : graph.devices()) hosts = std::max(hosts, d.node + 1);
  gpus_of_host_.resize(static_cast<size_t>(hosts));
  divided_.resize(static_cast<size_t>(hosts));
  rails_.resize(static_cast<size_t>(hosts));
  for (const Device& d : graph.devices()) {
    if (d.kind != DeviceKind::nic || d.node < 0) continue;
    int32_t& rails = rails_[static_cast<size_t>(d.node)];
    rails = std::max(rails, d.rail + 1);
  }
  for (uint32_t gpu : graph.gpus()) {
    const int32_t host = graph.devices()[gpu].node;
    if (host >= 0) gpus_of_host_[static_cast<size_t>(host)].push_back(gpu);
  }
}

// Breadth first: over NVLink inside a domain through anything, or inside a host over everything
// but NVLink and the network, through PCIe switches and CPUs.
bool HostWays::search(uint32_t from, uint32_t to, bool nvlink, std::vector<uint32_t>& way) {
  const std::span<const Device> devices = graph_.devices();
  marks_.clear();
  marks_.add(from);
  queue_.assign(1, from);
  for (size_t i = 0; i < queue_.size() && !marks_.has(to); ++i) {
    const uint32_t at = queue_[i];
    const DeviceKind kind = devices[at].kind;
    const bool ends = !nvlink && (kind == DeviceKind::gpu || kind == DeviceKind::nic);
    if (ends && at != from) continue;
    for (uint32_t l : graph_.leaving(at)) {
      const LinkKind over = graph_.links()[l / 2].kind;
      if ((over == LinkKind::nvlink) != nvlink || over == LinkKind::network) continue;
      const uint32_t next = graph_.to(l);
      const bool inside = nvlink || devices[next].node == devices[from].node;
      if (!inside || !marks_.add(next)) continue;
      entered_by_[next] = l;
      queue_.push_back(next);
    }
  }
  if (!marks_.has(to)) return false;
  const size_t start = way.size();
  for (uint32_t at = to; at != from; at = graph_.to(entered_by_[at] ^ 1u)) {
    way.push_back(entered_by_[at]);
  }
  std::reverse(way.begin() + static_cast<std::ptrdiff_t>(start), way.end());
  return true;
}

bool HostWays::over_pcie(uint32_t from, uint32_t to, std::vector<uint32_t>& way) {
  const int32_t host = graph_.devices()[from].node;
  if (host < 0 || graph_.devices()[to].node != host) return false;
  return search(from, to, false, way);
}

void HostWays::find_hops(uint32_t from, uint32_t to) {
  hops_.clear();
  marks_.clear();
  for (uint32_t l : graph_.leaving(to)) {
    const uint32_t next = graph_.to(l);
    if (graph_.links()[l / 2].kind != LinkKind::nvlink) continue;
    if (graph_.devices()[next].kind != DeviceKind::nvswitch) continue;
    marks_.add(next);
    link_to_[next] = l ^ 1u;
  }
  bool direct = false;
  for (uint32_t l : graph_.leaving(from)) {
    const Link& link = graph_.links()[l / 2];
    if (link.kind != LinkKind::nvlink) continue;
    const uint32_t next = graph_.to(l);
    if (next == to) {
      if (!direct) hops_.clear();
      direct = true;
      hops_.push_back({l, l, link.cables});
    } else if (!direct && marks_.has(next)) {
      hops_.push_back({l, link_to_[next], link.cables});
    }
  }
}

int64_t HostWays::nvlink_cables(uint32_t from, uint32_t to) {
  find_hops(from, to);
  int64_t cables = 0;
  for (const Hop& hop : hops_) cables += hop.cables;
  return cables;
}

bool HostWays::over_nvlink(uint32_t from, uint32_t to, uint64_t choice,
                           std::vector<uint32_t>& way) {
  const int32_t domain = graph_.devices()[from].domain;
  if (domain < 0 || graph_.devices()[to].domain != domain) return false;
  const int64_t cables = nvlink_cables(from, to);
  if (cables == 0) return search(from, to, true, way);
  auto cable = static_cast<int64_t>(choice % static_cast<uint64_t>(cables));
  size_t i = 0;
  while (cable >= hops_[i].cables) cable -= hops_[i++].cables;
  way.push_back(hops_[i].first);
  if (hops_[i].second != hops_[i].first) way.push_back(hops_[i].second);
  return true;
}

void HostWays::divide_nics(int32_t host) {
  const std::vector<uint32_t>& gpus = gpus_of_host_[static_cast<size_t>(host)];
  for (uint32_t gpu : gpus) {
    // The nearest: a breadth-first search that stops behind the first ring with a NIC in it.
    std::vector<uint32_t>& nearest = own_nics_[gpu];
    marks_.clear();
    marks_.add(gpu);
    std::vector<uint32_t> ring{gpu}, next_ring;
    while (!ring.empty() && nearest.empty()) {
      next_ring.clear();
      for (uint32_t at : ring) {
        if (at != gpu && graph_.devices()[at].kind == DeviceKind::gpu) continue;
        for (uint32_t l : graph_.leaving(at)) {
          const LinkKind over = graph_.links()[l / 2].kind;
          const uint32_t next = graph_.to(l);
          if (over == LinkKind::nvlink || over == LinkKind::network) continue;
          if (graph_.devices()[next].node != host || !marks_.add(next)) continue;
          next_ring.push_back(next);
          if (graph_.devices()[next].kind == DeviceKind::nic) nearest.push_back(next);
        }
      }
      ring.swap(next_ring);
    }
    std::sort(nearest.begin(), nearest.end());
  }
  std::vector<std::vector<uint32_t>> shares(gpus.size());
  for (size_t i = 0; i < gpus.size(); ++i) {
    const std::vector<uint32_t>& nearest = own_nics_[gpus[i]];
    if (nearest.empty()) continue;
    size_t sharing = 0, position = 0;
    for (size_t j = 0; j < gpus.size(); ++j) {
      if (own_nics_[gpus[j]] != nearest) continue;
      position += j < i;
      ++sharing;
    }
    const size_t first = position * nearest.size() / sharing;
    const size_t count = std::max<size_t>(1, nearest.size() / sharing);
    for (size_t k = first; k < first + count; ++k) shares[i].push_back(nearest[k]);
  }
  for (size_t i = 0; i < gpus.size(); ++i) own_nics_[gpus[i]] = std::move(shares[i]);
  divided_[static_cast<size_t>(host)] = true;
}

std::span<const uint32_t> HostWays::own_nics(uint32_t gpu) {
  const int32_t host = graph_.devices()[gpu].node;
  if (host >= 0 && !divided_[static_cast<size_t>(host)]) divide_nics(host);
  return own_nics_[gpu];
}

int32_t HostWays::rails(uint32_t gpu) const {
  const int32_t host = graph_.devices()[gpu].node;
  return host < 0 ? 0 : rails_[static_cast<size_t>(host)];
}

HostWays::Beside HostWays::beside_rail(uint32_t gpu, int32_t rail) {
  const Device& device = graph_.devices()[gpu];
  if (device.node < 0 || device.domain < 0) return {};
  for (uint32_t other : gpus_of_host_[static_cast<size_t>(device.node)]) {
    if (other != gpu && nvlink_cables(gpu, other) == 0) continue;
    for (uint32_t nic : own_nics(other)) {
      if (graph_.devices()[nic].rail == rail) return {other, nic};
    }
  }
  return {};
}

}  // namespace stepcast
