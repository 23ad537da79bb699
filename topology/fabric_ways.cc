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

size_t FabricWays::find_up_and_down(uint32_t from, uint32_t to) {
  top_ = 0;
  common_.clear();
  while (common_.empty()) {
    if (++top_ == kMostRings) return 0;
    Marks& far = useful_to_[top_];
    far.clear();
    for (uint32_t d : above_nic(to, top_)) far.add(d);
    for (uint32_t d : above_nic(from, top_)) {
      if (far.has(d)) common_.push_back(d);
    }
  }
  // Keep of each ring what leads to a common device.
  const auto prune = [&](uint32_t nic, std::vector<Marks>& useful) {
    useful[top_].clear();
    for (uint32_t d : common_) useful[top_].add(d);
    for (size_t ring = top_ - 1; ring > 0; --ring) {
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
  return 2 * top_;
}

// Breadth first from the far end over the network's links.
size_t FabricWays::find_anyhow(uint32_t from, uint32_t to) {
  top_ = 0;
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
  return steps_[from] == UINT32_MAX ? 0 : steps_[from];
}

size_t FabricWays::find(uint32_t from, uint32_t to) {
  const size_t length = tiers_ ? find_up_and_down(from, to) : 0;
  return length > 0 ? length : find_anyhow(from, to);
}

void FabricWays::choose(uint32_t at, uint32_t to, size_t step) {
  choices_.clear();
  if (top_ > 0) {
    const bool up = step < top_;
    const Marks& ahead = up ? useful_from_[step + 1] : useful_to_[2 * top_ - step - 1];
    for (const Hop& hop : up ? ups(at) : downs(at)) {
      if (ahead.has(hop.to)) choices_.push_back(hop);
    }
    return;
  }
  for (const std::span<const Hop> hops : {ups(at), downs(at)}) {
    for (const Hop& hop : hops) {
      const DeviceKind kind = graph_.devices()[hop.to].kind;
      const bool passes = hop.to == to || kind == DeviceKind::network_switch;
      if (passes && steps_[hop.to] + 1 == steps_[at]) choices_.push_back(hop);
    }
  }
}

bool FabricWays::between(uint32_t from, uint32_t to, uint64_t key, std::vector<uint32_t>& way) {
  const size_t length = find(from, to);
  uint32_t at = from;
  for (size_t step = 0; step < length; ++step) {
    choose(at, to, step);
    const Hop& hop = pick(key, top_ > 0 ? step : length - step);
    way.push_back(hop.link);
    at = hop.to;
  }
  return length > 0;
}

bool FabricWays::spread(uint32_t from, uint32_t to, std::vector<LinkShare>& shares) {
  const size_t length = find(from, to);
  if (part_.empty()) part_.resize(graph_.devices().size());
  now_.assign(1, from);
  part_[from] = kWholeMessage;
  for (size_t step = 0; step < length; ++step) {
    next_.clear();
    for (const uint32_t at : now_) {
      choose(at, to, step);
      uint64_t cables = 0;
      for (const Hop& hop : choices_) cables += hop.cables;
      for (const Hop& hop : choices_) {
        const uint64_t part = part_[at] * hop.cables / cables;
        if (part == 0) continue;
        shares.push_back({hop.link, part});
        if (part_[hop.to] == 0) next_.push_back(hop.to);
        part_[hop.to] += part;
      }
      part_[at] = 0;
    }
    std::swap(now_, next_);
  }
  for (const uint32_t at : now_) part_[at] = 0;
  return length > 0;
}

}  // namespace stepcast
