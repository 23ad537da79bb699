// SPDX-License-Identifier: Apache-2.0
// Kernels that pick, scatter and route rows of tokens.  Traffic as the forecast counts it stands
// beside each, in bytes.
//
// REQUIRES of all: device pointers aligned to 16 bytes; widths that are multiples of 8.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::measure {

// out[token] = table[tokens[token]].  4 an element of out
void embedding(const int32_t* tokens, const __nv_bfloat16* table, __nv_bfloat16* out, int64_t count,
               int64_t width, cudaStream_t stream);
// Adds dy[token] to the dense gradient's row tokens[token].  6 an element of dy
void embedding_backward(const int32_t* tokens, const __nv_bfloat16* dy, __nv_bfloat16* dense,
                        int64_t count, int64_t width, cudaStream_t stream);

// out[places[token * copies + c]] = x[token] for each copy c.  2 an element of x and of out
void permute(const __nv_bfloat16* x, const int32_t* places, __nv_bfloat16* out, int64_t tokens,
             int64_t copies, int64_t width, cudaStream_t stream);
// out[token] = sum over its copies of weights[token * copies + c] * x[place].  2 an element of both
void unpermute(const __nv_bfloat16* x, const int32_t* places, const float* weights,
               __nv_bfloat16* out, int64_t tokens, int64_t copies, int64_t width,
               cudaStream_t stream);

// Softmax of a token's logits over experts in fp32, the `chosen` largest with their shares made to
// sum to 1 (others 0), and the map of what is chosen.  A warp a token.  REQUIRES: 8 <= experts <=
// 1024.  15 a logit: read in bf16, scores and probabilities written and the scores read again in
// fp32, the map in bytes
void router(const __nv_bfloat16* logits, float* scores, float* probs, uint8_t* map, int64_t tokens,
            int64_t experts, int64_t chosen, cudaStream_t stream);
// Gradient of the logits from that of the probabilities.  14: three in fp32, one in bf16
void router_backward(const float* scores, const float* probs, const float* dprobs,
                     __nv_bfloat16* dlogits, int64_t tokens, int64_t experts, cudaStream_t stream);

}  // namespace stepcast::measure
