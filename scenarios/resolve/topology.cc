// SPDX-License-Identifier: Apache-2.0
// `cluster.topology`: nodes, switches and links written out by hand.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <map>

#include "sim/rank_grid.h"
#include "sim/text.h"

namespace stepcast {

namespace {

struct Reading {
  ExplicitFabric fabric;
  std::vector<Mark> node_marks;                    // of the ids
  std::map<std::string, size_t, std::less<>> ids;  // node, or nodes + switch
  std::vector<size_t> joined;                      // union-find: parent of each
  bool ok = true;

  size_t root(size_t i) {
    while (joined[i] != i) i = joined[i] = joined[joined[i]];
    return i;
  }
};

void complain(Reading& r, Problems& problems, std::string message, const Mark& mark, int length,
              std::string help = {}) {
  r.ok = false;
  problems.add("E221", std::move(message), mark, length, {}, std::move(help));
}

// The id of an item; new ones are entered.
std::string read_id(Reading& r, FieldValues& item, KeyOf<std::string> key, Problems& problems) {
  if (!item.require(key, "every node and switch has a name")) {
    r.ok = false;
    return {};
  }
  const std::string& id = item.text(key);
  if (!r.ids.emplace(id, r.joined.size()).second)
    complain(r, problems, "there are two nodes or switches '" + id + '\'', item.mark(key),
             item.length(key));
  r.joined.push_back(r.joined.size());
  return id;
}

std::vector<Value> items(const FieldValues& v, Key key, Reading& r, Problems& problems) {
  const Value* list = v.value(key);
  if (list == nullptr) return {};
  if (list->kind == Value::Kind::sequence) return list->items;
  r.ok = false;
  problems.add("E107", fmt::format("'{}' must be a list", key.path()), list->mark);
  return {};
}

// All nodes are what `cluster` says they are.
void check_alike(const FieldValues& v, const FieldValues& item, Reading& r) {
  const auto differs = [&](Key key, const std::string& all) {
    r.ok = false;
    item.refuse("E229", key,
                fmt::format("'{}' differs from that of the other nodes, {}",
                            last_word(key.row().path), all),
                "all nodes of a cluster are of one kind so far");
  };
  const auto text = [&](KeyOf<std::string> key, KeyOf<std::string> of_all) {
    if (!item.has(key)) return;
    std::string all = "none";
    v.read(of_all, all);
    if (item.text(key) != all) differs(key, all);
  };
  text("cluster.topology.nodes[].preset", "cluster.preset");
  text("cluster.topology.nodes[].gpu", "cluster.node.gpu.preset");
  if (!item.has("cluster.topology.nodes[].gpus") || !v.has("cluster.node.gpus")) return;
  const int64_t all = v.whole("cluster.node.gpus");
  if (item.whole("cluster.topology.nodes[].gpus") != all)
    differs("cluster.topology.nodes[].gpus", std::to_string(all));
}

void read_link(Reading& r, const Value& value, Problems& problems) {
  FieldValues link(value, "cluster.topology.links[]", problems);
  constexpr KeyOf<std::string> kA = "cluster.topology.links[].a", kB = "cluster.topology.links[].b";
  const bool complete =
      link.require("cluster.topology.links[].bw", "a link states its bandwidth") &&
      link.require(kA) && link.require(kB);
  if (!complete) {
    r.ok = false;
    return;
  }
  for (const KeyOf<std::string> end : {kA, kB})
    if (r.ids.find(link.text(end)) == r.ids.end()) {
      complain(r, problems, "there is no node or switch '" + link.text(end) + '\'', link.mark(end),
               link.length(end));
      return;
    }
  const std::string &a = link.text(kA), &b = link.text(kB);
  if (a == b) {
    complain(r, problems, "a link from '" + a + "' to itself", link.mark(kB), link.length(kB));
    return;
  }
  ExplicitFabric::Link read{.a = r.ids.at(a), .b = r.ids.at(b)};
  link.read("cluster.topology.links[].bw", read.bandwidth);
  read.back = read.bandwidth;
  link.read("cluster.topology.links[].bw_back", read.back);
  link.read("cluster.topology.links[].latency", read.latency);
  int64_t cables = 1;
  link.read("cluster.topology.links[].count", cables);
  read.cables = static_cast<int32_t>(cables);
  r.joined[r.root(read.a)] = r.root(read.b);
  r.fabric.links.push_back(read);
}

Reading read_lists(const FieldValues& v, Problems& problems) {
  Reading r;
  Time hop{};
  v.read("cluster.fabric.latency_per_hop", hop);
  for (const Value& value : items(v, "cluster.topology.nodes", r, problems)) {
    FieldValues item(value, "cluster.topology.nodes[]", problems);
    constexpr KeyOf<std::string> kId = "cluster.topology.nodes[].id";
    r.fabric.nodes.push_back(read_id(r, item, kId, problems));
    r.node_marks.push_back(item.mark(kId));
    check_alike(v, item, r);
  }
  for (const Value& value : items(v, "cluster.topology.switches", r, problems)) {
    FieldValues item(value, "cluster.topology.switches[]", problems);
    const std::string id = read_id(r, item, "cluster.topology.switches[].id", problems);
    Time latency = hop;
    item.read("cluster.topology.switches[].latency", latency);
    r.fabric.switches.push_back({id, latency});
  }
  for (const Value& value : items(v, "cluster.topology.links", r, problems))
    read_link(r, value, problems);
  return r;
}

// The cluster is read before the plan, so this grid is of the sizes as they are written, while
// resolve_layout makes the plan's.
// What could not be sent from the first node to the one whose first rank is `rank`.
std::string need(const FieldValues& v, int64_t rank, int64_t gpus) {
  RankGrid grid;
  v.read("parallel.tp", grid.tp);
  v.read("parallel.cp", grid.cp);
  v.read("parallel.pp", grid.pp);
  constexpr int64_t kMost = 1 << 20;
  if (grid.tp > kMost || grid.cp > kMost || grid.pp > kMost) return {};
  grid.dp = std::max<int64_t>(1, gpus / (grid.tp * grid.cp * grid.pp));
  try {
    if (v.has("parallel.order")) grid.order = parse_order(v.text("parallel.order"));
  } catch (const InputError&) {
    return {};
  }
  if (rank >= grid.world()) return {};
  const Coordinates there = grid.coordinates(rank);
  const auto path = [](const std::string& group, int64_t to) {
    return fmt::format("{} 0 -> {} needs a path", group, to);
  };
  if (there.pp != 0) return path("pp stage", there.pp);
  if (there.dp != 0) return path("dp replica", there.dp);
  if (there.cp != 0) return path("cp rank", there.cp);
  return path("tp rank", there.tp);
}

}  // namespace

std::optional<ExplicitFabric> read_topology(FieldValues& v, Problems& problems) {
  Reading r = read_lists(v, problems);
  const Mark place = v.key_mark("cluster.topology");
  constexpr int kLength = 8;  // of "topology"
  if (r.fabric.nodes.empty()) {
    if (r.ok) complain(r, problems, "the topology has no nodes", place, kLength);
    return {};
  }
  if (!r.ok) return {};
  const auto nodes = static_cast<int64_t>(r.fabric.nodes.size());
  if (v.given("cluster.nodes") && v.has("cluster.nodes") && v.whole("cluster.nodes") != nodes) {
    complain(r, problems, fmt::format("the topology has {} nodes", nodes), v.mark("cluster.nodes"),
             v.length("cluster.nodes"), "leave 'nodes' out");
    return {};
  }
  const int64_t gpus = v.has("cluster.node.gpus") ? v.whole("cluster.node.gpus") : 8;
  for (size_t i = 0; i < r.fabric.nodes.size(); ++i) {
    if (r.root(i) == r.root(0)) continue;
    problems.add("E220", "node " + r.fabric.nodes[i] + " is not connected to " + r.fabric.nodes[0],
                 r.node_marks[i], static_cast<int>(r.fabric.nodes[i].size()), {},
                 need(v, static_cast<int64_t>(i) * gpus, nodes * gpus));
    return {};
  }
  return std::move(r.fabric);
}

void derive_from_topology(FieldValues& v, const ExplicitFabric& fabric) {
  const std::string origin = "cluster.topology";
  const auto nodes = static_cast<int64_t>(fabric.nodes.size());
  v.derive<int64_t>("cluster.nodes", nodes, origin);
  int64_t nics = 0;
  double bandwidth = 0;
  for (const ExplicitFabric::Link& link : fabric.links) {
    if (link.a != 0 && link.b != 0) continue;
    if (nics == 0) bandwidth = (link.a == 0 ? link.bandwidth : link.back).value;
    nics += link.cables;
  }
  if (nics == 0) return;  // one node
  const std::string shown = exact_text(bandwidth / 1e9) + "GB/s";
  const auto check = [&](Key key, bool same, const std::string& there) {
    if (same || !v.given(key) || v.mark(key).in_preset()) return;
    v.refuse("E127", key,
             fmt::format("'{}' is not what the links of {} in cluster.topology come to, {}",
                         last_word(key.row().path), fabric.nodes.front(), there),
             "leave it out; items of the list are set as in cluster.topology.links.0.bw");
  };
  if (v.has("cluster.node.nics.count"))
    check("cluster.node.nics.count", v.whole("cluster.node.nics.count") == nics,
          std::to_string(nics));
  if (v.has("cluster.node.nics.bw"))
    check("cluster.node.nics.bw", v.get<Bandwidth>("cluster.node.nics.bw").value == bandwidth,
          shown);
  v.derive<int64_t>("cluster.node.nics.count", nics, origin);
  v.derive<Bandwidth>("cluster.node.nics.bw", Bandwidth{bandwidth}, origin, shown);
}

}  // namespace stepcast
