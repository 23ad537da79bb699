// SPDX-License-Identifier: Apache-2.0
// Sums and products that end at the largest number instead of overflowing: lower bounds of steps
// that take longer than can be counted.
#pragma once

#include <cstdint>
#include <limits>

namespace stepcast {

// REQUIRES: a sum that is not below the smallest number.
constexpr int64_t saturating_sum(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_add_overflow(a, b, &out) ? std::numeric_limits<int64_t>::max() : out;
}

// REQUIRES: a, b >= 0.
constexpr int64_t saturating_product(int64_t a, int64_t b) {
  int64_t out = 0;
  return __builtin_mul_overflow(a, b, &out) ? std::numeric_limits<int64_t>::max() : out;
}

}  // namespace stepcast
