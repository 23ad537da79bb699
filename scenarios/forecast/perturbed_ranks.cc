// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/perturbed_ranks.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "sim/lanes/lanes.h"
#include "topology/cluster/build_graph.h"

namespace stepcast {

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

PerturbedRanks::PerturbedRanks(const Scenario& scenario, uint64_t seed)
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
bool PerturbedRanks::concerns(const Perturbation& p, int64_t rank, int64_t stage) const {
  const auto in = [&](int64_t n) { return n >= p.first && n <= p.last; };
  using Place = Perturbation::Place;
  switch (p.place) {
    case Place::all: return true;
    case Place::ranks: return in(rank);
    case Place::gpus: return in(s_.placement.gpu_of(rank));
    case Place::stages: return in(stage);
    case Place::nodes:
      return in(node_of(rank)) && (p.links != Perturbation::Links::nic ||
                                   uses(p.nic, s_.placement.gpu_of(rank) % s_.cluster.node.gpus));
  }
  return false;
}

// NIC g * nics / gpus for GPU g; several in a row if there are more NICs than GPUs.
bool PerturbedRanks::uses(int64_t nic, int64_t gpu_of_node) const {
  const Node& node = s_.cluster.node;
  const int64_t first = gpu_of_node * node.nics / node.gpus;
  return nic >= first && nic < std::max(first + 1, (gpu_of_node + 1) * node.nics / node.gpus);
}

void PerturbedRanks::apply(uint32_t item, Spell& spell) const {
  const Perturbation& p = s_.perturb[item];
  const bool nvlink = p.links == Perturbation::Links::nvlink;
  spell.items.push_back(item);
  spell.slowness /= p.speed;
  spell.drawn = spell.drawn || (p.sigma > 0 && !p.each_op);
  (nvlink ? spell.links.nvlink : spell.links.nic) *= p.bandwidth;
  (nvlink ? spell.links.nvlink_latency : spell.links.nic_latency) += p.latency;
}

RankKind PerturbedRanks::kind_from(const std::vector<uint32_t>& items) const {
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

double PerturbedRanks::slowness(const Spell& spell, int64_t rank) const {
  if (!spell.drawn) return spell.slowness;
  double f = 1;
  for (const uint32_t item : spell.items) {
    const Perturbation& p = s_.perturb[item];
    f /= p.speed;
    if (p.sigma > 0 && !p.each_op) f *= drawn(item, rank);
  }
  return f;
}

double PerturbedRanks::drawn(uint32_t item, int64_t rank) const {
  // Instances of ops are counted from 0 upwards, so that these keys collide with none of them.
  const uint32_t key = jitter_instance_key(~static_cast<uint64_t>(item));
  const uint32_t i = jitter_index(jitter_rank_key(seed_, static_cast<uint64_t>(rank)), key);
  return static_cast<double>(tables_[item].factor[i]) / kNominal;
}

// ----------------------------------------------------------------------------------- slow links
namespace {

bool slows_a_link(const Perturbation& p) {
  return p.always() && p.bandwidth != 1;
}

struct BandwidthFactors {
  std::vector<double> gpu;  // of what joins it to others of its node
  std::vector<double> nic;  // node * nics + NIC of the node
};

BandwidthFactors bandwidth_factors(const Scenario& s) {
  const Node& node = s.cluster.node;
  BandwidthFactors f{std::vector<double>(static_cast<size_t>(s.cluster.gpus()), 1),
                     std::vector<double>(static_cast<size_t>(s.cluster.nodes * node.nics), 1)};
  const PerturbedRanks ranks(s, s.seed);
  std::set<std::pair<uint32_t, size_t>> done;  // of NICs
  for (int64_t rank = 0; rank < s.plan.grid.world(); ++rank) {
    const int64_t gpu = s.placement.gpu_of(rank);
    for (const uint32_t i : ranks.kinds()[ranks.kind_of(rank)].always.items) {
      const Perturbation& p = s.perturb[i];
      if (!slows_a_link(p)) continue;
      if (p.links == Perturbation::Links::nvlink) {
        f.gpu[static_cast<size_t>(gpu)] *= p.bandwidth;
        continue;
      }
      for (int64_t nic = 0; nic < node.nics; ++nic) {
        const bool meant = p.links == Perturbation::Links::nics || p.nic == nic;
        const auto at = static_cast<size_t>(ranks.node_of(rank) * node.nics + nic);
        if (meant && ranks.uses(nic, gpu % node.gpus) && done.emplace(i, at).second)
          f.nic[at] *= p.bandwidth;
      }
    }
  }
  return f;
}

}  // namespace

ClusterGraph perturbed_graph(const Scenario& s) {
  ClusterGraph sound = cluster_graph(s.cluster);
  if (s.cluster.graph != nullptr || std::ranges::none_of(s.perturb, slows_a_link)) return sound;
  const BandwidthFactors factors = bandwidth_factors(s);
  const LinkKind inside =
      s.cluster.node.intra == IntraKind::pcie ? LinkKind::pcie : LinkKind::nvlink;
  // By device; a NIC slows what leads to the network, a GPU what leads to other GPUs.
  std::vector<double> factor(sound.devices().size(), 1);
  size_t gpu = 0, nic = 0;  // a node's NICs follow each other
  for (uint32_t d = 0; d < factor.size(); ++d) {
    if (sound.devices()[d].kind == DeviceKind::gpu) factor[d] = factors.gpu[gpu++];
    if (sound.devices()[d].kind == DeviceKind::nic) factor[d] = factors.nic[nic++];
  }
  std::vector<Link> links(sound.links().begin(), sound.links().end());
  for (Link& link : links) {
    double least = 1;
    for (const uint32_t end : {link.a, link.b}) {
      const DeviceKind kind = sound.devices()[end].kind;
      const bool slowed = (kind == DeviceKind::gpu && link.kind == inside) ||
                          (kind == DeviceKind::nic && link.kind == LinkKind::network);
      if (slowed) least = std::min(least, factor[end]);
    }
    link.bandwidth.value *= least;
    link.back.value *= least;
  }
  return ClusterGraph({sound.devices().begin(), sound.devices().end()}, std::move(links));
}

}  // namespace stepcast
