// SPDX-License-Identifier: Apache-2.0
// Which parts of one block of memory are taken: places for tensors that come and go in program
// order.  Needs no CUDA; the same calls give the same places.
#pragma once

#include <cstdint>
#include <map>

namespace stepcast::measure {

// Best fit: the smallest gap that is large enough, the first of equal ones.
class Arena {
 public:
  // Bytes from the block's begin, a multiple of 256.  REQUIRES: bytes > 0.
  int64_t take(int64_t bytes);
  // REQUIRES: `place` was taken and not given back since.
  void give_back(int64_t place);

  int64_t peak() const { return peak_; }  // end of the highest place ever taken
  bool empty() const { return taken_.empty(); }

 private:
  std::map<int64_t, int64_t> taken_, gaps_;  // begin -> bytes; gaps below peak_ only
  int64_t peak_ = 0;
};

}  // namespace stepcast::measure
