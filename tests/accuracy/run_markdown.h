// SPDX-License-Identifier: Apache-2.0
// Rows of runs as Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/accuracy/predict.h"

namespace stepcast::accuracy {

// What to know first, aims, errors by source and GPU; then groups, out of memory, by size and
// layout, by the origin of the prices, largest errors and why, what is not predicted.  `heading`
// marks its sections: "##".
std::string runs_markdown(const std::vector<RunRow>& rows, std::string_view heading);

}  // namespace stepcast::accuracy
