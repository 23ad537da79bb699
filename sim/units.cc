// SPDX-License-Identifier: Apache-2.0
#include "sim/units.h"

#include <cmath>

#include "sim/check.h"

namespace stepcast {

Time time_from_seconds(double seconds) {
  STEPCAST_CHECK(std::isfinite(seconds) && std::fabs(seconds) < 9.2e6,
                 "a time must be finite and below 106 days");
  return Time{static_cast<int64_t>(std::floor(seconds * 1e12 + 0.5))};
}

Time operator/(Bytes bytes, Bandwidth bandwidth) {
  return time_from_seconds(static_cast<double>(bytes.value) / bandwidth.value);
}

Time operator/(Flops work, FlopRate rate) {
  return time_from_seconds(work.value / rate.value);
}

}  // namespace stepcast
