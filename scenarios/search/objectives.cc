// SPDX-License-Identifier: Apache-2.0
#include "scenarios/search/objectives.h"

#include <optional>

#include "job/power.h"
#include "job/training.h"
#include "scenarios/forecast/forecast.h"
#include "scenarios/search/sweep.h"

namespace stepcast {
namespace {

double tokens_of(const SearchPlace& p) {
  return static_cast<double>(p.global_batch) * static_cast<double>(p.scenario->plan.seq);
}

double steps_of(const SearchPlace& p, const SearchSettings& settings) {
  return settings.tokens / tokens_of(p);
}

}  // namespace

Objectives::Objectives(const SearchSpace& space, const ScenarioDocument& document)
    : space_(space),
      settings_(space.settings()),
      job_(read_job(document)),
      facts_(job_of(document)) {}

Bytes Objectives::room_of(Bytes usable) const {
  return {static_cast<int64_t>(static_cast<double>(usable.value) * (1 - settings_.memory_margin))};
}

// Seconds of the whole job.  A longer step may take less of it: checkpoints are made after whole
// steps, and may then come closer to their best interval.  The steps alone are what it takes at
// least.
double Objectives::job_time(const SearchPlace& p, const StepFigures& f) const {
  const double step = to_seconds(f.time);
  return f.at_least ? step * steps_of(p, settings_)
                    : job_seconds(job_, *p.scenario, step, steps_of(p, settings_));
}

double Objectives::least_joules(uint16_t place, Time time, double drawn) const {
  if (!space_.asks_for_energy()) return 0;
  const SearchPlace& p = space_.places()[place];
  const Gpu& gpu = p.scenario->cluster.node.gpu;
  const double watts = *gpu_watts(gpu, Draw::idle) + *host_watts(gpu);
  return (drawn + watts * static_cast<double>(p.gpus) * to_seconds(time)) / tokens_of(p);
}

double Objectives::joules_of(const Scenario& scenario) const {
  if (!space_.asks_for_energy()) return 0;
  return joules_per_token(scenario);
}

double Objectives::value(SearchObjective objective, uint16_t place, const StepFigures& f) const {
  const SearchPlace& p = space_.places()[place];
  const auto gpus = static_cast<double>(p.gpus);
  switch (objective) {
    case SearchObjective::step_time: return static_cast<double>(f.time.count());
    case SearchObjective::tokens_per_gpu_s: return to_seconds(f.time) * gpus / tokens_of(p);
    case SearchObjective::peak_memory: return static_cast<double>(f.memory.value);
    case SearchObjective::days: return job_time(p, f) / kSecondsOfADay;
    case SearchObjective::price: return job_time(p, f) / 3600 * gpus * settings_.price;
    case SearchObjective::energy: return f.joules;
  }
  return 0;
}

ObjectiveValues Objectives::values(uint16_t place, const StepFigures& figures) const {
  ObjectiveValues all;
  for (const SearchObjective o : settings_.objectives) all.push_back(value(o, place, figures));
  return all;
}

// What constraints ask, but for the share of such steps that fit.
SearchMeasure Objectives::measure_of(const Layout& layout, const StepFigures& figures) const {
  const auto of = [&](SearchObjective o) { return value(o, layout.place, figures); };
  const Gpu& gpu = space_.places()[layout.place].scenario->cluster.node.gpu;
  return {.step_time_s = to_seconds(figures.time),
          .tokens_per_gpu_s = 1 / of(SearchObjective::tokens_per_gpu_s),
          .peak_memory = static_cast<double>(figures.memory.value),
          .gpu_memory = static_cast<double>(gpu.memory.value),
          .days = settings_.tokens > 0 ? of(SearchObjective::days) : 0,
          .price = settings_.tokens > 0 ? of(SearchObjective::price) : 0,
          .energy = figures.joules};
}

bool Objectives::may_keep(const Layout& layout, const StepFigures& least) const {
  return settings_.constraints.empty() ||
         space_.may_keep_constraints(layout, measure_of(layout, least));
}

std::vector<std::string> Objectives::broken_by(const Layout& layout, const Scenario& scenario,
                                               const StepFigures& figures) const {
  if (settings_.constraints.empty()) return {};
  SearchMeasure measure = measure_of(layout, figures);
  measure.fits = fits_of(scenario);
  return space_.broken_constraints(layout, measure);
}

// As observed of forecasts of memory; 1 where nobody asks.
double Objectives::fits_of(const Scenario& scenario) const {
  if (!space_.asks_whether_it_fits()) return 1;
  const std::optional<Result> memory = forecast_memory(scenario);
  return memory ? memory->fits_share.value_or(1) : 1;
}

}  // namespace stepcast
