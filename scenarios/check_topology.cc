// SPDX-License-Identifier: Apache-2.0
// check_topology: is an explicit fabric well formed, and can every node reach every other one?
#include <map>
#include <numeric>
#include <stdexcept>

#include "scenarios/presets.h"
#include "scenarios/resolve_cluster.h"
#include "sim/rank_grid.h"

namespace stepcast {
namespace {

struct Topology {
  struct Node {
    std::string id;
    Mark mark;  // of the id
    int64_t gpus = 8;
  };
  std::vector<Node> nodes;
  std::map<std::string, size_t, std::less<>> ids;  // nodes and switches -> index into `joined`
  std::vector<size_t> joined;                      // union-find: parent of each
  bool ok = true;

  size_t root(size_t i) {
    while (joined[i] != i) i = joined[i] = joined[joined[i]];
    return i;
  }
};

void complain(Topology& t, Problems& problems, std::string message, const Mark& mark, int length) {
  t.ok = false;
  problems.add("E221", std::move(message), mark, length);
}

// The id of an item; new ones are entered.
std::string read_id(Topology& t, FieldValues& item, const std::string& path, Problems& problems) {
  if (!item.require(path + ".id", "every node and switch has a name")) {
    t.ok = false;
    return {};
  }
  const std::string& id = item.text(path + ".id");
  if (!t.ids.emplace(id, t.joined.size()).second)
    complain(t, problems, "there are two nodes or switches '" + id + '\'', item.mark(path + ".id"),
             item.length(path + ".id"));
  t.joined.push_back(t.joined.size());
  return id;
}

std::vector<Value> items(const FieldValues& v, const std::string& path, Topology& t,
                         Problems& problems) {
  const Value* list = v.value(path);
  if (list == nullptr) return {};
  if (list->kind == Value::Kind::sequence) return list->items;
  t.ok = false;
  problems.add("E107", '\'' + path + "' must be a list", list->mark);
  return {};
}

void read_link(Topology& t, const Value& value, Problems& problems) {
  const std::string path = "cluster.topology.links[]";
  FieldValues link(value, path, problems);
  const bool complete = link.require(path + ".bw", "a link states its bandwidth") &&
                        link.require(path + ".a") && link.require(path + ".b");
  if (!complete) {
    t.ok = false;
    return;
  }
  for (const char* end : {".a", ".b"})
    if (t.ids.find(link.text(path + end)) == t.ids.end()) {
      complain(t, problems, "there is no node or switch '" + link.text(path + end) + '\'',
               link.mark(path + end), link.length(path + end));
      return;
    }
  const std::string &a = link.text(path + ".a"), &b = link.text(path + ".b");
  if (a == b) {
    complain(t, problems, "a link from '" + a + "' to itself", link.mark(path + ".b"),
             link.length(path + ".b"));
    return;
  }
  t.joined[t.root(t.ids.at(a))] = t.root(t.ids.at(b));
}

Topology read_topology(const FieldValues& v, Problems& problems) {
  Topology t;
  for (const Value& value : items(v, "cluster.topology.nodes", t, problems)) {
    const std::string path = "cluster.topology.nodes[]";
    FieldValues item(value, path, problems);
    const std::string id = read_id(t, item, path, problems);
    if (item.has(path + ".gpu") && !preset_text(PresetKind::gpu, item.text(path + ".gpu"))) {
      t.ok = false;
      problems.add("E125", "there is no GPU preset '" + item.text(path + ".gpu") + '\'',
                   item.mark(path + ".gpu"), item.length(path + ".gpu"), {},
                   "`stepcast presets gpus` lists them");
    }
    const int64_t gpus = item.has(path + ".gpus") ? item.whole(path + ".gpus") : 8;
    t.nodes.push_back({id, item.mark(path + ".id"), gpus});
  }
  for (const Value& value : items(v, "cluster.topology.switches", t, problems)) {
    FieldValues item(value, "cluster.topology.switches[]", problems);
    read_id(t, item, "cluster.topology.switches[]", problems);
  }
  for (const Value& value : items(v, "cluster.topology.links", t, problems))
    read_link(t, value, problems);
  return t;
}

// What could not be sent from the first node to the one whose first rank is `rank`.
std::string need(const FieldValues& v, int64_t rank, int64_t gpus) {
  const auto size = [&](const char* path) { return v.has(path) ? v.whole(path) : 1; };
  RankGrid grid;
  grid.tp = size("parallel.tp");
  grid.cp = size("parallel.cp");
  grid.pp = size("parallel.pp");
  constexpr int64_t kMost = 1 << 20;
  if (grid.tp > kMost || grid.cp > kMost || grid.pp > kMost) return {};
  grid.dp = std::max<int64_t>(1, gpus / (grid.tp * grid.cp * grid.pp));
  try {
    if (v.has("parallel.order")) grid.order = parse_order(v.text("parallel.order"));
  } catch (const std::invalid_argument&) {
    return {};
  }
  if (rank >= grid.world()) return {};
  const Coordinates there = grid.coordinates(rank);
  const auto path = [](const std::string& group, int64_t to) {
    return group + " 0 -> " + std::to_string(to) + " needs a path";
  };
  if (there.pp != 0) return path("pp stage", there.pp);
  if (there.dp != 0) return path("dp replica", there.dp);
  if (there.cp != 0) return path("cp rank", there.cp);
  return path("tp rank", there.tp);
}

}  // namespace

void check_topology(const FieldValues& v, Problems& problems) {
  Topology t = read_topology(v, problems);
  const Mark place = v.key_mark("cluster.topology");
  constexpr int kLength = 8;  // of "topology"
  if (t.nodes.empty()) {
    if (t.ok) complain(t, problems, "the topology has no nodes", place, kLength);
    return;
  }
  int64_t gpus = 0;
  for (const Topology::Node& node : t.nodes) gpus += node.gpus;
  int64_t first_rank = 0;
  for (size_t i = 0; t.ok && i < t.nodes.size(); first_rank += t.nodes[i++].gpus) {
    if (t.root(i) == t.root(0)) continue;
    problems.add("E220", "node " + t.nodes[i].id + " is not connected to " + t.nodes[0].id,
                 t.nodes[i].mark, static_cast<int>(t.nodes[i].id.size()), {},
                 need(v, first_rank, gpus));
    return;
  }
  if (t.ok)
    problems.add("E229", "explicit topologies are checked but not simulated yet", place, kLength,
                 {}, "describe the cluster by cluster.node and cluster.fabric");
}

}  // namespace stepcast
