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
      above_from_(kMostRings),
      above_to_(kMostRings),
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

void FabricWays::climb(const Ring& from, Ring& to, Marks& reached) {
  to.clear();
  reached.clear();
  for (uint32_t at : from) {
    for (const Hop& hop : ups(at)) {
      if (reached.add(hop.to)) to.push_back(hop.to);
    }
  }
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
  above_from_[0].assign(1, from);
  above_to_[0].assign(1, to);
  size_t top = 0;  // ring in which the two meet
  Ring common;
  while (common.empty()) {
    if (++top == kMostRings) return false;
    climb(above_from_[top - 1], above_from_[top], useful_from_[top]);
    climb(above_to_[top - 1], above_to_[top], useful_to_[top]);
    for (uint32_t d : above_from_[top]) {
      if (useful_to_[top].has(d)) common.push_back(d);
    }
  }
  // Keep of each ring what leads to a common device.
  const auto prune = [&](std::vector<Ring>& above, std::vector<Marks>& useful) {
    useful[top].clear();
    for (uint32_t d : common) useful[top].add(d);
    for (size_t ring = top - 1; ring > 0; --ring) {
      useful[ring].clear();
      for (uint32_t d : above[ring]) {
        const auto leads = [&](const Hop& hop) { return useful[ring + 1].has(hop.to); };
        if (std::ranges::any_of(ups(d), leads)) useful[ring].add(d);
      }
    }
    useful[0].clear();
    useful[0].add(above[0].front());
  };
  prune(above_from_, useful_from_);
  prune(above_to_, useful_to_);
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
  Ring& queue = above_to_[0];
  queue.assign(1, to);
  for (size_t i = 0; i < queue.size() && queue[i] != from; ++i) {
    const uint32_t at = queue[i];
    if (at != to && graph_.devices()[at].kind != DeviceKind::network_switch) continue;
    for (const std::span<const Hop> hops : {ups(at), downs(at)}) {
      for (const Hop& hop : hops) {
        if (steps_[hop.to] != UINT32_MAX) continue;
        steps_[hop.to] = steps_[at] + 1;
        queue.push_back(hop.to);
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
