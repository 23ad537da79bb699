// SPDX-License-Identifier: Apache-2.0
// Layer norm and RMS norm of rows in bf16, statistics and sums in fp32, as fused kernels do it: one
// block a row, which stays in registers between the two passes over it.
//
// Traffic as the forecast counts it: x and y (forward), dy, x and dx (backward); gain, bias and
// statistics are left out.
//
// REQUIRES of all: device pointers aligned to 16 bytes, 8 | width, width <= 16384.  Throws
// Unsupported for other widths.  dx may be dy.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::measure {

// rstd: 1 / sqrt(mean of squares + 1e-5), one a row.
void rms_norm(const __nv_bfloat16* x, const __nv_bfloat16* gain, __nv_bfloat16* y, float* rstd,
              int64_t rows, int64_t width, cudaStream_t stream);
// Adds to dgain.
void rms_norm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* gain,
                       const float* rstd, __nv_bfloat16* dx, float* dgain, int64_t rows,
                       int64_t width, cudaStream_t stream);

// mean and rstd: one each a row.
void layer_norm(const __nv_bfloat16* x, const __nv_bfloat16* gain, const __nv_bfloat16* bias,
                __nv_bfloat16* y, float* mean, float* rstd, int64_t rows, int64_t width,
                cudaStream_t stream);
// Adds to dgain and dbias.
void layer_norm_backward(const __nv_bfloat16* dy, const __nv_bfloat16* x, const __nv_bfloat16* gain,
                         const float* mean, const float* rstd, __nv_bfloat16* dx, float* dgain,
                         float* dbias, int64_t rows, int64_t width, cudaStream_t stream);

}  // namespace stepcast::measure
