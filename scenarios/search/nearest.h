// SPDX-License-Identifier: Apache-2.0
// What to offer where there is no layout, or none fits: simple ones that fit, and numbers of GPUs
// that have some.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "scenarios/scenario_document.h"
#include "scenarios/search/space.h"
#include "sim/results/search_result.h"

namespace stepcast {

// The fastest of the simple layouts that fit: one chunk a rank, microbatches of one sequence, no
// context parallelism.  Nothing if none fits, or the scenario without its layout is illegal.
std::optional<FoundLayout> simple_layout_that_fits(const ScenarioDocument& document);

// The numbers of GPUs, below and above that of the space, that are nearest and have a legal layout.
// None where the space has several, or where none has one within 32 nodes or is soon found.
std::vector<int64_t> nearest_legal_gpus(const ScenarioDocument& document,
                                        const SearchOptions& options,
                                        const std::function<bool()>& stopped);

}  // namespace stepcast
