// SPDX-License-Identifier: Apache-2.0
// The time of a step under any values of the in-situ parameters.  The step is lowered and priced
// once: asking again costs a compilation and a run of equal ranks, a millisecond for most steps.
#pragma once

#include <memory>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "scenarios/forecast/interference.h"
#include "scenarios/forecast/step.h"
#include "scenarios/scenario.h"
#include "sim/graph/price.h"
#include "sim/units.h"

namespace stepcast {

class InSituStep {
 public:
  // A schedule that depends on prices is made once, for those that the scenario has.  Where ranks
  // differ the step is run once, to find out whether interference is left out.  Throws as
  // price_step(), make_schedule() and time().
  explicit InSituStep(Scenario scenario);

  const Scenario& scenario() const { return *scenario_; }
  // As forecast() has it.  Throws Deadlock.
  Time time(const InSituValues& values) const;

 private:
  PricedStep priced(const InSituValues& values) const;
  Time time_of_ranks(const InSituValues& values) const;

  std::unique_ptr<const Scenario> scenario_;
  const CostTable* table_ = nullptr;
  LoweredStep step_;
  Prices prices_;  // without the parameters
  bool waits_depend_on_prices_ = false;
  bool perturbed_ = false;
  InterferenceChoice interference_;  // of ranks that differ
};

}  // namespace stepcast
