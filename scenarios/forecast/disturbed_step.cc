// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/disturbed_step.h"

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "scenarios/file_error.h"
#include "scenarios/forecast/lane_set.h"
#include "scenarios/forecast/slow_links.h"
#include "scenarios/forecast/what_if.h"
#include "sim/varied.h"
#include "topology/traffic.h"

namespace stepcast {
namespace {

Time compute_of(const SpendTable& table) {
  Time sum{};
  for (int s = 0; s < static_cast<int>(Spend::exposed_tp); ++s)
    sum += table[static_cast<size_t>(s)];
  return sum;
}

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
    const Time compute = compute_of(undisturbed.by_role[role]);
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

std::optional<Interference> interference_of(const StepInputs& in) {
  using enum Scenario::Interference;
  if (!in.contention || in.scenario.interference == off) return {};
  std::optional<Interference> measured;
  if (in.table != nullptr) measured = in.table->interference();
  if (!measured && in.scenario.interference == on)
    throw file_error("E127",
                     "contention.interference is on, but nobody has measured it on " +
                         in.scenario.cluster.node.gpu.name,
                     in.scenario.file, "auto leaves it out where it was not measured");
  return measured;
}

Traffic traffic_in(const StepInputs& in, const ClusterGraph& cluster, const LaneSet& lanes,
                   uint64_t seed) {
  const Scenario& s = in.scenario;
  return traffic_of(in.graph, in.prices, s.plan.grid, s.placement, cluster,
                    route_options(s.cluster.fabric, seed), lanes);
}

}  // namespace

bool is_disturbed(const Scenario& scenario) {
  return !scenario.perturb.empty() || scenario.share_links ||
         scenario.interference != Scenario::Interference::off;
}

StepParts parts_of(const StepInputs& in) {
  const Scenario& s = in.scenario;
  StepParts parts;
  const auto drawn_for_ranks = [](const Perturbation& p) { return p.sigma > 0 && !p.each_op; };
  if (std::ranges::none_of(s.perturb, drawn_for_ranks))
    parts.lanes = lane_set(s, in.graph, in.prices, s.seed);
  if (!in.contention || !s.share_links) return parts;
  parts.cluster = disturbed_graph(s);
  if (s.cluster.fabric.adaptive && parts.lanes)
    parts.traffic = traffic_in(in, *parts.cluster, *parts.lanes, s.seed);
  return parts;
}

RankRun run_ranks(const StepInputs& in, uint64_t seed, const LaneOptions& options) {
  return run_ranks(in, parts_of(in), seed, options);
}

RankRun run_ranks(const StepInputs& in, const StepParts& parts, uint64_t seed,
                  const LaneOptions& options) {
  const Scenario& s = in.scenario;
  RankRun run;
  run.lanes = parts.lanes ? *parts.lanes : lane_set(s, in.graph, in.prices, seed);
  if (run.lanes.jitter) run.lanes.jitter->seed = seed;
  const std::optional<Interference> factors = interference_of(in);
  run.interference = factors.has_value();
  run.shared_links = in.contention && s.share_links;
  try {
    if (!run.interference && !run.shared_links) {
      run.ranks.lanes = run_lanes(in.graph, in.prices, run.lanes, options);
      return run;
    }
    Traffic own;
    if (!run.shared_links) {
      own.pattern_of.resize(in.graph.works.size());
      own.latency.resize(in.graph.works.size());
    } else if (!parts.traffic) {
      own = traffic_in(in, *parts.cluster, run.lanes, seed);
    }
    run.ranks = run_contended(in.graph, in.prices, run.lanes, parts.traffic ? *parts.traffic : own,
                              factors.value_or(Interference{}), options);
    return run;
  } catch (const std::invalid_argument& e) {
    throw file_error("E123", e.what(), s.file);
  }
}

std::string rank_name(const StepInputs& in, uint32_t role, int64_t lane) {
  const RankGrid& grid = in.scenario.plan.grid;
  const int64_t rank = rank_of_lane(in.scenario, in.graph, role, lane);
  const Coordinates at = grid.coordinates(rank);
  std::string text = in.graph.roles[role].name;
  const auto add = [&](const char* axis, int64_t size, int64_t value) {
    if (size > 1) text += std::string(", ") + axis + ' ' + std::to_string(value);
  };
  add("tp", grid.tp, at.tp);
  add("cp", grid.cp, at.cp);
  add("dp", grid.dp, at.dp);
  return "rank " + std::to_string(rank) + " (" + text + ')';
}

TracedLane all_stages(const StepInputs& in, int64_t lane, Timeline timeline) {
  TracedLane traced;
  traced.timeline = std::move(timeline);
  for (uint32_t role = 0; role < in.graph.roles.size(); ++role) {
    traced.roles.push_back(role);
    traced.names.push_back(rank_name(in, role, lane));
  }
  return traced;
}

std::vector<TracedLane> trace_ranks(const StepInputs& in, std::span<const int64_t> ranks,
                                    const LaneOptions& options) {
  const std::set<int64_t> wanted(ranks.begin(), ranks.end());
  const RankGrid& grid = in.scenario.plan.grid;
  std::set<int64_t> lanes;
  for (const int64_t rank : wanted) lanes.insert(lane_of_rank(grid, rank));
  std::vector<TracedLane> all;
  const StepParts parts = parts_of(in);
  for (const int64_t lane : lanes) {
    LaneOptions of_lane = options;
    of_lane.record = of_lane.ops = true;
    of_lane.lane = lane;
    TracedLane& traced = all.emplace_back();
    traced.timeline = run_ranks(in, parts, in.scenario.seed, of_lane).ranks.lanes.timeline;
    for (uint32_t role = 0; role < in.graph.roles.size(); ++role) {
      if (!wanted.contains(rank_of_lane(in.scenario, in.graph, role, lane))) continue;
      traced.roles.push_back(role);
      traced.names.push_back(rank_name(in, role, lane));
    }
  }
  return all;
}

namespace {

Time step_without_contention(const StepInputs& in, const OpGraph& graph, const Prices& prices,
                             Time LaneResult::*step) {
  const StepInputs alone{in.scenario, graph, prices, in.table, false};
  return run_ranks(alone, in.scenario.seed, {}).ranks.lanes.*step;
}

}  // namespace

StepTimes step_times(const StepInputs& in, Time LaneResult::*step, Time undisturbed, Time now) {
  const bool contended =
      in.scenario.share_links || in.scenario.interference != Scenario::Interference::off;
  StepTimes times{now, now, undisturbed};
  if (!contended) return times;
  times.without_contention = in.scenario.perturb.empty()
                                 ? undisturbed
                                 : step_without_contention(in, in.graph, in.prices, step);
  return times;
}

std::vector<WhatIf> what_if_of_ranks(const StepInputs& in, const SpendTable& account,
                                     Time LaneResult::*step, const StepTimes& times) {
  const Time before = times.without_contention;
  std::vector<WhatIf> answers =
      what_if(in.graph, in.prices, account, before, [&](const Variation& variation) {
        const VariedStep varied = vary(in.graph, in.prices, variation);
        return step_without_contention(in, varied.graph, varied.prices, step);
      });
  const auto add = [&](Spend spend, Time saved) {
    if (account[static_cast<size_t>(spend)] != Time{}) answers.push_back({spend, saved});
  };
  add(Spend::straggler, before - times.undisturbed);
  add(Spend::contention, times.now - before);
  return answers;
}

Disturbance compare_with_equal_ranks(const StepInputs& in, const RankRun& run,
                                     const Account& undisturbed, Time now, Time before) {
  const Scenario& scenario = in.scenario;
  const OpGraph& graph = in.graph;
  const LaneSet& lanes = run.lanes;
  const LaneResult& ranks = run.ranks.lanes;
  Disturbance d;
  d.shared_links = run.shared_links;
  d.interference = run.interference;
  d.undisturbed = before;
  d.ranks = scenario.plan.grid.world();
  d.jitter = lanes.jitter.has_value();
  d.last_rank = rank_name(in, ranks.last_role, ranks.last_lane);
  d.lanes = ranks.lanes_run * static_cast<int64_t>(graph.roles.size());
  std::tie(d.slow_ranks, d.fast_ranks) = slower_and_faster_ranks(lanes, graph.roles.size());
  d.slow_links = ranks_on_slow_links(scenario, graph);
  if (d.jitter || d.shared_links || d.interference) return d;
  const Time worth_telling = before / 1000;
  Time sum{};
  for (const auto& of_role : own_delay(lanes, undisturbed, now)) {
    for (const Time own : of_role) {
      const Time waited = now - before - own;
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

}  // namespace stepcast
