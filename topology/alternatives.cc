// SPDX-License-Identifier: Apache-2.0
#include "topology/alternatives.h"

#include <algorithm>
#include <array>
#include <bit>

#include "sim/check.h"
#include "topology/nccl_constants.h"

namespace stepcast {
namespace {

constexpr std::array kAllProtocols{Protocol::ll, Protocol::ll128, Protocol::simple};

double real(int64_t n) {
  return static_cast<double>(n);
}

// The links of a group, as far as its collectives can use them; bytes and seconds.
struct Links {
  const ArchConstants* arch = nullptr;
  double n = 0, nodes = 0, per_node = 0;
  size_t node_class = 0;  // index into ByNodes
  bool pcie = false;
  double wire = 0;   // data-sheet bandwidth of one GPU inside the node
  double intra = 0;  // ring bandwidth inside the node
  double nic = 0;    // nameplate of the NICs that the group has in one node
  double channels = 0;
  double intra_factor = 0;    // latency of the in-node link in units of the nominal one
  double network_excess = 0;  // seconds above the nominal latency of a network link
  std::vector<Tier> tiers;
};

// NICs that the group has on each node: its share if all groups of the axis communicate, and no
// more than lie beside its GPUs (one at least).
double nic_bandwidth(const Node& node, const GroupShape& shape) {
  const double beside = std::max(1.0, real(node.nics) / real(node.gpus));
  const double nics =
      std::min(real(node.nics) / real(shape.sharing), real(shape.ranks_per_node) * beside);
  return nics * node.nic_bandwidth.value;
}

Links links_of(const Cluster& cluster, const GroupShape& shape) {
  const Node& node = cluster.node;
  const NcclLatencies& latencies = nccl_latencies();
  Links l;
  l.arch = &arch_constants(node.gpu.arch);
  l.n = real(shape.ranks);
  l.nodes = real(shape.nodes);
  l.per_node = real(shape.ranks_per_node);
  l.node_class = static_cast<size_t>(std::min<int64_t>(shape.nodes, 3) - 1);
  l.pcie = node.intra == IntraKind::pcie;
  l.wire = node.intra_bandwidth.value * intra_share(node, shape.ranks_per_node);
  const double fraction = l.pcie                                 ? kPcieFraction
                          : node.intra == IntraKind::nvlink_mesh ? l.arch->mesh_fraction
                                                                 : l.arch->ring_fraction;
  l.intra = fraction * l.wire;
  l.intra_factor = to_seconds(node.intra_latency) / latencies.nominal_intra;
  if (shape.nodes == 1) {
    STEPCAST_CHECK(l.intra > 0, "a group inside a node needs a bandwidth there");
    l.channels = std::min(kMaxChannels, std::max(1.0, l.intra / l.arch->channel));
    return l;
  }
  l.nic = nic_bandwidth(node, shape);
  STEPCAST_CHECK(l.nic > 0, "a group over several nodes needs NICs");
  STEPCAST_CHECK(shape.ranks_per_node == 1 || l.intra > 0, "a node needs an inner bandwidth");
  l.channels = std::min(kMaxChannels,
                        std::max({1.0, l.nic / node.nic_bandwidth.value, l.nic / kNicChannel}));
  const Time wire_latency =
      node.nic_latency + cluster.fabric.hop_latency * (2 * std::max<int64_t>(0, shape.tier) + 1);
  l.network_excess = to_seconds(wire_latency) - latencies.nominal_network;
  l.tiers = fabric_tiers(cluster);
  return l;
}

double intra_hop(const Links& l, const HopLatencies& hops, Protocol p) {
  const auto i = static_cast<size_t>(p);
  return (l.pcie ? hops.pcie[i] : hops.nvlink[i]) * l.intra_factor;
}

// Simple crosses the wire twice: the data, and the read that flushes it.
double network_hop(const Links& l, const HopLatencies& hops, Protocol p) {
  return hops.network[static_cast<size_t>(p)] + (p == Protocol::simple ? 2 : 1) * l.network_excess;
}

// Share of its NIC bandwidth that a ring gets through the tiers it crosses.
double ring_share(const Links& l, const GroupShape& shape) {
  double share = 1 / oversubscription_into(l.tiers, 0);
  for (int64_t t = 1; t <= shape.tier; ++t) {
    const int64_t nodes = std::max<int64_t>(1, shape.block_nodes[static_cast<size_t>(t - 1)]);
    share = std::min(share, real(nodes) / oversubscription_into(l.tiers, t));
  }
  return share;
}

// Bytes per second around a ring.  Of the p rings through the p GPUs of a node each GPU passes p-1
// on over NVLink and one to its NIC.
double ring_bandwidth(const Links& l, const GroupShape& shape) {
  if (shape.nodes == 1) return l.intra;
  const double network = kNicFraction * l.nic * ring_share(l, shape);
  if (shape.ranks_per_node == 1) return network;
  return std::min(network, l.intra * l.per_node / (l.per_node - 1));
}

double ring_protocol_bandwidth(const Links& l, double ring, Protocol p) {
  switch (p) {
    case Protocol::ll: return std::min(ring / 2, l.arch->ll_max[l.node_class]);
    case Protocol::ll128: return std::min(0.92 * ring, l.channels * l.arch->ring_ll128_channel);
    case Protocol::simple: return ring;
  }
  return ring;
}

// Steps of a ring and bytes that each rank passes on, in units of the message.
struct RingWork {
  double rounds = 1;  // times that the message goes around
  double load = 1;
};

RingWork ring_work(WorkKind kind, double n) {
  switch (kind) {
    case WorkKind::all_reduce: return {2, 2 * (n - 1) / n};
    case WorkKind::all_gather:
    case WorkKind::reduce_scatter: return {1, (n - 1) / n};
    default: return {1, 1};  // broadcast
  }
}

void add_rings(const Links& l, WorkKind kind, const GroupShape& shape,
               std::vector<Alternative>& out) {
  constexpr std::array names{"ring LL", "ring LL128", "ring Simple"};
  const NcclLatencies& latencies = nccl_latencies();
  const RingWork work = ring_work(kind, l.n);
  const double ring = ring_bandwidth(l, shape);
  for (Protocol p : kAllProtocols) {
    if (p == Protocol::ll128 && l.pcie) continue;  // needs NVLink's ordering
    const double steps = work.rounds * (l.n - 1);
    const double network_steps = shape.nodes == 1 ? 0 : work.rounds * (l.nodes - 1);
    const double post =
        shape.nodes == 1 ? 0 : latencies.network_post * (p == Protocol::simple ? 3 : 1);
    const HopLatencies& network = shape.ranks_per_node == 1 ? latencies.tree : latencies.ring;
    double latency = latencies.ring.base[static_cast<size_t>(p)] +
                     (steps - network_steps) * std::max(intra_hop(l, latencies.ring, p), post);
    if (network_steps > 0) latency += network_steps * network_hop(l, network, p);
    if (kind == WorkKind::all_reduce && p == Protocol::simple && shape.nodes > 1) {
      latency *= l.arch->ring_simple_penalty;
    }
    out.push_back(
        {names[static_cast<size_t>(p)], latency, ring_protocol_bandwidth(l, ring, p) / work.load});
  }
}

// NICs carry the sum of a node's ring once; over two nodes a tree needs half of what a ring does,
// since each node sends its sum only to the other.
double tree_nic_factor(const GroupShape& shape) {
  return shape.nodes == 2 ? 2 : 1;
}

double log2_floor(int64_t n) {
  return static_cast<double>(std::bit_width(static_cast<uint64_t>(n)) - 1);
}

void add_trees(const Links& l, const GroupShape& shape, std::vector<Alternative>& out) {
  constexpr std::array names{"tree LL", "tree LL128", "tree Simple"};
  const NcclLatencies& latencies = nccl_latencies();
  double bus = shape.ranks_per_node == 1 ? l.nic * kNicFraction : l.intra;
  if (shape.nodes > 1) {
    bus = std::min(bus, kNicFraction * l.nic * ring_share(l, shape) * tree_nic_factor(shape));
  }
  bus = std::min(0.92 * bus, l.channels * l.arch->tree_channel[l.node_class]);
  for (Protocol p : kAllProtocols) {
    if (p == Protocol::ll128 && l.pcie) continue;
    double b = bus;
    if (p == Protocol::ll) b = std::min(bus / 3.8, l.arch->ll_max[l.node_class]);
    if (p == Protocol::ll128) b = bus * (shape.nodes == 1 ? 7.0 / 9 : 120.0 / 128);
    double latency = latencies.tree.base[static_cast<size_t>(p)] +
                     2 * (l.per_node - 1) * intra_hop(l, latencies.tree, p);
    if (shape.nodes > 1) {
      latency += 2 * log2_floor(shape.nodes) * network_hop(l, latencies.tree, p);
    }
    out.push_back({names[static_cast<size_t>(p)], latency, b / 2});
  }
}

// All-reduce in the NVSwitches, and a tree over the nodes.
void add_nvls(const Node& node, const Links& l, const GroupShape& shape,
              std::vector<Alternative>& out) {
  const ArchConstants& arch = *l.arch;
  if (!node.sharp || node.intra != IntraKind::nvswitch || arch.nvls_fraction <= 0 ||
      shape.ranks_per_node < arch.nvls_min_ranks) {
    return;
  }
  const NcclLatencies& latencies = nccl_latencies();
  const double load = 2 * (l.n - 1) / l.n;
  double bandwidth = arch.nvls_fraction * l.wire;
  double latency = latencies.nvls * l.intra_factor;
  if (shape.nodes == 1) {
    out.push_back({"NVLS", latency, bandwidth});
    return;
  }
  const double inside = bandwidth * 2 * (l.per_node - 1) / l.per_node;
  const double network = kNicFraction * l.nic * ring_share(l, shape) * tree_nic_factor(shape);
  const double heads = std::min(kMaxChannels, l.per_node);
  bandwidth = std::min({inside, network, heads * arch.nvls_tree_channel[l.node_class]}) / load;
  latency += 2 * log2_floor(shape.nodes) * (latencies.nvls_tree_network + 2 * l.network_excess);
  out.push_back({"NVLS tree", latency, bandwidth});
}

// All-to-all: every rank sends each other rank its part; the fullest kind of link decides.  Eight
// transfers run at a time.
Alternative exchange(const Links& l, const GroupShape& shape) {
  const NcclLatencies& latencies = nccl_latencies();
  const auto batches = [](double peers) { return real(static_cast<int64_t>((peers + 7) / 8)); };
  const double fraction = l.pcie ? kPcieFraction : l.arch->exchange_fraction;
  double seconds_per_byte = 0;  // of one rank's message
  double latency = latencies.ring.base[static_cast<size_t>(Protocol::simple)];
  if (shape.ranks_per_node > 1) {
    seconds_per_byte = (l.per_node - 1) / l.n / (fraction * l.wire);
    latency += batches(l.per_node - 1) * intra_hop(l, latencies.ring, Protocol::simple);
  }
  if (shape.nodes > 1) {
    const double nic = kNicExchangeFraction * l.nic / l.per_node;
    double inside = l.per_node;  // ranks in the block that is left
    for (int64_t t = 0; t <= shape.tier; ++t) {
      const double leaving = (l.n - inside) / l.n;
      seconds_per_byte =
          std::max(seconds_per_byte, leaving * oversubscription_into(l.tiers, t) / nic);
      const auto nodes = real(std::max<int64_t>(1, shape.block_nodes[static_cast<size_t>(t)]));
      inside = nodes * l.per_node;
    }
    latency += batches(l.n - l.per_node) * network_hop(l, latencies.ring, Protocol::simple);
  }
  return {"pairwise", latency, 1 / seconds_per_byte};
}

}  // namespace

std::vector<Alternative> alternatives(const Cluster& cluster, WorkKind kind,
                                      const GroupShape& shape) {
  STEPCAST_CHECK(shape.ranks > 1 && shape.nodes > 0 && shape.ranks_per_node > 0 &&
                     shape.sharing > 0 && shape.tier < kMaxTiers,
                 "the shape of a group");
  const Links l = links_of(cluster, shape);
  std::vector<Alternative> out;
  if (kind == WorkKind::all_to_all) {
    out.push_back(exchange(l, shape));
    return out;
  }
  out.reserve(7);
  add_rings(l, kind, shape, out);
  if (kind == WorkKind::all_reduce) {
    add_trees(l, shape, out);
    add_nvls(cluster.node, l, shape, out);
  }
  return out;
}

}  // namespace stepcast
