// SPDX-License-Identifier: Apache-2.0
#include "tools/command/schedule/timing.h"

#include <algorithm>
#include <array>

#include "report/text/roles.h"
#include "sim/diagnostic.h"
#include "sim/engine/run.h"
#include "sim/memory/memory.h"
#include "tools/command/options.h"

namespace stepcast::cli {
namespace {

Program compiled(const OpGraph& graph, const std::vector<Time>& durations) {
  Prices prices;
  prices.by_work.reserve(durations.size());
  for (const Time t : durations) prices.by_work.push_back({t, Origin::measured, {}});
  return compile(graph, prices);
}

// Actions on a rank release what their forward holds when the input gradient is done.
int64_t peak_until_input(const std::vector<Action>& actions) {
  int64_t held = 0, peak = 0;
  for (const Action& a : actions) {
    switch (a.kind) {
      case ActionKind::forward:
      case ActionKind::reload: peak = std::max(peak, ++held); break;
      case ActionKind::backward:
      case ActionKind::backward_input:
      case ActionKind::offload: --held; break;
      default: break;
    }
  }
  return peak;
}

// Which of its rank's stages each stage is, in ascending order; [replica][stage].
std::vector<std::vector<uint16_t>> chunks_of(const Schedule& s) {
  std::vector<uint16_t> next(static_cast<size_t>(s.pp), 0);
  std::vector<std::vector<uint16_t>> chunks(s.is_bidirectional() ? 2 : 1);
  for (size_t replica = 0; replica < chunks.size(); ++replica)
    for (const uint16_t rank : replica == 0 ? s.rank_of_stage : s.reverse_rank_of_stage)
      chunks[replica].push_back(next[rank]++);
  return chunks;
}

[[noreturn]] void fail_deadlock(const Deadlock& deadlock, const OpGraph& graph, P2pStyle style) {
  Diagnostic d;
  d.code = "E401";
  d.message = "the transfers block each other for good with --p2p " + std::string(name_of(style));
  for (const Deadlock::Waiting& w : deadlock.waiting) {
    const std::vector<Item>& items = graph.roles[w.role].items;
    d.help += (d.help.empty() ? "" : "; ") + graph.roles[w.role].name + " waits";
    for (size_t i = w.item; i < items.size(); ++i)
      if (items[i].kind == ItemKind::pass && items[i].has_action) {
        d.help += " before " + to_string(items[i].action);
        break;
      }
  }
  throw InputError(std::move(d));
}

RankTiming timing_of(const OpGraph& graph, const RoleTimeline& times, uint32_t role,
                     const std::vector<Time>& durations) {
  RankTiming rank;
  rank.start = times.compute_begin;
  rank.end = times.end;
  for (const Item& item : graph.roles[role].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : graph.passes[static_cast<size_t>(item.pass)].ops)
      if (op.stream == Stream::compute) rank.busy += durations[static_cast<size_t>(op.work)];
  }
  return rank;
}

std::vector<DrawnAction> lane_of(const Schedule& schedule, const OpGraph& graph,
                                 const RoleTimeline& times, uint32_t role,
                                 const std::vector<std::vector<uint16_t>>& chunks) {
  std::vector<DrawnAction> lane;
  const std::vector<Action>& actions = schedule.ranks[role];
  const std::vector<Item>& items = graph.roles[role].items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].kind != ItemKind::pass || !items[i].has_action) continue;
    DrawnAction drawn;
    drawn.action = lane.size() < actions.size() ? actions[lane.size()] : items[i].action;
    const bool reversed = schedule.is_bidirectional() && schedule.reversed[drawn.action.microbatch];
    drawn.chunk = chunks[reversed][drawn.action.stage];
    drawn.begin = times.items[i].begin;
    drawn.end = times.items[i].end;
    lane.push_back(drawn);
  }
  return lane;
}

}  // namespace

ScheduleTiming time_schedule(const Schedule& schedule, const ScheduleCosts& costs, P2pStyle style) {
  require_stages(schedule.rank_of_stage.size(), costs);
  require_countable(schedule, costs);
  require_rank(schedule, costs);
  std::vector<Time> durations;
  OpGraph graph;
  try {
    graph = lower_with(schedule, costs, style, durations);
  } catch (const InputError& e) {
    usage_error("E004", e.what());
  }
  const Program program = compiled(graph, durations);
  ScheduleTiming timing;
  try {
    const Timeline timeline = run(program);
    const std::vector<RoleMemory> memory = trace_memory(graph);
    const std::vector<std::vector<uint16_t>> chunks = chunks_of(schedule);
    timing.makespan = timeline.makespan;
    timing.span = timeline.span;
    for (uint32_t r = 0; r < graph.roles.size(); ++r) {
      RankTiming rank = timing_of(graph, timeline.roles[r], r, durations);
      rank.peak_in_flight = memory[r].peak_in_flight;
      rank.peak_until_input = peak_until_input(schedule.ranks[r]);
      timing.ideal = std::max(timing.ideal, rank.busy);
      timing.ranks.push_back(rank);
      timing.lanes.push_back(lane_of(schedule, graph, timeline.roles[r], r, chunks));
    }
  } catch (const Deadlock& deadlock) {
    fail_deadlock(deadlock, graph, style);
  }
  timing.bubble = timing.makespan - timing.ideal;
  return timing;
}

std::vector<std::string> facts_of(const ScheduleTiming& t, const ScheduleCosts& costs) {
  const auto text = [&](Time time) { return exact_decimal(time.count(), costs.per_unit); };
  return {"makespan " + text(t.makespan), "span " + text(t.span),
          "bubble " + text(t.bubble) + " (" + percent(share_of(t.bubble, t.makespan)) + ")"};
}

ScheduleDrawing drawing_of(const ChosenSchedule& chosen, ScheduleTiming timing,
                           const ScheduleCosts& costs) {
  ScheduleDrawing drawing;
  drawing.title = chosen.title + ": " + sizes_of(chosen.schedule);
  drawing.facts = facts_of(timing, costs);
  drawing.per_unit = costs.per_unit;
  drawing.seq_splits = chosen.schedule.seq_splits;
  drawing.makespan = timing.makespan;
  drawing.lanes = std::move(timing.lanes);
  return drawing;
}

void write_time(JsonWriter& json, std::string_view key, Time t, const ScheduleCosts& costs) {
  json.key(key);
  json.literal(exact_decimal(t.count(), costs.per_unit));
}

void write_times(JsonWriter& json, const ScheduleTiming& timing, const ScheduleCosts& costs) {
  write_time(json, "makespan", timing.makespan, costs);
  write_time(json, "span", timing.span, costs);
  write_time(json, "ideal", timing.ideal, costs);
  write_time(json, "bubble", timing.bubble, costs);
  json.member("bubble_share", share_of(timing.bubble, timing.makespan));
}

}  // namespace stepcast::cli
