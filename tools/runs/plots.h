// SPDX-License-Identifier: Apache-2.0
// Rows of runs as pictures (SVG).
#pragma once

#include <string>
#include <vector>

#include "tools/runs/predict.h"

namespace stepcast::accuracy {

// Predicted over measured step time of every run, both axes logarithmic, a mark a source; lines
// at equality and 10 % to either side.
std::string scatter_svg(const std::vector<RunRow>& rows);

// Errors of step time by source: a mark for each run, a bar from the 10th to the 90th percentile, a
// line at the median.  Errors beyond -100 % .. +100 % stand at the edge.
std::string errors_svg(const std::vector<RunRow>& rows);

// Errors of step time over the parameters of the model, a mark for each run and the median of each
// half decade; what lies outside stands at the edge.
std::string sizes_svg(const std::vector<RunRow>& rows);

}  // namespace stepcast::accuracy
