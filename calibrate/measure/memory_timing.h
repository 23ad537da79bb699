// SPDX-License-Identifier: Apache-2.0
// Times of the memory-bound kernels (kernels/*.h), launches and copies.
#pragma once

#include <cstdint>

#include "calibrate/measure/timing.h"
#include "calibrate/table_text.h"
#include "sim/work.h"

namespace stepcast::measure {

// Time of a memory-bound kernel that moves `bytes` (memory_shapes.h).
Timing time_memory(const Bench& bench, Kernel kernel, int64_t bytes);

// Host time of launching one kernel: an empty one, over and over, on a stream that never fills up.
Timing time_launch(const Bench& bench);
// Period of empty kernels in a stream that the host keeps full: the device's.
Timing time_empty_kernel(const Bench& bench);
// Host time of replaying a CUDA graph of that many empty kernels in a row.
Timing time_graph_launch(const Bench& bench, int kernels);

// Copy of `bytes` between pinned host memory and the device, or within the device, which keeps its
// copies out of the cache as Operands do.
Timing time_copy(const Bench& bench, CopyKind kind, int64_t bytes);

}  // namespace stepcast::measure
