// SPDX-License-Identifier: Apache-2.0
// Base-2 logarithm and exponential that give the same bits everywhere.
//
// The last bit of libm's log and exp differs between C libraries, and a cost that differs in the
// last bit may round to another picosecond.  These use only + - * / and the bits of a double, so
// (without contraction of a * b + c, which the build forbids) every IEEE machine agrees.
// Absolute error of log2 and relative error of exp2 are below 1e-13.
#pragma once

namespace stepcast {

// REQUIRES: x finite, x > 0.
double exact_log2(double x);

// 2^x.  REQUIRES: |x| <= 1000.
double exact_exp2(double x);

}  // namespace stepcast
