// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "sim/check.h"
#include "sim/op_graph.h"

namespace stepcast {
namespace {

void check_pass(const OpGraph& graph, const Pass& pass) {
  std::vector<Stream> streams;
  for (const Op& op : pass.ops) {
    STEPCAST_CHECK(static_cast<size_t>(op.work) < graph.works.size(), "op without work");
    STEPCAST_CHECK(static_cast<size_t>(op.label) < graph.labels.size(), "op without label");
    STEPCAST_CHECK(static_cast<size_t>(op.launch) < graph.launches.size(), "op without launch");
    streams.push_back(op.stream);
  }
  for (const Wait& w : pass.waits.all()) {
    STEPCAST_CHECK(w.on < w.op && w.op < pass.ops.size(),
                   "an op of pass '" + pass.name + "' waits for a later one");
  }
  STEPCAST_CHECK(pass.waits.find_cycle(streams).empty(), "pass '" + pass.name + "' has a circle");
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
    STEPCAST_CHECK(posted[id].size() == graph.rendezvous[id].parties,
                   "rendezvous '" + graph.text(graph.rendezvous[id].label) + "' has " +
                       std::to_string(posted[id].size()) + " posts, not " +
                       std::to_string(graph.rendezvous[id].parties));
  }
}

void check_memory(const OpGraph& graph, const RoleOps& role) {
  // Live tensors of each (stage, microbatch); passes without an action may keep nothing.
  using Key = std::pair<uint16_t, uint32_t>;
  std::map<Key, std::set<uint32_t>> live;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::pass) continue;
    const Pass& pass = graph.passes[static_cast<size_t>(item.pass)];
    const Key first{item.action.stage, item.action.microbatch};
    const Key second{item.second.stage, item.second.microbatch};
    STEPCAST_CHECK(!item.has_second || (item.has_action && first != second),
                   "a pair without two microbatches");
    std::set<uint32_t> own;
    for (const MemoryEvent& e : pass.memory) {
      STEPCAST_CHECK(!e.second || item.has_second, "pass '" + pass.name + "' runs two actions");
      std::set<uint32_t>& tensors = !item.has_action ? own : live[e.second ? second : first];
      const bool ok = e.allocate ? tensors.insert(e.tensor).second : tensors.erase(e.tensor) == 1;
      STEPCAST_CHECK(ok, "pass '" + pass.name + "' " + (e.allocate ? "allocates" : "frees") +
                             " tensor " + std::to_string(e.tensor) + " twice");
    }
    STEPCAST_CHECK(item.has_action || own.empty(), "pass '" + pass.name + "' leaves memory behind");
    for (const Key& key : {first, second}) {
      if (const auto it = live.find(key); it != live.end() && it->second.empty()) live.erase(it);
    }
  }
  STEPCAST_CHECK(live.empty(), role.name + " ends with activations alive");
}

}  // namespace

void check_graph(const OpGraph& graph) {
  for (const Pass& pass : graph.passes) check_pass(graph, pass);
  check_rendezvous(graph);
  for (const RoleOps& role : graph.roles) check_memory(graph, role);
}

}  // namespace stepcast
