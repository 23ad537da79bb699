// SPDX-License-Identifier: Apache-2.0
// One step after another, at the level of answer that is asked for:
//
//   bound   no less than the step takes and holds; nothing is lowered but passes
//   step    what it takes and the most that a rank allocates, to the picosecond and byte
//   attempt the same and what is reserved, as far as they are of interest
//
// What scenarios of one model and cluster have in common is worked out once: passes of stages
// (stage_pass_cache.h), prices of works (PriceCache), and what passes take in which compute and
// communication slow each other (LonePassCache).  Answers are those of an evaluator that
// has seen nothing before.  An evaluator belongs to one thread; others share nothing with it.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>

#include "calibrate/price/price_graph.h"
#include "model/passes/pass_writer.h"
#include "scenarios/forecast/step.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"
#include "schedules/lower/stage_pass_cache.h"
#include "sim/contention/lone_passes.h"
#include "sim/units.h"

namespace stepcast {

class Evaluator {
 public:
  Evaluator();
  ~Evaluator();

  // The step of the scenario takes no less time, and its peak is no lower.  Nothing if an op takes
  // longer than can be counted.  O(actions) where the plan is known, as it is for another schedule
  // of as many chunks.  REQUIRES: no schedule that has still to be made.
  std::optional<StepOutcome> bound(const Scenario& scenario);

  // Time and peak of the scenario's own schedule, all ranks equal and undisturbed, as evaluate() of
  // step.h: nothing if the step deadlocks or cannot be priced.  Throws InputError E127 if its
  // transfers do not go with it.  REQUIRES: no schedule that has still to be made.
  std::optional<StepOutcome> step(const Scenario& scenario);

  // What a step turned out to be for who looks for the best.
  struct Trial {
    enum class Outcome : uint8_t { impossible, too_large, slower, fits } outcome{};
    Time time{};       // unless impossible or too large; if slower a lower bound above `most`
    Bytes peak{};      // allocated, unless impossible
    Bytes reserved{};  // as the caching allocator takes it; if it fits
  };

  // Time and memory as far as they are of interest: a step is not run if a rank allocates more than
  // `room`, and the allocator not followed if it takes longer than `most`.  Otherwise as step().
  Trial attempt(const Scenario& scenario, Bytes room, Time most);

 private:
  // What bound() needs of a plan with stages in these places.
  struct KnownPlan;

  void begin(const Scenario& scenario);
  const KnownPlan* known_plan(const Scenario& scenario);

  // What all that is kept is of.
  std::optional<Cluster> cluster_;
  Placement placement_;
  const CostTable* table_ = nullptr;
  std::shared_ptr<const CalibrationTable> calibration_;  // keeps a table of the user's own
  bool in_situ_ = true;
  std::shared_ptr<const OwnRuns> own_runs_;  // what plans_ were priced with

  StagePassCache passes_;
  PriceCache prices_;
  LonePassCache lone_passes_;
  GraphMemory memory_;
  std::deque<KnownPlan> plans_;  // the last ones
};

}  // namespace stepcast
