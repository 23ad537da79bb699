// SPDX-License-Identifier: Apache-2.0
// stepcast-measure: measures kernels and collectives of the GPU at hand, into a cost table.
#include <cstdio>

#include "calibrate/measure/device.h"

int main() {
  try {
    stepcast::measure::open_device(0);
  } catch (const stepcast::measure::DeviceError& e) {
    std::fprintf(stderr, "stepcast-measure: %s\n", e.what());
    return 2;
  }
  return 0;
}
