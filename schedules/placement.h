// SPDX-License-Identifier: Apache-2.0
// Which pipeline rank holds which stage, and the empty schedule a family starts from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "schedules/schedule.h"

namespace stepcast {

// Most actions a generated schedule may have: 8 bytes each, and positions are 32-bit.
constexpr int64_t kMostActions = 100'000'000;

// A schedule without actions in which stage s is on rank s % pp, so that a rank's chunk c is stage
// c * pp + rank.  Throws std::invalid_argument with a sentence for the user if a size is below 1,
// or if there would be more than 65,536 stages or kMostActions actions.
Schedule loop_schedule(std::string_view name, const ScheduleParams& params);

// The same for two chunks a rank in the form of a V: rank r holds stages r and 2 pp - 1 - r, so
// that both the first and the last stage are on rank 0.  Also throws unless vpp = 2.
Schedule v_schedule(std::string_view name, const ScheduleParams& params);

// The same for any number of chunks, laid out like a snake: even chunks run down the ranks, odd
// ones up, so that neighbouring chunks meet on one rank.  With vpp = 2 this is the V.
Schedule snake_schedule(std::string_view name, const ScheduleParams& params);

// Two replicas of a model of pp stages, one on rank s and one on rank pp - 1 - s; `reversed` is
// left to the family.  vpp counts the stages of a rank: also throws unless it is 2.
Schedule bidirectional_schedule(std::string_view name, const ScheduleParams& params);

// Throws std::invalid_argument unless vpp = 1, and names the family that takes more chunks.
void require_one_chunk(std::string_view name, const ScheduleParams& params,
                       std::string_view instead);

inline Action forward_of(int64_t stage, int64_t microbatch) {
  return {ActionKind::forward, static_cast<uint16_t>(stage), static_cast<uint32_t>(microbatch)};
}
inline Action backward_of(int64_t stage, int64_t microbatch) {
  return {ActionKind::backward, static_cast<uint16_t>(stage), static_cast<uint32_t>(microbatch)};
}

}  // namespace stepcast
