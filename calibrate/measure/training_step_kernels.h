// SPDX-License-Identifier: Apache-2.0
// Cross-entropy in the three kernels that frameworks with a vocabulary split over ranks have, each
// of which ends where those would talk to each other.  Traffic as the forecast counts it: the
// matrices that are read and written; values of rows are left out.
//
// REQUIRES of all: device pointers aligned to 16 bytes, 8 | vocab.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>

namespace stepcast::measure {

void row_maximum(const __nv_bfloat16* logits, float* maximum, int64_t rows, int64_t vocab,
                 cudaStream_t stream);  // 2 bytes an element
// wide = exp(logits - maximum), and its sum of each row.
void exponential(const __nv_bfloat16* logits, const float* maximum, float* wide, float* sum,
                 int64_t rows, int64_t vocab, cudaStream_t stream);  // 6
// Divides by the sum; adds to *loss the mean over rows of -log of the target's share.
void normalize(float* wide, const float* sum, const int32_t* targets, float* loss, int64_t rows,
               int64_t vocab, cudaStream_t stream);  // 8

}  // namespace stepcast::measure
