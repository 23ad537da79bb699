// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/explicit_fabric.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/check.h"
#include "topology/cluster/components_internal.h"
#include "topology/cluster/graph_builder_internal.h"
#include "topology/cluster/routes.h"

namespace stepcast {
namespace {

// Tier of each switch: links away from the nearest node, less one; 0 where none is in reach.
std::vector<int32_t> tiers_of(const ExplicitFabric& fabric) {
  const size_t nodes = fabric.nodes.size();
  GraphEdges edges;
  for (const ExplicitFabric::Link& link : fabric.links)
    edges.emplace_back(static_cast<uint32_t>(link.a), static_cast<uint32_t>(link.b));
  std::vector<uint32_t> sources(nodes);
  std::iota(sources.begin(), sources.end(), 0U);
  const std::vector<int32_t> distance =
      distances_from(sources, nodes + fabric.switches.size(), edges);
  std::vector<int32_t> tiers;
  for (size_t s = 0; s < fabric.switches.size(); ++s)
    tiers.push_back(std::max(0, distance[nodes + s] - 1));
  return tiers;
}

// "n3/gpu1" -> "alpha/gpu1"
void rename_devices(ClusterGraphBuilder& builder, size_t first, const std::string& node) {
  for (size_t d = first; d < builder.devices.size(); ++d) {
    std::string& name = builder.devices[d].name;
    name = node + name.substr(name.find('/'));
  }
}

// The routes of rings between neighbours, and what they put on links.
class RingTraffic {
 public:
  explicit RingTraffic(const Cluster& cluster)
      : graph_(*cluster.graph),
        router_(graph_, route_options(cluster.fabric, 0)),
        load_(2 * graph_.links().size()) {}

  // What `weight` of a message from one GPU to another puts on the links.
  void send(int64_t from, int64_t to, double weight) {
    const int64_t channels = router_.channels(from, to);
    for (int64_t c = 0; c < channels; ++c) {
      const auto route = router_.route(from, to, c);
      STEPCAST_CHECK(route, "a checked fabric is connected");
      for (const LinkShare& s : router_.spread(from, to, c)) {
        const double part = static_cast<double>(s.share) / static_cast<double>(kWholeMessage);
        load_[s.link] += part * weight / static_cast<double>(channels);
      }
      latency_ = std::max(latency_, route->latency);
      switches_ = std::max<int64_t>(switches_, route->switches);
    }
  }
  // Bytes per second of a message that one `send` of weight 1 gets on its narrowest link of the
  // network.
  double narrowest(double network_scale) const {
    double least = 0;
    for (uint32_t l = 0; l < load_.size(); ++l) {
      if (load_[l] == 0 || graph_.links()[l / 2].kind != LinkKind::network) continue;
      const double bandwidth = graph_.bandwidth(l).value * network_scale / load_[l];
      if (least == 0 || bandwidth < least) least = bandwidth;
    }
    return least;
  }
  Time latency() const { return latency_; }
  int64_t switches() const { return switches_; }

 private:
  const ClusterGraph& graph_;
  Router router_;
  std::vector<double> load_;  // by directed link
  Time latency_{};
  int64_t switches_ = 0;
};

// The first NIC of the graph: what node.nic_bandwidth was taken from.
struct FirstNic {
  Bandwidth bandwidth{};
  Time latency{};
};

FirstNic first_nic(const ClusterGraph& graph) {
  for (uint32_t d = 0; d < graph.devices().size(); ++d) {
    if (graph.devices()[d].kind != DeviceKind::nic) continue;
    for (uint32_t l : graph.leaving(d)) {
      if (graph.links()[l / 2].kind == LinkKind::network)
        return {graph.bandwidth(l), graph.devices()[d].latency};
    }
  }
  return {};
}

double network_scale(const Cluster& cluster, const FirstNic& nic) {
  return nic.bandwidth.value > 0 ? cluster.node.nic_bandwidth / nic.bandwidth : 1;
}

using NodeGpus = std::vector<std::vector<int64_t>>;

// GPUs of a group on each node it is on, in its order.
NodeGpus by_node(const Cluster& cluster, std::span<const int64_t> group) {
  NodeGpus on;
  std::map<int64_t, size_t> place;
  for (int64_t gpu : group) {
    const auto [at, fresh] = place.emplace(cluster.node_of(gpu), on.size());
    if (fresh) on.emplace_back();
    on[at->second].push_back(gpu);
  }
  return on;
}

void send_ring(RingTraffic& rings, const NodeGpus& on) {
  for (size_t n = 0; n < on.size(); ++n) {
    const std::vector<int64_t>&from = on[n], &to = on[(n + 1) % on.size()];
    const size_t count = std::max(from.size(), to.size());
    for (size_t k = 0; k < count; ++k) {
      rings.send(from[k % from.size()], to[k % to.size()], 1 / static_cast<double>(count));
    }
  }
}

}  // namespace

int64_t ExplicitFabric::cables_at(size_t node) const {
  int64_t cables = 0;
  for (const Link& link : links) {
    if (link.a == node || link.b == node) cables += link.cables;
  }
  return cables;
}

ClusterGraph explicit_graph(const ExplicitFabric& fabric, const Node& node) {
  ClusterGraphBuilder builder;
  const size_t nodes = fabric.nodes.size();
  add_gpus(builder, node, static_cast<int64_t>(nodes));
  for (size_t g = 0; g < builder.devices.size(); ++g) {
    std::string& name = builder.devices[g].name;
    name = fabric.nodes[g / static_cast<size_t>(node.gpus)] + name.substr(name.find('/'));
  }
  std::vector<int64_t> cables(nodes);
  for (const ExplicitFabric::Link& link : fabric.links) {
    for (const size_t end : {link.a, link.b}) {
      if (end < nodes) cables[end] += link.cables;
    }
  }
  std::vector<std::vector<uint32_t>> on(nodes);  // what the next NICs of each node hang on
  std::vector<Node> alike(nodes, node);
  for (size_t n = 0; n < nodes; ++n) {
    const size_t first = builder.devices.size();
    alike[n].nics = cables[n];
    on[n] = add_node(builder, alike[n], static_cast<int64_t>(n));
    rename_devices(builder, first, fabric.nodes[n]);
  }
  const std::vector<int32_t> tiers = tiers_of(fabric);
  std::vector<uint32_t> switches;
  for (size_t s = 0; s < fabric.switches.size(); ++s) {
    switches.push_back(builder.add({.kind = DeviceKind::network_switch,
                                    .name = fabric.switches[s].name,
                                    .tier = tiers[s],
                                    .latency = fabric.switches[s].latency}));
  }
  std::vector<int64_t> next_nic(nodes);
  const auto end_of = [&](size_t end, Bandwidth bandwidth) {
    if (end >= nodes) return switches[end - nodes];
    const int64_t i = next_nic[end]++;
    const size_t first = builder.devices.size();
    const uint32_t nic = add_nic(builder, alike[end], static_cast<int64_t>(end), i,
                                 on[end][static_cast<size_t>(i)], bandwidth);
    rename_devices(builder, first, fabric.nodes[end]);
    return nic;
  };
  for (const ExplicitFabric::Link& link : fabric.links) {
    const bool single = link.a < nodes || link.b < nodes;  // a NIC for each cable
    const int32_t times = single ? link.cables : 1, cables_each = single ? 1 : link.cables;
    for (int32_t c = 0; c < times; ++c) {
      const Bandwidth widest = std::max(link.bandwidth, link.back);
      const uint32_t a = end_of(link.a, widest), b = end_of(link.b, widest);
      builder.links.push_back({a, b, LinkKind::network, link.bandwidth * cables_each,
                               link.back * cables_each, link.latency, cables_each});
    }
  }
  return ClusterGraph(std::move(builder.devices), std::move(builder.links));
}

Route explicit_route(const Cluster& cluster, int64_t from, int64_t to) {
  STEPCAST_CHECK(cluster.graph != nullptr, "a fabric written out");
  const FirstNic nic = first_nic(*cluster.graph);
  const int64_t gpus = cluster.node.gpus;
  RingTraffic own(cluster), all(cluster);
  own.send(from, to, 1);
  // Each other GPU of the sender's node sends to its counterpart: as far round the nodes' GPUs.
  const int64_t near = from / gpus * gpus, far = to / gpus * gpus;
  for (int64_t k = 0; k < gpus; ++k) {
    all.send(near + (from + k) % gpus, far + (to + k) % gpus, 1);
  }
  Route route;
  route.tier = 0;
  route.switches = own.switches();
  route.bandwidth = {all.narrowest(network_scale(cluster, nic))};
  route.latency = own.latency() + cluster.node.nic_latency - nic.latency * 2;
  return route;
}

Cluster effective_cluster(const Cluster& cluster, std::span<const std::vector<int64_t>> groups) {
  Cluster seen = cluster;
  if (cluster.graph == nullptr) return seen;
  RingTraffic rings(cluster);
  int64_t per_node = 1, sharing = 1;
  std::map<int64_t, int64_t> groups_on;
  bool crossed = false;
  for (const std::vector<int64_t>& group : groups) {
    const NodeGpus on = by_node(cluster, group);
    if (on.size() < 2) continue;
    crossed = true;
    for (const std::vector<int64_t>& here : on) {
      per_node = std::max(per_node, static_cast<int64_t>(here.size()));
      sharing = std::max(sharing, ++groups_on[cluster.node_of(here.front())]);
    }
    send_ring(rings, on);
  }
  if (!crossed) return seen;
  // As many NICs as collectives count for a group of this shape (nics_of_rank in
  // nccl/algorithms.cc).
  const FirstNic nic = first_nic(*cluster.graph);
  const double nics = static_cast<double>(cluster.node.nics);
  const double beside = std::max(1.0, nics / static_cast<double>(cluster.node.gpus));
  const double counted =
      std::min(nics / static_cast<double>(sharing), static_cast<double>(per_node) * beside);
  seen.node.nic_bandwidth = {rings.narrowest(network_scale(cluster, nic)) / counted};
  seen.fabric.hop_latency = rings.latency() - nic.latency * 2;
  return seen;
}

}  // namespace stepcast
