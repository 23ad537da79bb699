// SPDX-License-Identifier: Apache-2.0
// How long orders of actions take, fast: what a search over orders calls some ten thousand times a
// second.
//
// The rule is that of lower_unit() with transfers that never wait: each rank runs its list strictly
// in order; F of stage s needs F of s-1, B or I of stage s needs B or I of s+1; a result that
// changes ranks arrives one hop later; an action starts as soon as its rank is free and its input
// is there.  Times are equal to those of the engine, to the picosecond.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "schedules/lower/lower_unit.h"
#include "schedules/schedule.h"
#include "sim/graph/action.h"
#include "sim/units.h"

namespace stepcast {

// What an action adds to the memory of its rank, in any unit; a negative amount is freed.  B adds
// the sum of input and weight.
struct StageMemory {
  int64_t forward = 0;          // >= 0
  int64_t backward_input = 0;   // mostly < 0: what only the input gradient needed
  int64_t backward_weight = 0;  // < 0: the rest
};

// A pipeline whose actions have known times and memory.  REQUIRES, where it is taken: one entry a
// stage in rank_of_stage, times and memory; times and hops >= 0.
struct PipelineCosts {
  int64_t pp = 1;
  int64_t microbatches = 1;
  std::vector<uint16_t> rank_of_stage;  // any placement; one entry a stage
  std::vector<StageTimes> times;        // by stage; recompute, offload and reload are not looked at
  std::vector<StageMemory> memory;      // by stage
  // From stage s to s + 1 and back; one entry fewer than stages.  Within a rank it costs nothing.
  std::vector<Time> hops;
  std::vector<int64_t> memory_limit;  // by rank; empty: none
};

// All stages alike, and one limit for all ranks (std::nullopt: none).
PipelineCosts level_costs(int64_t pp, int64_t microbatches, std::vector<uint16_t> rank_of_stage,
                          const StageTimes& times, const StageMemory& memory, Time hop,
                          std::optional<int64_t> memory_limit);

// One action of `stage`: how long it takes, what it adds to memory.  REQUIRES: F, B, I or W.
Time action_time(const PipelineCosts& costs, ActionKind kind, size_t stage);
int64_t action_memory(const PipelineCosts& costs, ActionKind kind, size_t stage);
// From `stage` to the next; 0 within a rank.
Time hop_between(const PipelineCosts& costs, size_t stage);

using Order = std::vector<std::vector<Action>>;  // one list a rank

struct OrderTimes {
  Time makespan{};  // last end, from 0
  Time span{};      // largest (last end - first start) over ranks
};

// std::nullopt if the lists get stuck.  REQUIRES: only F, B, I, W; each stage's actions on its
// rank; F before B or I before W in every list.  Pairs that overlap are run one after the other.
// O(actions).
std::optional<OrderTimes> time_order(const PipelineCosts& costs, const Order& order);

// Most memory that each rank holds after any of its actions.  O(actions).
std::vector<int64_t> peak_memory(const PipelineCosts& costs, const Order& order);
// ... and whether that is within the limits.
bool fits_memory(const PipelineCosts& costs, const Order& order);

// ------------------------------------------------------------------------------------------------
// Times that no order of a pipeline goes below, its memory limits considered.
//
// For each rank: its work; before it, the time of a forward to get to the rank; the pause until the
// first gradient comes back that memory does not allow to fill with forwards; the pause after the
// last forward that the gradients and weight gradients in memory cannot fill; after it, the time of
// the last gradient back to stage 0.  And the memory times time that the microbatches occupy at
// least, over the limit.  Proofs stand beside the terms.

// REQUIRES: as synthesize().  O(stages^2).
OrderTimes schedule_bounds(const PipelineCosts& costs, bool split_backward);

}  // namespace stepcast
