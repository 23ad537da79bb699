// SPDX-License-Identifier: Apache-2.0
// Typed reading of the parameters of one family, which arrive as text (ScheduleParams::more).
//
// A parameter that is absent, empty, or one of "none", "null" and "default" in any case is not set.
// Every function throws std::invalid_argument with a sentence for the user if the text is not what
// it asks for: "seq_splits = two must be a whole number from 1".
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "schedules/schedule.h"

namespace stepcast {

// Megatron-LM's arguments that more than one family takes.
constexpr std::string_view kMegatronGroup = "microbatch_group_size_per_vp_stage";
constexpr std::string_view kMegatronOverlap = "overlap_p2p_comm";
constexpr std::string_view kMegatronOverlapFlush = "overlap_p2p_comm_warmup_flush";
constexpr std::string_view kMegatronEpOverlap = "overlap_moe_expert_parallel_comm";

// "4"; also "4.0", as some programs write whole numbers.
std::optional<int64_t> whole_param(const ScheduleParams& params, std::string_view key,
                                   int64_t least = 1,
                                   int64_t most = std::numeric_limits<int64_t>::max());

// "true" or "false", "yes" or "no", "on" or "off", "1" or "0", in any case.
std::optional<bool> flag_param(const ScheduleParams& params, std::string_view key);

// One of `words`, in lower case.
std::optional<std::string> word_param(const ScheduleParams& params, std::string_view key,
                                      const std::vector<std::string>& words);

// A finite decimal number: "1200", "0.5", "-172032".
std::optional<double> number_param(const ScheduleParams& params, std::string_view key);

// One number, or several: "10", "10,10,14", "[10, 10, 14]".  Empty if not set.
std::vector<double> numbers_param(const ScheduleParams& params, std::string_view key);

// The size of a group of microbatches, which may be given as ScheduleParams::group or by the name
// that a program has for it; if both are, they must agree.
std::optional<int64_t> group_param(const ScheduleParams& params, std::string_view key);

// Throws unless `key` is not set or is `value`, the outcome of a rule; `rule` says which:
// "rounds = 3 must be 2: max(1, microbatches / pp)".
void expect_param(const ScheduleParams& params, std::string_view key, int64_t value,
                  std::string_view rule);

}  // namespace stepcast
