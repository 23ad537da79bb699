// SPDX-License-Identifier: Apache-2.0
// From a scenario to the time and the memory of its step.
//
// Take two pipeline ranks, two microbatches and the schedule 1F1B:
//
//   rank 0   F0 F1 B0 B1
//   rank 1   F0 B0 F1 B1
//
// 1. lower_step() writes out what these letters stand for.  F of rank 0 becomes the kernels and
//    collectives that the first half of the layers launches (a pass, shared by both microbatches),
//    and between the ranks come the transfers: F0 of rank 1 waits for what F0 of rank 0 sends.
//    After the list come the reduction of the gradients and the optimizer.  The graph knows which
//    tensors every op allocates and frees, but not how long anything takes.
// 2. memory_of() adds the tensors up in program order.  Say a rank keeps 10 GiB all the time, and a
//    microbatch 3 GiB from its F to its B: rank 0 holds two microbatches before B0, 16 GiB, rank 1
//    never more than one, 13 GiB.
// 3. price_step() asks once for each distinct piece of work how long it takes: a product of this
//    shape, a message of this size between these ranks.  Say F then takes 1 ms, B 2 ms and a
//    transfer 0.1 ms.
// 4. evaluate() compiles ops and prices to flat instructions and runs these: each rank does its
//    list in order, and waits where an input is not there.
//
//      ms      0        1        2        3        4        5        6        7        8        9
//      rank 0  F0------ F1------                   .2 B0--------------- .2    .2 B1---------------
//      rank 1           .1 F0------ B0--------------- F1------ B1---------------
//
//    Rank 1 ends its F0 at 2.1, B0 at 4.1, F1 at 5.1, B1 at 7.1; rank 0 gets the gradients 0.1
//    later and ends B0 at 6.2 and B1 at 9.2.  That is the step, but for its end.
//
// Neither prices nor times change what is lowered, with one exception: where the host reads a
// result back and launches late, the waits that follow depend on prices, and price_step() adds them
// to the graph it was given.
#include "scenarios/forecast/step.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <utility>
#include <variant>

#include <fmt/format.h>

#include "calibrate/price/in_situ.h"
#include "calibrate/price/price_graph.h"
#include "scenarios/forecast/device_memory.h"
#include "scenarios/forecast/perturbed_step.h"
#include "scenarios/own_runs.h"
#include "schedules/lower/lower.h"
#include "sim/diagnostic.h"
#include "sim/engine/run.h"
#include "sim/for_each_item.h"
#include "sim/graph/host_waits.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/program.h"
#include "topology/cluster/gpu_architecture.h"

namespace stepcast {
namespace {

LoweredStep lowered(const Scenario& s, const Schedule& schedule, bool post_validation,
                    StagePassCache* passes = nullptr, const GraphOptions& graph = {}) {
  try {
    return {&s, lower(s.model, s.plan, schedule,
                      {.p2p = s.p2p,
                       .post_validation = post_validation,
                       .transfers = s.transfers.get(),
                       .passes = passes,
                       .graph = graph})};
  } catch (InputError& e) {
    throw with_code_and_file(std::move(e), "E127", s.file);
  }
}

// No less than the step takes: everything that the ranks do, one after the other.
double longest_seconds(const OpGraph& graph, const Prices& prices) {
  double sum = 0;
  const std::vector<double> counts = work_counts(graph);
  for (size_t w = 0; w < counts.size(); ++w) sum += counts[w] * to_seconds(prices.by_work[w].time);
  int64_t ranks = std::numeric_limits<int64_t>::max();  // alike, of a role
  for (const RoleOps& role : graph.roles) ranks = std::min<int64_t>(ranks, role.ranks);
  return sum / static_cast<double>(ranks);
}

// First libraries make products slower while they are young.
InSituValues of_its_software(InSituValues values, const Scenario& scenario) {
  const int64_t mature = architecture(scenario.cluster.node.gpu.arch).mature_libraries;
  const int64_t libraries = scenario.plan.kernels.libraries;
  if (libraries == 0 || libraries >= mature)
    values[static_cast<size_t>(InSituTerm::first_libraries)] = 1;
  return values;
}

// Nothing if the step takes longer than can be counted.
std::optional<Prices> prices_if_countable(const Cluster& cluster, const OpGraph& graph,
                                          const Scenario& scenario, const CostTable* table,
                                          PriceCache* cache = nullptr) {
  constexpr double kLongestStep = 4e6;  // half of what is counted: stragglers take longer
  try {
    const RankGrid& grid = scenario.plan.grid;
    Prices prices = cache != nullptr ? cache->price(graph, cluster, grid, table, scenario.placement)
                                     : price(graph, cluster, grid, table, scenario.placement);
    if (scenario.in_situ && scenario.plan.trains())
      add_in_situ(in_situ_values(in_situ_parameters_of(scenario), cluster.node,
                                 scenario.plan.kernels.libraries),
                  scenario, graph, prices);
    if (longest_seconds(graph, prices) < kLongestStep) return prices;
  } catch (const TimeTooLong&) {
    // one op alone is longer
  }
  return {};
}

InputError too_long(const Scenario& scenario) {
  return file_error(
      "E123", "the step takes months, more than can be counted", scenario.file,
      "a bandwidth or another rate of the cluster is far too low, or the batch too large");
}

// A step that would take much longer than a minute to run, or cannot be compiled.
std::optional<InputError> check_size(const OpGraph& graph, const Scenario& scenario) {
  constexpr size_t kMostOps = 500'000'000;  // 10 to 15 million a second, memory included
  size_t ops = 0;
  for (const RoleOps& role : graph.roles)
    for (const Item& item : role.items)
      if (item.kind == ItemKind::pass)
        ops += graph.passes[static_cast<size_t>(item.pass)].ops.size();
  if (ops > kMostOps)
    return file_error("E123",
                      fmt::format("the step has {} ops on the ranks of a pipeline: at most {} are "
                                  "possible, which take about a minute",
                                  ops, kMostOps),
                      scenario.file, "fewer or larger microbatches (batch.global, batch.micro)");
  for (const Pass& pass : graph.passes) {
    const size_t slots = pass.ops.size() * 2 > kMostSlots ? wait_slots(pass).op.size() : 0;
    if (slots > kMostSlots)
      return file_error(
          "E123",
          fmt::format("'{}' has {} ops that others wait for: at most {} are possible in one stage",
                      pass.name, slots, kMostSlots),
          scenario.file, "more pipeline stages (parallel.pp, parallel.vpp) have fewer layers each");
  }
  return {};
}

// The step with its prices, or why it cannot be run.
std::variant<PricedStep, InputError> price_or_refuse(LoweredStep step, const CostTable* table,
                                                     PriceCache* cache = nullptr) {
  const Scenario& scenario = *step.scenario;
  std::optional<Prices> prices =
      prices_if_countable(scenario.cluster, step.graph, scenario, table, cache);
  if (!prices) return too_long(scenario);
  PricedStep priced{&scenario, table, std::move(step.graph), std::move(*prices)};
  add_host_wait_edges(priced.graph, priced.prices);
  if (std::optional<InputError> wrong = check_size(priced.graph, scenario))
    return std::move(*wrong);
  return priced;
}

}  // namespace

// The allocator of each role, replayed.  It is not in the anonymous namespace because a part of
// MemoryTraces, which the header declares, is of this type.
class Reservations {
 public:
  Reservations(const Scenario& scenario, const OpGraph& graph)
      : traces_(graph),
        segments_(scenario.plan.kernels.expandable_segments ? Segments::expandable
                                                            : Segments::fixed) {}

  // By the role on a GPU with that much room; `peak`: what it allocates.
  ReservedTraces::Reserved of(uint32_t role, Bytes peak, Bytes room) const {
    if (is_far_too_large(peak, room)) return {peak, true};
    return traces_.trace(role, room, segments_);
  }

  // Whether it fits there.
  bool fits(uint32_t role, Bytes peak, Bytes room) const {
    return peak <= room && traces_.fits(role, room, segments_);
  }

  // The first role that is alike: what is known of it need not be found again.
  uint32_t like(uint32_t role) const {
    for (uint32_t r = 0; r < role; ++r)
      if (traces_.alike(r, role)) return r;
    return role;
  }

  // Whether it allocates so much more than there is that what the allocator adds is of no interest,
  // or more than any GPU has.
  static bool is_far_too_large(Bytes peak, Bytes room) {
    constexpr Bytes kTebibyte{int64_t{1} << 40};
    return peak > std::min(room + room / 4, kTebibyte);
  }

 private:
  ReservedTraces traces_;
  Segments segments_;
};

namespace {

// The roles, fullest first; of equal ones in their order.
std::vector<uint32_t> largest_first(const std::vector<Bytes>& by_role) {
  std::vector<uint32_t> roles(by_role.size());
  std::iota(roles.begin(), roles.end(), uint32_t{0});
  std::ranges::stable_sort(roles, [&](uint32_t a, uint32_t b) { return by_role[a] > by_role[b]; });
  return roles;
}

}  // namespace

LoweredStep lower_step(const Scenario& scenario, const Schedule& schedule, StagePassCache* passes,
                       const GraphOptions& graph) {
  return lowered(scenario, schedule, scenario.post_validation, passes, graph);
}

InSituValues in_situ_values_of(const Scenario& scenario) {
  if (!scenario.in_situ || !scenario.plan.trains()) return neutral_in_situ();
  return of_its_software(in_situ_values(in_situ_parameters_of(scenario), scenario.cluster.node,
                                        scenario.plan.kernels.libraries),
                         scenario);
}

void add_in_situ(const InSituValues& values, const Scenario& scenario, const OpGraph& graph,
                 Prices& prices) {
  apply_in_situ(of_its_software(values, scenario), graph, scenario.plan.grid.world(), prices);
}

LoweredStep lower_without_barrier(const Scenario& scenario, const Schedule& schedule) {
  return lowered(scenario, schedule, true);
}

std::optional<Prices> prices_of_parts(const OpGraph& graph, const Scenario& scenario,
                                      const CostTable* table, PriceCache& cache) {
  return prices_if_countable(scenario.cluster, graph, scenario, table, &cache);
}

Prices price_on(const Cluster& cluster, const OpGraph& graph, const Scenario& scenario,
                const CostTable* table) {
  std::optional<Prices> prices = prices_if_countable(cluster, graph, scenario, table);
  if (!prices) throw too_long(scenario);
  return std::move(*prices);
}

void require_runnable(const OpGraph& graph, const Scenario& scenario) {
  if (std::optional<InputError> wrong = check_size(graph, scenario)) throw std::move(*wrong);
}

PricedStep price_step(LoweredStep step, const CostTable* table) {
  auto priced = price_or_refuse(std::move(step), table);
  if (InputError* refused = std::get_if<InputError>(&priced)) throw std::move(*refused);
  return std::move(std::get<PricedStep>(priced));
}

std::optional<PricedStep> price_if_possible(LoweredStep step, const CostTable* table,
                                            PriceCache* cache) {
  auto priced = price_or_refuse(std::move(step), table, cache);
  if (std::holds_alternative<InputError>(priced)) return {};
  return std::move(std::get<PricedStep>(priced));
}

std::optional<StepOutcome> evaluate(const PricedStep& step, Time most, LonePassCache* passes) {
  StepOutcome out;
  try {
    out.time = step_time_of(*step.scenario, step.table, step.graph, step.prices, most, passes);
  } catch (const Deadlock&) {
    return {};
  }
  out.peak = std::ranges::max(peak_memory(step.graph));
  return out;
}

Bytes usable_memory(const Scenario& scenario) {
  return scenario.cluster.node.gpu.memory - device_reserve(scenario);
}

struct MemoryTraces::Parts {
  Parts(const Scenario& scenario, const OpGraph& graph)
      : room(usable_memory(scenario)),
        reservations(scenario, graph),
        by_role(trace_memory(graph)),
        like(by_role.size()),
        found(by_role.size()) {
    for (uint32_t r = 0; r < like.size(); ++r) {
      like[r] = reservations.like(r);
      if (like[r] == r) unlike.push_back(r);
    }
  }

  Bytes room{};
  Reservations reservations;
  std::vector<RoleMemory> by_role;
  std::vector<uint32_t> like, unlike;
  std::vector<ReservedTraces::Reserved> found;  // of those that are unlike
};

MemoryTraces::MemoryTraces(const Scenario& scenario, const OpGraph& graph)
    : parts_(std::make_unique<Parts>(scenario, graph)) {}

MemoryTraces::~MemoryTraces() = default;

size_t MemoryTraces::stages() const {
  return parts_->unlike.size();
}

void MemoryTraces::trace(size_t stage) {
  const uint32_t role = parts_->unlike[stage];
  parts_->found[role] = parts_->reservations.of(role, parts_->by_role[role].peak, parts_->room);
}

StepMemory MemoryTraces::memory() && {
  StepMemory step;
  step.by_role = std::move(parts_->by_role);
  for (uint32_t r = 0; r < step.by_role.size(); ++r) {
    const Bytes peak = step.by_role[r].peak;
    const auto [reserved, lacked_room] = parts_->found[parts_->like[r]];
    step.reserved_by_role.push_back(reserved);
    step.lacked_room.push_back(lacked_room);
    if (peak > step.by_role[step.peak_role].peak) step.peak_role = r;
    if (reserved > step.reserved_by_role[step.reserved_role]) step.reserved_role = r;
  }
  step.peak = step.by_role[step.peak_role].peak;
  step.reserved = step.reserved_by_role[step.reserved_role];
  return step;
}

StepMemory memory_of(const Scenario& scenario, const OpGraph& graph) {
  MemoryTraces traces(scenario, graph);
  for (size_t stage = 0; stage < traces.stages(); ++stage) traces.trace(stage);
  return std::move(traces).memory();
}

StepMemory memory_of(const LoweredStep& step) {
  return memory_of(*step.scenario, step.graph);
}

bool is_too_large(const LoweredStep& step) {
  return check_size(step.graph, *step.scenario).has_value();
}

bool fits(const LoweredStep& step) {
  const Bytes usable = usable_memory(*step.scenario);
  const std::vector<Bytes> peaks = peak_memory(step.graph);
  if (std::ranges::any_of(peaks, [&](Bytes peak) { return peak > usable; })) return false;
  const Reservations reservations(*step.scenario, step.graph);
  return std::ranges::all_of(largest_first(peaks), [&](uint32_t r) {
    return reservations.like(r) != r || reservations.fits(r, peaks[r], usable);
  });
}

double room_to_grow(const Scenario& scenario, const OpGraph& graph, const StepMemory& memory,
                    double least, double most, int jobs) {
  constexpr double kPrecision = 0.01;
  const Bytes all = usable_memory(scenario);
  const auto usable = static_cast<double>(all.value);
  // With what it takes where there is room it fits too, if that is known.
  const auto fits_as_it_is = [&](uint32_t role, double ratio) {
    return !Reservations::is_far_too_large(memory.by_role[role].peak, all) &&
           static_cast<double>(memory.reserved_by_role[role].value) * ratio <= usable;
  };
  const std::vector<uint32_t> roles = largest_first(memory.reserved_by_role);
  if (fits_as_it_is(roles.front(), most)) return most;
  const Reservations reservations(scenario, graph);
  std::map<std::pair<uint32_t, Bytes>, bool> known;
  const auto room_at = [&](double ratio) { return Bytes{static_cast<int64_t>(usable / ratio)}; };
  // Of a role whose peak is at most the room.
  const auto fits_in = [&](uint32_t role, Bytes room) {
    // What never lacked room is the same in any room that is large enough for it.
    if (!memory.lacked_room[role] && memory.reserved_by_role[role] <= room) return true;
    return reservations.fits(role, memory.by_role[role].peak, room);
  };
  const auto fits_larger = [&](uint32_t role, double ratio) {
    const Bytes room = room_at(ratio);
    if (memory.by_role[role].peak > room) return false;
    const auto [at, fresh] = known.try_emplace({reservations.like(role), room});
    if (fresh) at->second = fits_in(role, room);
    return at->second;
  };
  // One after the other, a role that does not fit spares those after it the largest ratio; at once
  // they take no longer than the first alone.
  if (jobs > 1) {
    std::vector<uint32_t> asked;
    for (const uint32_t r : roles)
      if (!fits_as_it_is(r, most) && memory.by_role[r].peak <= room_at(most) &&
          reservations.like(r) == r)
        asked.push_back(r);
    std::vector<char> fits(asked.size());
    for_each_item(asked.size(), jobs,
                  [&](size_t i, size_t) { fits[i] = fits_in(asked[i], room_at(most)) ? 1 : 0; });
    for (size_t i = 0; i < asked.size(); ++i)
      known.emplace(std::pair{asked[i], room_at(most)}, fits[i] != 0);
  }
  double ratio = most;
  for (const uint32_t r : roles) {
    if (fits_as_it_is(r, ratio) || fits_larger(r, ratio)) continue;
    double low = least, high = ratio;
    if (!fits_larger(r, low)) return least;
    while (high - low > kPrecision) {
      const double middle = (low + high) / 2;
      (fits_larger(r, middle) ? low : high) = middle;
    }
    ratio = low;
  }
  return ratio;
}

}  // namespace stepcast
