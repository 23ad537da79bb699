// SPDX-License-Identifier: Apache-2.0
// The order of heads and tokens, before and after the products of attention that is not fused.
//
// Traffic as the forecast counts it: 4 bytes an element, read and written once.
//
// REQUIRES of both: device pointers aligned to 16 bytes, 8 | head_dim; out is not in.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::measure {

// out[sequence][token][head] = in[sequence][head][token], `head_dim` elements each.
void merge_heads(const __nv_bfloat16* in, __nv_bfloat16* out, int64_t sequences, int64_t tokens,
                 int64_t heads, int64_t head_dim, cudaStream_t stream);
// The other way round.
void split_heads(const __nv_bfloat16* in, __nv_bfloat16* out, int64_t sequences, int64_t tokens,
                 int64_t heads, int64_t head_dim, cudaStream_t stream);

}  // namespace stepcast::measure
