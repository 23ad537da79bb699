// SPDX-License-Identifier: Apache-2.0
// A whole training run, from the forecast of its step: `stepcast train`.
//
// Useful time is steps times step; interruptions, restarts and checkpoints take the rest
// (losses.h).  The price of a GPU, the building's overhead and the carbon of its electricity have
// no default: sources contradict each other, and what is not stated is not answered.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "job/job.h"
#include "job/losses.h"
#include "scenarios/scenario.h"
#include "scenarios/scenario_document.h"
#include "sim/results/result.h"
#include "sim/results/training_result.h"

namespace stepcast {

inline constexpr int64_t kMostReplicas = 10'000'000;  // some seconds

struct TrainOptions {
  int64_t replicas = 0;  // runs that are drawn; 0: only where there is no closed form; at most
                         // kMostReplicas
  uint64_t seed = 0;
  std::optional<double> days;  // the fewest GPUs for so many
  std::vector<int64_t> gpus;   // also on so many: their number in the layout's replicas
};

// Throws InputError: what resolving throws; E126 without a number of tokens; E127 for a job that
// contradicts itself or whose run never ends.
TrainingResult train(const ScenarioDocument& document, const TrainOptions& options = {});

// What the section leaves out and follows from the scenario, or is taken from what was published:
// the storage, what a checkpoint takes, the power of a node.  Named by their keys.
std::vector<TrainingFact> derived_settings(const Job& job, const Scenario& scenario);

// Adds what is wrong with the section on a cluster, as far as it is known without the time of a
// step: E127 for checkpoints that take longer than it is until the next, for more spares or copies
// than there are nodes, and for a run that never ends.
void check_job(const Job& job, const Scenario& scenario, Problems& problems);

// Adds to `found` all that is wrong with a document's section `job` before a step is forecast, but
// for what is in it already.  `scenario`: the document resolved; null if that failed.
void add_job_problems(std::vector<Diagnostic>& found, const ScenarioDocument& document,
                      const Scenario* scenario);

// Bytes of a checkpoint: of each parameter that of the working precision, if there is a master copy
// beside it, the fp32 master and two moments.  14 for bf16 with Adam.
double checkpoint_bytes(const Scenario& scenario);

// The checkpoints and losses of a run on the scenario's nodes, of `work` seconds of steps, the last
// of which take `step` each.
LongRun long_run(const Job& job, const Scenario& scenario, double step, double work,
                 TrainingCheckpoint& checkpoint);

// The whole training with this forecast as its only step, without ramps, pauses and copies in
// memory; nothing if job.tokens is not stated or the run never ends.
std::optional<TrainingPlan> whole_run(const Job& job, const Scenario& scenario,
                                      const Result& result);

// Wall time in seconds of `steps` steps of `step` seconds, losses included, with the defaults of
// train(): what `search` and `sweep` rank by, to the last digit what whole_run() and train() say of
// that step; of steps that do not train they alone.  Batch ramps, pauses and copies in memory are
// no part of it.  Infinite for a run that never ends.
double job_seconds(const Job& job, const Scenario& scenario, double step, double steps);

}  // namespace stepcast
