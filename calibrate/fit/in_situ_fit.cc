// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit/in_situ_fit.h"

#include "sim/log_exp.h"

namespace stepcast {
namespace {

constexpr double kLnTwo = 0.69314718055994530942;

}  // namespace

double exact_ln(double x) {
  return exact_log2(x) * kLnTwo;
}

double exact_exp(double x) {
  return exact_exp2(x / kLnTwo);
}

double student_loss(double z, double freedom) {
  return (freedom + 1) * exact_ln(1 + z * z / freedom);
}

double student_weight(double z, double freedom) {
  return (freedom + 1) / (freedom + z * z);
}

Coordinate::Coordinate(const InSituParameter& p) : factor(neutral_value(p.term) == 1) {
  mean = factor ? exact_ln(p.prior) : p.prior;
  width = factor ? p.prior_sd / p.prior : p.prior_sd;
}

double Coordinate::value(double u) const {
  return factor ? exact_exp(u) : u;
}

bool is_other_program(double measured_s, double forecast_s) {
  return measured_s > kOtherProgram * forecast_s || forecast_s > kOtherProgram * measured_s;
}

}  // namespace stepcast
