// SPDX-License-Identifier: Apache-2.0
// How NCCL decides, by the example of one all-reduce over 2 nodes of 8 A100 (NVSwitch, 300 GB/s a
// GPU and direction; one 200 Gb/s NIC a GPU).
//
// *Channels.*  NCCL first looks for rings and trees that run side by side (channels.h).  Each ring
// passes one NIC of each node, so there are eight; a NIC gives 24 of its 25 GB/s, and a ring moves
// no faster than that: 8 channels of 24 GB/s, 192 GB/s together.
//
// *Candidates.*  Then it draws up a list: every algorithm with every protocol that fits the group,
// each as a straight line of latency + bytes / bandwidth.
//
//   A ring passes each part of the message round twice, once to sum and once to spread: 2 x 15 = 30
//   hops.  Two of these cross the network, 28 stay on NVLink.  By Simple, which waits for fences,
//   a hop on NVLink takes 3.4 us and one over the network 14, so 8.4 + 28 x 3.4 + 2 x 14 = 131.6
//   us, and NCCL counts 1.4 times that over nodes: 184 us.  By LL, which polls a flag in every 8
//   bytes, it is only 6.6 + 28 x 1 + 2 x 2.7 = 40 us, but half of what is sent are flags, and at
//   most 22.5 GB/s were measured.  Each GPU sends 2 x 15/16 of the message: by Simple 192 / 1.875 =
//   102.4 GB/s of message, by LL 22.5 / 1.875 = 12.
//
//   A tree sums up a chain of the node's GPUs and then between the nodes, and comes back down: 2 x
//   7 hops on NVLink and 2 over the network.  By LL that is 6.8 + 14 x 0.6 + 2 x 5 = 25.2 us.  It
//   moves every byte twice (up and down): by Simple 94.4 GB/s of message.
//
// *Choice.*  NCCL takes the lowest line at the size at hand.  At 1 GiB latency hardly counts: a
// ring by Simple takes 0.18 + 10.49 = 10.67 ms, a tree by Simple 11.47.  At 64 KiB it is nearly all
// that counts: a tree by LL takes 35 us, a ring by LL 46.
//
// *Cost.*  What the choice then takes is another question.  NCCL knows neither how long the cables
// are nor that eight groups share a NIC, and it takes link speeds from a list.  So each candidate
// carries a second account, of the links as they are: latency in hops at the cluster's own
// latencies, bandwidth inside nodes and over the network apart (the slower counts).
// collective_time.h turns that into seconds.
//
// Below, one function an algorithm adds its candidates: add_rings, add_trees, add_nvls,
// add_collnet, add_pat; all-to-alls are exchanges.h's.  docs/recipes.md says what another one
// takes.
#include "topology/nccl/algorithms.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "sim/check.h"
#include "sim/diagnostic.h"
#include "topology/nccl/channels.h"
#include "topology/nccl/exchanges.h"

namespace stepcast {

namespace {

constexpr std::array kAllProtocols{Protocol::ll, Protocol::ll128, Protocol::simple};

// What EFA's plugin tells NCCL of its NICs' latency, to keep it from algorithms of many hops
// (aws/aws-ofi-nccl src/platform-aws.c): not what a hop takes.
constexpr double kEfaReported = 75 * kUs;

double log2_floor(int64_t n) {
  return static_cast<double>(std::bit_width(static_cast<uint64_t>(n)) - 1);
}

// What all candidates of a group share; bytes and seconds.
struct Group {
  const Cluster* cluster = nullptr;
  const GpuArchitecture* arch = nullptr;
  const GroupShape* shape = nullptr;
  const NcclSetup* setup = nullptr;
  double n = 0, nodes = 0, per_node = 0;
  size_t node_class = 0;  // index into ByNodes
  bool pcie = false, across = false;
  double intra_factor = 1;      // latency of the in-node link in units of the nominal one
  double network_excess = 0;    // seconds above the nominal latency of a network link
  double reported_latency = 0;  // that the NICs' software tells NCCL beside
  bool flushes = true;          // what a Simple hop has written must be flushed before it is read
  double fabric_share = 1;  // of its NIC bandwidth that a ring gets through the tiers it crosses
};

double ring_share(const std::vector<Tier>& tiers, const GroupShape& shape) {
  double share = 1 / oversubscription_into(tiers, 0);
  for (int64_t t = 1; t <= shape.tier; ++t) {
    const int64_t nodes = std::max<int64_t>(1, shape.block_nodes[static_cast<size_t>(t - 1)]);
    share = std::min(share, real(nodes) / oversubscription_into(tiers, t));
  }
  return share;
}

Group group_of(const Cluster& cluster, const GroupShape& shape, const NcclSetup& setup) {
  const NcclLatencies& latencies = kNcclLatencies;
  Group g;
  g.cluster = &cluster;
  g.arch = &architecture(cluster.node.gpu.arch);
  g.shape = &shape;
  g.setup = &setup;
  g.n = real(shape.ranks);
  g.nodes = real(shape.nodes);
  g.per_node = g.n / g.nodes;
  g.node_class = static_cast<size_t>(std::min<int64_t>(shape.nodes, 3) - 1);
  g.pcie = cluster.node.intra == IntraKind::pcie;
  g.across = shape.nodes > 1;
  g.intra_factor = to_seconds(cluster.node.intra_latency) / latencies.nominal_intra;
  if (!g.across) return g;
  g.network_excess = to_seconds(network_latency(cluster, shape.tier)) - latencies.nominal_network;
  const NicDriver driver = cluster.node.nic_driver;
  if (driver == NicDriver::efa || driver == NicDriver::efa_v1) g.reported_latency = kEfaReported;
  // Where EFA reads host memory, as beside GPUs on PCIe, there is nothing to flush.
  const bool host_memory = g.pcie && driver == NicDriver::efa;
  g.flushes = g.arch->needs_flush && !host_memory;
  g.fabric_share = ring_share(fabric_tiers(cluster), shape);
  return g;
}

Channels channels_of(const Group& g, ChannelPattern pattern) {
  return search_channels(*g.cluster, *g.shape, pattern, *g.setup);
}

// Latencies of one alternative: NCCL's own and, with the links at hand, the cost's.
struct Hops {
  double intra = 0, network = 0;  // how many
  double intra_hop = 0, network_hop = 0;
  int wires = 1;  // times that NCCL counts the wire of a network hop: twice by Simple
};

void set_latency(Candidate& a, const Group& g, double base, const Hops& h, double factor = 1) {
  a.nccl_latency = factor * (base + h.intra * h.intra_hop +
                             h.network * (h.network_hop + h.wires * g.reported_latency));
  a.base = factor * base;
  a.intra = factor * h.intra * h.intra_hop * g.intra_factor;
  const int wires = g.flushes ? h.wires : 1;
  a.network = factor * h.network * std::max(0.0, h.network_hop + wires * g.network_excess);
}

double intra_hop(const Group& g, const HopLatencies& hops, Protocol p) {
  const auto i = static_cast<size_t>(p);
  return g.pcie ? hops.pcie[i] : hops.nvlink[i];
}

int wires_of(Protocol p) {
  return p == Protocol::simple ? 2 : 1;
}

// Times a message goes around, and bytes that each rank passes on, in units of the message.
struct RingWork {
  double rounds = 1;
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

double ring_protocol(const Group& g, const Channels& c, double bus, Protocol p) {
  switch (p) {
    case Protocol::ll: return std::min(bus / 2, g.arch->ll_max_gbs[g.node_class] * kGB);
    case Protocol::ll128:
      return std::min(0.92 * bus, real(c.count) * (g.arch->ring_ll128_channel_gbs * kGB));
    case Protocol::simple: return bus;
  }
  return bus;
}

// What rings get from the links inside nodes: of p rings through a node each GPU forwards p - 1.
double ring_inside(const Group& g, const Channels& c) {
  const double all = real(c.count) * c.smooth.intra;
  const double p = real(g.shape->ranks_per_node);
  return g.across ? all * p / (p - 1) : all;
}

double ring_wire(const Group& g, const Channels& c) {
  return real(c.count) * c.smooth.inter * g.fabric_share;
}

void add_rings(const Group& g, WorkKind kind, std::vector<Candidate>& out) {
  const NcclLatencies& latencies = kNcclLatencies;
  const Channels c = channels_of(g, ChannelPattern::ring);
  const RingWork work = ring_work(kind, g.n);
  const double own_bus = real(c.count) * (g.nodes <= 2 ? c.found.intra : c.found.inter);
  for (Protocol p : kAllProtocols) {
    if (p == Protocol::ll128 && g.pcie) continue;  // needs NVLink's ordering
    Candidate a{.algorithm = Algorithm::ring, .protocol = p, .blocks = c.blocks};
    const double steps = work.rounds * (g.n - 1);
    const double post = g.across ? latencies.network_post * (p == Protocol::simple ? 3 : 1) : 0;
    const HopLatencies& network = g.shape->ranks_per_node == 1 ? latencies.tree : latencies.ring;
    Hops h;
    h.network = g.across ? work.rounds * (g.nodes - 1) : 0;
    h.intra = steps - h.network;
    h.intra_hop = std::max(intra_hop(g, latencies.ring, p), post);
    h.network_hop = network.network[static_cast<size_t>(p)];
    h.wires = wires_of(p);
    const bool penalty = kind == WorkKind::all_reduce && p == Protocol::simple && g.across;
    set_latency(a, g, latencies.ring.base[static_cast<size_t>(p)], h,
                penalty ? g.arch->ring_simple_penalty : 1);
    a.nccl_bandwidth = ring_protocol(g, c, own_bus, p) / work.load;
    const bool alone = g.shape->ranks_per_node == 1;
    a.bandwidth = ring_protocol(g, c, alone ? kUnlimited : ring_inside(g, c), p) / work.load;
    if (g.across) a.wire = ring_protocol(g, c, ring_wire(g, c), p) / work.load;
    // Gathering out of place, each rank also copies its own part; NICs and PCIe hide that.
    const bool gathers = kind == WorkKind::all_gather || kind == WorkKind::reduce_scatter;
    if (gathers && !g.across && !g.pcie) a.copied = 1 / (g.n - 1);
    out.push_back(a);
  }
}

double tree_protocol(const Group& g, const Channels& c, double bus, Protocol p) {
  const double b =
      std::min(0.92 * bus, real(c.count) * (g.arch->tree_channel_gbs[g.node_class] * kGB));
  switch (p) {
    case Protocol::ll: return std::min(b / 3.8, g.arch->ll_max_gbs[g.node_class] * kGB);
    case Protocol::ll128:
      return std::min(g.across ? b * 120 / 128 : b * 7 / 9,
                      real(c.count) * (g.arch->tree_ll128_channel_gbs[g.node_class] * kGB));
    case Protocol::simple: return b;
  }
  return b;
}

// Over two nodes a tree needs half of the NIC bandwidth that a ring does: each node sends its sum
// only to the other.
double tree_wire(const Group& g, const Channels& c) {
  return real(c.count) * c.smooth.inter * g.fabric_share * (g.nodes == 2 ? 2 : 1);
}

void add_trees(const Group& g, std::vector<Candidate>& out) {
  const NcclLatencies& latencies = kNcclLatencies;
  const Channels c = channels_of(g, ChannelPattern::tree);
  const double own_bus = real(c.count) * (g.nodes <= 2 ? c.found.intra : c.found.inter);
  const bool alone = g.shape->ranks_per_node == 1;
  const double inside = alone ? kUnlimited : real(c.count) * c.smooth.intra;
  for (Protocol p : kAllProtocols) {
    if (p == Protocol::ll128 && g.pcie) continue;
    Candidate a{.algorithm = Algorithm::tree, .protocol = p, .blocks = c.blocks};
    Hops h;
    h.intra = 2 * (g.per_node - 1);
    h.network = g.across ? 2 * log2_floor(g.shape->nodes) : 0;
    h.intra_hop = intra_hop(g, latencies.tree, p);
    h.network_hop = latencies.tree.network[static_cast<size_t>(p)];
    h.wires = wires_of(p);
    set_latency(a, g, latencies.tree.base[static_cast<size_t>(p)], h);
    a.nccl_bandwidth = tree_protocol(g, c, own_bus, p) / 2;
    a.bandwidth = tree_protocol(g, c, inside, p) / 2;
    // NCCL's shares of a tree are of what its thread blocks reach, not of the wire.
    const double wire = g.across ? tree_wire(g, c) : 0;
    if (g.across) a.wire = (p == Protocol::simple ? wire : tree_protocol(g, c, wire, p)) / 2;
    out.push_back(a);
  }
}

// All-reduce in the NVSwitches, with a tree over the nodes or with network switches that reduce.
void add_nvls(const Group& g, std::vector<Candidate>& out) {
  const Node& node = g.cluster->node;
  const GpuArchitecture& arch = *g.arch;
  const NcclLatencies& latencies = kNcclLatencies;
  if (!node.sharp || node.intra != IntraKind::nvswitch || arch.nvls_efficiency <= 0) return;
  const Channels c = channels_of(g, ChannelPattern::nvls);
  if (c.count < 2) return;
  const double count = real(c.count);
  const double part = arch.nvls_efficiency * 2 * (count - 1) / count;
  const double load = 2 * (g.n - 1) / g.n;
  Candidate a{.algorithm = Algorithm::nvls, .protocol = Protocol::simple, .blocks = c.blocks};
  Hops h;
  h.intra = 1;
  h.intra_hop = latencies.nvls;
  h.wires = 2;
  if (!g.across) {
    set_latency(a, g, 0, h);
    a.nccl_bandwidth = count * part * c.found.intra / load;
    a.bandwidth = count * part * c.smooth.intra / load;
    out.push_back(a);
    return;
  }
  const auto bus = [&](double channel) { return channel * count / load; };
  a.bandwidth = bus(part * c.smooth.intra);
  if (g.cluster->fabric.sharp) {
    h.network = 1;
    h.network_hop = latencies.nvls_network;
    set_latency(a, g, 0, h);
    a.nccl_bandwidth = bus(std::min(part * c.found.intra, c.found.inter));
    a.wire = bus(c.smooth.inter * g.fabric_share);
    out.push_back(a);
  }
  a.algorithm = Algorithm::nvls_tree;
  h.network = 2 * log2_floor(g.shape->nodes);
  h.network_hop = latencies.nvls_tree_network;
  set_latency(a, g, 0, h);
  const double twice = g.nodes == 2 ? 2 : 1;
  const double cap = arch.nvls_tree_channel_gbs[g.node_class] * kGB;
  a.nccl_bandwidth = bus(std::min({part * c.found.intra, c.found.inter * twice, cap}));
  a.bandwidth = bus(std::min(part * c.smooth.intra, cap));
  a.wire = bus(c.smooth.inter * g.fabric_share * twice);
  out.push_back(a);
}

// All-reduce in the network's switches.
void add_collnet(const Group& g, std::vector<Candidate>& out) {
  if (!g.cluster->fabric.sharp || !g.across) return;
  const NcclLatencies& latencies = kNcclLatencies;
  const Channels c = channels_of(g, ChannelPattern::collnet);
  const double count = real(c.count);
  const double others = std::min(1.0, g.per_node - 1);
  double f = g.per_node / count;
  f -= (f - 1) / 2;
  Candidate direct{.algorithm = Algorithm::collnet_direct, .blocks = c.blocks};
  Hops h{.intra = 2 * others,
         .network = 1,
         .intra_hop = latencies.collnet_intra,
         .network_hop = latencies.collnet_network,
         .wires = 2};
  set_latency(direct, g, 2 * 0.4e-6 * (g.per_node - 1), h);
  const double scale = g.arch->collnet_direct_share / f / 2;
  direct.nccl_bandwidth = count * c.found.intra * scale;
  direct.bandwidth = count * c.smooth.intra * scale;
  // The switches sum: each node's message crosses its NICs once.
  direct.wire = ring_wire(g, c);
  out.push_back(direct);
  Candidate chain{.algorithm = Algorithm::collnet_chain, .blocks = c.blocks};
  h = {.intra = 2 * (g.per_node - 1),
       .network = 1,
       .intra_hop = latencies.collnet_chain_intra,
       .network_hop = latencies.collnet_chain_network,
       .wires = 2};
  set_latency(chain, g, 0, h);
  chain.nccl_bandwidth = count * c.found.intra / 2;
  chain.bandwidth = count * c.smooth.intra / 2;
  chain.wire = ring_wire(g, c);
  out.push_back(chain);
}

// Gather and scatter along binary trees (2.23), for one GPU a node.
void add_pat(const Group& g, std::vector<Candidate>& out) {
  if (!g.across || g.shape->ranks_per_node != 1) return;
  const NcclLatencies& latencies = kNcclLatencies;
  const Channels c = channels_of(g, ChannelPattern::ring);
  Candidate a{.algorithm = Algorithm::pat, .blocks = c.blocks};
  Hops h{.network = log2_floor(g.shape->nodes) / 3.5,
         .network_hop = latencies.tree.network[static_cast<size_t>(Protocol::simple)],
         .wires = 2};
  set_latency(a, g, latencies.pat_base + 2.8e-6 * g.n, h);
  a.nccl_bandwidth = 0.75 * real(c.count) * (g.nodes <= 2 ? c.found.intra : c.found.inter);
  a.bandwidth = kUnlimited;
  a.wire = 0.75 * ring_wire(g, c);
  out.push_back(a);
}

constexpr uint32_t bit(Algorithm a) {
  return 1U << static_cast<uint32_t>(a);
}
constexpr uint32_t bit(Protocol p) {
  return 1U << static_cast<uint32_t>(p);
}

// LL and LL128 poll flags beside the data, so they need NICs that store a line in order.  Where
// that is not given, the NICs' software switches them off: EFA of the first kind (aws/aws-ofi-nccl
// src/platform-aws.c, from 1.6.0 on), TCPXO leaves LL128, TCPX neither, and rings alone
// (GoogleCloudPlatform/cluster-toolkit examples/gke-a3-highgpu/nccl-config.yaml,
// examples/machine-learning/a3-megagpu-8g/nemo-framework/Dockerfile).
NcclSetup left_by(NicDriver driver) {
  constexpr uint32_t kSimple = bit(Protocol::simple);
  switch (driver) {
    case NicDriver::verbs:
    case NicDriver::roce:
    case NicDriver::gib:
    case NicDriver::efa: return {};
    case NicDriver::tcpxo: return {.protocols = bit(Protocol::ll128) | kSimple};
    case NicDriver::efa_v1: return {.protocols = kSimple};
    case NicDriver::tcpx: return {.algorithms = bit(Algorithm::ring), .protocols = kSimple};
  }
  return {};
}

// NCCL_ALGO holds for all-reduces: other collectives keep their rings whatever it says
// (src/graph/tuning.cc).  What is stated replaces what the NICs' software would set.
void keep_allowed(const Cluster& cluster, WorkKind kind, const GroupShape& shape,
                  const NcclSetup& setup, std::vector<Candidate>& all) {
  NcclSetup left = setup;
  if (shape.nodes > 1) {
    const NcclSetup driver = left_by(cluster.node.nic_driver);
    if (left.algorithms == 0) left.algorithms = driver.algorithms;
    if (left.protocols == 0) left.protocols = driver.protocols;
  }
  if (left.algorithms == 0) left.algorithms = ~0U;
  if (left.protocols == 0) left.protocols = ~0U;
  std::erase_if(all, [&](const Candidate& a) {
    return (left.protocols & bit(a.protocol)) == 0 ||
           (kind == WorkKind::all_reduce && (left.algorithms & bit(a.algorithm)) == 0);
  });
  if (all.empty())
    refuse(
        fmt::format("NCCL_ALGO and NCCL_PROTO leave no way to run {} on {} ranks of {} {}",
                    name_of(kind), shape.ranks, shape.nodes, shape.nodes == 1 ? "node" : "nodes"),
        "a ring by Simple runs everywhere");
}

// NCCL's factors on the bandwidth of trees, from 64 B on by powers of two.
constexpr size_t kTreeSizes = 24;
constexpr std::array<std::array<double, kTreeSizes>, kProtocols> kTreeFactors{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

}  // namespace

std::vector<Candidate> candidates(const Cluster& cluster, WorkKind kind, const GroupShape& shape,
                                  const NcclSetup& setup) {
  STEPCAST_CHECK(shape.ranks > 1 && shape.nodes > 0 && shape.ranks_per_node > 0 &&
                     shape.sharing > 0 && shape.tier < kMaxTiers,
                 "the shape of a group");
  if (kind == WorkKind::all_to_all) return exchange_candidates(cluster, shape);
  std::vector<Candidate> out;
  const Group g = group_of(cluster, shape, setup);
  add_rings(g, kind, out);
  if (kind == WorkKind::all_reduce) {
    add_trees(g, out);
    add_collnet(g, out);
    add_nvls(g, out);
  } else if (kind != WorkKind::broadcast) {
    add_pat(g, out);
  }
  keep_allowed(cluster, kind, shape, setup, out);
  return out;
}

double nccl_seconds(const Candidate& a, WorkKind kind, double bytes) {
  double bandwidth = a.nccl_bandwidth;
  if (a.algorithm == Algorithm::tree && kind == WorkKind::all_reduce && bytes >= 64) {
    const auto size = static_cast<uint64_t>(bytes / 64);
    const auto i = static_cast<size_t>(std::bit_width(size) - 1);
    if (i < kTreeSizes - 1) bandwidth *= kTreeFactors[static_cast<size_t>(a.protocol)][i];
  }
  return a.nccl_latency + bytes / bandwidth;
}

const char* correction_class(Algorithm a) {
  switch (a) {
    case Algorithm::none: return "";
    case Algorithm::ring: return "ring";
    case Algorithm::tree: return "tree";
    case Algorithm::collnet_direct: return "CollNet direct";
    case Algorithm::collnet_chain: return "CollNet chain";
    case Algorithm::nvls: return "NVLS";
    case Algorithm::nvls_tree: return "NVLS tree";
    case Algorithm::pat: return "PAT";
    case Algorithm::pairwise: return "pairwise";
    case Algorithm::two_step: return "two-step";
  }
  return "";
}

const Candidate& nccl_choice(const std::vector<Candidate>& all, WorkKind kind, double bytes) {
  const Candidate* best = nullptr;
  double lowest = 0;
  for (const Candidate& a : all) {
    if (bytes <= a.above || bytes > a.up_to) continue;
    const double t = nccl_seconds(a, kind, bytes);
    if (best == nullptr || t < lowest) {
      lowest = t;
      best = &a;
    }
  }
  STEPCAST_CHECK(best != nullptr, "a collective has a way to run");
  return *best;
}

int64_t blocks_in_use(const Candidate& a, const GroupShape& shape, double bytes) {
  if (is_exchange(a.algorithm)) return a.blocks;
  const bool tree = a.algorithm == Algorithm::tree || a.algorithm == Algorithm::pat;
  const double threads = a.protocol == Protocol::ll128 || tree ? 640 : 512;
  double each = a.protocol == Protocol::simple ? 64 : 8;  // bytes for a thread to be worth it
  if (a.protocol == Protocol::ll && a.algorithm == Algorithm::ring) each *= real(shape.ranks);
  const double wanted = bytes / (threads * each);
  if (wanted >= real(a.blocks)) return a.blocks;
  return std::max<int64_t>(1, static_cast<int64_t>(wanted));
}

}  // namespace stepcast
