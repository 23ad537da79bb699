// SPDX-License-Identifier: Apache-2.0
// The natural exponential and logarithm, the same bits on every machine (sim/log_exp.h).
#pragma once

#include <algorithm>

#include "sim/log_exp.h"

namespace stepcast {

constexpr double kLogE = 1.4426950408889634;  // log2(e)

// e^x; beyond what a double holds, its largest powers of 2.
inline double exponential(double x) {
  return exact_exp2(std::clamp(x * kLogE, -1000.0, 1000.0));
}

// e^x - 1 without loss of digits for small x: four terms of its series below 1e-3, which leave out
// less than 1e-15 of it.
inline double exponential_less_1(double x) {
  if (x > 1e-3 || x < -1e-3) return exponential(x) - 1;
  return x * (1 + x / 2 * (1 + x / 3 * (1 + x / 4 * (1 + x / 5))));
}

// REQUIRES: x finite, above 0.
inline double logarithm(double x) {
  return exact_log2(x) / kLogE;
}

}  // namespace stepcast
