// SPDX-License-Identifier: Apache-2.0
#include "topology/cluster/cluster_graph.h"

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/property_map/function_property_map.hpp>

#include "sim/check.h"

namespace stepcast {
namespace {

// Edge e of the graph is directed link `directed[e]`; the edges of a device follow each other.
using Graph = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property,
                                                 boost::no_property, boost::no_property, uint32_t>;

// Length of the step into a device: a network switch outweighs any number of links inside nodes, a
// link any number of GPUs.
int64_t weight_into(const Device& device) {
  constexpr int64_t kLink = 1'000, kSwitch = 1'000'000'000;
  if (device.kind == DeviceKind::network_switch) return kSwitch + kLink;
  return device.kind == DeviceKind::gpu ? kLink + 1 : kLink;
}

uint32_t start_of(const Link& link, uint32_t directed) {
  return directed % 2 == 0 ? link.a : link.b;
}

}  // namespace

std::string_view name_of(DeviceKind k) {
  constexpr std::string_view kNames[] = {"GPU", "NVSwitch", "PCIe switch",
                                         "CPU", "NIC",      "network switch"};
  return kNames[static_cast<size_t>(k)];
}

std::string_view name_of(LinkKind k) {
  constexpr std::string_view kNames[] = {"NVLink", "NVLink-C2C", "PCIe", "between CPUs", "network"};
  return kNames[static_cast<size_t>(k)];
}

struct ClusterGraph::Storage {
  std::vector<Device> devices;
  std::vector<Link> links;
  std::vector<uint32_t> gpus;
  std::vector<uint32_t> directed;  // by edge of `graph`
  Graph graph;
};

ClusterGraph::ClusterGraph(std::vector<Device> devices, std::vector<Link> links)
    : storage_(std::make_unique<Storage>()) {
  Storage& s = *storage_;
  s.devices = std::move(devices);
  s.links = std::move(links);
  for (uint32_t d = 0; d < s.devices.size(); ++d) {
    if (s.devices[d].kind == DeviceKind::gpu) s.gpus.push_back(d);
  }
  std::vector<uint32_t> first(s.devices.size() + 1);
  for (const Link& link : s.links) {
    STEPCAST_CHECK(std::max(link.a, link.b) < s.devices.size(), "a link joins two devices");
    STEPCAST_CHECK(link.a != link.b, "a link joins two different devices");
    STEPCAST_CHECK(link.bandwidth.value > 0 && link.back.value > 0, "a link has a bandwidth");
    ++first[link.a + 1];
    ++first[link.b + 1];
  }
  for (size_t d = 1; d < first.size(); ++d) first[d] += first[d - 1];
  // Each directed link to its place among those of its device, in ascending order.
  const size_t edges = 2 * s.links.size();
  s.directed.resize(edges);
  std::vector<std::pair<uint32_t, uint32_t>> ends(edges);
  std::vector<uint32_t> next(first.begin(), first.end() - 1);
  for (uint32_t i = 0; i < edges; ++i) {
    const Link& link = s.links[i / 2];
    const uint32_t from = start_of(link, i);
    const uint32_t place = next[from]++;
    s.directed[place] = i;
    ends[place] = {from, to(i)};
  }
  s.graph = Graph(boost::edges_are_sorted, ends.begin(), ends.end(),
                  static_cast<uint32_t>(s.devices.size()));
}

ClusterGraph::ClusterGraph(ClusterGraph&&) noexcept = default;
ClusterGraph& ClusterGraph::operator=(ClusterGraph&&) noexcept = default;
ClusterGraph::~ClusterGraph() = default;

std::span<const Device> ClusterGraph::devices() const {
  return storage_->devices;
}

std::span<const Link> ClusterGraph::links() const {
  return storage_->links;
}

std::span<const uint32_t> ClusterGraph::gpus() const {
  return storage_->gpus;
}

std::span<const uint32_t> ClusterGraph::leaving(uint32_t device) const {
  const Storage& s = *storage_;
  const auto [begin, end] = boost::out_edges(device, s.graph);
  if (begin == end) return {};
  return std::span(s.directed).subspan((*begin).idx, boost::out_degree(device, s.graph));
}

std::optional<std::vector<uint32_t>> ClusterGraph::shortest_path(uint32_t from, uint32_t to) const {
  const Storage& s = *storage_;
  STEPCAST_CHECK(std::max(from, to) < s.devices.size(), "a path joins two devices");
  std::vector<uint32_t> before(s.devices.size());
  std::vector<int64_t> distance(s.devices.size());
  const auto length = boost::make_function_property_map<Graph::edge_descriptor>(
      [&s](const Graph::edge_descriptor& e) {
        return weight_into(s.devices[boost::target(e, s.graph)]);
      });
  const auto index = boost::get(boost::vertex_index, s.graph);
  boost::dijkstra_shortest_paths(
      s.graph, from,
      boost::weight_map(length)
          .predecessor_map(boost::make_iterator_property_map(before.begin(), index))
          .distance_map(boost::make_iterator_property_map(distance.begin(), index)));
  if (from != to && before[to] == to) return std::nullopt;
  std::vector<uint32_t> path;
  for (uint32_t at = to; at != from; at = before[at]) {
    for (uint32_t l : leaving(before[at])) {
      if (this->to(l) != at) continue;
      path.push_back(l);
      break;
    }
  }
  std::reverse(path.begin(), path.end());
  return path;
}

}  // namespace stepcast
