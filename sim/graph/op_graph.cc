// SPDX-License-Identifier: Apache-2.0

#include "sim/graph/op_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/depth_first_search.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/check.h"

namespace stepcast {
LaunchId launch_of(OpGraph& graph, const Launch& launch) {
  std::vector<Launch>& known = graph.launches;
  const auto it = std::ranges::find(known, launch);
  STEPCAST_CHECK(it != known.end() || known.size() < UINT16_MAX, "too many kinds of launches");
  const auto id = static_cast<LaunchId>(it - known.begin());
  if (it == known.end()) known.push_back(launch);
  return id;
}

std::string action_text(const Item& item) {
  if (!item.has_second) return to_string(item.action);
  return '(' + to_string(item.action) + ';' + to_string(item.second) + ')';
}

namespace {

using Csr = boost::compressed_sparse_row_graph<boost::directedS, boost::no_property, uint32_t>;
using Vertex = boost::graph_traits<Csr>::vertex_descriptor;

// Keeps the current path of the search and copies the cycle when an edge leads back into it.
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

// Who writes ops one after the other writes most waits in order, too; to sort takes memory.
void WaitGraph::assign(uint32_t ops, std::vector<Wait> waits) {
  waits_ = std::move(waits);
  const auto is_before = [](const Wait& a, const Wait& b) { return a.op < b.op; };
  if (!std::ranges::is_sorted(waits_, is_before))
    std::stable_sort(waits_.begin(), waits_.end(), is_before);
  first_.assign(ops + 1, 0);
  for (const Wait& w : waits_) {
    STEPCAST_CHECK(w.op < ops && w.on < ops, "a wait names an op outside its pass");
    ++first_[w.op + 1];
  }
  std::partial_sum(first_.begin(), first_.end(), first_.begin());
}

std::vector<Wait> WaitGraph::release() {
  first_.clear();
  waits_.clear();
  return std::exchange(waits_, {});
}

std::vector<uint32_t> WaitGraph::find_cycle(std::span<const Stream> streams) const {
  std::vector<std::pair<uint32_t, uint32_t>> edges;
  for (const Wait& w : waits_) edges.emplace_back(w.op, w.on);
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

namespace {

// "qkv (op 0), which waits for fc1 (op 3), which waits for qkv (op 0)".
std::string cycle_text(const OpGraph& graph, const Pass& pass, std::vector<uint32_t> cycle) {
  if (!cycle.empty()) cycle.push_back(cycle.front());
  std::string text;
  for (const uint32_t op : cycle) {
    text += fmt::format("{}{} (op {})", text.empty() ? "" : ", which waits for ",
                        graph.text(pass.ops[op].label), op);
  }
  return text;
}

void check_pass(const OpGraph& graph, const Pass& pass) {
  std::vector<Stream> streams;
  for (const Op& op : pass.ops) {
    STEPCAST_CHECK(static_cast<size_t>(op.work) < graph.works.size(), "op without work");
    STEPCAST_CHECK(static_cast<size_t>(op.label) < graph.labels.size(), "op without label");
    STEPCAST_CHECK(static_cast<size_t>(op.launch) < graph.launches.size(), "op without launch");
    streams.push_back(op.stream);
  }
  const std::vector<uint32_t> cycle = pass.waits.find_cycle(streams);
  STEPCAST_CHECK(cycle.empty(), "ops of pass '" + pass.name +
                                    "' wait for each other: " + cycle_text(graph, pass, cycle));
  for (const Wait& w : pass.waits.all()) {
    STEPCAST_CHECK(w.on < w.op, fmt::format("'{}' of pass '{}' waits for a later op",
                                            graph.text(pass.ops[w.op].label), pass.name));
  }
  for (size_t i = 0; i < pass.memory.size(); ++i) {
    const MemoryEvent& e = pass.memory[i];
    STEPCAST_CHECK(e.op < pass.ops.size(), "memory event outside its pass");
    const auto table = static_cast<size_t>(e.second ? pass.second_tensors : pass.tensors);
    STEPCAST_CHECK(table < graph.tensor_tables.size(),
                   "pass '" + pass.name + "' has no tensor table");
    STEPCAST_CHECK(e.tensor < graph.tensor_tables[table].size(), "memory event without tensor");
    STEPCAST_CHECK(i == 0 || pass.memory[i - 1].op <= e.op, "memory events out of order");
  }
}

// Posts are counted by rendezvous and role; a join needs all posts to exist somewhere.
void check_rendezvous(const OpGraph& graph) {
  std::vector<std::set<uint32_t>> posted(graph.rendezvous.size());
  for (uint32_t r = 0; r < graph.roles.size(); ++r) {
    for (const Item& item : graph.roles[r].items) {
      if (item.kind == ItemKind::pass) {
        STEPCAST_CHECK(static_cast<size_t>(item.pass) < graph.passes.size(), "item without pass");
      }
      if (item.kind != ItemKind::post && item.kind != ItemKind::join) continue;
      const auto id = static_cast<size_t>(item.rendezvous);
      STEPCAST_CHECK(id < graph.rendezvous.size(), "item without rendezvous");
      if (item.kind == ItemKind::post) {
        STEPCAST_CHECK(posted[id].insert(r).second, "a role posts a rendezvous twice");
      }
    }
  }
  for (size_t id = 0; id < posted.size(); ++id) {
    STEPCAST_CHECK(static_cast<size_t>(graph.rendezvous[id].launch) < graph.launches.size(),
                   "rendezvous without launch");
    STEPCAST_CHECK(
        posted[id].size() == graph.rendezvous[id].parties,
        fmt::format("rendezvous '{}' has {} posts, not {}", graph.text(graph.rendezvous[id].label),
                    posted[id].size(), graph.rendezvous[id].parties));
  }
}

void check_memory(const OpGraph& graph, const RoleOps& role) {
  // Live tensors of each (stage, microbatch), and of all passes without an action.
  using Key = std::pair<uint16_t, uint32_t>;
  std::map<Key, std::set<uint32_t>> live;
  std::set<uint32_t> own;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::pass) continue;
    const Pass& pass = graph.passes[static_cast<size_t>(item.pass)];
    const Key first{item.action.stage, item.action.microbatch};
    const Key second{item.second.stage, item.second.microbatch};
    STEPCAST_CHECK(!item.has_second || (item.has_action && first != second),
                   "a pair without two microbatches");
    for (const MemoryEvent& e : pass.memory) {
      STEPCAST_CHECK(!e.second || item.has_second, "pass '" + pass.name + "' runs two actions");
      std::set<uint32_t>& tensors = !item.has_action ? own : live[e.second ? second : first];
      const bool ok = e.allocate ? tensors.insert(e.tensor).second : tensors.erase(e.tensor) == 1;
      STEPCAST_CHECK(ok, fmt::format("pass '{}' {} tensor {} twice", pass.name,
                                     e.allocate ? "allocates" : "frees", e.tensor));
    }
    for (const Key& key : {first, second}) {
      if (const auto it = live.find(key); it != live.end() && it->second.empty()) live.erase(it);
    }
  }
  STEPCAST_CHECK(live.empty(), role.name + " ends with activations alive");
  STEPCAST_CHECK(own.empty(), role.name + " ends with memory that belongs to no action");
}

}  // namespace

WaitSlots wait_slots(const Pass& pass) {
  WaitSlots slots;
  slots.end.assign(pass.ops.size(), -1);
  slots.start = slots.end;
  for (const Wait& w : pass.waits.all()) {
    if (!is_implied(pass, w)) (w.from_start ? slots.start : slots.end)[w.on] = 0;
  }
  for (uint32_t op = 0; op < pass.ops.size(); ++op) {
    for (std::vector<int32_t>* of_op : {&slots.end, &slots.start}) {
      if ((*of_op)[op] < 0) continue;
      (*of_op)[op] = static_cast<int32_t>(slots.op.size());
      slots.op.push_back(op);
    }
  }
  return slots;
}

void check_graph(const OpGraph& graph) {
  for (const Pass& pass : graph.passes) check_pass(graph, pass);
  check_rendezvous(graph);
  for (const RoleOps& role : graph.roles) check_memory(graph, role);
}

std::vector<double> work_counts(const OpGraph& graph) {
  std::vector<double> counts(graph.works.size());
  std::vector<int64_t> runs(graph.passes.size());
  for (const RoleOps& role : graph.roles) {
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::pass) runs[static_cast<size_t>(item.pass)] += role.ranks;
      if (item.kind != ItemKind::post) continue;
      const Rendezvous& r = graph.rendezvous[static_cast<size_t>(item.rendezvous)];
      counts[static_cast<size_t>(r.work)] += static_cast<double>(role.ranks) / r.parties;
    }
  }
  for (size_t p = 0; p < runs.size(); ++p) {
    for (const Op& op : graph.passes[p].ops)
      counts[static_cast<size_t>(op.work)] += static_cast<double>(runs[p]);
  }
  return counts;
}

}  // namespace stepcast
