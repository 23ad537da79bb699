// SPDX-License-Identifier: Apache-2.0
#include "topology/fabric_ways.h"

#include <algorithm>

namespace stepcast {
namespace {

// Rings above a NIC: leaf, spine, core, super-core and one to spare.
constexpr size_t kMostRings = 6;

}  // namespace

uint64_t hash_of(uint64_t a, uint64_t b) {
  uint64_t x = a + (b + 1) * 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

FabricWays::FabricWays(const ClusterGraph& graph)
    : graph_(graph),
      above_(graph.devices().size()),
      useful_from_(kMostRings, Marks(graph.devices().size())),
      useful_to_(kMostRings, Marks(graph.devices().size())),
      reached_(graph.devices().size()) {
  for (const Link& link : graph.links()) {
    if (link.kind != LinkKind::network) continue;
    const Device &a = graph.devices()[link.a], &b = graph.devices()[link.b];
    if (a.kind == DeviceKind::network_switch && a.tier < 0) tiers_ = false;
    if (b.kind == DeviceKind::network_switch && b.tier < 0) tiers_ = false;
    if (a.tier == b.tier) tiers_ = false;
  }
  for (uint32_t d = 0; d < graph.devices().size(); ++d) {
    const int32_t tier = graph.devices()[d].tier;
    first_up_.push_back(static_cast<uint32_t>(hops_.size()));
    const auto list = [&](bool up) {
      for (uint32_t l : graph.leaving(d)) {
        const Link& link = graph.links()[l / 2];
        const uint32_t to = graph.to(l);
        if (link.kind != LinkKind::network || (graph.devices()[to].tier > tier) != up) continue;
        hops_.push_back({to, l, static_cast<uint32_t>(link.cables)});
      }
    };
    list(true);
    first_down_.push_back(static_cast<uint32_t>(hops_.size()));
    list(false);
  }
  first_up_.push_back(static_cast<uint32_t>(hops_.size()));
}

std::span<const FabricWays::Hop> FabricWays::ups(uint32_t device) const {
  return std::span(hops_).subspan(first_up_[device],
                                  size_t{first_down_[device]} - first_up_[device]);
}

std::span<const FabricWays::Hop> FabricWays::downs(uint32_t device) const {
  return std::span(hops_).subspan(first_down_[device],
                                  size_t{first_up_[device + 1]} - first_down_[device]);
}

const FabricWays::Ring& FabricWays::above(uint32_t device, size_t k) {
  std::vector<Ring>& rings = above_[device];
  if (rings.empty()) rings.push_back({device});
  while (rings.size() <= k) {
    reached_.clear();
    Ring next;
    for (uint32_t at : rings.back()) {
      for (const Hop& hop : ups(at)) {
        if (reached_.add(hop.to)) next.push_back(hop.to);
      }
    }
    rings.push_back(std::move(next));
  }
  return rings[k];
}

const FabricWays::Ring& FabricWays::above_nic(uint32_t nic, size_t k) {
  const std::span<const Hop> leaves = ups(nic);
  return k > 0 && leaves.size() == 1 ? above(leaves.front().to, k - 1) : above(nic, k);
}

const FabricWays::Hop& FabricWays::pick(uint64_t key, size_t step) const {
  uint64_t cables = 0;
  for (const Hop& hop : choices_) cables += hop.cables;
  uint64_t cable = hash_of(key, step) % cables;
  size_t i = 0;
  while (cable >= choices_[i].cables) cable -= choices_[i++].cables;
  return choices_[i];
}

bool FabricWays::up_and_down(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& way) {
  size_t top = 0;  // ring in which the two meet
  common_.clear();
  while (common_.empty()) {
    if (++top == kMostRings) return false;
    Marks& far = useful_to_[top];
    far.clear();
    for (uint32_t d : above_nic(to, top)) far.add(d);
    for (uint32_t d : above_nic(from, top)) {
      if (far.has(d)) common_.push_back(d);
    }
  }
  // Keep of each ring what leads to a common device.
  const auto prune = [&](uint32_t nic, std::vector<Marks>& useful) {
    useful[top].clear();
    for (uint32_t d : common_) useful[top].add(d);
    for (size_t ring = top - 1; ring > 0; --ring) {
      useful[ring].clear();
      const auto leads = [&](const Hop& hop) { return useful[ring + 1].has(hop.to); };
      for (uint32_t d : above_nic(nic, ring)) {
        if (std::ranges::any_of(ups(d), leads)) useful[ring].add(d);
      }
    }
    useful[0].clear();
    useful[0].add(nic);
  };
  prune(from, useful_from_);
  prune(to, useful_to_);
  uint32_t at = from;
  for (size_t step = 0; step < 2 * top; ++step) {
    choices_.clear();
    const bool up = step < top;
    const Marks& ahead = up ? useful_from_[step + 1] : useful_to_[2 * top - step - 1];
    for (const Hop& hop : up ? ups(at) : downs(at)) {
      if (ahead.has(hop.to)) choices_.push_back(hop);
    }
    const Hop& hop = pick(key, step);
    way.push_back(hop.link);
    at = hop.to;
  }
  return true;
}

// Breadth first from the far end over the network's links, then forward along falling distances.
bool FabricWays::anyhow(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& way) {
  steps_.assign(graph_.devices().size(), UINT32_MAX);
  steps_[to] = 0;
  queue_.assign(1, to);
  for (size_t i = 0; i < queue_.size() && queue_[i] != from; ++i) {
    const uint32_t at = queue_[i];
    if (at != to && graph_.devices()[at].kind != DeviceKind::network_switch) continue;
    for (const std::span<const Hop> hops : {ups(at), downs(at)}) {
      for (const Hop& hop : hops) {
        if (steps_[hop.to] != UINT32_MAX) continue;
        steps_[hop.to] = steps_[at] + 1;
        queue_.push_back(hop.to);
      }
    }
  }
  if (steps_[from] == UINT32_MAX) return false;
  for (uint32_t at = from; at != to;) {
    choices_.clear();
    for (const std::span<const Hop> hops : {ups(at), downs(at)}) {
      for (const Hop& hop : hops) {
        const DeviceKind kind = graph_.devices()[hop.to].kind;
        const bool passes = hop.to == to || kind == DeviceKind::network_switch;
        if (passes && steps_[hop.to] + 1 == steps_[at]) choices_.push_back(hop);
      }
    }
    const Hop& hop = pick(key, steps_[at]);
    way.push_back(hop.link);
    at = hop.to;
  }
  return true;
}

bool FabricWays::between(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& way) {
  return (tiers_ && up_and_down(from, to, key, way)) || anyhow(from, to, key, way);
}

}  // namespace stepcast
