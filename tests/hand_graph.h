// SPDX-License-Identifier: Apache-2.0
// Op graphs written by hand, for tests: a few words a line, durations in picoseconds.
//
//   HandGraph g(/*launch_ps=*/0);
//   const PassId f = g.pass({{5}, {3, Stream::tp}}, {{.op = 1, .on = 0}});
//   const uint32_t a = g.role();
//   g.run(a, f);
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sim/engine/run.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/graph/program.h"

namespace stepcast {

// One op: how long, where, as part of what.  `work` may be given where its kind matters.
struct HandOp {
  int64_t ps = 0;
  Stream stream = Stream::compute;
  Phase phase = Phase::forward;
  std::optional<Work> work = std::nullopt;
};

inline Work communication(Axis axis) {
  Work w;
  w.kind = axis == Axis::pp ? WorkKind::send_recv : WorkKind::all_reduce;
  w.axis = axis;
  return w;
}

inline Work kernel_work(Kernel kernel) {
  Work w;
  w.kernel = kernel;
  return w;
}

inline Work gemm_work() {
  Work w;
  w.kind = WorkKind::gemm;
  return w;
}

class HandGraph {
 public:
  explicit HandGraph(int64_t launch_ps = 0) {
    prices.by_launch = {Time{launch_ps}};
    graph.labels = {"by hand"};
  }

  // A matmul on compute and copy, a communication of its own kind on the other streams, unless
  // `work` says otherwise.
  PassId pass(const std::vector<HandOp>& ops, std::vector<Wait> waits = {}) {
    Pass p;
    p.name = "pass " + std::to_string(graph.passes.size());
    for (const HandOp& op : ops)
      p.ops.push_back({work(op.ps, op.work ? *op.work : usual_work(op.stream)), op.stream, op.phase,
                       LabelId{0}, -1});
    p.waits = WaitGraph(static_cast<uint32_t>(ops.size()), std::move(waits));
    graph.passes.push_back(std::move(p));
    return PassId{static_cast<uint32_t>(graph.passes.size()) - 1};
  }

  // A pass of one op.
  PassId pass_of(int64_t ps) { return pass({{ps}}); }

  WorkId work(int64_t ps, const Work& w) {
    graph.works.push_back(w);
    prices.by_work.push_back({Time{ps}, Origin::roofline, "by hand"});
    return WorkId{static_cast<uint32_t>(graph.works.size()) - 1};
  }

  RendezvousId rendezvous(uint16_t parties, int64_t ps, Axis axis = Axis::pp) {
    graph.rendezvous.push_back({work(ps, communication(axis)), parties, LabelId{0}});
    return RendezvousId{static_cast<uint32_t>(graph.rendezvous.size()) - 1};
  }

  uint32_t role() {
    graph.roles.emplace_back();
    graph.roles.back().name = "stage " + std::to_string(graph.roles.size() - 1);
    return static_cast<uint32_t>(graph.roles.size()) - 1;
  }

  void run(uint32_t r, PassId p, std::optional<Action> action = std::nullopt) {
    Item item;
    item.pass = p;
    item.has_action = action.has_value();
    if (action) item.action = *action;
    graph.roles[r].items.push_back(item);
  }

  void post(uint32_t r, RendezvousId id, Stream stream = Stream::compute) {
    add(r, ItemKind::post, stream).rendezvous = id;
  }

  Item& join(uint32_t r, RendezvousId id, Stream stream = Stream::compute) {
    Item& item = add(r, ItemKind::join, stream);
    item.rendezvous = id;
    return item;
  }

  void record(uint32_t r, uint32_t event, Stream stream) {
    add(r, ItemKind::record, stream).event = event;
  }

  void wait(uint32_t r, uint32_t event, Stream stream) {
    add(r, ItemKind::wait, stream).event = event;
  }

  void sync(uint32_t r, Stream stream) { add(r, ItemKind::sync, stream); }

  // One tensor of the table that all passes share.
  uint32_t tensor(int64_t bytes, MemoryCategory category = MemoryCategory::activations) {
    if (graph.tensor_tables.empty()) graph.tensor_tables.emplace_back();
    graph.tensor_tables[0].push_back({Bytes{bytes}, category, LabelId{0}});
    return static_cast<uint32_t>(graph.tensor_tables[0].size()) - 1;
  }

  void allocate(PassId p, uint32_t op, uint32_t tensor) { memory(p, {op, tensor, true}); }
  void free(PassId p, uint32_t op, uint32_t tensor) { memory(p, {op, tensor, false}); }

  // Checked, compiled one instruction an op and run with everything recorded.
  Timeline timeline() const {
    check_graph(graph);
    return stepcast::run(compile(graph, prices, {}, false), Record::all);
  }

  OpGraph graph;
  Prices prices;

 private:
  static Work usual_work(Stream s) {
    switch (s) {
      case Stream::tp: return communication(Axis::tp);
      case Stream::cp: return communication(Axis::cp);
      case Stream::ep: return communication(Axis::ep);
      case Stream::dp: return communication(Axis::dp);
      case Stream::compute:
      case Stream::copy: break;
    }
    return gemm_work();
  }

  Item& add(uint32_t r, ItemKind kind, Stream stream) {
    Item item;
    item.kind = kind;
    item.stream = stream;
    graph.roles[r].items.push_back(item);
    return graph.roles[r].items.back();
  }

  void memory(PassId p, MemoryEvent event) {
    graph.passes[static_cast<size_t>(p)].memory.push_back(event);
  }
};

inline Action forward_of(uint16_t stage, uint32_t microbatch) {
  return {ActionKind::forward, stage, microbatch};
}
inline Action backward_of(uint16_t stage, uint32_t microbatch) {
  return {ActionKind::backward, stage, microbatch};
}

}  // namespace stepcast
