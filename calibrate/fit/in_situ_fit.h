// SPDX-License-Identifier: Apache-2.0
// What in-situ parameters (calibrate/price/in_situ.h) are estimated with, from published runs
// (tools/runs/estimate.h) as from a user's own (own_runs.h): the numbers that are estimated, and
// how far runs may lie from their forecasts.
#pragma once

#include "calibrate/price/in_situ.h"

namespace stepcast {

// Degrees of freedom of Student's errors of runs.
constexpr double kFreedom = 4;
// A run that the forecast beforehand is off by more than that factor of has no say: most of what
// was measured is something else than what is forecast.
constexpr double kOtherProgram = 2;
// Of a coordinate's width, for forward differences.
constexpr double kDifference = 0.25;
// A run has a say in a parameter whose prior width moves its forecast by that share.
constexpr double kSay = 0.002;

// -2 log of Student's density at z, but for a constant, and the weight that makes it a square.
double student_loss(double z, double freedom = kFreedom);
double student_weight(double z, double freedom = kFreedom);

// A parameter as the number that is estimated: factors by their natural logarithm.
struct Coordinate {
  bool factor = false;
  double mean = 0, width = 0;  // of the prior

  explicit Coordinate(const InSituParameter& p);
  double value(double u) const;
  double lowest() const { return factor ? -10 : 0; }
  // The standard deviation of a value whose coordinate has this one.
  double sd_of_value(double at, double sd) const { return factor ? at * sd : sd; }
};

// ln x and e^x with the same bits everywhere (sim/log_exp.h).
double exact_ln(double x);
double exact_exp(double x);

// Whether most of a measured step is something else than what is forecast.
bool is_other_program(double measured_s, double forecast_s);

}  // namespace stepcast
