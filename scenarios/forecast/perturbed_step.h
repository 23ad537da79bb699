// SPDX-License-Identifier: Apache-2.0
// The step of a scenario rank by rank, where ranks differ (stragglers) or get in each other's way
// (contention), and how it compares with the step of equal ranks.
//
// Every rank is a lane of an engine: of the one in sim/lanes/lanes.h where ranks only differ, of
// that in sim/contention/contention.h where transfers share links or compute is slowed by
// communication beside it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/step.h"
#include "scenarios/scenario.h"
#include "sim/account/account.h"
#include "sim/contention/contention.h"
#include "sim/graph/spend.h"
#include "sim/lanes/lanes.h"
#include "sim/result.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

// Whether anything sets ranks apart or lets them get in each other's way.
bool is_perturbed(const Scenario& scenario);

struct RankRun {
  LaneSet lanes;
  ContentionResult ranks;
  bool shared_links = false, interference = false;
};

// Runs a step with all ranks, under one seed or several: what does not depend on the seed is made
// once.
class RankSimulation {
 public:
  enum class Contention : uint8_t { as_scenario, none };

  // REQUIRES: `step` outlives this.  Throws InputError E130 as lane_set() does.
  explicit RankSimulation(const PricedStep& step, Contention contention = Contention::as_scenario);

  // What is drawn is drawn from `seed`, routes through the fabric too.  Throws Deadlock, and
  // InputError: E123 for a step of more than 19 minutes, E127 if interference is on and was not
  // measured.
  RankRun run(uint64_t seed, const LaneOptions& options) const;

 private:
  std::optional<Interference> interference() const;
  Traffic traffic(const LaneSet& lanes, uint64_t seed) const;

  const Scenario& scenario() const { return *step_.scenario; }

  const PricedStep& step_;
  bool shared_links_;
  std::optional<LaneSet> lanes_;              // unless factors are drawn for ranks
  std::optional<ClusterGraph> cluster_;       // if links are shared
  std::optional<Traffic> traffic_;            // if no routes are drawn
  std::optional<Interference> interference_;  // if compute and communication slow each other down
};

// "rank 4711 (stage 9, tp 7, dp 36)": axes of one rank are left out.
std::string rank_name(const PricedStep& step, uint32_t role, int64_t lane);

// The ranks of one lane, as a trace has them.
TracedLane all_stages(const PricedStep& step, int64_t lane, Timeline timeline);
// Given ranks of the job, with the timelines of their lanes.  REQUIRES: ranks of the job.  Throws
// as RankSimulation::run().
std::vector<TracedLane> trace_ranks(const PricedStep& step, std::span<const int64_t> ranks,
                                    const LaneOptions& options);

// --------------------------------------------------------------- against the step of equal ranks

// What a step costs, makespan or span, as how ranks differ and contention are taken away.
struct StepTimes {
  Time now{};
  Time without_contention{};
  Time undisturbed{};  // of equal ranks
};
// `of`: what a step costs.  Simulates the second only if it is none of the others.
StepTimes step_times(const PricedStep& step, Time LaneResult::*of, Time undisturbed, Time now);

// "If it were free", of the step without contention.
std::vector<WhatIf> what_if_of_ranks(const PricedStep& step, const SpendTable& account,
                                     Time LaneResult::*of, const StepTimes& times);

// What a run has to say against the step of equal ranks.  `undisturbed` is the account of that;
// `now` and `before` are what the steps cost.
Disturbance compare_with_equal_ranks(const PricedStep& step, const RankRun& run,
                                     const Account& undisturbed, Time now, Time before);

// Waits for other stages that the step of equal ranks does not have are the fault of what sets
// ranks apart, `cause` (straggler, contention); so are, without stragglers, waits in a collective.
// Moves time from fill, imbalance, drain and straggler; sums stay.
// REQUIRES: equal roles.
void book_longer_waits(Account& account, const Account& undisturbed, Spend cause);

// -------------------------------------------------------------------------------------- replicas

// Runs scenario.replicas steps with seeds scenario.seed, + 1, ...; `of` says what a step costs, the
// makespan or the span.  Throws as RankSimulation::run().
ReplicaTimes run_replicas(const PricedStep& step, Time LaneResult::*of, const Progress& progress);

// Mean (rounded down) and percentiles by nearest rank: the smallest time that p % of the times do
// not exceed.  REQUIRES: at least one.
ReplicaTimes summary_of(std::vector<Time> times);

}  // namespace stepcast
