// SPDX-License-Identifier: Apache-2.0
// bf16 to fp8 e4m3 for low-precision products.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::measure {

// The matrix and its transpose in fp8, each tile of 128 x 128 scaled so that its largest magnitude
// becomes 448; scales: fp32, 1 / factor, one a tile, row by row of tiles.  REQUIRES: 128 | rows and
// width; pointers aligned to 16 bytes.  Traffic as the forecast counts it: bf16 read, two fp8
// copies written, 4 bytes an element.
void quantize(const __nv_bfloat16* x, uint8_t* out, uint8_t* transposed, float* scales,
              int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace stepcast::measure
