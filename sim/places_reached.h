// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace stepcast {

// How many of `places` (nodes, ranks) that hold equal parts of `experts` a token's `chosen`
// different experts lie in, in the mean over all choices: places * (1 - C(experts - experts /
// places, chosen) / C(experts, chosen)). REQUIRES: places > 0, 0 <= chosen <= experts.
double places_reached(int64_t places, int64_t experts, int64_t chosen);

}  // namespace stepcast
