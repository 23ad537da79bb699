// SPDX-License-Identifier: Apache-2.0
// Rows of runs as text and JSON.
#pragma once

#include <string>
#include <vector>

#include "tests/accuracy/predict.h"

namespace stepcast::accuracy {

// The row's scenario, after what was assumed for it as comments.
std::string scenario_text(const RunRow& row);

// For a terminal: errors by source, aims, why records are missing.
std::string runs_text(const std::vector<RunRow>& rows);
// A list with one object a row:
//   id, source, measured_step_time_s, predicted_step_time_s, measured_peak_memory_bytes,
//   predicted_peak_memory_bytes, measured_oom, predicted_oom, interval {low_s, high_s, level},
//   cost_origins, skipped
// What is not known is null; `skipped` is why there is no prediction.
std::string runs_json(const std::vector<RunRow>& rows);

}  // namespace stepcast::accuracy
