// SPDX-License-Identifier: Apache-2.0
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/breadth_first_search.hpp>
#include <boost/graph/connected_components.hpp>
#include <boost/pending/queue.hpp>

#include "topology/cluster/components_internal.h"

namespace stepcast {
namespace {

using UndirectedGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS>;

UndirectedGraph undirected(size_t vertices, const GraphEdges& edges) {
  return {edges.begin(), edges.end(), vertices};
}

}  // namespace

std::vector<uint32_t> component_roots(size_t vertices, const GraphEdges& edges) {
  const UndirectedGraph graph = undirected(vertices, edges);
  std::vector<uint32_t> component(vertices);
  const auto index = boost::get(boost::vertex_index, graph);
  const auto count = boost::connected_components(
      graph, boost::make_iterator_property_map(component.begin(), index));
  std::vector<uint32_t> lowest(count, UINT32_MAX);
  for (uint32_t v = 0; v < vertices; ++v) lowest[component[v]] = std::min(lowest[component[v]], v);
  for (uint32_t& c : component) c = lowest[c];
  return component;
}

std::vector<int32_t> distances_from(std::span<const uint32_t> sources, size_t vertices,
                                    const GraphEdges& edges) {
  const UndirectedGraph graph = undirected(vertices, edges);
  std::vector<int32_t> distance(vertices, -1);
  for (const uint32_t s : sources) distance[s] = 0;
  const auto index = boost::get(boost::vertex_index, graph);
  std::vector<boost::default_color_type> color(vertices);
  boost::queue<UndirectedGraph::vertex_descriptor> queue;
  boost::breadth_first_search(
      graph, sources.begin(), sources.end(), queue,
      boost::make_bfs_visitor(boost::record_distances(
          boost::make_iterator_property_map(distance.begin(), index), boost::on_tree_edge())),
      boost::make_iterator_property_map(color.begin(), index));
  return distance;
}

}  // namespace stepcast
