// SPDX-License-Identifier: Apache-2.0
// The step of a scenario whose ranks differ: every rank a lane of the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/cost_table.h"
#include "scenarios/scenario.h"
#include "sim/account.h"
#include "sim/contention.h"
#include "sim/lanes.h"
#include "sim/op_graph.h"
#include "sim/price.h"
#include "sim/result.h"
#include "topology/cluster_graph.h"

namespace stepcast {

// Whether anything sets ranks apart or lets them get in each other's way.
bool is_disturbed(const Scenario& scenario);

// What a step is run from.  Nothing is owned.
struct StepInputs {
  const Scenario& scenario;
  const OpGraph& graph;
  const Prices& prices;
  const CostTable* table = nullptr;
  bool contention = true;  // if the scenario has it
};

// The step rank by rank: what is drawn is drawn from `seed`, ways through the fabric too.
// REQUIRES: graph and prices are those of the scenario.  Throws Deadlock, and InputError: E123 for
// a step of more than 19 minutes, E127 if interference is on and was not measured.
struct RankRun {
  LaneSet lanes;
  ContentionResult ranks;
  bool shared_links = false, interference = false;
};
RankRun run_ranks(const StepInputs& in, uint64_t seed, const LaneOptions& options);

// What does not depend on the seed, for runs under several: made once.
struct StepParts {
  std::optional<LaneSet> lanes;         // unless factors are drawn for ranks
  std::optional<ClusterGraph> cluster;  // if links are shared
  std::optional<Traffic> traffic;       // if no ways are drawn
};
// REQUIRES and errors: as run_ranks.
StepParts parts_of(const StepInputs& in);
// As above.  REQUIRES: the parts are of the same inputs.
RankRun run_ranks(const StepInputs& in, const StepParts& parts, uint64_t seed,
                  const LaneOptions& options);

// "rank 4711 (stage 9, tp 7, dp 36)": axes of one rank are left out.
std::string rank_name(const StepInputs& in, uint32_t role, int64_t lane);

// The ranks of one lane, as a trace has them.
TracedLane all_stages(const StepInputs& in, int64_t lane, Timeline timeline);
// Given ranks of the job, with the timelines of their lanes.  REQUIRES: ranks of the job; otherwise
// as run_ranks.
std::vector<TracedLane> trace_ranks(const StepInputs& in, std::span<const int64_t> ranks,
                                    const LaneOptions& options);

// What a step costs, makespan or span, as how ranks differ and contention are taken away.
struct StepTimes {
  Time now{};
  Time without_contention{};
  Time undisturbed{};  // of equal ranks
};
// `step`: what a step is.  Simulates the second only if it is none of the others.
StepTimes step_times(const StepInputs& in, Time LaneResult::*step, Time undisturbed, Time now);

// "If it were free", of the step without contention.
std::vector<WhatIf> what_if_of_ranks(const StepInputs& in, const SpendTable& account,
                                     Time LaneResult::*step, const StepTimes& times);

// What a run has to say against the undisturbed step.  `undisturbed` is the account of that; `now`
// and `before` are what a step costs.
Disturbance compare_with_equal_ranks(const StepInputs& in, const RankRun& run,
                                     const Account& undisturbed, Time now, Time before);

// Waits for other stages that the undisturbed step does not have are the fault of what disturbs it,
// `cause` (straggler, contention); so are, without stragglers, waits in a collective.  Moves time
// from fill, imbalance, drain and straggler; sums stay.
// REQUIRES: equal roles.
void book_longer_waits(Account& account, const Account& undisturbed, Spend cause);

}  // namespace stepcast
