// SPDX-License-Identifier: Apache-2.0
// How many blocks a kernel is launched with.
#pragma once

#include <cstdint>

namespace stepcast::measure {

// Blocks of `threads` for `items`, one a thread, at most the device's limit in x: kernels go on in
// strides of the grid.
inline unsigned blocks_for(int64_t items, int64_t threads) {
  constexpr int64_t kMost = 0x7fffffff;
  const int64_t blocks = (items + threads - 1) / threads;
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > kMost ? kMost : blocks);
}

}  // namespace stepcast::measure
