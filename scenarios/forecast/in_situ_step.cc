// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/in_situ_step.h"

#include <algorithm>
#include <utility>

#include "scenarios/forecast/make_schedule.h"
#include "scenarios/forecast/perturbed_step.h"
#include "scenarios/pricing_table.h"
#include "sim/graph/host_waits.h"

namespace stepcast {
namespace {

Schedule schedule_once(const Scenario& scenario, const CostTable* table) {
  return scenario.to_make ? make_schedule(scenario, table).schedule : scenario.schedule;
}

bool reads_results(const Launch& launch) {
  return launch.calls[static_cast<size_t>(HostCall::synchronize)] > 0;
}

std::unique_ptr<const Scenario> without_in_situ(Scenario scenario) {
  scenario.in_situ = false;
  return std::make_unique<const Scenario>(std::move(scenario));
}

}  // namespace

InSituStep::InSituStep(Scenario scenario) {
  table_ = pricing_table(scenario).table;
  const Schedule schedule = schedule_once(scenario, table_);
  scenario_ = without_in_situ(std::move(scenario));
  step_ = lower_step(*scenario_, schedule);
  require_runnable(step_.graph, *scenario_);
  prices_ = price_on(scenario_->cluster, step_.graph, *scenario_, table_);
  for (Price& price : prices_.by_work) price.basis = {};
  waits_depend_on_prices_ =
      step_.graph.host_blocks || std::ranges::any_of(step_.graph.launches, reads_results);
  perturbed_ = is_perturbed(*scenario_);
  if (perturbed_) {
    // Left out if it takes long, as a forecast has it: for all values or for none.
    interference_ = choose_interference(*scenario_, table_, Time{});
    if (!interference_.factors || !may_leave_out_interference(*scenario_)) return;
    try {
      time_of_ranks(neutral_in_situ());
    } catch (const TooManyTurns&) {
      interference_.factors.reset();
    } catch (const TooLongForLanes&) {
      interference_.factors.reset();
    }
    return;
  }
  // Times alone are asked for.
  for (Pass& pass : step_.graph.passes) pass.memory = {};
  step_.graph.tensor_tables = {};
}

PricedStep InSituStep::priced(const InSituValues& values) const {
  PricedStep now{scenario_.get(), table_, step_.graph, prices_};
  add_in_situ(values, *scenario_, now.graph, now.prices);
  add_host_wait_edges(now.graph, now.prices);
  return now;
}

Time InSituStep::time_of_ranks(const InSituValues& values) const {
  const PricedStep now = priced(values);
  const RankRun ranks = RankSimulation(now, interference_.factors).run(scenario_->seed, {});
  return cost_of(*scenario_, ranks.ranks.lanes);
}

Time InSituStep::time(const InSituValues& values) const {
  if (perturbed_) return time_of_ranks(values);
  if (waits_depend_on_prices_) {
    const PricedStep now = priced(values);
    return step_time_of(*scenario_, table_, now.graph, now.prices);
  }
  Prices prices = prices_;
  add_in_situ(values, *scenario_, step_.graph, prices);
  return step_time_of(*scenario_, table_, step_.graph, prices);
}

}  // namespace stepcast
