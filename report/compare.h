// SPDX-License-Identifier: Apache-2.0
// Several results side by side, against one of them.
#pragma once

#include <span>
#include <string>

#include "report/format.h"
#include "sim/result.h"

namespace stepcast {

// One line a case: step time, difference to the baseline, bubble, peak memory (with '!' if it does
// not fit), the rank with the peak, MFU, and what the case is best at.  REQUIRES: as many names as
// results, baseline < results.size().
std::string compare_table(std::span<const Result> results, std::span<const std::string> names,
                          size_t baseline, const TextStyle& style = {});

// "fastest that fits", "least memory", "does not fit": one entry a case, empty where nothing
// distinguishes it.
std::vector<std::string> compare_notes(std::span<const Result> results);

}  // namespace stepcast
