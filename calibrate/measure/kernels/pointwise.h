// SPDX-License-Identifier: Apache-2.0
// Kernels that take each element by itself, sixteen bytes a thread.
//
// Traffic a element as the forecast counts it stands beside each, in bytes (bf16 has 2, fp32 4, a
// byte of a dropout mask 1).
//
// REQUIRES of all: device pointers aligned to 16 bytes, numbers of elements and widths that are
// multiples of 8.  An output may be an input of the same type and shape.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::measure {

void add(const __nv_bfloat16* a, const __nv_bfloat16* b, __nv_bfloat16* out, int64_t n,
         cudaStream_t stream);  // 6
// Adds into the fp32 main gradient.
void accumulate(const __nv_bfloat16* a, float* sum, int64_t n, cudaStream_t stream);     // 10
void copy(const __nv_bfloat16* in, __nv_bfloat16* out, int64_t n, cudaStream_t stream);  // 4
void cast(const float* in, __nv_bfloat16* out, int64_t n, cudaStream_t stream);          // 6
void fill(float* out, float value, int64_t n, cudaStream_t stream);                      // 4
void fill(__nv_bfloat16* out, float value, int64_t n, cudaStream_t stream);              // 2
// In place, by a factor in device memory (null: by `constant`).
void scale(float* x, const float* factor, float constant, int64_t n, cudaStream_t stream);  // 8

// The bias of each column, in place.
void bias_add(__nv_bfloat16* x, const __nv_bfloat16* bias, int64_t rows, int64_t width,
              cudaStream_t stream);  // 4

void dropout(const __nv_bfloat16* in, __nv_bfloat16* out, uint8_t* mask, float dropped,
             uint64_t seed, int64_t n, cudaStream_t stream);  // 5
void dropout_backward(const __nv_bfloat16* dy, const uint8_t* mask, __nv_bfloat16* dx,
                      float dropped, int64_t n, cudaStream_t stream);  // 5
// out = residual + dropout(x + bias)
void bias_dropout_add(const __nv_bfloat16* x, const __nv_bfloat16* bias,
                      const __nv_bfloat16* residual, __nv_bfloat16* out, uint8_t* mask,
                      float dropped, uint64_t seed, int64_t rows, int64_t width,
                      cudaStream_t stream);  // 7

// GELU with the bias of its columns (null: none).
void gelu(const __nv_bfloat16* x, const __nv_bfloat16* bias, __nv_bfloat16* y, int64_t rows,
          int64_t width, cudaStream_t stream);  // 4
void gelu_backward(const __nv_bfloat16* x, const __nv_bfloat16* bias, const __nv_bfloat16* dy,
                   __nv_bfloat16* dx, int64_t rows, int64_t width, cudaStream_t stream);  // 6
// y = SiLU(gate) * up.  A row of `in` is its gates, then its ups: 2 width elements.  Per element
// of y:
void gated_silu(const __nv_bfloat16* in, __nv_bfloat16* y, int64_t rows, int64_t width,
                cudaStream_t stream);  // 6
void gated_silu_backward(const __nv_bfloat16* in, const __nv_bfloat16* dy, __nv_bfloat16* din,
                         int64_t rows, int64_t width, cudaStream_t stream);  // 10

// Cosine and sine of position p times base^(-2 i / head_dim), at [p * head_dim / 2 + i].
void rotary_table(float2* table, int64_t positions, int64_t head_dim, float base,
                  cudaStream_t stream);
// In place: the first `heads` heads of each row of `row_stride` elements, element i with i +
// head_dim / 2.  Position = row modulo `seq`.  REQUIRES: 16 | head_dim.  4 an element that turns.
void rotary(__nv_bfloat16* x, const float2* table, int64_t rows, int64_t row_stride, int64_t heads,
            int64_t head_dim, int64_t seq, bool backward, cudaStream_t stream);

// out[batch][column][row] = in[batch][row][column].  REQUIRES: 64 | rows and width.  4
void transpose(const __nv_bfloat16* in, __nv_bfloat16* out, int64_t batch, int64_t rows,
               int64_t width, cudaStream_t stream);

}  // namespace stepcast::measure
