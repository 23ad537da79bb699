// SPDX-License-Identifier: Apache-2.0
// The step of a scenario rank by rank: every rank a lane of the engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "sim/contention/contention.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/lanes/lanes.h"
#include "sim/result.h"
#include "topology/cluster/cluster_graph.h"

namespace stepcast {

// What a step is run from.  Nothing is owned.
struct StepInputs {
  const Scenario& scenario;
  const OpGraph& graph;
  const Prices& prices;
  const CostTable* table = nullptr;
  bool contention = true;  // if the scenario has it
};

struct RankRun {
  LaneSet lanes;
  ContentionResult ranks;
  bool shared_links = false, interference = false;
};

// What is drawn is drawn from `seed`, ways through the fabric too.
// REQUIRES: graph and prices are those of the scenario.  Throws Deadlock, and InputError: E123 for
// a step of more than 19 minutes, E127 if interference is on and was not measured.
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

}  // namespace stepcast
