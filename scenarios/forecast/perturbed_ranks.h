// SPDX-License-Identifier: Apache-2.0
// What the section `perturb` does to the ranks (stragglers) and to the links of a cluster: how much
// slower a rank computes and how slow its links are, throughout the step and in windows of it.
// Ranks that are concerned by the same items of the list are of one kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "scenarios/scenario.h"
#include "sim/lanes/lane_speeds.h"
#include "sim/units.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

// How slow the links of a GPU are, or the slowest ones of a group.
struct LinkState {
  double nic = 1, nvlink = 1;  // factors on the bandwidth
  Time nic_latency{}, nvlink_latency{};
  bool operator==(const LinkState&) const = default;
};

// A total order in which a state comes after those that it is worse than in one respect and better
// than in none.
bool operator<(const LinkState& a, const LinkState& b);

// The worse of the two in every respect.
LinkState worse_of(const LinkState& a, const LinkState& b);

// What a group communicates over, as bits: NICs if it has ranks on several nodes, NVLinks (or what
// joins the GPUs of a node) if it has several on one.
using LinksUsed = uint8_t;
constexpr LinksUsed kUsesNics = 1, kUsesNvlinks = 2;

// The part of `s` that such a group sees.
LinkState used_part(const LinkState& s, LinksUsed use);

// What holds from one moment to another, or all the time.
struct Spell {
  Time from{}, until = Time::max();
  std::vector<uint32_t> items;  // of the list, ascending
  double slowness = 1;          // compute takes so many times its price; random factors not counted
  bool drawn = false;           // a random factor for each rank comes on top
  LinkState links;              // in a window that touches links: with what holds all the time
};

struct RankKind {
  Spell always;
  std::vector<Spell> windows;  // in the order of time, apart from one another
};

class PerturbedRanks {
 public:
  // Random factors are drawn from `seed`.  The scenario must outlive this.
  PerturbedRanks(const Scenario& scenario, uint64_t seed);

  const std::vector<RankKind>& kinds() const { return kinds_; }
  uint32_t kind_of(int64_t rank) const { return kind_of_[static_cast<size_t>(rank)]; }
  int64_t node_of(int64_t rank) const { return s_.placement.gpu_of(rank) / s_.cluster.node.gpus; }
  // Whether a GPU of a node uses a NIC of it.
  bool uses(int64_t nic, int64_t gpu_of_node) const;
  // Compute of the rank takes so many times its price.  REQUIRES: a spell of the rank's kind.
  double slowness(const Spell& spell, int64_t rank) const;

 private:
  bool concerns(const Perturbation& p, int64_t rank, int64_t stage) const;
  RankKind kind_from(const std::vector<uint32_t>& items) const;
  void apply(uint32_t item, Spell& spell) const;
  double drawn(uint32_t item, int64_t rank) const;

  const Scenario& s_;
  uint64_t seed_;
  std::vector<JitterTable> tables_;  // by item
  std::vector<RankKind> kinds_;
  std::vector<uint32_t> kind_of_;  // by rank
};

// The cluster graph of a scenario, in which the links that `perturb` slows throughout the step have
// their bandwidth multiplied by the factors of the list: the network links of slow NICs, and the
// NVLinks of slow GPUs (their PCIe where they have no NVLink).  An item counts once for a NIC,
// however many of the GPUs that use it are concerned; between two GPUs the slower end decides.
// Items with `from` or `until` are left out.
ClusterGraph perturbed_graph(const Scenario& scenario);

}  // namespace stepcast
