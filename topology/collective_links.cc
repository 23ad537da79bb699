// SPDX-License-Identifier: Apache-2.0
#include "topology/collective_links.h"

#include <algorithm>
#include <optional>
#include <tuple>

#include "sim/check.h"
#include "topology/collective_messages.h"

namespace stepcast {
namespace {

__extension__ using Wide = unsigned __int128;

// Loads while they are added up: of a message of 2^40 bytes.
constexpr int kFineBits = 40;

bool is_gpu(const ClusterGraph& cluster, uint32_t device) {
  return cluster.devices()[device].kind == DeviceKind::gpu;
}

bool is_nvswitch(const ClusterGraph& cluster, uint32_t device) {
  return cluster.devices()[device].kind == DeviceKind::nvswitch;
}

// The GPU's first link to an NVSwitch.
std::optional<uint32_t> first_to_nvswitch(const ClusterGraph& cluster, uint32_t gpu) {
  for (uint32_t l : cluster.leaving(gpu)) {
    if (is_nvswitch(cluster, cluster.to(l))) return l;
  }
  return std::nullopt;
}

// Where collectives leave their fast links: the NVLink domain, or the host.
std::pair<int32_t, int32_t> node_key(const Device& gpu) {
  return gpu.domain >= 0 ? std::pair(gpu.domain, -1) : std::pair(-1, gpu.node);
}

std::vector<std::vector<int64_t>> by_node(const ClusterGraph& cluster,
                                          std::span<const int64_t> gpus) {
  struct Member {
    std::pair<int32_t, int32_t> node;
    size_t place;
  };
  std::vector<Member> members;
  for (size_t i = 0; i < gpus.size(); ++i) {
    const uint32_t device = cluster.gpus()[static_cast<size_t>(gpus[i])];
    members.push_back({node_key(cluster.devices()[device]), i});
  }
  std::sort(members.begin(), members.end(), [](const Member& a, const Member& b) {
    return std::tie(a.node, a.place) < std::tie(b.node, b.place);
  });
  std::vector<std::pair<size_t, std::vector<int64_t>>> nodes;  // place of the first member
  for (size_t i = 0; i < members.size(); ++i) {
    const bool same = i > 0 && members[i].node == members[i - 1].node;
    if (!same) nodes.push_back({members[i].place, {}});
    nodes.back().second.push_back(gpus[members[i].place]);
  }
  std::sort(nodes.begin(), nodes.end());
  std::vector<std::vector<int64_t>> result;
  for (auto& [place, node] : nodes) result.push_back(std::move(node));
  return result;
}

class Loads {
 public:
  Loads(const ClusterGraph& cluster, Router& router) : cluster_(cluster), router_(router) {}

  void add(const Message& m, int64_t whole) {
    if (m.from == Message::kSwitches || m.to == Message::kSwitches) return add_in_switch(m, whole);
    const Device &a = device(m.from), &b = device(m.to);
    // Inside a domain all NVLinks count as one.
    const bool near = a.domain >= 0 && a.domain == b.domain;
    const int64_t channels = near ? 1 : router_.channels(m.from, m.to);
    for (int64_t c = 0; c < channels; ++c) {
      const std::span<const LinkShare> shares = router_.spread(m.from, m.to, c);
      STEPCAST_CHECK(m.from == m.to || !shares.empty(), "a way between GPUs that communicate");
      for (const LinkShare& s : shares) add(s.link, m.parts, whole * channels, s.share);
    }
  }

  std::vector<LinkUse> take() {
    std::sort(fine_.begin(), fine_.end());
    std::vector<LinkUse> uses;
    constexpr uint64_t kUnit = (uint64_t{1} << kFineBits) / kFullLoad;
    for (size_t i = 0; i < fine_.size();) {
      const uint32_t link = fine_[i].first;
      uint64_t load = 0;
      for (; i < fine_.size() && fine_[i].first == link; ++i) load += fine_[i].second;
      const uint64_t rounded = std::clamp<uint64_t>((load + kUnit / 2) / kUnit, 1, UINT32_MAX);
      uses.push_back({link, static_cast<uint32_t>(rounded)});
    }
    return uses;
  }

 private:
  const Device& device(int64_t gpu) const {
    return cluster_.devices()[cluster_.gpus()[static_cast<size_t>(gpu)]];
  }

  void add(uint32_t directed, int64_t parts, int64_t whole, uint64_t share = kWholeMessage) {
    const auto p = static_cast<uint64_t>(parts), w = static_cast<uint64_t>(whole);
    constexpr int kRest = kFineBits / 2;
    // parts << kFineBits would not fit.
    const uint64_t high = (p << kRest) / w, rest = (p << kRest) % w;
    const Wide all = (high << kRest) + (rest << kRest) / w;
    fine_.emplace_back(joint_link(cluster_, directed),
                       static_cast<uint64_t>(all * share / kWholeMessage));
  }

  void add_in_switch(const Message& m, int64_t whole) {
    const bool out = m.to == Message::kSwitches;
    const uint32_t gpu = cluster_.gpus()[static_cast<size_t>(out ? m.from : m.to)];
    const std::optional<uint32_t> link = first_to_nvswitch(cluster_, gpu);
    STEPCAST_CHECK(link.has_value(), "a GPU that reduces in NVSwitches has some");
    add(out ? *link : *link ^ 1u, m.parts, whole);
  }

  const ClusterGraph& cluster_;
  Router& router_;
  std::vector<std::pair<uint32_t, uint64_t>> fine_;
};

}  // namespace

uint32_t joint_link(const ClusterGraph& cluster, uint32_t directed) {
  const Link& link = cluster.links()[directed / 2];
  if (link.kind != LinkKind::nvlink) return directed;
  const uint32_t to = cluster.to(directed), from = cluster.to(directed ^ 1u);
  if (is_gpu(cluster, from) && is_nvswitch(cluster, to)) return *first_to_nvswitch(cluster, from);
  if (is_gpu(cluster, to) && is_nvswitch(cluster, from))
    return *first_to_nvswitch(cluster, to) ^ 1u;
  return directed;
}

Bandwidth joint_bandwidth(const ClusterGraph& cluster, uint32_t directed) {
  const uint32_t to = cluster.to(directed), from = cluster.to(directed ^ 1u);
  const bool out = is_gpu(cluster, from) && is_nvswitch(cluster, to);
  const bool in = is_gpu(cluster, to) && is_nvswitch(cluster, from);
  if (!out && !in) return cluster.bandwidth(directed);
  Bandwidth all{};
  for (uint32_t l : cluster.leaving(out ? from : to)) {
    if (is_nvswitch(cluster, cluster.to(l))) all += cluster.bandwidth(out ? l : l ^ 1u);
  }
  return all;
}

std::vector<LinkUse> collective_links(const ClusterGraph& cluster, Router& router, WorkKind kind,
                                      Algorithm algorithm, std::span<const int64_t> gpus) {
  STEPCAST_CHECK(!gpus.empty(), "a group has GPUs");
  std::vector<std::vector<int64_t>> nodes;
  if (kind == WorkKind::send_recv) {
    nodes = {{gpus.front()}, {gpus.back()}};
  } else {
    nodes = by_node(cluster, gpus);
  }
  const CollectiveMessages messages = collective_messages(kind, algorithm, nodes);
  Loads loads(cluster, router);
  for (const Message& m : messages.messages) loads.add(m, messages.whole);
  return loads.take();
}

}  // namespace stepcast
