// SPDX-License-Identifier: Apache-2.0
// An order that can run with any placement: for probing what stages cost, and in the place of an
// order that is still to be made.
#pragma once

#include <cstdint>
#include <vector>

#include "schedules/schedule.h"

namespace stepcast {

// Every rank runs all its forwards, stage by stage, then all its backwards the other way round,
// each as I and W if `split_backward`.
Schedule all_forwards_then_backwards(std::vector<uint16_t> rank_of_stage, int64_t pp,
                                     int64_t microbatches, bool split_backward = false);

}  // namespace stepcast
