// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/stage_costs.h"

#include <algorithm>

#include "scenarios/forecast/step.h"
#include "schedules/schedule.h"
#include "sim/engine/run.h"
#include "sim/memory/memory.h"

namespace stepcast {
namespace {

// Most that a pass holds beside what is there before it or after it.
Bytes workspace_of(const OpGraph& graph, const Pass& pass) {
  Bytes now, peak;
  for (const MemoryEvent& e : pass.memory) {
    const Bytes b = graph.tensor_tables[static_cast<size_t>(pass.tensors)][e.tensor].bytes;
    now += e.allocate ? b : -b;
    peak = std::max(peak, now);
  }
  return peak - std::max(Bytes{}, now);
}

// Of every 50 bytes one is not counted on: the caching allocator's blocks do not fit seamlessly.
constexpr int64_t kSlack = 50;

// Reads times, memory and limit of one rank off the run of a single microbatch.
void read_rank(const PricedStep& step, const Timeline& timeline, const RoleMemory& memory,
               size_t rank, PipelineCosts& costs) {
  const OpGraph& graph = step.graph;
  const RoleOps& role = graph.roles[rank];
  Bytes before = memory.start, workspace;
  size_t point = 0;
  for (size_t i = 0; i < role.items.size(); ++i) {
    const Item& item = role.items[i];
    if (item.kind != ItemKind::pass) continue;
    const Bytes after = memory.curve[point++].allocated;
    workspace =
        std::max(workspace, workspace_of(graph, graph.passes[static_cast<size_t>(item.pass)]));
    if (item.has_action) {
      const auto& ops = graph.passes[static_cast<size_t>(item.pass)].ops;
      const ItemTime& t = timeline.roles[rank].items[i];
      Time launches{};
      for (const Op& op : ops) launches += step.prices.by_launch[static_cast<size_t>(op.launch)];
      const Time time = std::max(t.end - t.begin, launches);
      StageTimes& times = costs.times[item.action.stage];
      StageMemory& held = costs.memory[item.action.stage];
      const int64_t change = (after - before).value;
      switch (item.action.kind) {
        case ActionKind::forward:
          times.forward = time;
          held.forward = change;
          break;
        case ActionKind::backward: times.backward = time; break;
        case ActionKind::backward_input:
          times.backward_input = time;
          held.backward_input = change;
          break;
        default: times.backward_weight = time; held.backward_weight = change;
      }
    }
    before = after;
  }
  const Bytes usable = usable_memory(*step.scenario);
  const Bytes left = usable - Bytes{usable.value / kSlack} - memory.start - workspace;
  costs.memory_limit[rank] = std::clamp<int64_t>(left.value, 0, costs.memory_limit[rank]);
}

// The transfers' own time: of the messages between two stages in a run where nobody waits long.
void read_hops(const PricedStep& step, PipelineCosts& costs) {
  const OpGraph& graph = step.graph;
  for (const Rendezvous& r : graph.rendezvous) {
    const Work& w = graph.works[static_cast<size_t>(r.work)];
    if (w.kind != WorkKind::send_recv) continue;
    const Time time = step.prices.by_work[static_cast<size_t>(r.work)].time;
    for (size_t s = 0; s + 1 < costs.rank_of_stage.size(); ++s) {
      const uint16_t here = costs.rank_of_stage[s], next = costs.rank_of_stage[s + 1];
      const bool same = (here == w.from && next == w.to) || (here == w.to && next == w.from);
      if (same) costs.hops[s] = std::max(costs.hops[s], time);
    }
  }
}

// The scenario with one microbatch, whose last weight gradient is without the reduction that may
// run beside it, and with transfers that never wait.
Scenario of_one_microbatch(const Scenario& scenario) {
  Scenario one = scenario;
  one.plan.global_batch = one.plan.micro_batch * one.plan.dp;
  one.plan.overlap.dp_grad = false;
  one.p2p = P2pStyle::async;
  one.post_validation = false;
  return one;
}

}  // namespace

PipelineCosts stage_costs(const Scenario& scenario, const CostTable* table) {
  const std::vector<uint16_t>& placement = scenario.schedule.rank_of_stage;
  const Scenario probe = of_one_microbatch(scenario);
  const Plan& plan = probe.plan;
  PipelineCosts costs;
  costs.pp = plan.pp;
  costs.microbatches = scenario.plan.microbatches();
  costs.rank_of_stage = placement;
  costs.times.resize(placement.size());
  costs.memory.resize(placement.size());
  costs.hops.resize(placement.size() - 1);
  costs.memory_limit.assign(static_cast<size_t>(plan.pp), INT64_MAX);
  // Launches run ahead of the device in a long list of passes, so they count only where a pass has
  // more of them than its device needs time for, or where they follow what the host has read back
  // (they are in the waits of the pass by then).
  for (const bool split_backward : {true, false}) {
    Schedule one = all_forwards_then_backwards(placement, plan.pp, 1, split_backward);
    if (!plan.trains()) one = forwards_of(one);
    const PricedStep step = price_step(lower_step(probe, one), table);
    Prices run_ahead = step.prices;
    std::fill(run_ahead.by_launch.begin(), run_ahead.by_launch.end(), Time{});
    const Timeline timeline = run(compile(step.graph, run_ahead));
    const std::vector<RoleMemory> memory = trace_memory(step.graph);
    for (size_t r = 0; r < step.graph.roles.size(); ++r)
      read_rank(step, timeline, memory[r], r, costs);
    read_hops(step, costs);
  }
  return costs;
}

}  // namespace stepcast
