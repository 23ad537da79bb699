// SPDX-License-Identifier: Apache-2.0
// Rows of runs as text, JSON and Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/runs/predict.h"

namespace stepcast::accuracy {

// The row's scenario, after what was assumed for it as comments.
std::string scenario_text(const RunRow& row);

// For a terminal: errors by source, aims, why records are missing.
std::string runs_text(const std::vector<RunRow>& rows);
// A list with one object a row:
//   id, source, measured_step_time_s, predicted_step_time_s, left_out_step_time_s,
//   without_in_situ_step_time_s, measured_peak_memory_bytes,
//   predicted_peak_memory_bytes, measured_oom, predicted_oom, interval {low_s, high_s, level},
//   cost_origins, skipped
// What is not known is null; `skipped` is why there is no prediction.
std::string runs_json(const std::vector<RunRow>& rows);

// What to know first, aims, pictures, errors by source and GPU; then groups, out of memory, by size
// and layout, by the origin of the prices, intervals, largest errors and why, what is not
// predicted.  `heading` marks its sections: "##"; `pictures` is the folder of predicted.svg,
// errors.svg and sizes.svg as links name it, "" for none.
std::string runs_markdown(const std::vector<RunRow>& rows, std::string_view heading,
                          std::string_view pictures = "");

}  // namespace stepcast::accuracy
