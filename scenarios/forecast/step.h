// SPDX-License-Identifier: Apache-2.0
// What a step of a scenario takes and holds under a schedule.
//
//   Scenario, Schedule --lower_step--> LoweredStep --price_step--> PricedStep --evaluate-->
//   StepOutcome
//
// A LoweredStep says what is done and held, and needs no prices: whether a step fits is asked of
// it.  A PricedStep also says how long everything takes.  Time and peak are all that a search asks
// for; explanations (account, what-ifs, critical path) are made of a PricedStep by whoever wants
// them (forecast.h).  step.cc opens with an example.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "calibrate/price/in_situ.h"
#include "calibrate/price/price_graph.h"
#include "calibrate/table/cost_table.h"
#include "scenarios/scenario.h"
#include "schedules/lower/lower.h"
#include "schedules/lower/stage_pass_cache.h"
#include "schedules/schedule.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/price.h"
#include "sim/memory/memory.h"
#include "sim/units.h"

namespace stepcast {

class LonePassCache;  // sim/contention/lone_passes.h

struct LoweredStep {
  const Scenario* scenario = nullptr;  // not owned
  OpGraph graph;
};

// The scenario's step with this schedule, which need not be the scenario's own.  Throws InputError
// E127 if the scenario's transfers do not go with it, which check_transfers() says beforehand.
// REQUIRES: check_schedule(schedule) is empty; the sizes of the schedule are those of the plan.
// `passes` may be null: where passes are kept from one step to the next (stage_pass_cache.h).
LoweredStep lower_step(const Scenario& scenario, const Schedule& schedule,
                       StagePassCache* passes = nullptr, const GraphOptions& graph = {});

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

// The same; nothing where price_step() throws.  `cache` may be null; with one the prices have no
// text.
std::optional<PricedStep> price_if_possible(LoweredStep step, const CostTable* table,
                                            PriceCache* cache = nullptr);

// Prices of passes alone, without the step that runs them; nothing if one op takes longer than can
// be counted.
std::optional<Prices> prices_of_parts(const OpGraph& graph, const Scenario& scenario,
                                      const CostTable* table, PriceCache& cache);

// Prices of a graph made of the scenario, on another cluster.  Throws as price_step().
Prices price_on(const Cluster& cluster, const OpGraph& graph, const Scenario& scenario,
                const CostTable* table);

// Throws InputError E123 as price_step() does where there is more to run than a minute takes, or a
// stage has more layers than a program holds.
void require_runnable(const OpGraph& graph, const Scenario& scenario);

// Those of in_situ_parameters_of() that hold on the scenario's hardware and software; neutral ones
// where it leaves them out or does not train.
InSituValues in_situ_values_of(const Scenario& scenario);

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

// Of equal ranks whose transfers share no links, with the interference of compute and communication
// that the scenario has.  std::nullopt if the step deadlocks.  Nothing is recorded.  A time above
// `most` is a lower bound, also above it.  `passes` may be null (run_contended()).
std::optional<StepOutcome> evaluate(const PricedStep& step, Time most = Time::max(),
                                    LonePassCache* passes = nullptr);

// Memory of a GPU that a step may use: without the reserve.
Bytes usable_memory(const Scenario& scenario);

// What the stages hold, as the framework asks for it (allocated) and as the caching allocator takes
// it from the device (reserved).
struct StepMemory {
  std::vector<RoleMemory> by_role;      // allocated
  std::vector<Bytes> reserved_by_role;  // at least the peak; that, where it is far from fitting
  std::vector<bool> lacked_room;        // by role: its allocator had to give segments back
  uint32_t peak_role = 0;               // allocates most; the first of equal ones
  uint32_t reserved_role = 0;           // reserves most; of equal ones the first
  Bytes peak{}, reserved{};             // of these
};

// On a GPU with the scenario's usable memory: the step does not fit if more is reserved.
StepMemory memory_of(const Scenario& scenario, const OpGraph& graph);
StepMemory memory_of(const LoweredStep& step);

// memory_of() in parts, of which several threads may do one each.
class MemoryTraces {
 public:
  // REQUIRES: both outlive this.
  MemoryTraces(const Scenario& scenario, const OpGraph& graph);
  ~MemoryTraces();

  // Those that are unlike each other.
  size_t stages() const;
  // The allocator of one of them, the longest part.
  void trace(size_t stage);
  // REQUIRES: each of them has been traced.
  StepMemory memory() &&;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Whether the step fits.  Faster than memory_of() where it does not.
bool fits(const LoweredStep& step);

// How many times as large all tensors could be for the step to fit still, to a hundredth: `least`
// if it would not fit even then, `most` if it would.  That may be more than usable / reserved, for
// where room is short the allocator gives free segments back.  `jobs`: threads; the answer is the
// same for any number.  REQUIRES: memory = memory_of(scenario, graph); 0 < least <= most.
double room_to_grow(const Scenario& scenario, const OpGraph& graph, const StepMemory& memory,
                    double least, double most, int jobs = 1);

// Whether it would take longer than a minute to run, or cannot be compiled: price_step() refuses
// it.
bool is_too_large(const LoweredStep& step);

}  // namespace stepcast
