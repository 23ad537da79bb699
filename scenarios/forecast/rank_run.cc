// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/rank_run.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "scenarios/forecast/lane_set.h"
#include "scenarios/forecast/slow_links.h"
#include "sim/diagnostic.h"
#include "topology/traffic/step_traffic.h"

namespace stepcast {
namespace {

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
  } catch (const InputError& e) {
    throw place(e, "E123", s.file);
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

}  // namespace stepcast
