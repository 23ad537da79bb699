// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_topology.h"

#include <array>
#include <charconv>
#include <map>
#include <stdexcept>

#include "sim/rank_grid.h"

namespace stepcast {
namespace {

const std::string kNode = "cluster.topology.nodes[]";
const std::string kSwitch = "cluster.topology.switches[]";
const std::string kLink = "cluster.topology.links[]";

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
std::string read_id(Reading& r, FieldValues& item, const std::string& path, Problems& problems) {
  if (!item.require(path + ".id", "every node and switch has a name")) {
    r.ok = false;
    return {};
  }
  const std::string& id = item.text(path + ".id");
  if (!r.ids.emplace(id, r.joined.size()).second)
    complain(r, problems, "there are two nodes or switches '" + id + '\'', item.mark(path + ".id"),
             item.length(path + ".id"));
  r.joined.push_back(r.joined.size());
  return id;
}

std::vector<Value> items(const FieldValues& v, const std::string& path, Reading& r,
                         Problems& problems) {
  const Value* list = v.value(path);
  if (list == nullptr) return {};
  if (list->kind == Value::Kind::sequence) return list->items;
  r.ok = false;
  problems.add("E107", '\'' + path + "' must be a list", list->mark);
  return {};
}

// All nodes are what `cluster` says they are.
void check_alike(const FieldValues& v, const FieldValues& item, Reading& r) {
  const auto differs = [&](const std::string& key, const std::string& all) {
    r.ok = false;
    item.refuse("E229", kNode + '.' + key,
                '\'' + key + "' differs from that of the other nodes, " + all,
                "all nodes of a cluster are of one kind so far");
  };
  const auto text = [&](const std::string& key, const std::string& path) {
    if (!item.has(kNode + '.' + key)) return;
    const std::string all = v.has(path) ? v.text(path) : "none";
    if (item.text(kNode + '.' + key) != all) differs(key, all);
  };
  text("preset", "cluster.preset");
  text("gpu", "cluster.node.gpu.preset");
  if (!item.has(kNode + ".gpus") || !v.has("cluster.node.gpus")) return;
  const int64_t all = v.whole("cluster.node.gpus");
  if (item.whole(kNode + ".gpus") != all) differs("gpus", std::to_string(all));
}

void read_link(Reading& r, const Value& value, Problems& problems) {
  FieldValues link(value, kLink, problems);
  const bool complete = link.require(kLink + ".bw", "a link states its bandwidth") &&
                        link.require(kLink + ".a") && link.require(kLink + ".b");
  if (!complete) {
    r.ok = false;
    return;
  }
  for (const char* end : {".a", ".b"})
    if (r.ids.find(link.text(kLink + end)) == r.ids.end()) {
      complain(r, problems, "there is no node or switch '" + link.text(kLink + end) + '\'',
               link.mark(kLink + end), link.length(kLink + end));
      return;
    }
  const std::string &a = link.text(kLink + ".a"), &b = link.text(kLink + ".b");
  if (a == b) {
    complain(r, problems, "a link from '" + a + "' to itself", link.mark(kLink + ".b"),
             link.length(kLink + ".b"));
    return;
  }
  ExplicitFabric::Link read{.a = r.ids.at(a), .b = r.ids.at(b)};
  read.bandwidth = {link.real(kLink + ".bw")};
  read.back =
      link.has(kLink + ".bw_back") ? Bandwidth{link.real(kLink + ".bw_back")} : read.bandwidth;
  if (link.has(kLink + ".latency")) read.latency = Time{link.whole(kLink + ".latency")};
  constexpr int64_t kMostCables = 1024;
  const int64_t cables = link.has(kLink + ".count") ? link.whole(kLink + ".count") : 1;
  if (cables > kMostCables) {
    r.ok = false;
    link.refuse("E121", kLink + ".count", "'count' must be at most " + std::to_string(kMostCables));
    return;
  }
  read.cables = static_cast<int32_t>(cables);
  r.joined[r.root(read.a)] = r.root(read.b);
  r.fabric.links.push_back(read);
}

Reading read_lists(const FieldValues& v, Problems& problems) {
  Reading r;
  const Time hop{v.has("cluster.fabric.latency_per_hop") ? v.whole("cluster.fabric.latency_per_hop")
                                                         : 0};
  for (const Value& value : items(v, "cluster.topology.nodes", r, problems)) {
    FieldValues item(value, kNode, problems);
    r.fabric.nodes.push_back(read_id(r, item, kNode, problems));
    r.node_marks.push_back(item.mark(kNode + ".id"));
    check_alike(v, item, r);
  }
  for (const Value& value : items(v, "cluster.topology.switches", r, problems)) {
    FieldValues item(value, kSwitch, problems);
    const std::string id = read_id(r, item, kSwitch, problems);
    const bool stated = item.has(kSwitch + ".latency");
    r.fabric.switches.push_back({id, stated ? Time{item.whole(kSwitch + ".latency")} : hop});
  }
  for (const Value& value : items(v, "cluster.topology.links", r, problems))
    read_link(r, value, problems);
  return r;
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
  } catch (const InputError&) {
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

std::string in_gigabytes(double bytes_per_second) {
  std::array<char, 32> text{};
  const auto end =
      std::to_chars(text.data(), text.data() + text.size(), bytes_per_second / 1e9).ptr;
  return std::string(text.data(), end) + "GB/s";
}

void insert(Value& mapping, const std::string& key, const Value& value) {
  mapping.members.push_back({key, value.mark, value});
}

}  // namespace

void lift_node_kind(Value& cluster) {
  const Value* topology = cluster.find("topology");
  const Value* nodes = topology == nullptr ? nullptr : topology->find("nodes");
  if (nodes == nullptr || nodes->items.empty()) return;
  const Value first = nodes->items.front();
  if (const Value* preset = first.find("preset"); preset && cluster.find("preset") == nullptr)
    insert(cluster, "preset", *preset);
  for (const char* key : {"gpu", "gpus"}) {
    const Value* said = first.find(key);
    if (said == nullptr) continue;
    if (cluster.find("node") == nullptr) {
      Value node;
      node.kind = Value::Kind::mapping;
      node.mark = said->mark;
      insert(cluster, "node", node);
    }
    Value& node = *cluster.find("node");
    if (node.is_mapping() && node.find(key) == nullptr) insert(node, key, *said);
  }
}

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
    complain(r, problems, "the topology has " + std::to_string(nodes) + " nodes",
             v.mark("cluster.nodes"), v.length("cluster.nodes"), "leave 'nodes' out");
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

void derive_from_topology(FieldValues& v, const ExplicitFabric& fabric, Problems& problems) {
  const std::string origin = "cluster.topology";
  const auto nodes = static_cast<int64_t>(fabric.nodes.size());
  v.derive("cluster.nodes", nodes, std::to_string(nodes), origin);
  int64_t nics = 0;
  double bandwidth = 0;
  for (const ExplicitFabric::Link& link : fabric.links) {
    if (link.a != 0 && link.b != 0) continue;
    if (nics == 0) bandwidth = (link.a == 0 ? link.bandwidth : link.back).value;
    nics += link.cables;
  }
  if (nics == 0) return;  // one node
  const auto check = [&](const std::string& key, bool same, const std::string& there) {
    const std::string path = "cluster.node.nics." + key;
    if (same || !v.given(path) || problems.source(v.mark(path).source).is_preset) return;
    v.refuse("E127", path,
             '\'' + key + "' is not what the links of " + fabric.nodes.front() +
                 " in cluster.topology come to, " + there,
             "leave it out; items of the list are set as in cluster.topology.links.0.bw");
  };
  if (const char* path = "cluster.node.nics.count"; v.has(path))
    check("count", v.whole(path) == nics, std::to_string(nics));
  if (const char* path = "cluster.node.nics.bw"; v.has(path))
    check("bw", v.real(path) == bandwidth, in_gigabytes(bandwidth));
  v.derive("cluster.node.nics.count", nics, std::to_string(nics), origin);
  v.derive("cluster.node.nics.bw", bandwidth, in_gigabytes(bandwidth), origin);
}

}  // namespace stepcast
