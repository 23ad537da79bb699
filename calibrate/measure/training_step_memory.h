// SPDX-License-Identifier: Apache-2.0
// Which parts of one block of memory are taken: places for tensors that come and go in program
// order.  Needs no CUDA; the same calls give the same places.
#pragma once

#include <cstdint>
#include <map>

namespace stepcast::measure {

// Best fit: the smallest gap that is large enough, the first of equal ones; else behind the last
// place.  When everything has been given back it is as new, but for its peak.
class Arena {
 public:
  // Bytes from the block's begin, a multiple of 256.  REQUIRES: bytes > 0.
  int64_t take(int64_t bytes);
  // REQUIRES: `place` was taken and not given back since.
  void give_back(int64_t place);

  int64_t peak() const { return peak_; }  // end of the highest place ever taken
  bool empty() const { return taken_.empty(); }

 private:
  std::map<int64_t, int64_t> taken_, gaps_;  // begin -> bytes; gaps between places only
  int64_t end_ = 0, peak_ = 0;               // of the last place
};

}  // namespace stepcast::measure
