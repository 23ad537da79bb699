// SPDX-License-Identifier: Apache-2.0
#include "topology/nccl/exchanges.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "sim/check.h"
#include "sim/units.h"
#include "topology/cluster/fabric.h"
#include "topology/cluster/gpu_architecture.h"
#include "topology/nccl/constants.h"

namespace stepcast {
namespace {

// NCCL sends by LL up to this much on each channel towards a peer (NCCL_P2P_LL_THRESHOLD).
constexpr double kLlBytes = 16 << 10;

// Eight transfers run at a time.
double batches(double peers) {
  return real(static_cast<int64_t>((peers + 7) / 8));
}

double nics_of_rank(const Cluster& cluster, const GroupShape& shape) {
  const Node& node = cluster.node;
  const double per_node = real(shape.ranks_per_node);
  const double beside = std::max(1.0, real(node.nics) / real(node.gpus));
  return std::min(real(node.nics) / real(shape.sharing), per_node * beside) / per_node;
}

// Bytes that NCCL sends to one peer of a node by LL: the channels of a pair are two for each NVLink
// between the two, rounded up to a power of two, 32 at most (so 32 through NVSwitches), two over
// PCIe. NVIDIA/nccl src/graph/paths.cc and src/enqueue.cc; logs of GB300 are faster at 1 MiB a peer
// than at 512 KiB, which are 32 channels.
double ll_bytes(const Node& node) {
  switch (node.intra) {
    case IntraKind::nvswitch: return 32 * kLlBytes;
    case IntraKind::nvlink_mesh: return 8 * kLlBytes;
    case IntraKind::pcie: return 2 * kLlBytes;
  }
  return 2 * kLlBytes;
}

void set_inside(Candidate& a, const Cluster& cluster, const GroupShape& shape) {
  const Node& node = cluster.node;
  const NcclLatencies& latencies = kNcclLatencies;
  const GpuArchitecture& arch = architecture(node.gpu.arch);
  const double n = real(shape.ranks), per_node = real(shape.ranks_per_node);
  const bool pcie = node.intra == IntraKind::pcie;
  const double wire = node.intra_bandwidth.value * intra_share(node, shape.ranks_per_node);
  STEPCAST_CHECK(wire > 0, "a node needs an inner bandwidth");
  double bandwidth = (pcie ? kPcieFraction : arch.exchange_fraction) * wire;
  if (a.protocol == Protocol::ll) bandwidth = std::min(bandwidth / 2, arch.ll_max_gbs[0] * kGB);
  // With PXN what goes to another rail passes NVLink first.
  const bool pxn = shape.nodes > 1 && cluster.fabric.kind == FabricKind::rail_fat_tree && !pcie;
  const double relayed = pxn ? (n - per_node) / n * (per_node - 1) / per_node : 0;
  a.bandwidth = bandwidth / ((per_node - 1) / n + relayed);
  if (shape.crossing > 0 && node.cpu_bandwidth.value > 0) {
    // Half of the ranks send half of their messages to the other socket.
    const double over = per_node / 4 * real(shape.crossing);
    a.bandwidth = std::min(a.bandwidth, node.cpu_bandwidth.value / over);
  }
  const auto p = static_cast<size_t>(a.protocol);
  const double hop = pcie ? latencies.ring.pcie[p] : latencies.ring.nvlink[p];
  a.intra = batches(per_node - 1) * hop * to_seconds(node.intra_latency) / latencies.nominal_intra;
}

void set_across(Candidate& a, const Cluster& cluster, const GroupShape& shape) {
  const Node& node = cluster.node;
  const NcclLatencies& latencies = kNcclLatencies;
  const double n = real(shape.ranks), per_node = real(shape.ranks_per_node);
  const std::vector<Tier> tiers = fabric_tiers(cluster);
  const double nic = kNicFraction * nics_of_rank(cluster, shape) * node.nic_bandwidth.value;
  STEPCAST_CHECK(nic > 0, "a group over several nodes needs NICs");
  double seconds_per_byte = 0;  // of one rank's message
  double inside = per_node;     // ranks in the block that is left
  for (int64_t t = 0; t <= shape.tier; ++t) {
    const double leaving = (n - inside) / n;
    seconds_per_byte = std::max(seconds_per_byte, leaving * oversubscription_into(tiers, t) / nic);
    inside = real(std::max<int64_t>(1, shape.block_nodes[static_cast<size_t>(t)])) * per_node;
  }
  const bool ll = a.protocol == Protocol::ll;  // half of it are flags, and nothing is flushed
  a.wire = (ll ? 0.5 : 1) / seconds_per_byte;
  const double excess =
      to_seconds(network_latency(cluster, shape.tier)) - latencies.nominal_network;
  const double hop = latencies.ring.network[static_cast<size_t>(a.protocol)];
  a.network = batches(n - per_node) * std::max(0.0, hop + (ll ? 1 : 2) * excess);
}

Candidate exchange(const Cluster& cluster, const GroupShape& shape, Protocol protocol) {
  Candidate a{.algorithm = Algorithm::pairwise, .protocol = protocol, .blocks = 32};
  a.base = kNcclLatencies.ring.base[static_cast<size_t>(protocol)];
  a.bandwidth = kUnlimited;
  if (shape.ranks_per_node > 1) set_inside(a, cluster, shape);
  if (shape.nodes > 1) set_across(a, cluster, shape);
  a.nccl_latency = a.base + a.intra + a.network;
  a.nccl_bandwidth = shape.nodes > 1 ? std::min(a.bandwidth, a.wire) : a.bandwidth;
  return a;
}

}  // namespace

std::vector<Candidate> exchange_candidates(const Cluster& cluster, const GroupShape& shape) {
  Candidate ll = exchange(cluster, shape, Protocol::ll);
  Candidate simple = exchange(cluster, shape, Protocol::simple);
  if (shape.nodes == 1) ll.up_to = simple.above = real(shape.ranks) * ll_bytes(cluster.node);
  return {ll, simple};
}

Candidate node_limited_exchange(const Cluster& cluster, const GroupShape& shape,
                                double network_share) {
  STEPCAST_CHECK(network_share > 0 && network_share <= 1, "a share of the bytes crosses");
  Candidate a = exchange(cluster, shape, Protocol::simple);
  a.algorithm = Algorithm::two_step;
  if (shape.nodes == 1) return a;
  a.wire /= network_share;
  const Node& node = cluster.node;
  const double p = real(shape.ranks_per_node);
  if (shape.ranks_per_node > 1) {
    // All that is not for the GPU on the sender's place in its node passes NVLink once.
    const double wire = node.intra_bandwidth.value * intra_share(node, shape.ranks_per_node);
    const bool pcie = node.intra == IntraKind::pcie;
    const double fraction = pcie ? kPcieFraction : architecture(node.gpu.arch).exchange_fraction;
    a.bandwidth = fraction * wire * p / (p - 1);
  }
  a.nccl_bandwidth = std::min(a.bandwidth, a.wire);
  return a;
}

}  // namespace stepcast
