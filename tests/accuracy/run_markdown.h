// SPDX-License-Identifier: Apache-2.0
// Rows of runs as Markdown.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tests/accuracy/predict.h"

namespace stepcast::accuracy {

// What to know first, aims, pictures, errors by source and GPU; then groups, out of memory, by size
// and layout, by the origin of the prices, intervals, largest errors and why, what is not
// predicted.  `heading` marks its sections: "##"; `pictures` is the folder of predicted.svg,
// errors.svg and sizes.svg as links name it, "" for none.
std::string runs_markdown(const std::vector<RunRow>& rows, std::string_view heading,
                          std::string_view pictures = "");

}  // namespace stepcast::accuracy
