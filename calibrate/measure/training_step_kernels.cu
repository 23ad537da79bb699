// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_kernels.h"

#include "calibrate/measure/device.h"
#include "calibrate/measure/kernels/vector.cuh"

namespace stepcast::measure {
namespace {

// One block a row.
constexpr int kThreads = 512;

__device__ int64_t first_column() {
  return static_cast<int64_t>(threadIdx.x) * 8;
}
constexpr int64_t kStep = static_cast<int64_t>(kThreads) * 8;

__global__ void __launch_bounds__(kThreads)
    row_maximum_kernel(const Bf16* logits, float* maximum, int64_t vocab) {
  __shared__ float room[kMostWarps];
  const Bf16* const row = logits + static_cast<int64_t>(blockIdx.x) * vocab;
  float largest = -INFINITY;
  for (int64_t at = first_column(); at < vocab; at += kStep) {
    const Floats8 x = load8(row + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, x.v[i]);
  }
  largest = reduce_block(largest, room, Larger{});
  if (threadIdx.x == 0) maximum[blockIdx.x] = largest;
}

__global__ void __launch_bounds__(kThreads)
    exponential_kernel(const Bf16* logits, const float* maximum, float* wide, float* sum,
                       int64_t vocab) {
  __shared__ float room[kMostWarps];
  const int64_t base = static_cast<int64_t>(blockIdx.x) * vocab;
  const float largest = maximum[blockIdx.x];
  float total = 0;
  for (int64_t at = first_column(); at < vocab; at += kStep) {
    Floats8 x = load8(logits + base + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      x.v[i] = __expf(x.v[i] - largest);
      total += x.v[i];
    }
    store8(wide + base + at, x);
  }
  total = reduce_block(total, room, Plus{});
  if (threadIdx.x == 0) sum[blockIdx.x] = total;
}

__global__ void __launch_bounds__(kThreads)
    normalize_kernel(float* wide, const float* sum, const int32_t* targets, float* loss,
                     float share, int64_t vocab) {
  const int64_t base = static_cast<int64_t>(blockIdx.x) * vocab;
  const float total = sum[blockIdx.x], factor = 1.0f / total;
  // Read before any thread writes.
  const float target = wide[base + targets[blockIdx.x]];
  __syncthreads();
  for (int64_t at = first_column(); at < vocab; at += kStep) {
    Floats8 x = load8(wide + base + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) x.v[i] *= factor;
    store8(wide + base + at, x);
  }
  if (threadIdx.x == 0) atomicAdd(loss, share * (logf(total) - logf(fmaxf(target, 1e-38f))));
}

}  // namespace

void row_maximum(const __nv_bfloat16* logits, float* maximum, int64_t rows, int64_t vocab,
                 cudaStream_t stream) {
  row_maximum_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, maximum, vocab);
  check_cuda(cudaGetLastError(), "maximum of rows");
}

void exponential(const __nv_bfloat16* logits, const float* maximum, float* wide, float* sum,
                 int64_t rows, int64_t vocab, cudaStream_t stream) {
  exponential_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(logits, maximum, wide,
                                                                           sum, vocab);
  check_cuda(cudaGetLastError(), "exponentials of rows");
}

void normalize(float* wide, const float* sum, const int32_t* targets, float* loss, int64_t rows,
               int64_t vocab, cudaStream_t stream) {
  normalize_kernel<<<static_cast<unsigned>(rows), kThreads, 0, stream>>>(
      wide, sum, targets, loss, 1.0f / static_cast<float>(rows), vocab);
  check_cuda(cudaGetLastError(), "loss of rows");
}

}  // namespace stepcast::measure
