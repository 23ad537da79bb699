// SPDX-License-Identifier: Apache-2.0
// Shapes of attention that are measured besides those of a plan.  Needs no CUDA.
#pragma once

#include <vector>

#include "sim/graph/work.h"

namespace stepcast::measure {

// Fused attention in bf16, forward and backward: head dimension 128 with grouped queries over
// sequences of 2048, 4096 and 8192, causal; `full`: dimension 64 and DeepSeek's 192 for queries and
// keys with 128 for values too, as many key-value heads as queries, and without a mask.
std::vector<Work> attention_grid(bool full);

// The parts of attention that is not fused, as the forecast names them: batched products and
// softmax.  `full` as above.
std::vector<Work> unfused_attention_grid(bool full);

}  // namespace stepcast::measure
