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
}

bool FabricWays::goes_up(uint32_t directed) const {
  const Link& link = graph_.links()[directed / 2];
  if (link.kind != LinkKind::network) return false;
  return graph_.devices()[graph_.to(directed)].tier >
         graph_.devices()[graph_.to(directed ^ 1u)].tier;
}

void FabricWays::climb(const Ring& from, Ring& to, Marks& reached) {
  to.clear();
  reached.clear();
  for (uint32_t at : from) {
    for (uint32_t l : graph_.leaving(at)) {
      if (goes_up(l) && reached.add(graph_.to(l))) to.push_back(graph_.to(l));
    }
  }
}

uint32_t FabricWays::pick(uint64_t key, size_t step) const {
  uint64_t cables = 0;
  for (uint32_t l : choices_) cables += static_cast<uint64_t>(graph_.links()[l / 2].cables);
  uint64_t cable = hash_of(key, step) % cables;
  for (uint32_t l : choices_) {
    const auto here = static_cast<uint64_t>(graph_.links()[l / 2].cables);
    if (cable < here) return l;
    cable -= here;
  }
  return choices_.back();
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
        for (uint32_t l : graph_.leaving(d)) {
          if (!goes_up(l) || !useful[ring + 1].has(graph_.to(l))) continue;
          useful[ring].add(d);
          break;
        }
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
    for (uint32_t l : graph_.leaving(at)) {
      if (ahead.has(graph_.to(l)) && goes_up(up ? l : l ^ 1u)) choices_.push_back(l);
    }
    way.push_back(pick(key, step));
    at = graph_.to(way.back());
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
    for (uint32_t l : graph_.leaving(at)) {
      if (graph_.links()[l / 2].kind != LinkKind::network) continue;
      if (steps_[graph_.to(l)] != UINT32_MAX) continue;
      steps_[graph_.to(l)] = steps_[at] + 1;
      queue.push_back(graph_.to(l));
    }
  }
  if (steps_[from] == UINT32_MAX) return false;
  for (uint32_t at = from; at != to; at = graph_.to(way.back())) {
    choices_.clear();
    for (uint32_t l : graph_.leaving(at)) {
      const uint32_t next = graph_.to(l);
      if (graph_.links()[l / 2].kind != LinkKind::network || steps_[next] + 1 != steps_[at])
        continue;
      const bool passes = next == to || graph_.devices()[next].kind == DeviceKind::network_switch;
      if (passes) choices_.push_back(l);
    }
    way.push_back(pick(key, steps_[at]));
  }
  return true;
}

bool FabricWays::between(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& way) {
  return (tiers_ && up_and_down(from, to, key, way)) || anyhow(from, to, key, way);
}

}  // namespace stepcast
