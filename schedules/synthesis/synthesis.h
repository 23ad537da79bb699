// SPDX-License-Identifier: Apache-2.0
// A schedule made to measure: from the times and the memory of every stage's actions, the time of a
// hop and the memory of each rank.
//
// The best of the fixed families that fit the memory and of many list schedules is taken, and
// improved by a local search on the evaluator of order_timing.h: the outcome is never worse than
// the best family with the same placement and memory.  A lower bound says how much could be left.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schedules/schedule.h"
#include "schedules/synthesis/order_timing.h"
#include "sim/diagnostic.h"
#include "sim/units.h"

namespace stepcast {

// Most orders that a search over this many actions may be asked to try: what takes about a minute.
constexpr int64_t most_effort(int64_t actions) {
  constexpr int64_t kMostOrders = 10'000'000, kFewestOrders = 1'000;
  constexpr int64_t kActionsVisited = 5'000'000'000;  // about 90 million a second
  return std::clamp(kActionsVisited / std::max<int64_t>(actions, 1), kFewestOrders, kMostOrders);
}

enum class SynthesisObjective : uint8_t {
  makespan,  // a step that ends with a barrier over all ranks; the shorter span among equals
  span,      // a step without one (optimizer post-validation); the shorter makespan among equals
};

struct SynthesisProblem {
  // Each stage's memory must come back to what it was: forward + backward_input + backward_weight
  // == 0, forward >= 0.
  PipelineCosts costs;
  // false: only whole backwards (B).  Otherwise B is split into I and W, except where that takes
  // memory that is not there, and where a whole backward that takes less than both is better.
  bool split_backward = true;
  SynthesisObjective objective = SynthesisObjective::makespan;
  // Orders tried, list schedules included; 0 = as many as about a second takes.  At most
  // most_effort().
  int64_t effort = 0;
  uint64_t seed = 1;
};

struct Synthesis {
  Schedule schedule;                 // name "auto"
  Time makespan{}, span{};           // async transfers
  Time lower_bound{};                // of the objective: schedule_bounds()
  double gap = 0;                    // objective / lower_bound - 1
  std::vector<int64_t> peak_memory;  // by rank, in the unit of the memory
  std::string start;                 // what the search began with: "zb-h1", "list schedule"
  Time start_time{};                 // ... and its objective
  int64_t orders_tried = 0;
};

// Nothing, or why no schedule can be made, in a sentence for the user: sizes or times that make no
// sense, too much work, or no order that fits the memory; it then says what the least would be.
// O(stages).
std::optional<Diagnostic> check_synthesis(const SynthesisProblem& problem);

// Deterministic: the same problem gives the same schedule on every machine.  Throws InputError with
// what check_synthesis() says.
Synthesis synthesize(const SynthesisProblem& problem);

}  // namespace stepcast
