// SPDX-License-Identifier: Apache-2.0
// Kernels that reduce rows or columns.  Traffic an element as the forecast counts it stands beside
// each, in bytes.
//
// REQUIRES of all: device pointers aligned to 16 bytes; widths and lengths that are multiples of 8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::measure {

// Adds the sum of each column to dbias.  2
void bias_backward(const __nv_bfloat16* dy, float* dbias, int64_t rows, int64_t width,
                   cudaStream_t stream);

// probs = softmax(scale * scores), row by row; causal: row r (modulo cols) sees columns 0 to r.  4
void softmax(const __nv_bfloat16* scores, __nv_bfloat16* probs, float scale, bool causal,
             int64_t rows, int64_t cols, cudaStream_t stream);
// Replaces dprobs by the gradient of the scores.  6
void softmax_backward(const __nv_bfloat16* probs, __nv_bfloat16* dprobs, float scale, int64_t rows,
                      int64_t cols, cudaStream_t stream);

// loss[row] = -log softmax(logits)[target]; keeps softmax in fp32.  The row is read twice, the
// second time from the cache; the forecast counts one reading and the fp32 writing: 6
void cross_entropy(const __nv_bfloat16* logits, const int32_t* targets, float* probs, float* loss,
                   int64_t rows, int64_t vocab, cudaStream_t stream);
// dlogits = (probs - 1 at the target) * factor.  6
void cross_entropy_backward(const float* probs, const int32_t* targets, __nv_bfloat16* dlogits,
                            float factor, int64_t rows, int64_t vocab, cudaStream_t stream);

// Adds the sum of squares to *sum.  4
void grad_norm(const float* g, int64_t n, float* sum, cudaStream_t stream);

}  // namespace stepcast::measure
