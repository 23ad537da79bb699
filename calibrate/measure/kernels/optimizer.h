// SPDX-License-Identifier: Apache-2.0
// Adam over many tensors in few launches, as fused optimizers do it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <span>

#include "calibrate/measure/kernels/elementwise.h"

namespace stepcast::measure {

// One tensor in fp32, all on the device and aligned to 16 bytes.  REQUIRES: 8 | elements.
struct AdamTensor {
  const float* gradient = nullptr;
  float* weight = nullptr;
  float* first = nullptr;
  float* second = nullptr;
  int64_t elements = 0;
};

// Traffic as the forecast counts it: gradient read, weight and both moments read and written, 28
// bytes an element.
void adam(std::span<const AdamTensor> tensors, const AdamStep& step, cudaStream_t stream);

}  // namespace stepcast::measure
