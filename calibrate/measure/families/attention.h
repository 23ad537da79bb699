// SPDX-License-Identifier: Apache-2.0
// Time of fused attention: rows `attention,fwd|bwd,...` of a cost table.
#pragma once

#include "calibrate/measure/timing.h"
#include "sim/graph/work.h"

namespace stepcast::measure {

// Of an attention_forward or attention_backward: packed tensors of normal numbers, which are not in
// the cache.  The backward pass is all of it, from the gradient of the context to those of queries,
// keys and values.  Throws Unsupported where there is no such kernel or not enough memory.
Timing time_attention(const Bench& bench, const Work& work);

}  // namespace stepcast::measure
