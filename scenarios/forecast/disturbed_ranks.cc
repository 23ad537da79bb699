// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/disturbed_ranks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sim/lanes/lanes.h"

namespace stepcast {

using Place = Perturbation::Place;
using Links = Perturbation::Links;

bool operator<(const LinkState& a, const LinkState& b) {
  if (a.nic != b.nic) return a.nic > b.nic;
  if (a.nic_latency != b.nic_latency) return a.nic_latency < b.nic_latency;
  if (a.nvlink != b.nvlink) return a.nvlink > b.nvlink;
  return a.nvlink_latency < b.nvlink_latency;
}

LinkState worse_of(const LinkState& a, const LinkState& b) {
  return {std::min(a.nic, b.nic), std::min(a.nvlink, b.nvlink),
          std::max(a.nic_latency, b.nic_latency), std::max(a.nvlink_latency, b.nvlink_latency)};
}

LinkState used_part(const LinkState& s, LinksUsed use) {
  LinkState used;
  if ((use & kUsesNics) != 0) {
    used.nic = s.nic;
    used.nic_latency = s.nic_latency;
  }
  if ((use & kUsesNvlinks) != 0) {
    used.nvlink = s.nvlink;
    used.nvlink_latency = s.nvlink_latency;
  }
  return used;
}

DisturbedRanks::DisturbedRanks(const Scenario& scenario, uint64_t seed)
    : s_(scenario), seed_(seed) {
  for (const Perturbation& p : s_.perturb)
    tables_.push_back(p.sigma > 0 && !p.each_op ? jitter_table(p.sigma) : JitterTable{});
  std::map<std::vector<uint32_t>, uint32_t> known;
  const int64_t ranks = s_.plan.grid.world();
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const int64_t stage = s_.plan.grid.coordinates(rank).pp;
    std::vector<uint32_t> items;
    for (uint32_t i = 0; i < s_.perturb.size(); ++i)
      if (concerns(s_.perturb[i], rank, stage)) items.push_back(i);
    const auto [at, fresh] = known.try_emplace(std::move(items), kinds_.size());
    if (fresh) kinds_.push_back(kind_from(at->first));
    kind_of_.push_back(at->second);
  }
}

// Of links: whether the rank's GPU uses them.
bool DisturbedRanks::concerns(const Perturbation& p, int64_t rank, int64_t stage) const {
  const auto in = [&](int64_t n) { return n >= p.first && n <= p.last; };
  switch (p.place) {
    case Place::all: return true;
    case Place::ranks: return in(rank);
    case Place::gpus: return in(s_.placement.gpu_of(rank));
    case Place::stages: return in(stage);
    case Place::nodes:
      return in(node_of(rank)) && (p.links != Links::nic ||
                                   uses(p.nic, s_.placement.gpu_of(rank) % s_.cluster.node.gpus));
  }
  return false;
}

// NIC g * nics / gpus for GPU g; several in a row if there are more NICs than GPUs.
bool DisturbedRanks::uses(int64_t nic, int64_t gpu_of_node) const {
  const Node& node = s_.cluster.node;
  const int64_t first = gpu_of_node * node.nics / node.gpus;
  return nic >= first && nic < std::max(first + 1, (gpu_of_node + 1) * node.nics / node.gpus);
}

void DisturbedRanks::apply(uint32_t item, Spell& spell) const {
  const Perturbation& p = s_.perturb[item];
  const bool nvlink = p.links == Links::nvlink;
  spell.items.push_back(item);
  spell.slowness /= p.speed;
  spell.drawn = spell.drawn || (p.sigma > 0 && !p.each_op);
  (nvlink ? spell.links.nvlink : spell.links.nic) *= p.bandwidth;
  (nvlink ? spell.links.nvlink_latency : spell.links.nic_latency) += p.latency;
}

RankKind DisturbedRanks::kind_from(const std::vector<uint32_t>& items) const {
  RankKind kind;
  std::vector<uint32_t> windowed;
  std::set<Time> moments;  // at which something begins or ends
  for (const uint32_t item : items) {
    const Perturbation& p = s_.perturb[item];
    if (p.always()) {
      apply(item, kind.always);
      continue;
    }
    windowed.push_back(item);
    moments.insert(p.from);
    moments.insert(p.until);
  }
  for (auto at = moments.begin(); at != moments.end() && std::next(at) != moments.end(); ++at) {
    Spell spell;
    spell.from = *at;
    spell.until = *std::next(at);
    for (const uint32_t item : windowed) {
      const Perturbation& p = s_.perturb[item];
      if (spell.from >= p.from && spell.from < p.until) apply(item, spell);
    }
    if (spell.links != LinkState{}) {
      const LinkState& rest = kind.always.links;
      spell.links = {spell.links.nic * rest.nic, spell.links.nvlink * rest.nvlink,
                     spell.links.nic_latency + rest.nic_latency,
                     spell.links.nvlink_latency + rest.nvlink_latency};
    }
    if (!spell.items.empty()) kind.windows.push_back(std::move(spell));
  }
  return kind;
}

double DisturbedRanks::slowness(const Spell& spell, int64_t rank) const {
  if (!spell.drawn) return spell.slowness;
  double f = 1;
  for (const uint32_t item : spell.items) {
    const Perturbation& p = s_.perturb[item];
    f /= p.speed;
    if (p.sigma > 0 && !p.each_op) f *= drawn(item, rank);
  }
  return f;
}

double DisturbedRanks::drawn(uint32_t item, int64_t rank) const {
  // Instances of ops are counted from 0; these keys are out of their way.
  const uint32_t key = jitter_instance_key(~static_cast<uint64_t>(item));
  const uint32_t i = jitter_index(jitter_rank_key(seed_, static_cast<uint64_t>(rank)), key);
  return static_cast<double>(tables_[item].factor[i]) / kNominal;
}

}  // namespace stepcast
