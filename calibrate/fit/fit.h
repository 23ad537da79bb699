// SPDX-License-Identifier: Apache-2.0
// Fits of measured times: the constants that a cost table stores.
//
// Used when a table is made, never when it is read: a forecast takes the stored constants, so that
// two machines cannot disagree in the last bit of a fit.  Least squares of relative errors by
// Eigen's ColPivHouseholderQR, iteratively reweighted by Huber's function (Huber 1964, Robust
// estimation of a location parameter; k = 1.345 robust standard deviations, which are 1.4826 times
// the median of the residuals' magnitudes): a row that is off by a factor of ten moves a constant
// no further than one that is off by a little more than the rest.
#pragma once

#include <cstddef>
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
// from large sizes alone, alpha comes out several times too big).  Neither is negative: where the
// best line begins below zero the best one through zero is taken, where it falls, the best
// constant. REQUIRES: at least two different sizes, times positive.
AlphaBeta fit_alpha_beta(std::span<const SizedTime> points);

struct KernelTime {
  double flops = 0;
  double bytes = 0;
  double us = 0;
};

// Which terms the form has beside flops / tflops.
struct RooflineTerms {
  bool t0 = true;
  bool gbs = true;
};

// A term that is absent has constant 0.
struct SmoothRoofline {
  double t0_us = 0;
  double tflops = 0;
  double gbs = 0;
  double rms = 0;  // root mean square of ln(measured / fitted)
  // Standard errors of the constants' natural logarithms; at least as if rows were 1 % off.
  double t0_error = 0, tflops_error = 0, gbs_error = 0;  // 0: was not fitted
};

// t = t0 + sqrt((flops / tflops)^2 + (bytes / gbs)^2), least squares of ln t by Gauss-Newton from
// the fastest rates seen; all constants that there are stay positive.  REQUIRES: at least as many
// points as constants; times and flops positive, bytes too where the form has them.
SmoothRoofline fit_smooth_roofline(std::span<const KernelTime> points,
                                   const RooflineTerms& terms = {});

// The same with as many of `terms` as the points tell: a term whose constant has a standard error
// of more than a factor of two is not fitted, the least known first, nor are terms until there are
// two points more than constants.  A t0 that is not fitted is `assumed_t0_us`, at most half of the
// shortest time; bytes that are not fitted do not count.  A single point gives a rate.
SmoothRoofline fit_known_terms(std::span<const KernelTime> points, RooflineTerms terms,
                               double assumed_t0_us);

// Time of the form, microseconds.
double fitted_us(const SmoothRoofline& fit, const KernelTime& point);

}  // namespace stepcast
