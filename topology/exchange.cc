// SPDX-License-Identifier: Apache-2.0
#include "topology/exchange.h"

#include <algorithm>

#include "sim/check.h"
#include "topology/channel_search.h"

namespace stepcast {
namespace {

constexpr double kUnlimited = 1e18;  // where no link is: bytes per second

double real(int64_t n) {
  return static_cast<double>(n);
}

// Eight transfers run at a time.
double batches(double peers) {
  return real(static_cast<int64_t>((peers + 7) / 8));
}

}  // namespace

Alternative exchange(const Cluster& cluster, const GroupShape& shape) {
  const Node& node = cluster.node;
  const NcclLatencies& latencies = nccl_latencies();
  const ArchConstants& arch = arch_constants(node.gpu.arch);
  constexpr auto kSimple = static_cast<size_t>(Protocol::simple);
  const double n = real(shape.ranks), per_node = real(shape.ranks_per_node);
  const bool pcie = node.intra == IntraKind::pcie;
  Alternative a{.algorithm = Algorithm::pairwise, .blocks = 32};
  a.base = latencies.ring.base[kSimple];
  a.bandwidth = kUnlimited;
  if (shape.ranks_per_node > 1) {
    const double wire = node.intra_bandwidth.value * intra_share(node, shape.ranks_per_node);
    STEPCAST_CHECK(wire > 0, "a node needs an inner bandwidth");
    const double fraction = pcie ? kPcieFraction : arch.exchange_fraction;
    // With PXN what goes to another rail passes NVLink first.
    const bool pxn = shape.nodes > 1 && cluster.fabric.kind == FabricKind::rail_fat_tree && !pcie;
    const double relayed = pxn ? (n - per_node) / n * (per_node - 1) / per_node : 0;
    a.bandwidth = fraction * wire / ((per_node - 1) / n + relayed);
    const double hop = pcie ? latencies.ring.pcie[kSimple] : latencies.ring.nvlink[kSimple];
    a.intra =
        batches(per_node - 1) * hop * to_seconds(node.intra_latency) / latencies.nominal_intra;
  }
  if (shape.nodes > 1) {
    const std::vector<Tier> tiers = fabric_tiers(cluster);
    const double beside = std::max(1.0, real(node.nics) / real(node.gpus));
    const double nics =
        std::min(real(node.nics) / real(shape.sharing), per_node * beside) / per_node;
    const double nic = kNicFraction * nics * node.nic_bandwidth.value;
    STEPCAST_CHECK(nic > 0, "a group over several nodes needs NICs");
    double seconds_per_byte = 0;  // of one rank's message
    double inside = per_node;     // ranks in the block that is left
    for (int64_t t = 0; t <= shape.tier; ++t) {
      const double leaving = (n - inside) / n;
      seconds_per_byte =
          std::max(seconds_per_byte, leaving * oversubscription_into(tiers, t) / nic);
      inside = real(std::max<int64_t>(1, shape.block_nodes[static_cast<size_t>(t)])) * per_node;
    }
    a.wire = 1 / seconds_per_byte;
    const Time wire =
        node.nic_latency + cluster.fabric.hop_latency * (2 * std::max<int64_t>(0, shape.tier) + 1);
    const double excess = to_seconds(wire) - latencies.nominal_network;
    a.network = batches(n - per_node) * std::max(0.0, latencies.ring.network[kSimple] + 2 * excess);
  }
  a.own_latency = a.base + a.intra + a.network;
  a.own_bandwidth = shape.nodes > 1 ? std::min(a.bandwidth, a.wire) : a.bandwidth;
  return a;
}

Alternative node_limited_exchange(const Cluster& cluster, const GroupShape& shape,
                                  double network_share) {
  STEPCAST_CHECK(network_share > 0 && network_share <= 1, "a share of the bytes crosses");
  Alternative a = exchange(cluster, shape);
  a.algorithm = Algorithm::two_step;
  if (shape.nodes == 1) return a;
  a.wire /= network_share;
  const Node& node = cluster.node;
  const double p = real(shape.ranks_per_node);
  if (shape.ranks_per_node > 1) {
    // All that is not for the GPU on the sender's place in its node passes NVLink once.
    const double wire = node.intra_bandwidth.value * intra_share(node, shape.ranks_per_node);
    const bool pcie = node.intra == IntraKind::pcie;
    const double fraction = pcie ? kPcieFraction : arch_constants(node.gpu.arch).exchange_fraction;
    a.bandwidth = fraction * wire * p / (p - 1);
  }
  a.own_bandwidth = std::min(a.bandwidth, a.wire);
  return a;
}

}  // namespace stepcast
