// SPDX-License-Identifier: Apache-2.0
// Numbers that look random and are the same everywhere: SplitMix64 (Steele, Lea and Flood, Fast
// splittable pseudorandom number generators, 2014), and a hash of small tuples of numbers.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace stepcast {

// By which SplitMix64's counter grows: 2^64 over the golden ratio.
constexpr uint64_t kSplitMixStep = 0x9e3779b97f4a7c15u;

// SplitMix64's finalizer: every bit of the result depends on every bit of x.
constexpr uint64_t splitmix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// A sequence of numbers, each the hash of a counter.
class CountedRandom {
 public:
  explicit CountedRandom(uint64_t seed) : counter_(seed * kSplitMixStep) {}
  uint64_t next() { return splitmix(counter_ += kSplitMixStep); }
  // 0 .. n - 1, near enough to uniform.  REQUIRES: 1 <= n < 2^32.
  uint64_t below(uint64_t n) { return ((next() >> 32) * n) >> 32; }

 private:
  uint64_t counter_;
};

// Of the sizes of a shape, in this order, for hash maps.
inline uint64_t hash_of_sizes(std::initializer_list<int64_t> sizes, uint64_t start = 0) {
  uint64_t h = start;
  for (const int64_t x : sizes) {
    h = (h ^ static_cast<uint64_t>(x)) * kSplitMixStep;
    h ^= h >> 32;
  }
  return h;
}

}  // namespace stepcast
