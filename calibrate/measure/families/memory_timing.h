// SPDX-License-Identifier: Apache-2.0
// Times of the memory-bound kernels (kernels/*.h).
#pragma once

#include <cstdint>

#include "calibrate/measure/timing.h"
#include "sim/graph/work.h"

namespace stepcast::measure {

// Time of a memory-bound kernel that moves `bytes` (memory_shapes.h).
Timing time_memory(const Bench& bench, Kernel kernel, int64_t bytes);

}  // namespace stepcast::measure
