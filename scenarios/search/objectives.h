// SPDX-License-Identifier: Apache-2.0
// What a search makes of a step: what its objectives come to, which constraints it breaks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "job/job.h"
#include "scenarios/scenario.h"
#include "scenarios/scenario_document.h"
#include "scenarios/search/search.h"
#include "scenarios/search/space.h"
#include "sim/results/search_result.h"
#include "sim/units.h"

namespace stepcast {

// Of a step: what is found, or at least.
struct StepFigures {
  Time time{};
  Bytes memory{};
  double joules = 0;      // a token; 0: nobody asks
  bool at_least = false;  // bounds
};

// Of the objectives of a search, in their order: the smaller, the better.
using ObjectiveValues = std::vector<double>;

// All functions may be called by several threads at once.
class Objectives {
 public:
  // Throws InputError as read_job().  REQUIRES: the space outlives this.
  Objectives(const SearchSpace& space, const ScenarioDocument& document);

  // What rows say of the training.
  const JobFacts& facts() const { return facts_; }

  // What of the usable memory a layout may take.
  Bytes room_of(Bytes usable) const;

  // `place`: index into SearchSpace::places().
  double value(SearchObjective objective, uint16_t place, const StepFigures& figures) const;
  ObjectiveValues values(uint16_t place, const StepFigures& figures) const;

  // Joules a token of a step of so many seconds, if its compute draws `drawn` beyond standing idle
  // and all else as little as it can; 0 if nobody asks.
  double least_joules(uint16_t place, Time time, double drawn) const;
  // As forecast; 0 if nobody asks.
  double joules_of(const Scenario& scenario) const;

  // Whether a layout that takes at least this may keep the constraints.
  bool may_keep(const Layout& layout, const StepFigures& least) const;
  // The constraints that the layout breaks, as they are written.
  std::vector<std::string> broken_by(const Layout& layout, const Scenario& scenario,
                                     const StepFigures& figures) const;

 private:
  double job_time(const SearchPlace& place, const StepFigures& figures) const;
  SearchMeasure measure_of(const Layout& layout, const StepFigures& figures) const;
  double fits_of(const Scenario& scenario) const;

  const SearchSpace& space_;
  const SearchSettings& settings_;
  const Job job_;  // what the section `job` makes of a step
  const JobFacts facts_;
};

}  // namespace stepcast
