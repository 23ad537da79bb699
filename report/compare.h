// SPDX-License-Identifier: Apache-2.0
// Several results side by side, against one of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "report/format.h"
#include "sim/result.h"

namespace stepcast {

// Whether all results are of the same work, tokens and model FLOPs a step: only then do step times
// compare.
bool comparable_steps(std::span<const Result> results);

// One line a case: step time, difference to the baseline, bubble, peak memory (with '!' if it does
// not fit), the rank with the peak, MFU, and what the case is best at.  Tokens per second and GPU,
// and a remark, if steps do not compare.  REQUIRES: as many names as results, baseline <
// results.size().
std::string compare_table(std::span<const Result> results, std::span<const std::string> names,
                          size_t baseline, const TextStyle& style = {});

// "fastest that fits" (most tokens a second and GPU if steps do not compare), "least memory", "does
// not fit": one entry a case, empty where nothing distinguishes it.
std::vector<std::string> compare_notes(std::span<const Result> results);

}  // namespace stepcast
