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
  const auto tables = graph.tensor_tables.size();
  STEPCAST_CHECK(pass.memory.empty() || static_cast<size_t>(pass.tensors) < tables,
                 "pass '" + pass.name + "' has no tensor table");
  std::vector<Stream> streams;
  for (const Op& op : pass.ops) {
    STEPCAST_CHECK(static_cast<size_t>(op.work) < graph.works.size(), "op without work");
    STEPCAST_CHECK(static_cast<size_t>(op.label) < graph.labels.size(), "op without label");
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
    STEPCAST_CHECK(e.tensor < graph.tensor_tables[static_cast<size_t>(pass.tensors)].size(),
                   "memory event without tensor");
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
    STEPCAST_CHECK(posted[id].size() == graph.rendezvous[id].parties,
                   "rendezvous '" + graph.text(graph.rendezvous[id].label) + "' has " +
                       std::to_string(posted[id].size()) + " posts, not " +
                       std::to_string(graph.rendezvous[id].parties));
  }
}

void check_memory(const OpGraph& graph, const RoleOps& role) {
  // Live tensors of each (stage, microbatch); passes without an action may keep nothing.
  std::map<std::pair<uint16_t, uint32_t>, std::set<uint32_t>> live;
  for (const Item& item : role.items) {
    if (item.kind != ItemKind::pass) continue;
    const Pass& pass = graph.passes[static_cast<size_t>(item.pass)];
    const std::pair<uint16_t, uint32_t> key{item.action.stage, item.action.microbatch};
    std::set<uint32_t> own;
    std::set<uint32_t>& tensors = item.has_action ? live[key] : own;
    for (const MemoryEvent& e : pass.memory) {
      const bool ok = e.allocate ? tensors.insert(e.tensor).second : tensors.erase(e.tensor) == 1;
      STEPCAST_CHECK(ok, "pass '" + pass.name + "' " + (e.allocate ? "allocates" : "frees") +
                             " tensor " + std::to_string(e.tensor) + " twice");
    }
    STEPCAST_CHECK(item.has_action || own.empty(), "pass '" + pass.name + "' leaves memory behind");
    if (item.has_action && tensors.empty()) live.erase(key);
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
