// SPDX-License-Identifier: Apache-2.0
// Time over bytes through measured points: log-log between them, at the bandwidth of the last two
// above them.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/price.h"

namespace stepcast {

struct CurvePoint {
  int64_t bytes = 0;
  double us = 0;
  bool derived = false;
  bool in_training = false;  // measured in a training step
};

// Points ascending in bytes, no size twice.
using Curve = std::vector<CurvePoint>;

struct CurveValue {
  double us = 0;
  Origin origin = Origin::extrapolated;
  bool in_training = false;  // all points that it is made of were measured in a training step
};

// Below the first point time falls linearly to `floor_us` at no bytes; a floor above the first
// point's time means that time itself.  Above the last, the last slope goes on, but no flatter than
// half of the last point's time a byte.  REQUIRES: points not empty, bytes > 0.
CurveValue value_on(const Curve& curve, int64_t bytes, double floor_us);

}  // namespace stepcast
