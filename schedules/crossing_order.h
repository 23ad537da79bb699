// SPDX-License-Identifier: Apache-2.0
// The order that DualPipe and DualPipeV share: a rank that holds two stages, 0 and 1, whose
// microbatches cross, so that a forward of one runs together with a backward of the other.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/graph/action.h"

namespace stepcast {

struct CrossingStage {
  int64_t stage = 0;
  int64_t first_microbatch = 0;
};

// With H = `depth`, h = `position` (0 outermost, H - 1 innermost) and n = `microbatches` of each
// stage, 0 and 1 standing for the stages and B for a backward whose weight gradient is not put off:
//   2(H-h-1) F0;  h+1 (F0, F1);  H-h-1 (I1, W1, F1);
//   n-2H+h+1 (F0 || B1, F1 || B0), the very first F0, B1 of the innermost rank one after the other;
//   H-h-1 (B1, F1 || B0);  h+1 (B1, B0), the second half I only;  H-h-1 (W, I0);  W that are left,
// weight gradients put off being made up for in the order of their I.
// REQUIRES: 0 <= position < depth, microbatches >= 2 depth.
std::vector<Action> crossing_order(int64_t depth, int64_t position, int64_t microbatches,
                                   const std::array<CrossingStage, 2>& stages);

}  // namespace stepcast
