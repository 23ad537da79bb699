// SPDX-License-Identifier: Apache-2.0
#include "sim/result.h"

#include <cmath>

#include "sim/check.h"

namespace stepcast {

int64_t gpus_for(double bytes, double gpu_bytes) {
  STEPCAST_CHECK(gpu_bytes > 0 && bytes >= 0, "no GPU memory");
  return static_cast<int64_t>(std::ceil(bytes / gpu_bytes));
}

}  // namespace stepcast
