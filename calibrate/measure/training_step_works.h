// SPDX-License-Identifier: Apache-2.0
// What one step launches and holds, counted without a GPU: the stack run on a backend that only
// takes notes.
//
// Bytes and FLOPs as the forecast counts them (model/): each operand of a kernel once, 4 m n k a
// head of fused attention, half of it under the causal mask and 2.5 times it backward.
#pragma once

#include <cstdint>
#include <vector>

#include "calibrate/measure/training_step_shape.h"
#include "sim/graph/work.h"

namespace stepcast::measure {

struct StepWorks {
  std::vector<Work> works;  // in order: zeroed gradients, microbatches, the update
  double flops = 0;         // of products and attention, as executed
  int64_t state_bytes = 0;  // parameters, gradients, masters, moments
  int64_t peak_bytes = 0;   // with the activations, at most; without workspaces of libraries
};

// REQUIRES: check_shape has passed.
StepWorks step_works(const TrainingStep& shape);

// Bytes of the block, an Arena's, that the tensors of a microbatch need.  REQUIRES: as step_works.
int64_t microbatch_bytes(const TrainingStep& shape);

}  // namespace stepcast::measure
