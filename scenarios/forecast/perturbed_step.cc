// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/perturbed_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <span>
#include <tuple>
#include <utility>

#include "scenarios/forecast/lane_set.h"
#include "scenarios/forecast/perturbed_ranks.h"
#include "scenarios/forecast/what_if.h"
#include "sim/check.h"
#include "sim/diagnostic.h"
#include "sim/graph/program.h"
#include "sim/statistics.h"
#include "topology/traffic/step_traffic.h"

namespace stepcast {
RankSimulation::RankSimulation(const PricedStep& step,
                               const std::optional<Interference>& interference, Links links)
    : step_(step),
      shared_links_(links == Links::as_scenario && scenario().share_links),
      interference_(interference) {
  const Scenario& s = scenario();
  const auto drawn_for_ranks = [](const Perturbation& p) { return p.sigma > 0 && !p.each_op; };
  if (std::ranges::none_of(s.perturb, drawn_for_ranks))
    lanes_ = lane_set(s, step.graph, step.prices, s.seed);
  if (shared_links_) cluster_ = perturbed_graph(s);
  if (shared_links_ && s.cluster.fabric.adaptive && lanes_) traffic_ = traffic(*lanes_, s.seed);
}

Traffic RankSimulation::traffic(const LaneSet& lanes, uint64_t seed) const {
  const Scenario& s = scenario();
  return traffic_of(step_.graph, step_.prices, s.plan.grid, s.placement, *cluster_,
                    route_options(s.cluster.fabric, seed), lanes);
}

int64_t RankSimulation::most_turns() const {
  const Scenario& s = scenario();
  if (shared_links_ && s.links == Scenario::Links::automatic) return kQuickTurns;
  if (interference_ && may_leave_out_interference(s)) return kSlowingTurns / s.replicas;
  return INT64_MAX;
}

RankRun RankSimulation::run(uint64_t seed, const LaneOptions& given) const {
  RankRun run;
  LaneOptions options = given;
  options.most_turns = most_turns();
  run.lanes = lanes_ ? *lanes_ : lane_set(scenario(), step_.graph, step_.prices, seed);
  if (run.lanes.jitter) run.lanes.jitter->seed = seed;
  run.interference = interference_.has_value();
  run.shared_links = shared_links_;
  try {
    if (!run.interference && !run.shared_links) {
      run.ranks.lanes = run_lanes(step_.graph, step_.prices, run.lanes, options);
      return run;
    }
    Traffic own;
    if (run.shared_links && !traffic_) own = traffic(run.lanes, seed);
    run.ranks = run_contended(step_.graph, step_.prices, run.lanes, traffic_ ? *traffic_ : own,
                              interference_.value_or(Interference{}), options);
    return run;
  } catch (TooLongForLanes& e) {
    throw TooLongForLanes(with_code_and_file(std::move(e), "E123", scenario().file).diagnostics);
  } catch (InputError& e) {
    throw with_code_and_file(std::move(e), "E123", scenario().file);
  }
}

std::string rank_name(const PricedStep& step, uint32_t role, int64_t lane) {
  const RankGrid& grid = step.scenario->plan.grid;
  const int64_t rank = rank_of_lane(*step.scenario, step.graph, role, lane);
  const Coordinates at = grid.coordinates(rank);
  std::string text = step.graph.roles[role].name;
  const auto add = [&](const char* axis, int64_t size, int64_t value) {
    if (size > 1) text += fmt::format(", {} {}", axis, value);
  };
  add("tp", grid.tp, at.tp);
  add("cp", grid.cp, at.cp);
  add("dp", grid.dp, at.dp);
  return fmt::format("rank {} ({})", rank, text);
}

namespace {

// Of equal ranks.  Throws InputError without a place.
LaneResult interfering(const OpGraph& graph, const Prices& prices, const Interference& factors,
                       LonePassCache* passes) {
  return run_contended(graph, prices, LaneSet{}, Traffic{}, factors, {}, passes).lanes;
}

// The step with interference, where it is known without the undisturbed run that there is any: the
// step takes no less with it, so that it can be counted without it if it can be with it.
std::optional<Time> interfering_step(const Scenario& scenario, const CostTable* table,
                                     const OpGraph& graph, const Prices& prices,
                                     LonePassCache* passes) {
  if (is_perturbed(scenario)) return {};
  try {
    const InterferenceChoice choice = choose_interference(scenario, table, Time{});
    if (!choice.factors) return {};
    const LaneResult ranks = interfering(graph, prices, *choice.factors, passes);
    if (choose_interference(scenario, table, ranks.makespan).factors)
      return cost_of(scenario, ranks);
  } catch (const InputError&) {  // too long for it, or there are no factors
  }
  return {};
}

}  // namespace

Time step_time_of(const Scenario& scenario, const CostTable* table, const OpGraph& graph,
                  const Prices& prices, Time most, LonePassCache* passes) {
  if (most == Time::max()) {
    if (const auto time = interfering_step(scenario, table, graph, prices, passes)) return *time;
  }
  const Time undisturbed =
      cost_of(scenario, stepcast::run(compile(graph, prices), Record::nothing));
  if (is_perturbed(scenario) || undisturbed > most) return undisturbed;
  const InterferenceChoice choice = choose_interference(scenario, table, undisturbed);
  if (!choice.factors) return undisturbed;
  try {
    return cost_of(scenario, interfering(graph, prices, *choice.factors, passes));
  } catch (TooLongForLanes& e) {
    throw TooLongForLanes(with_code_and_file(std::move(e), "E123", scenario.file).diagnostics);
  } catch (InputError& e) {
    throw with_code_and_file(std::move(e), "E123", scenario.file);
  }
}

TracedLane all_stages(const PricedStep& step, int64_t lane, Timeline timeline) {
  TracedLane traced;
  traced.timeline = std::move(timeline);
  for (uint32_t role = 0; role < step.graph.roles.size(); ++role) {
    traced.roles.push_back(role);
    traced.names.push_back(rank_name(step, role, lane));
  }
  return traced;
}

std::vector<TracedLane> trace_ranks(const PricedStep& step,
                                    const std::optional<Interference>& interference,
                                    std::span<const int64_t> ranks, const LaneOptions& options) {
  const std::set<int64_t> wanted(ranks.begin(), ranks.end());
  const RankGrid& grid = step.scenario->plan.grid;
  std::set<int64_t> lanes;
  for (const int64_t rank : wanted) lanes.insert(lane_of_rank(grid, rank));
  std::vector<TracedLane> all;
  const RankSimulation simulation(step, interference);
  for (const int64_t lane : lanes) {
    LaneOptions of_lane = options;
    of_lane.record = of_lane.ops = true;
    of_lane.lane = lane;
    TracedLane& traced = all.emplace_back();
    traced.timeline = simulation.run(step.scenario->seed, of_lane).ranks.lanes.timeline;
    for (uint32_t role = 0; role < step.graph.roles.size(); ++role) {
      if (!wanted.contains(rank_of_lane(*step.scenario, step.graph, role, lane))) continue;
      traced.roles.push_back(role);
      traced.names.push_back(rank_name(step, role, lane));
    }
  }
  return all;
}

// --------------------------------------------------------------- against the step of equal ranks
namespace {

// What slowness adds to `compute`, rounded down.
Time added(Time compute, Slowness slowness) {
  __extension__ using Wide = __int128;
  const Wide more = static_cast<Wide>(compute.count()) * (slowness - kNominal);
  return Time{static_cast<int64_t>(more >> kLaneFractionBits)};
}

using ByLane = std::vector<std::vector<Time>>;  // [role][lane]

// How much longer each lane computes than priced.  In a window: no longer than if it computed all
// the time.
ByLane own_delay(const LaneSet& lanes, const Account& undisturbed, Time step) {
  ByLane delay(undisturbed.by_role.size(),
               std::vector<Time>(static_cast<size_t>(lanes.lanes()), Time{}));
  for (size_t role = 0; role < delay.size(); ++role) {
    if (lanes.slowness.empty()) break;
    const Time compute = sum_if(undisturbed.by_role[role], is_compute);
    for (size_t lane = 0; lane < delay[role].size(); ++lane)
      delay[role][lane] = added(compute, lanes.slowness[role][lane]);
  }
  for (uint32_t role = 0; role < delay.size(); ++role) {
    for (size_t lane = 0; lane < delay[role].size(); ++lane) {
      for (const LaneWindow& w : lanes.windows_of(role, static_cast<int64_t>(lane))) {
        if (w.slowness <= kNominal) continue;
        const Time length = std::max(Time{}, std::min(w.until, step) - std::min(w.from, step));
        delay[role][lane] +=
            length -
            Time{static_cast<int64_t>(static_cast<double>(length.count()) * kNominal / w.slowness)};
      }
    }
  }
  return delay;
}

// Slower for a while at least; faster for a while at least and never slower.
std::pair<int64_t, int64_t> slower_and_faster_ranks(const LaneSet& lanes, size_t roles) {
  std::pair<int64_t, int64_t> count;
  for (uint32_t role = 0; role < roles; ++role) {
    for (int64_t lane = 0; lane < lanes.lanes(); ++lane) {
      const Slowness own =
          lanes.slowness.empty() ? kNominal : lanes.slowness[role][static_cast<size_t>(lane)];
      bool slow = own > kNominal, fast = own < kNominal;
      for (const LaneWindow& w : lanes.windows_of(role, lane)) {
        slow = slow || w.slowness > kNominal;
        fast = fast || w.slowness < kNominal;
      }
      count.first += slow ? 1 : 0;
      count.second += fast && !slow ? 1 : 0;
    }
  }
  return count;
}

// Of equal ranks.
Time undisturbed_step(const PricedStep& step, const Variation& variation) {
  return cost_of(*step.scenario, run(compile(step.graph, step.prices, variation), Record::nothing));
}

Time step_without_contention(const PricedStep& step) {
  const RankSimulation alone(step, {}, RankSimulation::Links::not_shared);
  return cost_of(*step.scenario, alone.run(step.scenario->seed, {}).ranks.lanes);
}

}  // namespace

StepTimes step_times(const PricedStep& step, bool contended, Time undisturbed, Time now) {
  StepTimes times{now, now, undisturbed};
  if (!contended) return times;
  times.without_contention =
      step.scenario->perturb.empty() ? undisturbed : step_without_contention(step);
  return times;
}

std::vector<WhatIf> what_if_of_ranks(const PricedStep& step, const SpendTable& account,
                                     const StepTimes& times) {
  const Time before = times.without_contention;
  const Variation levels = level_stages(step, compile(step.graph, step.prices));
  std::vector<WhatIf> answers = what_if(account, levels, before, [&](const Variation& variation) {
    if (step.scenario->perturb.empty()) return undisturbed_step(step, variation);
    VariedStep varied = vary(step.graph, step.prices, variation);
    return step_without_contention(
        {step.scenario, step.table, std::move(varied.graph), std::move(varied.prices)});
  });
  const auto add = [&](Spend spend, Time saved) {
    if (account[static_cast<size_t>(spend)] != Time{}) answers.push_back({spend, saved});
  };
  add(Spend::straggler, before - times.undisturbed);
  add(Spend::contention, times.now - before);
  return answers;
}

Disturbance compare_with_equal_ranks(const PricedStep& step, const RankRun& run,
                                     const Account& undisturbed, Time before,
                                     std::optional<Time> alone) {
  const Scenario& scenario = *step.scenario;
  const OpGraph& graph = step.graph;
  const LaneSet& lanes = run.lanes;
  const LaneResult& ranks = run.ranks.lanes;
  Disturbance d;
  d.shared_links = run.shared_links;
  d.interference = run.interference;
  d.undisturbed = before;
  d.ranks = scenario.plan.grid.world();
  d.jitter = lanes.jitter.has_value();
  d.last_rank = rank_name(step, ranks.last_role, ranks.last_lane);
  d.lanes = ranks.lanes_run * static_cast<int64_t>(graph.roles.size());
  std::tie(d.slow_ranks, d.fast_ranks) = slower_and_faster_ranks(lanes, graph.roles.size());
  d.slow_links = ranks_on_slow_links(scenario, graph);
  if (d.jitter || !alone) return d;
  const Time worth_telling = before / 1000;
  Time sum{};
  for (const auto& of_role : own_delay(lanes, undisturbed, *alone)) {
    for (const Time own : of_role) {
      const Time waited = *alone - before - own;
      if (waited <= worth_telling) continue;
      ++d.waiting;
      sum += waited;
    }
  }
  if (d.waiting > 0) d.mean_wait = sum / d.waiting;
  return d;
}

void book_longer_waits(Account& account, const Account& undisturbed, Spend cause) {
  constexpr std::array kWaits{Spend::imbalance, Spend::drain, Spend::fill};
  const auto waiting = [&](const SpendTable& of) {
    Time sum{};
    for (const Spend s : kWaits) sum += of[static_cast<size_t>(s)];
    return sum;
  };
  for (size_t r = 0; r < account.by_role.size(); ++r) {
    SpendTable& table = account.by_role[r];
    Time left = std::max(Time{}, waiting(table) - waiting(undisturbed.by_role[r]));
    for (const Spend s : kWaits) {
      Time& here = table[static_cast<size_t>(s)];
      const Time taken = std::min(left, here);
      here -= taken;
      left -= taken;
      table[static_cast<size_t>(cause)] += taken;
    }
    Time& late = table[static_cast<size_t>(Spend::straggler)];
    if (cause != Spend::straggler) table[static_cast<size_t>(cause)] += std::exchange(late, Time{});
  }
}

// -------------------------------------------------------------------------------------- replicas

ReplicaTimes summary_of(std::vector<Time> times) {
  STEPCAST_CHECK(!times.empty(), "something to sum up");
  __extension__ using Wide = __int128;
  std::sort(times.begin(), times.end());
  const auto at = [&](size_t percent) {
    return nearest_rank(std::span<const Time>(times), percent);
  };
  Wide sum = 0;
  for (const Time t : times) sum += t.count();
  ReplicaTimes r;
  r.count = static_cast<int64_t>(times.size());
  r.mean = Time{static_cast<int64_t>(sum / static_cast<Wide>(times.size()))};
  r.min = times.front();
  r.p5 = at(5);
  r.p50 = at(50);
  r.p95 = at(95);
  r.max = times.back();
  return r;
}

ReplicaTimes run_replicas(const PricedStep& step, const std::optional<Interference>& interference,
                          const Progress& progress) {
  const Scenario& scenario = *step.scenario;
  const RankSimulation simulation(step, interference);
  std::vector<Time> times;
  for (int64_t i = 0; i < scenario.replicas; ++i) {
    const uint64_t seed = scenario.seed + static_cast<uint64_t>(i);
    times.push_back(cost_of(scenario, simulation.run(seed, {}).ranks.lanes));
    if (progress) progress(i + 1, scenario.replicas);
  }
  ReplicaTimes r = summary_of(std::move(times));
  r.first_seed = scenario.seed;
  return r;
}

}  // namespace stepcast
