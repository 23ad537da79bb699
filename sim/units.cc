// SPDX-License-Identifier: Apache-2.0
#include "sim/units.h"

#include <cmath>

#include "sim/check.h"

namespace stepcast {

namespace {

Diagnostic time_too_long() {
  Diagnostic d;
  d.message = "a time of 106 days or more, which cannot be counted";
  return d;
}

}  // namespace

TimeTooLong::TimeTooLong() : InputError(time_too_long()) {}

Time time_from_seconds(double seconds) {
  STEPCAST_CHECK(!std::isnan(seconds), "a time is a number");
  if (std::fabs(seconds) >= 9.2e6) throw TimeTooLong();
  return Time{static_cast<int64_t>(std::floor(seconds * 1e12 + 0.5))};
}

Time operator/(Bytes bytes, Bandwidth bandwidth) {
  STEPCAST_CHECK(bandwidth.value > 0, "a rate is above 0");
  return time_from_seconds(static_cast<double>(bytes.value) / bandwidth.value);
}

Time operator/(Flops work, FlopRate rate) {
  STEPCAST_CHECK(rate.value > 0, "a rate is above 0");
  return time_from_seconds(work.value / rate.value);
}

}  // namespace stepcast
