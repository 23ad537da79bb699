// SPDX-License-Identifier: Apache-2.0
// The evaluator: what a step of a scenario takes and holds under a schedule.
//
//   Scenario, Schedule --lower_step--> LoweredStep --price_step--> PricedStep --evaluate-->
//   StepOutcome
//
// A LoweredStep says what is done and held, and needs no prices: whether a step fits is asked of
// it.  A PricedStep also says how long everything takes.  Time and peak are all that a search asks
// for; explanations (account, what-ifs, critical path) are made of a PricedStep by whoever wants
// them (forecast.h).  step.cc opens with an example.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "schedules/schedule.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/memory/memory.h"
#include "sim/units.h"

namespace stepcast {

struct LoweredStep {
  const Scenario* scenario = nullptr;  // not owned
  OpGraph graph;
};

// The scenario's step with this schedule, which need not be the scenario's own.  Throws InputError
// E127 if the scenario's transfers do not go with it, which check_transfers() says beforehand.
// REQUIRES: check_schedule(schedule) is empty; the sizes of the schedule are those of the plan.
LoweredStep lower_step(const Scenario& scenario, const Schedule& schedule);

// As if every rank ran its optimizer as soon as its own gradients are reduced.
LoweredStep lower_without_barrier(const Scenario& scenario, const Schedule& schedule);

struct PricedStep {
  const Scenario* scenario = nullptr;  // not owned
  const CostTable* table = nullptr;    // not owned; null: none
  OpGraph graph;                       // with the waits of ops that the host launches late
  Prices prices;
};

// Throws InputError E123 if all that is done takes longer than can be counted in picoseconds, if it
// is more than 500,000,000 ops of one rank of each role, which take about a minute to run, or if a
// stage has more layers than a program holds.
PricedStep price_step(LoweredStep step, const CostTable* table);

// The same; nothing where price_step() throws.
std::optional<PricedStep> price_if_possible(LoweredStep step, const CostTable* table);

// Prices of a graph made of the scenario, on another cluster.  Throws as price_step().
Prices price_on(const Cluster& cluster, const OpGraph& graph, const Scenario& scenario,
                const CostTable* table);

// Adds what in-situ parameters of these values say to prices that know nothing of them.  The
// functions above do so with the values of in_situ_parameters_of(), unless the scenario leaves them
// out or does not train.
void add_in_situ(const InSituValues& values, const Scenario& scenario, const OpGraph& graph,
                 Prices& prices);

// ------------------------------------------------------------------------------- time and memory

// What a step costs, of a run that has both times: the makespan, or the span where the optimizer is
// no barrier.
template <class Run>
Time cost_of(const Scenario& scenario, const Run& run) {
  return scenario.post_validation ? run.span : run.makespan;
}

struct StepOutcome {
  Time time{};   // what it costs
  Bytes peak{};  // the most that any rank allocates
};

// std::nullopt if the step deadlocks.  O(instructions of all items); nothing is recorded.
std::optional<StepOutcome> evaluate(const PricedStep& step);

// Memory of a GPU that a step may use: without the reserve.
Bytes usable_memory(const Scenario& scenario);

// What the stages hold, as the framework asks for it (allocated) and as the caching allocator takes
// it from the device (reserved).
struct StepMemory {
  std::vector<RoleMemory> by_role;  // allocated
  // Reserved, of the stages whose peak comes within 2 % of the largest one.  The others cannot
  // reserve most, and simulating the allocator is the expensive part of a forecast's memory.
  std::vector<std::optional<Bytes>> reserved_by_role;
  uint32_t peak_role = 0;      // allocates most; the first of equal ones
  uint32_t reserved_role = 0;  // reserves most
  Bytes peak{}, reserved{};    // of these
};

// On a GPU with the scenario's usable memory: the step does not fit if more is reserved.
StepMemory memory_of(const LoweredStep& step);
StepMemory memory_of(const PricedStep& step);

// Whether the step fits.  Faster than memory_of() where what is allocated is already too much.
bool fits(const LoweredStep& step);

}  // namespace stepcast
