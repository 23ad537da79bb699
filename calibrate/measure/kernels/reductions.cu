// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/reductions.h"

#include <algorithm>

#include "calibrate/measure/kernels/launch.h"
#include "calibrate/measure/kernels/vector.cuh"

namespace stepcast::measure {
namespace {

constexpr int kThreads = 256;

// A block sums kRowsABlock rows of 8 x kThreads columns in registers.
constexpr int kRowsABlock = 64;

__global__ void __launch_bounds__(kThreads)
    bias_backward_kernel(const Bf16* dy, float* dbias, int64_t rows, int64_t width) {
  const int64_t column = (static_cast<int64_t>(blockIdx.y) * kThreads + threadIdx.x) * 8;
  if (column >= width) return;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kRowsABlock;
  const int64_t last = first + kRowsABlock < rows ? first + kRowsABlock : rows;
  Floats8 sum = {};
#pragma unroll 8
  for (int64_t row = first; row < last; ++row) {
    const Floats8 x = load8(dy + row * width + column);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum.v[i] += x.v[i];
  }
#pragma unroll
  for (int i = 0; i < 8; ++i) atomicAdd(dbias + column + i, sum.v[i]);
}

// Of the eights of a row that a thread takes, those that fit in registers; the rest is read again.
constexpr int kHeld = 4;

// Scores of eight columns from `at`, those beyond `seen` minus infinity.
__device__ Floats8 scores_at(const Bf16* row, int64_t at, float scale, int64_t seen) {
  Floats8 x = load8(row + at);
#pragma unroll
  for (int i = 0; i < 8; ++i) x.v[i] = at + i < seen ? x.v[i] * scale : -INFINITY;
  return x;
}

__device__ SoftmaxSum softmax_sum(const Floats8& x) {
  float largest = x.v[0];
#pragma unroll
  for (int i = 1; i < 8; ++i) largest = fmaxf(largest, x.v[i]);
  if (largest == -INFINITY) return {};
  float sum = 0;
#pragma unroll
  for (int i = 0; i < 8; ++i) sum += __expf(x.v[i] - largest);
  return {largest, sum};
}

__device__ Floats8 probabilities(Floats8 x, SoftmaxSum total) {
  const float factor = 1.0f / total.sum;
#pragma unroll
  for (int i = 0; i < 8; ++i) x.v[i] = __expf(x.v[i] - total.largest) * factor;
  return x;
}

// One block a row.  kHold: the row fits in registers.
template <bool kHold>
__global__ void __launch_bounds__(kThreads)
    softmax_kernel(const Bf16* scores, Bf16* probs, float scale, bool causal, int64_t cols) {
  __shared__ SoftmaxSum room[kMostWarps];
  const int64_t row = blockIdx.x, step = static_cast<int64_t>(blockDim.x) * 8;
  const int64_t seen = causal ? row % cols + 1 : cols;
  const Bf16* const in = scores + row * cols;
  Floats8 held[kHold ? kHeld : 1];
  SoftmaxSum sum = {};
  if (kHold) {
#pragma unroll
    for (int p = 0; p < kHeld; ++p) {
      const int64_t at = p * step + static_cast<int64_t>(threadIdx.x) * 8;
      if (at >= cols || at >= seen) continue;
      held[p] = scores_at(in, at, scale, seen);
      sum = join(sum, softmax_sum(held[p]));
    }
  } else {
    for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < seen; at += step) {
      sum = join(sum, softmax_sum(scores_at(in, at, scale, seen)));
    }
  }
  sum = reduce_block(sum, room, JoinSoftmax{});
  if (kHold) {
#pragma unroll
    for (int p = 0; p < kHeld; ++p) {
      const int64_t at = p * step + static_cast<int64_t>(threadIdx.x) * 8;
      if (at >= cols) continue;
      store8(probs + row * cols + at, at < seen ? probabilities(held[p], sum) : Floats8{});
    }
  } else {
    for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < cols; at += step) {
      store8(probs + row * cols + at,
             at < seen ? probabilities(scores_at(in, at, scale, seen), sum) : Floats8{});
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    softmax_backward_kernel(const Bf16* probs, Bf16* dprobs, float scale, int64_t cols) {
  __shared__ float room[kMostWarps];
  const int64_t base = static_cast<int64_t>(blockIdx.x) * cols;
  const int64_t step = static_cast<int64_t>(blockDim.x) * 8;
  float along = 0;
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < cols; at += step) {
    const Floats8 p = load8(probs + base + at), d = load8(dprobs + base + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) along += p.v[i] * d.v[i];
  }
  along = reduce_block(along, room, Plus{});
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < cols; at += step) {
    const Floats8 p = load8(probs + base + at);
    Floats8 d = load8(dprobs + base + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) d.v[i] = scale * p.v[i] * (d.v[i] - along);
    store8(dprobs + base + at, d);
  }
}

__global__ void __launch_bounds__(kThreads)
    cross_entropy_kernel(const Bf16* logits, const int32_t* targets, float* probs, float* loss,
                         int64_t vocab) {
  __shared__ SoftmaxSum room[kMostWarps];
  const int64_t row = blockIdx.x, step = static_cast<int64_t>(blockDim.x) * 8;
  const Bf16* const in = logits + row * vocab;
  SoftmaxSum sum = {};
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < vocab; at += step) {
    sum = join(sum, softmax_sum(load8(in + at)));
  }
  sum = reduce_block(sum, room, JoinSoftmax{});
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < vocab; at += step) {
    store8(probs + row * vocab + at, probabilities(load8(in + at), sum));
  }
  if (threadIdx.x == 0) {
    const float target = __bfloat162float(in[targets[row]]);
    loss[row] = logf(sum.sum) + sum.largest - target;
  }
}

__global__ void __launch_bounds__(kThreads)
    cross_entropy_backward_kernel(const float* probs, const int32_t* targets, Bf16* dlogits,
                                  float factor, int64_t vocab) {
  const int64_t row = blockIdx.x, step = static_cast<int64_t>(blockDim.x) * 8;
  const int64_t target = targets[row];
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < vocab; at += step) {
    Floats8 p = load8(probs + row * vocab + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) p.v[i] = factor * (p.v[i] - (at + i == target ? 1.0f : 0.0f));
    store8(dlogits + row * vocab + at, p);
  }
}

__global__ void __launch_bounds__(kThreads)
    grad_norm_kernel(const float* g, int64_t n, float* sum) {
  __shared__ float room[kMostWarps];
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * 8;
  float squares = 0;
#pragma unroll 4
  for (int64_t at = thread_index() * 8; at < n; at += step) {
    const Floats8 x = load8(g + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) squares += x.v[i] * x.v[i];
  }
  squares = reduce_block(squares, room, Plus{});
  if (threadIdx.x == 0) atomicAdd(sum, squares);
}

}  // namespace

void bias_backward(const Bf16* dy, float* dbias, int64_t rows, int64_t width, cudaStream_t stream) {
  const dim3 blocks(static_cast<unsigned>((rows + kRowsABlock - 1) / kRowsABlock),
                    blocks_for(width / 8, kThreads));
  bias_backward_kernel<<<blocks, kThreads, 0, stream>>>(dy, dbias, rows, width);
}

void softmax(const Bf16* scores, Bf16* probs, float scale, bool causal, int64_t rows, int64_t cols,
             cudaStream_t stream) {
  const unsigned threads = threads_for(cols / 8, kThreads);
  const auto blocks = static_cast<unsigned>(rows);
  if (cols <= static_cast<int64_t>(threads) * 8 * kHeld) {
    softmax_kernel<true><<<blocks, threads, 0, stream>>>(scores, probs, scale, causal, cols);
  } else {
    softmax_kernel<false><<<blocks, threads, 0, stream>>>(scores, probs, scale, causal, cols);
  }
}

void softmax_backward(const Bf16* probs, Bf16* dprobs, float scale, int64_t rows, int64_t cols,
                      cudaStream_t stream) {
  softmax_backward_kernel<<<static_cast<unsigned>(rows), threads_for(cols / 8, kThreads), 0,
                            stream>>>(probs, dprobs, scale, cols);
}

void cross_entropy(const Bf16* logits, const int32_t* targets, float* probs, float* loss,
                   int64_t rows, int64_t vocab, cudaStream_t stream) {
  cross_entropy_kernel<<<static_cast<unsigned>(rows), threads_for(vocab / 8, kThreads), 0,
                         stream>>>(logits, targets, probs, loss, vocab);
}

void cross_entropy_backward(const float* probs, const int32_t* targets, Bf16* dlogits, float factor,
                            int64_t rows, int64_t vocab, cudaStream_t stream) {
  cross_entropy_backward_kernel<<<static_cast<unsigned>(rows), threads_for(vocab / 8, kThreads), 0,
                                  stream>>>(probs, targets, dlogits, factor, vocab);
}

void grad_norm(const float* g, int64_t n, float* sum, cudaStream_t stream) {
  constexpr unsigned kMostBlocks = 2048;  // several for each SM of any GPU of today
  const unsigned blocks = std::min(blocks_for(n / 8, kThreads), kMostBlocks);
  grad_norm_kernel<<<blocks, kThreads, 0, stream>>>(g, n, sum);
}

}  // namespace stepcast::measure
