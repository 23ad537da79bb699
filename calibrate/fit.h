// SPDX-License-Identifier: Apache-2.0
// Fits of measured times: the constants that a cost table stores.
//
// Used when a table is made, never when it is read: a forecast takes the stored constants, so that
// two machines cannot disagree in the last bit of a fit.  Least squares by Eigen's
// ColPivHouseholderQR.
#pragma once

#include <span>

namespace stepcast {

struct AlphaBeta {
  double alpha_us = 0;
  double us_per_byte = 0;
  double rms = 0;  // root mean square of the relative residuals
};

struct SizedTime {
  double bytes = 0;
  double us = 0;
};

// t = alpha + beta * bytes, weights 1/t^2 (so that small sizes count as much as large ones: fitted
// from large sizes alone, alpha comes out several times too big).  REQUIRES: at least two different
// sizes, times positive.
AlphaBeta fit_alpha_beta(std::span<const SizedTime> points);

struct KernelTime {
  double flops = 0;
  double bytes = 0;
  double us = 0;
};

struct SmoothRoofline {
  double t0_us = 0;
  double tflops = 0;
  double gbs = 0;
  double rms = 0;  // root mean square of ln(measured / fitted)
};

// t = t0 + sqrt((flops / tflops)^2 + (bytes / gbs)^2), least squares of ln t by Gauss-Newton from
// the fastest rates seen; all three constants stay positive.  REQUIRES: at least three points,
// times, flops and bytes positive.
SmoothRoofline fit_smooth_roofline(std::span<const KernelTime> points);

}  // namespace stepcast
