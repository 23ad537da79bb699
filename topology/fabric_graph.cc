// SPDX-License-Identifier: Apache-2.0
#include "topology/fabric_graph.h"

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/property_map/function_property_map.hpp>
#include <limits>
#include <map>

#include "sim/check.h"
#include "topology/fabric.h"

namespace stepcast {
namespace {

using Graph =
    boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, uint32_t>;
using Undirected = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;

// Length of the step into a device: a network switch outweighs any number of links inside nodes.
constexpr int64_t kSwitchWeight = 1'000'000;

int64_t weight_into(const Device& device) {
  return device.kind == DeviceKind::network_switch ? kSwitchWeight + 1 : 1;
}

}  // namespace

struct FabricGraph::Storage {
  std::vector<Device> devices;
  std::vector<Link> links;
  Graph graph;  // both directions of each link; the edge property is the link's index
};

FabricGraph::FabricGraph(std::vector<Device> devices, std::vector<Link> links)
    : storage_(std::make_unique<Storage>()) {
  Storage& s = *storage_;
  s.devices = std::move(devices);
  s.links = std::move(links);
  s.graph = Graph(s.devices.size());
  for (uint32_t i = 0; i < s.links.size(); ++i) {
    const Link& link = s.links[i];
    STEPCAST_CHECK(std::max(link.a, link.b) < s.devices.size(), "a link joins two devices");
    boost::add_edge(link.a, link.b, i, s.graph);
    boost::add_edge(link.b, link.a, i, s.graph);
  }
}

FabricGraph::FabricGraph(FabricGraph&&) noexcept = default;
FabricGraph& FabricGraph::operator=(FabricGraph&&) noexcept = default;
FabricGraph::~FabricGraph() = default;

std::span<const Device> FabricGraph::devices() const {
  return storage_->devices;
}

std::span<const Link> FabricGraph::links() const {
  return storage_->links;
}

std::optional<Path> FabricGraph::shortest_path(uint32_t from, uint32_t to) const {
  const Storage& s = *storage_;
  STEPCAST_CHECK(std::max(from, to) < s.devices.size(), "a path joins two devices");
  std::vector<size_t> before(s.devices.size());
  std::vector<int64_t> distance(s.devices.size());
  const auto length = boost::make_function_property_map<Graph::edge_descriptor>(
      [&s](const Graph::edge_descriptor& e) {
        return weight_into(s.devices[boost::target(e, s.graph)]);
      });
  boost::dijkstra_shortest_paths(
      s.graph, from,
      boost::weight_map(length).predecessor_map(before.data()).distance_map(distance.data()));
  if (from != to && before[to] == to) return std::nullopt;
  Path path;
  path.bandwidth = {std::numeric_limits<double>::infinity()};
  for (size_t at = to; at != from; at = before[at]) {
    path.devices.push_back(static_cast<uint32_t>(at));
    const auto [edge, found] = boost::edge(before[at], at, s.graph);
    STEPCAST_CHECK(found, "a path follows links");
    const Link& link = s.links[s.graph[edge]];
    path.bandwidth = std::min(path.bandwidth, link.bandwidth);
    path.latency += link.latency;
    if (at == to) continue;
    path.latency += s.devices[at].latency;
    path.switches += s.devices[at].kind == DeviceKind::network_switch;
  }
  path.devices.push_back(from);
  std::reverse(path.devices.begin(), path.devices.end());
  return path;
}

std::vector<uint32_t> FabricGraph::components() const {
  Undirected graph(storage_->devices.size());
  for (const Link& link : storage_->links) boost::add_edge(link.a, link.b, graph);
  std::vector<uint32_t> component(storage_->devices.size());
  if (!component.empty()) boost::connected_components(graph, component.data());
  return component;
}

namespace {

// Collects the devices and links of a cluster.
struct Builder {
  const Cluster& cluster;
  std::vector<Device> devices;
  std::vector<Link> links;

  uint32_t add(DeviceKind kind, std::string name, Time latency = {}) {
    devices.push_back({kind, std::move(name), latency});
    return static_cast<uint32_t>(devices.size() - 1);
  }
  void join(size_t a, size_t b, Bandwidth bandwidth, Time latency = {}) {
    links.push_back({static_cast<uint32_t>(a), static_cast<uint32_t>(b), bandwidth, latency});
  }
};

std::string numbered(const std::string& name, int64_t i) {
  return name + std::to_string(i);
}

void add_inside(Builder& b, int64_t n) {
  const Node& node = b.cluster.node;
  const auto first = static_cast<size_t>(n * node.gpus);
  const auto gpus = static_cast<size_t>(node.gpus);
  if (node.intra == IntraKind::nvlink_mesh) {
    const Bandwidth pair = node.intra_bandwidth * intra_share(node, 2);
    for (size_t i = 0; i < gpus; ++i) {
      for (size_t j = i + 1; j < gpus; ++j) b.join(first + i, first + j, pair, node.intra_latency);
    }
    return;
  }
  const bool pcie = node.intra == IntraKind::pcie;
  const uint32_t middle =
      b.add(pcie ? DeviceKind::host_bridge : DeviceKind::nvswitch,
            numbered("n", n) + (pcie ? "/host" : "/nvswitch"), node.intra_latency);
  for (size_t i = 0; i < gpus; ++i) b.join(first + i, middle, node.intra_bandwidth);
}

// The NICs of a node, in as many bundles as it has GPUs, or fewer if it has fewer NICs.  Returns
// the first; the others follow.
uint32_t add_nics(Builder& b, int64_t n, int64_t bundles) {
  const Node& node = b.cluster.node;
  const Bandwidth bandwidth =
      node.nic_bandwidth * (static_cast<double>(node.nics) / static_cast<double>(bundles));
  const auto first = static_cast<uint32_t>(b.devices.size());
  for (int64_t i = 0; i < bundles; ++i) {
    // Half of the end-to-end latency each.
    b.add(DeviceKind::nic, numbered(numbered("n", n) + "/nic", i), node.nic_latency / 2);
  }
  for (int64_t g = 0; g < node.gpus; ++g) {
    const int64_t nic = g * bundles / node.gpus;
    b.join(static_cast<size_t>(n * node.gpus + g), static_cast<size_t>(first + nic), bandwidth);
  }
  return first;
}

// Switches of all blocks of tier t, joined to what is below: `below[block]` lists the devices of
// one block of the tier below.
using Blocks = std::vector<std::vector<uint32_t>>;

Blocks add_tier(Builder& b, const std::vector<Tier>& tiers, size_t t, int64_t size_below,
                const Blocks& below) {
  const Cluster& cluster = b.cluster;
  const Node& node = cluster.node;
  const Tier& tier = tiers[t];
  const bool rails = t == 0 && cluster.fabric.kind == FabricKind::rail_fat_tree;
  const size_t width = rails ? below.front().size() : 1;
  const int64_t count = (cluster.gpus() + tier.size - 1) / tier.size;
  Blocks blocks(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    for (size_t r = 0; r < width; ++r) {
      std::string name = numbered(tier.name, i);
      if (rails) name += numbered("/rail", static_cast<int64_t>(r));
      blocks[static_cast<size_t>(i)].push_back(
          b.add(DeviceKind::network_switch, std::move(name), cluster.fabric.hop_latency));
    }
  }
  const double gpus_below = static_cast<double>(size_below);
  for (size_t i = 0; i < below.size(); ++i) {
    const auto block = static_cast<size_t>(static_cast<int64_t>(i) * size_below / tier.size);
    const double share = static_cast<double>(node.nics) / static_cast<double>(node.gpus) *
                         gpus_below / static_cast<double>(below[i].size()) /
                         oversubscription_into(tiers, static_cast<int64_t>(t));
    for (size_t j = 0; j < below[i].size(); ++j) {
      b.join(below[i][j], blocks[block][rails ? j : 0], node.nic_bandwidth * share);
    }
  }
  return blocks;
}

}  // namespace

FabricGraph fabric_graph(const Cluster& cluster) {
  const Node& node = cluster.node;
  Builder b{cluster, {}, {}};
  for (int64_t rank = 0; rank < cluster.gpus(); ++rank) {
    b.add(DeviceKind::gpu,
          numbered(numbered("n", cluster.node_of(rank)) + "/gpu", rank % node.gpus));
  }
  const int64_t bundles = std::min(node.gpus, node.nics);
  Blocks below;
  for (int64_t n = 0; n < cluster.nodes; ++n) {
    add_inside(b, n);
    if (cluster.nodes == 1 || bundles == 0) continue;
    const uint32_t first = add_nics(b, n, bundles);
    std::vector<uint32_t>& nics = below.emplace_back();
    for (uint32_t i = 0; i < bundles; ++i) nics.push_back(first + i);
  }
  if (!below.empty()) {
    const std::vector<Tier> tiers = fabric_tiers(cluster);
    int64_t size_below = node.gpus;
    for (size_t t = 0; t < tiers.size(); ++t) {
      below = add_tier(b, tiers, t, size_below, below);
      size_below = tiers[t].size;
    }
  }
  return FabricGraph(std::move(b.devices), std::move(b.links));
}

std::optional<std::pair<std::string, std::string>> first_disconnected(
    std::span<const std::string> nodes, std::span<const std::string> switches,
    std::span<const std::pair<std::string, std::string>> links) {
  std::map<std::string, size_t> index;
  for (const auto& names : {nodes, switches}) {
    for (const std::string& name : names) index.emplace(name, index.size());
  }
  Undirected graph(index.size());
  for (const auto& [a, b] : links) {
    const auto from = index.find(a), to = index.find(b);
    if (from != index.end() && to != index.end()) {
      boost::add_edge(from->second, to->second, graph);
    }
  }
  if (nodes.empty()) return std::nullopt;
  std::vector<uint32_t> component(index.size());
  boost::connected_components(graph, component.data());
  const uint32_t home = component[index[nodes.front()]];
  for (const std::string& name : nodes) {
    if (component[index[name]] != home) return std::pair{name, nodes.front()};
  }
  return std::nullopt;
}

}  // namespace stepcast
