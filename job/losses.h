// SPDX-License-Identifier: Apache-2.0
// What interruptions, restarts and checkpoints take from a long run: the exact expectation.
//
// Times are seconds, rates are per second of the job.  Interruptions come as a Poisson process
// while the job works and while it restarts, not while it waits for a node.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace stepcast {

// One kind of interruption.
struct Interruption {
  std::string name;
  double rate = 0;          // of the whole job
  double recovery = 0;      // from the interruption until steps go on, if nothing comes in between
  bool takes_node = false;  // another node is needed, until this one is repaired
  double repair = 0;        // how long it is away; 0: not known, spares are no matter
};

// A run as far as its losses go.
struct LongRun {
  double work = 0;      // steps and pauses, without any loss
  double interval = 0;  // work between the ends of two checkpoints
  double block = 0;     // how long a checkpoint holds the steps up
  double lag = 0;       // from then until it is complete.  REQUIRES: lag <= interval + block
  std::vector<Interruption> interruptions;
  int64_t spares = -1;  // nodes that stand by; below 0: always one more

  // A second level of checkpoints, in the memory of nodes: 0: none.  What keeps such a copy is done
  // again from there.
  double memory_interval = 0, memory_block = 0;
  double memory_load = 0, storage_load = 0;  // what `recovery` has of the second, with a copy
  int64_t memory_copies = 0;                 // from 2 on the loss of a node leaves one

  double rate() const;
  int64_t checkpoints() const;  // the last one ends the run
};

// Where the time of a run goes.  The parts add up to `wall`.
struct RunParts {
  double work = 0;
  double checkpoint = 0;  // held up, and the wait for the last to be complete
  double redo = 0;        // work done again, and checkpoints
  double restart = 0;     // from interruptions until steps go on
  double wait = 0;        // for a node, when no spare is left
  double wall = 0;
  double interruptions = 0;  // how many
};

// The longest run that is told from one that never ends: expected wall time over that of a run
// without interruptions, its checkpoints included.
constexpr double kMostLoss = 1000;

// Mean of the parts over all runs; wall is infinite above kMostLoss times work and checkpoints.  Of
// copies in memory it knows nothing: REQUIRES: no second level.
//
// Source: Daly 2006, A higher order estimate of the optimum checkpoint interval for restart dumps
// (doi 10.1016/j.future.2004.11.016), equation 13, T = M e^(R/M) (e^((tau+w)/M) - 1) n; kinds with
// recoveries of their own, incomplete checkpoints and spares as losses.cc derives them.
RunParts expected_parts(const LongRun& run);

// The interval of work that loses least: where (1 - tau/M) e^((tau+w)/M) = 1, which is where the
// derivative of Daly's form vanishes.  About sqrt(2 w M) - w.  0 without checkpoints' cost,
// infinite without interruptions.
double best_interval(double mtbf, double block);

// --- Nodes in repair

// Share of interruptions that find all `servers` nodes in repair: Erlang's loss formula for
// `load` = rate x repair nodes away on average.  It holds for repairs of any distribution.
double erlang_loss(double load, int64_t servers);

// The fewest spares with which `share` of interruptions find one; above a million to 0.1 %.
int64_t spares_for(double load, double share);

}  // namespace stepcast
