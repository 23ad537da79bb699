// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <numeric>

#include "sim/check.h"
#include "sim/op_graph.h"

namespace stepcast {
namespace {

using Csr = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, uint32_t>;
using Vertex = boost::graph_traits<Csr>::vertex_descriptor;

// Keeps the current path of the search and copies the circle when an edge leads back into it.
struct CycleVisitor : boost::default_dfs_visitor {
  std::vector<uint32_t>* path;
  std::vector<uint32_t>* cycle;

  void discover_vertex(Vertex v, const Csr&) const { path->push_back(static_cast<uint32_t>(v)); }
  void finish_vertex(Vertex, const Csr&) const { path->pop_back(); }
  template <class Edge>
  void back_edge(Edge e, const Csr& g) const {
    if (!cycle->empty()) return;
    auto from = std::find(path->begin(), path->end(), static_cast<uint32_t>(target(e, g)));
    cycle->assign(from, path->end());
  }
};

}  // namespace

// Edge i of the CSR carries the index of its Wait, so attributes stay outside the graph.
struct WaitGraph::Storage {
  Csr graph;
  std::vector<Wait> waits;      // ordered by op
  std::vector<uint32_t> first;  // op -> its first wait; one entry more than ops
};

WaitGraph::WaitGraph() : WaitGraph(0, {}) {}
WaitGraph::WaitGraph(WaitGraph&&) noexcept = default;
WaitGraph& WaitGraph::operator=(WaitGraph&&) noexcept = default;
WaitGraph::~WaitGraph() = default;

WaitGraph::WaitGraph(uint32_t ops, std::vector<Wait> waits) : storage_(new Storage) {
  std::stable_sort(waits.begin(), waits.end(),
                   [](const Wait& a, const Wait& b) { return a.op < b.op; });
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  edges.reserve(waits.size());
  storage_->first.assign(ops + 1, 0);
  for (const Wait& w : waits) {
    STEPCAST_CHECK(w.op < ops && w.on < ops, "a wait names an op outside its pass");
    edges.emplace_back(w.op, w.on);
    ++storage_->first[w.op + 1];
  }
  std::partial_sum(storage_->first.begin(), storage_->first.end(), storage_->first.begin());
  std::vector<uint32_t> index(waits.size());
  std::iota(index.begin(), index.end(), 0U);
  storage_->graph = Csr(boost::edges_are_sorted, edges.begin(), edges.end(), index.begin(), ops);
  storage_->waits = std::move(waits);
}

std::span<const Wait> WaitGraph::all() const {
  return storage_->waits;
}

std::span<const Wait> WaitGraph::of(uint32_t op) const {
  const Storage& s = *storage_;
  return std::span(s.waits).subspan(s.first[op], s.first[op + 1] - s.first[op]);
}

std::vector<uint32_t> WaitGraph::find_cycle(std::span<const Stream> streams) const {
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (const Wait& w : storage_->waits) edges.emplace_back(w.op, w.on);
  std::array<int64_t, kStreams> last;
  last.fill(-1);
  for (uint32_t op = 0; op < streams.size(); ++op) {
    int64_t& previous = last[static_cast<size_t>(streams[op])];
    if (previous >= 0) edges.emplace_back(op, static_cast<uint32_t>(previous));
    previous = op;
  }
  std::sort(edges.begin(), edges.end());
  const Csr graph(boost::edges_are_sorted, edges.begin(), edges.end(), streams.size());
  std::vector<uint32_t> path;
  std::vector<uint32_t> cycle;
  CycleVisitor visitor;
  visitor.path = &path;
  visitor.cycle = &cycle;
  std::vector<boost::default_color_type> colors(streams.size());
  boost::depth_first_search(
      graph, visitor,
      boost::make_iterator_property_map(colors.begin(), get(boost::vertex_index, graph)));
  return cycle;
}

}  // namespace stepcast
