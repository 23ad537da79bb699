// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/tokens.h"

#include "calibrate/measure/device.h"
#include "calibrate/measure/kernels/launch.h"
#include "calibrate/measure/kernels/vector.cuh"

namespace stepcast::measure {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    embedding_kernel(const int32_t* tokens, const Bf16* table, Bf16* out, int64_t width) {
  const int64_t token = blockIdx.x;
  const Bf16* const row = table + tokens[token] * width;
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < width; at += blockDim.x * 8) {
    *reinterpret_cast<uint4*>(out + token * width + at) = *reinterpret_cast<const uint4*>(row + at);
  }
}

__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(const int32_t* tokens, const Bf16* dy, Bf16* dense, int64_t width) {
  const int64_t token = blockIdx.x;
  Bf16* const row = dense + tokens[token] * width;
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 2; at < width; at += blockDim.x * 2) {
    atomicAdd(reinterpret_cast<__nv_bfloat162*>(row + at),
              *reinterpret_cast<const __nv_bfloat162*>(dy + token * width + at));
  }
}

__global__ void __launch_bounds__(kThreads)
    permute_kernel(const Bf16* x, const int32_t* places, Bf16* out, int64_t copies, int64_t width) {
  const int64_t token = blockIdx.x;
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < width; at += blockDim.x * 8) {
    const uint4 piece = *reinterpret_cast<const uint4*>(x + token * width + at);
    for (int64_t c = 0; c < copies; ++c) {
      *reinterpret_cast<uint4*>(out + places[token * copies + c] * width + at) = piece;
    }
  }
}

__global__ void __launch_bounds__(kThreads)
    unpermute_kernel(const Bf16* x, const int32_t* places, const float* weights, Bf16* out,
                     int64_t copies, int64_t width) {
  const int64_t token = blockIdx.x;
  for (int64_t at = static_cast<int64_t>(threadIdx.x) * 8; at < width; at += blockDim.x * 8) {
    Floats8 sum = {};
#pragma unroll 4
    for (int64_t c = 0; c < copies; ++c) {
      const float weight = weights[token * copies + c];
      const Floats8 piece = load8(x + places[token * copies + c] * width + at);
#pragma unroll
      for (int i = 0; i < 8; ++i) sum.v[i] += weight * piece.v[i];
    }
    store8(out + token * width + at, sum);
  }
}

constexpr int kMostExperts = 1024;

// A warp's largest value, and the lowest index that has it.
struct Best {
  float value;
  int index;
};

__device__ Best best_of_warp(Best mine) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const float value = __shfl_xor_sync(0xffffffffu, mine.value, offset);
    const int index = __shfl_xor_sync(0xffffffffu, mine.index, offset);
    if (value > mine.value || (value == mine.value && index < mine.index)) mine = {value, index};
  }
  return mine;
}

__device__ float sum_of_warp(float x) {
#pragma unroll
  for (int offset = kWarp / 2; offset > 0; offset /= 2)
    x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

// kEach: experts a lane has.
template <int kEach>
__global__ void __launch_bounds__(kThreads)
    router_kernel(const Bf16* logits, float* scores, float* probs, uint8_t* map, int64_t tokens,
                  int experts, int chosen) {
  const int64_t token = thread_index() / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (token >= tokens) return;  // whole warps
  float score[kEach];
  Best best = {-INFINITY, 0};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = i * kWarp + lane;
    score[i] = expert < experts ? __bfloat162float(logits[token * experts + expert]) : -INFINITY;
    best.value = fmaxf(best.value, score[i]);
  }
  const float largest = best_of_warp(best).value;
  float sum = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    score[i] = __expf(score[i] - largest);  // 0 beyond the last expert
    sum += score[i];
  }
  const float factor = 1.0f / sum_of_warp(sum);
  unsigned taken = 0;  // bits of this lane's experts
  float share = 0;
  for (int n = 0; n < chosen; ++n) {
    Best mine = {-1, 0};
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if ((taken >> i & 1) == 0 && score[i] > mine.value) mine = {score[i], i * kWarp + lane};
    }
    mine = best_of_warp(mine);
    share += mine.value;
    if (mine.index % kWarp == lane) taken |= 1u << (mine.index / kWarp);
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int expert = i * kWarp + lane;
    if (expert >= experts) continue;
    const int64_t at = token * experts + expert;
    const bool is_taken = (taken >> i & 1) != 0;
    scores[at] = score[i] * factor;
    probs[at] = is_taken ? score[i] / share : 0.0f;
    map[at] = is_taken ? 1 : 0;
  }
}

// probs = score / share over the chosen ones, so that
//   dlogit = prob * (dprob - sum over chosen of prob * dprob).
// Whatever reaches the scores that were not chosen comes from the auxiliary loss, whose gradient is
// scores times a constant: it stands for that kernel's traffic.
template <int kEach>
__global__ void __launch_bounds__(kThreads)
    router_backward_kernel(const float* scores, const float* probs, const float* dprobs,
                           Bf16* dlogits, int64_t tokens, int experts) {
  constexpr float kAuxiliary = 1e-3f;
  const int64_t token = thread_index() / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  if (token >= tokens) return;
  float prob[kEach], gradient[kEach];
  float along = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int64_t at = token * experts + i * kWarp + lane;
    const bool is_there = i * kWarp + lane < experts;
    prob[i] = is_there ? probs[at] : 0.0f;
    gradient[i] = is_there ? dprobs[at] : 0.0f;
    along += prob[i] * gradient[i];
  }
  along = sum_of_warp(along);
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (i * kWarp + lane >= experts) continue;
    const int64_t at = token * experts + i * kWarp + lane;
    dlogits[at] = __float2bfloat16(prob[i] * (gradient[i] - along) + kAuxiliary * scores[at]);
  }
}

unsigned warps_for(int64_t tokens) {
  constexpr int64_t kTokens = kThreads / kWarp;
  return static_cast<unsigned>((tokens + kTokens - 1) / kTokens);
}

void check_experts(int64_t experts, int64_t chosen) {
  if (experts < 8 || experts > kMostExperts || chosen < 1 || chosen > experts) {
    throw Unsupported("the router takes 8 to 1024 experts");
  }
}

}  // namespace

void embedding(const int32_t* tokens, const Bf16* table, Bf16* out, int64_t count, int64_t width,
               cudaStream_t stream) {
  embedding_kernel<<<static_cast<unsigned>(count), threads_for(width / 8, kThreads), 0, stream>>>(
      tokens, table, out, width);
}

void embedding_backward(const int32_t* tokens, const Bf16* dy, Bf16* dense, int64_t count,
                        int64_t width, cudaStream_t stream) {
  embedding_backward_kernel<<<static_cast<unsigned>(count), kThreads, 0, stream>>>(tokens, dy,
                                                                                   dense, width);
}

void permute(const Bf16* x, const int32_t* places, Bf16* out, int64_t tokens, int64_t copies,
             int64_t width, cudaStream_t stream) {
  permute_kernel<<<static_cast<unsigned>(tokens), threads_for(width / 8, kThreads), 0, stream>>>(
      x, places, out, copies, width);
}

void unpermute(const Bf16* x, const int32_t* places, const float* weights, Bf16* out,
               int64_t tokens, int64_t copies, int64_t width, cudaStream_t stream) {
  unpermute_kernel<<<static_cast<unsigned>(tokens), threads_for(width / 8, kThreads), 0, stream>>>(
      x, places, weights, out, copies, width);
}

void router(const Bf16* logits, float* scores, float* probs, uint8_t* map, int64_t tokens,
            int64_t experts, int64_t chosen, cudaStream_t stream) {
  check_experts(experts, chosen);
  const auto launch = [&](auto kernel) {
    kernel<<<warps_for(tokens), kThreads, 0, stream>>>(
        logits, scores, probs, map, tokens, static_cast<int>(experts), static_cast<int>(chosen));
  };
  if (experts <= 4 * kWarp) {
    launch(router_kernel<4>);
  } else if (experts <= 8 * kWarp) {
    launch(router_kernel<8>);
  } else {
    launch(router_kernel<32>);
  }
}

void router_backward(const float* scores, const float* probs, const float* dprobs, Bf16* dlogits,
                     int64_t tokens, int64_t experts, cudaStream_t stream) {
  check_experts(experts, 1);
  const auto launch = [&](auto kernel) {
    kernel<<<warps_for(tokens), kThreads, 0, stream>>>(scores, probs, dprobs, dlogits, tokens,
                                                       static_cast<int>(experts));
  };
  if (experts <= 4 * kWarp) {
    launch(router_backward_kernel<4>);
  } else if (experts <= 8 * kWarp) {
    launch(router_backward_kernel<8>);
  } else {
    launch(router_backward_kernel<32>);
  }
}

}  // namespace stepcast::measure
