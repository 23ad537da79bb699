// SPDX-License-Identifier: Apache-2.0
// From a group or a pair of GPUs to the time of their communication.
//
// A collective takes four steps.  Say that eight A100 of a node all-reduce 64 MiB:
//
//     candidates    rings and trees by LL, LL128 and Simple, each with the parts of its time
//                   (algorithms.h)
//     factors_of    the corrections of those parts (collective_time.h)
//     cheapest      the candidate of the lowest corrected time is the one that is costed
//     describe      "ring LL128, 24 channels, 8 ranks on 1 node".  Where NCCL's own reckoning picks
//                   another one, its name stands beside it: " (NCCL: ...)"
//
// A transfer has no alternatives.  A message between two nodes takes 8.4 us to start and 14 us over
// the network, plus what the route's latency is beyond the 2 us for which those were measured,
// twice; then its bytes move at 0.9 of the GPU's share of the NICs (A100), 22.5 of 25 GB/s.

#include "topology/nccl/collectives.h"

#include <fmt/format.h>

#include <vector>

#include "sim/check.h"
#include "topology/nccl/algorithms.h"
#include "topology/nccl/collective_time.h"
#include "topology/nccl/constants.h"
#include "topology/nccl/exchanges.h"

namespace stepcast {
namespace {

// "ring LL128", "NVLS tree".
std::string label_of(const Candidate& a) {
  std::string text(name_of(a.algorithm));
  if (has_protocols(a.algorithm)) text.append(" ").append(name_of(a.protocol));
  return text;
}

// `picked`: what NCCL would run, told where another algorithm or protocol costs less.
std::string describe(const CommunicationCost& cost, const Candidate& a, const Candidate& picked,
                     const GroupShape& shape) {
  std::string text = label_of(a);
  if (const std::string label = label_of(picked); label != text) {
    text += fmt::format(" (NCCL: {})", label);
  }
  text += fmt::format(", {} {}, {} ranks on {} {}", cost.blocks,
                      cost.blocks == 1 ? "channel" : "channels", shape.ranks, shape.nodes,
                      shape.nodes == 1 ? "node" : "nodes");
  if (shape.sharing > 1) text += fmt::format(", NICs shared by {} groups", shape.sharing);
  return text;
}

CommunicationCost cost_of(const std::vector<Candidate>& candidates, const Cluster& cluster,
                          WorkKind kind, Bytes bytes, const GroupShape& shape) {
  const auto size = static_cast<double>(bytes.value);
  const std::vector<Factors> factors =
      factors_of(candidates, cluster, kind, shape, shipped_corrections());
  const size_t best = cheapest(candidates, factors, size);
  const Candidate& a = candidates[best];
  CommunicationCost cost;
  cost.time = time_from_seconds(corrected_seconds(a, factors[best], size));
  cost.latency = time_from_seconds(cheapest_seconds(candidates, factors, 0));
  cost.algorithm = a.algorithm;
  cost.protocol = a.protocol;
  cost.blocks = blocks_in_use(a, shape, size);
  cost.basis = describe(cost, a, nccl_choice(candidates, kind, size), shape);
  return cost;
}

}  // namespace

GroupShape worst_shape(const Cluster& cluster, const RankGrid& grid, Axis axis,
                       const Placement& placement) {
  // Large enough that bandwidth counts, small enough that latency does.
  constexpr Bytes kTypical{int64_t{64} << 20};
  GroupShape worst;
  Time longest{-1};
  for (const GroupShape& shape : axis_shapes(cluster, grid, axis, placement)) {
    const Time t = collective_cost(cluster, WorkKind::all_reduce, kTypical, shape).time;
    if (t >= longest) {
      longest = t;
      worst = shape;
    }
  }
  return worst;
}

CommunicationCost collective_cost(const Cluster& cluster, WorkKind kind, Bytes bytes,
                                  const GroupShape& shape) {
  STEPCAST_CHECK(is_communication(kind) && kind < WorkKind::send_recv, "a collective");
  STEPCAST_CHECK(bytes.value >= 0, "a message has a size");
  if (shape.ranks <= 1) return {Time{}, "group of one"};
  return cost_of(candidates(cluster, kind, shape), cluster, kind, bytes, shape);
}

CommunicationCost expert_exchange_cost(const Cluster& cluster, Bytes bytes, const GroupShape& shape,
                                       double network_share) {
  STEPCAST_CHECK(bytes.value >= 0, "a message has a size");
  if (shape.ranks <= 1) return {Time{}, "group of one"};
  return cost_of({node_limited_exchange(cluster, shape, network_share)}, cluster,
                 WorkKind::all_to_all, bytes, shape);
}

CommunicationCost transfer_cost(const Cluster& cluster, int64_t from, int64_t to, Bytes bytes) {
  STEPCAST_CHECK(bytes.value >= 0, "a message has a size");
  if (from == to) return {Time{}, "same GPU"};
  const Route route = route_of(cluster, from, to);
  const Node& node = cluster.node;
  const GpuArchitecture& arch = architecture(node.gpu.arch);
  const NcclLatencies& latencies = kNcclLatencies;
  constexpr auto kSimple = static_cast<size_t>(Protocol::simple);
  STEPCAST_CHECK(route.bandwidth.value > 0, "a transfer needs a bandwidth");
  double latency = latencies.ring.base[kSimple];
  double bandwidth = route.bandwidth.value / route.oversubscription;
  std::string basis;
  if (route.tier < 0) {
    const bool pcie = node.intra == IntraKind::pcie;
    const double hop = pcie ? latencies.ring.pcie[kSimple] : latencies.ring.nvlink[kSimple];
    latency += hop * to_seconds(route.latency) / latencies.nominal_intra;
    bandwidth *= pcie ? kPcieFraction : arch.p2p_fraction;
    basis = "send/recv inside a node";
  } else {
    latency += latencies.ring.network[kSimple] +
               2 * (to_seconds(route.latency) - latencies.nominal_network);
    bandwidth *= arch.p2p_nic_fraction;
    basis = fmt::format("send/recv between nodes, {} {}", route.switches,
                        route.switches == 1 ? "switch" : "switches");
  }
  return {time_from_seconds(latency + static_cast<double>(bytes.value) / bandwidth),
          std::move(basis), time_from_seconds(latency)};
}

}  // namespace stepcast
