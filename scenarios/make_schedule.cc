// SPDX-License-Identifier: Apache-2.0
#include "scenarios/make_schedule.h"

#include <algorithm>
#include <array>
#include <stdexcept>

#include "calibrate/price_graph.h"
#include "schedules/lower.h"
#include "schedules/placement.h"
#include "schedules/synthesis.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/memory.h"
#include "sim/run.h"

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
void read_rank(const OpGraph& graph, Time launch, const Timeline& timeline,
               const RoleMemory& memory, size_t rank, Bytes usable, PipelineCosts& costs) {
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
      const Time time = std::max(t.end - t.begin, launch * static_cast<int64_t>(ops.size()));
      StageTimes& times = costs.times[item.action.stage];
      StageMemory& held = costs.memory[item.action.stage];
      const int64_t change = (after - before).value;
      switch (item.action.kind) {
        case ActionKind::forward:
          times.forward = time;
          held.forward = change;
          break;
        case ActionKind::backward:
        case ActionKind::backward_input:
          times.backward_input = time;
          held.backward_input = change;
          break;
        default: times.backward_weight = time; held.backward_weight = change;
      }
    }
    before = after;
  }
  const Bytes left = usable - Bytes{usable.value / kSlack} - memory.start - workspace;
  costs.memory_limit[rank] = std::max<int64_t>(0, left.value);
}

// The transfers' own time: of the messages between two stages in a run where nobody waits long.
void read_hops(const OpGraph& graph, const Prices& prices, PipelineCosts& costs) {
  for (const Rendezvous& r : graph.rendezvous) {
    const Work& w = graph.works[static_cast<size_t>(r.work)];
    if (w.kind != WorkKind::send_recv) continue;
    const Time time = prices.by_work[static_cast<size_t>(r.work)].time;
    for (size_t s = 0; s + 1 < costs.rank_of_stage.size(); ++s) {
      const uint16_t here = costs.rank_of_stage[s], next = costs.rank_of_stage[s + 1];
      const bool same = (here == w.from && next == w.to) || (here == w.to && next == w.from);
      if (same) costs.hops[s] = std::max(costs.hops[s], time);
    }
  }
}

InputError cannot_make(const Scenario& s, const std::string& sentence) {
  Diagnostic d;
  d.code = "E205";
  d.message = "schedule '" + s.to_make->family + "': " + sentence;
  d.file = s.file;
  return InputError(std::move(d));
}

// ------------------------------------------------------------------------------------ families
// ----

template <class Of>
int64_t mean_of(size_t count, Of of) {
  double sum = 0;
  for (size_t i = 0; i < count; ++i) sum += static_cast<double>(of(i));
  return count == 0 ? 0 : static_cast<int64_t>(sum / static_cast<double>(count));
}

// The stages' mean costs, as the parameters of a family: nanoseconds and bytes.
std::vector<std::pair<std::string_view, int64_t>> mean_params(const PipelineCosts& c) {
  const auto time = [&](Time StageTimes::*field) {
    return mean_of(c.times.size(), [&](size_t s) { return (c.times[s].*field).count() / 1000; });
  };
  const auto bytes = [&](int64_t StageMemory::*field) {
    return mean_of(c.memory.size(), [&](size_t s) { return c.memory[s].*field; });
  };
  const int64_t hop = mean_of(c.hops.size(), [&](size_t s) { return c.hops[s].count() / 1000; });
  const int64_t at_f = bytes(&StageMemory::forward);
  const int64_t at_i = std::min<int64_t>(0, bytes(&StageMemory::backward_input));
  return {{"tF", time(&StageTimes::forward)},
          {"tB_input", time(&StageTimes::backward_input)},
          {"tW", time(&StageTimes::backward_weight)},
          {"tComm", hop},
          {"mem_F", at_f},
          {"mem_B", at_i},
          {"mem_W", -at_f - at_i}};
}

MadeSchedule make_family(const Scenario& scenario, const PipelineCosts& costs) {
  const ScheduleFamily* family = find_schedule_family(scenario.to_make->family);
  STEPCAST_CHECK(family != nullptr, "the scenario was resolved with this family");
  ScheduleParams params = scenario.to_make->params;
  for (const auto& [key, value] : mean_params(costs)) {
    const bool known = std::any_of(family->parameters.begin(), family->parameters.end(),
                                   [k = key](const ScheduleParameter& p) { return p.key == k; });
    if (known) params.more.try_emplace(std::string(key), std::to_string(value));
  }
  try {
    return {generate_schedule(*family, params), std::nullopt, {}};
  } catch (const std::invalid_argument& e) {
    throw cannot_make(scenario, e.what());
  }
}

// ---------------------------------------------------------------------------------------- auto
// ----

// What 1F1B holds, for ranks that have less: the least that a pipeline can run with at full speed.
void raise_to_1f1b(PipelineCosts& costs) {
  const auto pp = static_cast<size_t>(costs.pp);
  std::vector<int64_t> chunk(pp), chunks(pp);
  for (size_t s = 0; s < costs.rank_of_stage.size(); ++s) {
    const size_t r = costs.rank_of_stage[s];
    const StageMemory& m = costs.memory[s];
    chunk[r] = std::max({chunk[r], m.forward, m.forward + m.backward_input});
    ++chunks[r];
  }
  for (size_t r = 0; r < pp; ++r) {
    const int64_t in_flight = chunks[r] == 1 ? costs.pp - static_cast<int64_t>(r)
                                             : 2 * (costs.pp - 1) + (chunks[r] - 1) * costs.pp + 1;
    costs.memory_limit[r] = std::max(costs.memory_limit[r], in_flight * chunk[r]);
  }
}

// What one microbatch alone holds on the rank that has least room for it.
std::string least_memory(const PipelineCosts& costs) {
  PipelineCosts one = costs;
  one.microbatches = 1;
  const Schedule schedule = all_forwards_then_backwards(costs.rank_of_stage, costs.pp, 1, true);
  const std::vector<int64_t> peak = peak_memory(one, schedule.ranks);
  size_t worst = 0;
  for (size_t r = 1; r < peak.size(); ++r)
    if (peak[r] - costs.memory_limit[r] > peak[worst] - costs.memory_limit[worst]) worst = r;
  const auto mebibytes = [](int64_t b) {
    return std::to_string((b + (1 << 20) - 1) >> 20) + "MiB";
  };
  return "one microbatch holds " + mebibytes(peak[worst]) + " of activations on stage " +
         std::to_string(worst) + ", which may have " + mebibytes(costs.memory_limit[worst]);
}

// An order may need less memory than it was given: the least is sought with which the time stays
// within one in a thousand.
void save_memory(SynthesisProblem problem, Synthesis& found) {
  constexpr int kMostSteps = 4;
  constexpr int64_t kEffort = 2000;
  constexpr double kAsGood = 1.001;
  const bool span = problem.objective == SynthesisObjective::span;
  const auto time = [&](const Synthesis& s) {
    return static_cast<double>((span ? s.span : s.makespan).count());
  };
  const double most = time(found) * kAsGood;
  problem.effort = kEffort;
  std::vector<int64_t> low(found.peak_memory.size()), high = found.peak_memory;
  for (int step = 0; step < kMostSteps; ++step) {
    for (size_t r = 0; r < low.size(); ++r)
      problem.costs.memory_limit[r] = low[r] + (high[r] - low[r]) / 2;
    try {
      Synthesis next = synthesize(problem);
      if (time(next) <= most) {
        next.lower_bound = found.lower_bound;
        next.gap = time(next) / static_cast<double>(found.lower_bound.count()) - 1;
        high = next.peak_memory;
        found = std::move(next);
        continue;
      }
    } catch (const std::invalid_argument&) {
      // That little is not enough for any order.
    }
    low = problem.costs.memory_limit;
  }
}

// The best order of whole backwards, or of I and W apart.  Where the limits leave no room for any
// order they become what 1F1B would hold, unless the user has set them.
Synthesis synthesized(const Scenario& scenario, PipelineCosts costs, bool split_backward,
                      MadeSchedule& made) {
  const ScheduleToMake& make = *scenario.to_make;
  SynthesisProblem problem;
  problem.split_backward = split_backward;
  problem.objective =
      scenario.post_validation ? SynthesisObjective::span : SynthesisObjective::makespan;
  problem.effort = make.effort;
  problem.seed = make.seed;
  problem.costs = std::move(costs);
  try {
    Synthesis found = synthesize(problem);
    if (make.memory_limit.value == 0) save_memory(problem, found);
    return found;
  } catch (const std::invalid_argument&) {
    // Sizes and times are those of the probe, so it is the memory.
    const std::string why = "no order fits: " + least_memory(problem.costs);
    if (make.memory_limit.value > 0) throw cannot_make(scenario, why);
    made.warnings = {"schedule auto: " + why + "; the order takes what 1F1B would hold"};
  }
  raise_to_1f1b(problem.costs);
  try {
    return synthesize(problem);
  } catch (const std::invalid_argument& e) {
    throw cannot_make(scenario, e.what());
  }
}

MadeSchedule make_auto(const Scenario& scenario, const CostTable* table, Bytes reserve) {
  const ScheduleToMake& make = *scenario.to_make;
  MadeSchedule made;
  std::optional<Synthesis> best;
  Time bound = Time::max();
  const auto objective = [&](const Synthesis& s) {
    return scenario.post_validation ? s.span : s.makespan;
  };
  for (const bool split : {true, false}) {
    if (make.split_backward.value_or(split) != split) continue;
    PipelineCosts costs = stage_costs(scenario, table, split);
    for (int64_t& limit : costs.memory_limit) {
      limit = make.memory_limit.value > 0 ? make.memory_limit.value
                                          : std::max<int64_t>(0, limit - reserve.value);
    }
    Synthesis found = synthesized(scenario, std::move(costs), split, made);
    bound = std::min(bound, found.lower_bound);
    if (!best || objective(found) < objective(*best)) best = std::move(found);
  }
  const Time time = objective(*best);
  const double gap = static_cast<double>((time - bound).count()) /
                     static_cast<double>(std::max<int64_t>(1, bound.count()));
  made.synthesis =
      SynthesisFacts{time, bound, gap, best->start, best->start_time, best->orders_tried};
  made.schedule = std::move(best->schedule);
  return made;
}

}  // namespace

Schedule all_forwards_then_backwards(std::vector<uint16_t> rank_of_stage, int64_t pp,
                                     int64_t microbatches, bool split_backward) {
  Schedule out;
  out.name = "all-forward-all-backward";
  out.pp = pp;
  out.microbatches = microbatches;
  out.ranks.resize(static_cast<size_t>(pp));
  std::vector<int64_t> chunks(static_cast<size_t>(pp));
  const auto stages = static_cast<int64_t>(rank_of_stage.size());
  const auto list = [&](int64_t s) -> std::vector<Action>& {
    return out.ranks[rank_of_stage[static_cast<size_t>(s)]];
  };
  for (int64_t s = 0; s < stages; ++s) {
    out.vpp = std::max(out.vpp, ++chunks[rank_of_stage[static_cast<size_t>(s)]]);
    for (int64_t m = 0; m < microbatches; ++m) list(s).push_back(forward_of(s, m));
  }
  for (int64_t s = stages; s-- > 0;) {
    for (int64_t m = 0; m < microbatches; ++m) {
      Action a = backward_of(s, m);
      if (split_backward) a.kind = ActionKind::backward_input;
      list(s).push_back(a);
      if (!split_backward) continue;
      a.kind = ActionKind::backward_weight;
      list(s).push_back(a);
    }
  }
  out.rank_of_stage = std::move(rank_of_stage);
  return out;
}

PipelineCosts stage_costs(const Scenario& scenario, const CostTable* table, bool split_backward) {
  const std::vector<uint16_t>& placement = scenario.schedule.rank_of_stage;
  // One microbatch, and its last weight gradient without the reduction that may run beside it.
  Plan plan = scenario.plan;
  plan.global_batch = plan.micro_batch * plan.dp;
  plan.overlap.dp_grad = false;
  const OpGraph graph = lower(scenario.model, plan,
                              all_forwards_then_backwards(placement, plan.pp, 1, split_backward));
  const Prices prices = price(graph, scenario.cluster, plan.grid, table);
  // Launches run ahead of the device in a long list of passes, so they count only where a pass has
  // more of them than its device needs time for.
  Variation no_launches;
  no_launches.launch_scale = 0;
  const Timeline timeline = run(compile(graph, prices, no_launches));
  const std::vector<RoleMemory> memory = trace_memory(graph);

  PipelineCosts costs;
  costs.pp = plan.pp;
  costs.microbatches = scenario.plan.microbatches();
  costs.rank_of_stage = placement;
  costs.times.resize(placement.size());
  costs.memory.resize(placement.size());
  costs.hops.resize(placement.size() - 1);
  costs.memory_limit.resize(static_cast<size_t>(plan.pp));
  const Gpu& gpu = scenario.cluster.node.gpu;
  for (size_t r = 0; r < graph.roles.size(); ++r) {
    read_rank(graph, prices.launch, timeline, memory[r], r, gpu.memory - gpu.reserve, costs);
  }
  read_hops(graph, prices, costs);
  return costs;
}

MadeSchedule make_schedule(const Scenario& scenario, const CostTable* table, Bytes reserve) {
  STEPCAST_CHECK(scenario.to_make, "the schedule is there already");
  if (scenario.to_make->family == "auto") return make_auto(scenario, table, reserve);
  return make_family(scenario, stage_costs(scenario, table));
}

Schedule schedule_of(const Scenario& scenario) {
  if (!scenario.to_make) return scenario.schedule;
  return make_schedule(scenario, shipped_table(scenario.cluster.node.gpu.name)).schedule;
}

}  // namespace stepcast
