// SPDX-License-Identifier: Apache-2.0
// The step of a scenario rank by rank, where ranks differ (stragglers) or get in each other's way
// (contention), and how it compares with the step of equal ranks.
//
// Every rank is a lane of an engine: of sim/lanes/lanes.h where ranks only differ, of
// sim/contention/contention.h where transfers share links or communication slows the compute beside
// it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/forecast/interference.h"
#include "scenarios/forecast/step.h"
#include "scenarios/scenario.h"
#include "sim/account/account.h"
#include "sim/contention/contention.h"
#include "sim/for_each_item.h"
#include "sim/graph/spend.h"
#include "sim/lanes/lanes.h"
#include "sim/results/result.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

struct RankRun {
  LaneSet lanes;
  ContentionResult ranks;
  bool shared_links = false, interference = false;
};

// contention.links: auto.  So many turns of the contention engine take about a second, and so many
// ranks have their links found in a tenth of one.
constexpr int64_t kQuickTurns = 20'000'000;
constexpr int64_t kQuickRanks = 4096;
// contention.interference: auto.  So many turns of all replicas together are taken for it.
constexpr int64_t kSlowingTurns = 2 * kQuickTurns;

// Runs a step with all ranks, under one seed or several.  What does not depend on the seed is
// computed once.
class RankSimulation {
 public:
  enum class Links : uint8_t { as_scenario, not_shared };

  // `interference`: by what compute and communication slow each other down; nothing: they do not.
  // REQUIRES: `step` outlives this.  Throws InputError E130 as lane_set() does.
  RankSimulation(const PricedStep& step, const std::optional<Interference>& interference,
                 Links links = Links::as_scenario);

  // All random numbers come from `seed`, the routes through the fabric among them.  Throws
  // Deadlock, TooLongForLanes (E123) for a step of more than 19 minutes, and TooManyTurns where
  // what would take more than kQuickTurns or kSlowingTurns is simulated automatically.
  RankRun run(uint64_t seed, const LaneOptions& options) const;

 private:
  Traffic traffic(const LaneSet& lanes, uint64_t seed) const;
  int64_t most_turns() const;

  const Scenario& scenario() const { return *step_.scenario; }

  const PricedStep& step_;
  bool shared_links_;
  std::optional<LaneSet> lanes_;              // unless factors are drawn for ranks
  std::optional<ClusterGraph> cluster_;       // if links are shared
  std::optional<Traffic> traffic_;            // if no routes are drawn
  std::optional<Interference> interference_;  // if compute and communication slow each other down
};

// What a step of equal ranks whose transfers share no links costs, as forecast() has it; nothing is
// recorded.  Of a scenario that says otherwise (is_perturbed): what it would cost without
// perturbations and contention.  `graph` with its `prices` is the scenario's.  Throws Deadlock, and
// InputError as choose_interference().  Where equal ranks without interference take longer than
// `most` already, that is the answer: interference makes nothing faster.  `passes` may be null
// (run_contended()).
Time step_time_of(const Scenario& scenario, const CostTable* table, const OpGraph& graph,
                  const Prices& prices, Time most = Time::max(), LonePassCache* passes = nullptr);

// "rank 4711 (stage 9, tp 7, dp 36)".  Axes that have a single rank are left out.
std::string rank_name(const PricedStep& step, uint32_t role, int64_t lane);

// The ranks of one lane, as a trace has them.
TracedLane all_stages(const PricedStep& step, int64_t lane, Timeline timeline);
// Given ranks of the job, with the timelines of their lanes.  REQUIRES: ranks of the job.  Throws
// as RankSimulation::run().
std::vector<TracedLane> trace_ranks(const PricedStep& step,
                                    const std::optional<Interference>& interference,
                                    std::span<const int64_t> ranks, const LaneOptions& options);

// --------------------------------------------------------------- against the step of equal ranks

// What a step costs (cost_of() in step.h): as it is, then without contention, then with equal ranks
// too.
struct StepTimes {
  Time now{};
  Time without_contention{};
  Time undisturbed{};  // of equal ranks
};
// The step without contention is simulated only where it is neither of the other two.  `contended`:
// links were shared, or compute and communication slowed each other down.
StepTimes step_times(const PricedStep& step, bool contended, Time undisturbed, Time now);

// "If it were free", of the step without contention.
std::vector<WhatIf> what_if_of_ranks(const PricedStep& step, const SpendTable& account,
                                     const StepTimes& times);

// How a run compares with the step of equal ranks.  `undisturbed` is the account of that step,
// `before` what it costs, and `alone` what the run costs without contention; where that is not
// known, nobody is said to wait.
Disturbance compare_with_equal_ranks(const PricedStep& step, const RankRun& run,
                                     const Account& undisturbed, Time before,
                                     std::optional<Time> alone);

// Books waits for other stages that the step of equal ranks does not have to `cause` (straggler or
// contention), which is what made them; without stragglers, waits in a collective too.  The time
// comes from fill, imbalance, drain and straggler, so the sums do not change.
// REQUIRES: equal roles.
void book_longer_waits(Account& account, const Account& undisturbed, Spend cause);

// -------------------------------------------------------------------------------------- replicas

// Runs scenario.replicas steps with seeds scenario.seed, + 1, ...  Throws as RankSimulation::run().
ReplicaTimes run_replicas(const PricedStep& step, const std::optional<Interference>& interference,
                          const Progress& progress);

// Mean (rounded down) and percentiles by nearest rank: the smallest time that p % of the times do
// not exceed.  REQUIRES: at least one.
ReplicaTimes summary_of(std::vector<Time> times);

}  // namespace stepcast
