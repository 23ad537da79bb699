// SPDX-License-Identifier: Apache-2.0
// What a whole training run takes, as plain data: what report/ turns into text and JSON.
//
// Times are seconds: a run of years is more than a Time holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/results/result.h"
#include "sim/units.h"

namespace stepcast {

// Steps of one batch and sequence, one after the other.
struct TrainingPhase {
  double tokens = 0, steps = 0;
  int64_t global_batch = 1, seq = 1;
  Time step{};
};

// Where the wall time goes, in seconds; the parts add up to it.
struct TrainingTimes {
  double useful = 0;      // steps, as fast as without slow ranks
  double slow_ranks = 0;  // what `perturb` adds to them
  double evaluation = 0;
  double checkpoint = 0;
  double redo = 0;     // what interruptions undid
  double restart = 0;  // from interruptions until steps go on
  double wait = 0;     // for a node, when no spare is left
  double wall = 0;
};

// One line of what is assumed or derived, and why.
struct TrainingFact {
  std::string name, value, reason;
};

struct TrainingCheckpoint {
  Bytes bytes{};
  double every = 0;  // seconds of steps
  double steps = 0;  // the same in steps
  bool automatic = true;
  bool async = false;
  double block = 0, save = 0, load = 0;
  double best_every = 0;  // what loses least
  double best_wall = 0;   // then
};

// The wall time with checkpoints at another interval.
struct TrainingInterval {
  double every = 0, wall = 0;
};

// What a run of many GPUs, or few, takes.
struct TrainingPlan {
  int64_t gpus = 0, nodes = 0;
  Time step{};
  bool fits = true;
  double useful_share = 0;
  double wall = 0;
  double gpu_hours = 0;
  std::optional<double> price;
  bool chosen = false;
};

// What one step draws.
struct StepEnergy {
  double joules = 0;      // of all GPUs and their hosts
  double gpu_watts = 0;   // of a GPU, in the mean over the step
  double host_watts = 0;  // of a host, for each of its GPUs
  double joules_per_token = 0;
  std::string assumed;  // figures without a source, in words
};

struct TrainingReplicas {
  int64_t count = 0;
  uint64_t seed = 0;
  double mean = 0, p10 = 0, p50 = 0, p90 = 0;  // of the wall time
  double error = 0;                            // standard error of the mean
};

// By what the power is known.
struct TrainingEnergy {
  double joules = 0;       // of the computers
  double gpu_watts = 0;    // of a GPU, in the mean over the run; 0: of the node as stated
  double node_watts = 0;   // of a node, in the mean
  double step_joules = 0;  // of one step, all nodes
  // What the building takes for each joule of them, and the CO2 of its electricity, if stated.
  std::optional<double> pue, grams_per_kwh;
  std::string basis;  // "GPUs by kind of operation, hosts as ..."

  double mwh() const { return joules / 3.6e9; }
  double mwh_with_pue() const { return mwh() * pue.value_or(1); }
  std::optional<double> tonnes_of_co2() const {
    if (!grams_per_kwh) return {};
    return mwh_with_pue() * *grams_per_kwh / 1e3;
  }
};

struct TrainingResult {
  std::string name, file, gpu;
  int64_t gpus = 1, nodes = 1;
  double tokens = 0, steps = 0;
  std::vector<TrainingPhase> phases;  // the step's own last
  Result fullest;                     // the step of the phase that needs most memory

  TrainingTimes times;
  std::optional<double> wall_low, wall_high;  // 80 % interval, around the mean of drawn runs too
  bool published_rates = false;  // the interval has the spread of published failure rates too
  double useful_share = 0;       // steps that count / wall
  double interruptions = 0;
  double mtbf = 0;      // seconds; 0: nothing interrupts
  double recovery = 0;  // of one, in the mean
  TrainingCheckpoint checkpoint;
  // By interval, growing, around the best and the stated one.  Empty where nothing interrupts, and
  // with copies in memory, which have no closed form.
  std::vector<TrainingInterval> intervals;
  std::optional<int64_t> spares, spares_for_99;
  std::optional<TrainingReplicas> replicas;
  bool by_replicas =
      false;  // the times are the replicas' mean: copies in memory have no closed form
  double gpu_hours = 0;
  std::optional<double> price;
  std::optional<TrainingEnergy> energy;
  std::vector<TrainingFact> facts;
  std::vector<TrainingPlan> plans;
  std::vector<std::string> plans_left_out;  // numbers of GPUs that are not among them, and why
  std::optional<double> wanted_days;
  std::vector<std::string> warnings;
};

}  // namespace stepcast
