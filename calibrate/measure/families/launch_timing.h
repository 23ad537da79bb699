// SPDX-License-Identifier: Apache-2.0
// Times of what frameworks do beside kernels: launches, and copies by the copy engines.
#pragma once

#include <cstdint>

#include "calibrate/measure/timing.h"
#include "calibrate/table/table_text.h"

namespace stepcast::measure {

// Host time of launching one kernel: an empty one, over and over, on a stream that never fills up.
Timing time_launch(const Bench& bench);
// Host time of replaying a CUDA graph of that many empty kernels in a row.
Timing time_graph_launch(const Bench& bench, int kernels);

// Copy of `bytes` between pinned host memory and the device, or within the device, which keeps its
// copies out of the cache as Operands do.
Timing time_copy(const Bench& bench, CopyKind kind, int64_t bytes);

}  // namespace stepcast::measure
