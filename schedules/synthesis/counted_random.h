// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace stepcast {

// Numbers that look random, the same everywhere: a hash of a counter (SplitMix64; Steele, Lea,
// Flood 2014).
class CountedRandom {
 public:
  explicit CountedRandom(uint64_t seed) : counter_(seed * 0x9e3779b97f4a7c15u) {}
  uint64_t next() {
    uint64_t z = counter_ += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }
  // 0 .. n - 1, near enough to uniform.  REQUIRES: 1 <= n < 2^32.
  uint64_t below(uint64_t n) { return ((next() >> 32) * n) >> 32; }

 private:
  uint64_t counter_;
};

}  // namespace stepcast
