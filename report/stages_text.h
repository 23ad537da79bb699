// SPDX-License-Identifier: Apache-2.0
// `stepcast explain --stages`: what the passes of each stage take and hold.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "report/format.h"
#include "report/json_writer.h"
#include "sim/units.h"

namespace stepcast {

// One stage, for one microbatch.
struct StageLine {
  int64_t rank = 0;                                                 // pipeline rank
  Time forward{}, backward{}, backward_input{}, backward_weight{};  // B takes less than I and W
  int64_t after_forward = 0, after_input = 0;                       // bytes held, until W
  std::optional<Time> hop;  // to the next stage; on one rank 0
};

// A file for `stepcast schedule eval --stages`: a line a stage, what is not for it behind a '#'.
std::string explain_stages(const std::string& scenario, std::span<const StageLine> stages);
void write_stages(JsonWriter& json, std::span<const StageLine> stages);

}  // namespace stepcast
