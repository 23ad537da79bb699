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

// Threads of a block that goes through `items`: as many whole warps as have something to do, at
// most `most`.
inline unsigned threads_for(int64_t items, int64_t most) {
  const int64_t threads = (items + 31) / 32 * 32;
  return static_cast<unsigned>(threads < 32 ? 32 : threads < most ? threads : most);
}

}  // namespace stepcast::measure
