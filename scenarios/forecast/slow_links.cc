// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/slow_links.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "scenarios/forecast/disturbed_ranks.h"
#include "topology/cluster/build_graph.h"

namespace stepcast {
namespace {

bool slows_a_link(const Perturbation& p) {
  return p.always() && p.bandwidth != 1;
}

// Factors on bandwidths.
struct Factors {
  std::vector<double> gpu;  // of what joins it to others of its node
  std::vector<double> nic;  // node * nics + NIC of the node
};

Factors factors_of(const Scenario& s) {
  const Node& node = s.cluster.node;
  Factors f{std::vector<double>(static_cast<size_t>(s.cluster.gpus()), 1),
            std::vector<double>(static_cast<size_t>(s.cluster.nodes * node.nics), 1)};
  const DisturbedRanks ranks(s, s.seed);
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

ClusterGraph disturbed_graph(const Scenario& s) {
  ClusterGraph sound = cluster_graph(s.cluster);
  if (s.cluster.graph != nullptr || std::ranges::none_of(s.perturb, slows_a_link)) return sound;
  const Factors factors = factors_of(s);
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
