// SPDX-License-Identifier: Apache-2.0
// Loads and stores of 16 bytes, and sums over warps and blocks.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "calibrate/measure/kernels/elementwise.h"

namespace stepcast::measure {

using Bf16 = __nv_bfloat16;

// Eight neighbouring elements in fp32.
struct Floats8 {
  float v[8];
};

// REQUIRES: `at` aligned to 16 bytes; likewise below.
__device__ inline Floats8 load8(const Bf16* at) {
  const uint4 raw = *reinterpret_cast<const uint4*>(at);
  const unsigned words[4] = {raw.x, raw.y, raw.z, raw.w};
  Floats8 out;
#pragma unroll
  for (int i = 0; i < 4; ++i) {  // bf16 is the upper half of fp32
    out.v[2 * i] = __uint_as_float(words[i] << 16);
    out.v[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
  }
  return out;
}

__device__ inline Floats8 load8(const float* at) {
  const float4 low = *reinterpret_cast<const float4*>(at);
  const float4 high = *reinterpret_cast<const float4*>(at + 4);
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

__device__ inline void store8(Bf16* at, const Floats8& x) {
  union {
    __nv_bfloat162 pairs[4];
    uint4 raw;
  } out = {};
#pragma unroll
  for (int i = 0; i < 4; ++i) out.pairs[i] = __floats2bfloat162_rn(x.v[2 * i], x.v[2 * i + 1]);
  *reinterpret_cast<uint4*>(at) = out.raw;
}

__device__ inline void store8(float* at, const Floats8& x) {
  *reinterpret_cast<float4*>(at) = make_float4(x.v[0], x.v[1], x.v[2], x.v[3]);
  *reinterpret_cast<float4*>(at + 4) = make_float4(x.v[4], x.v[5], x.v[6], x.v[7]);
}

__device__ inline int64_t thread_index() {
  return static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}

constexpr int kWarp = 32;
constexpr int kMostWarps = 32;  // of a block

__device__ inline float shuffle_down(float x, int by) {
  return __shfl_down_sync(0xffffffffu, x, by);
}
__device__ inline float2 shuffle_down(float2 x, int by) {
  return {shuffle_down(x.x, by), shuffle_down(x.y, by)};
}
__device__ inline SoftmaxSum shuffle_down(SoftmaxSum x, int by) {
  return {shuffle_down(x.largest, by), shuffle_down(x.sum, by)};
}

// `join` of all threads of a block, in every thread.  REQUIRES: whole warps; the same call by all
// of them; `room` for one value a warp, in shared memory, not used by another call at the same
// time.
template <class T, class Join>
__device__ T reduce_block(T value, T* room, Join join) {
  const int warps = static_cast<int>(blockDim.x) / kWarp;
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    value = join(value, shuffle_down(value, offset));
  }
  __syncthreads();  // the room may still be read
  if (threadIdx.x % kWarp == 0) room[threadIdx.x / kWarp] = value;
  __syncthreads();
  value = room[0];
  for (int warp = 1; warp < warps; ++warp) value = join(value, room[warp]);
  return value;
}

struct Plus {
  __device__ float operator()(float a, float b) const { return a + b; }
  __device__ float2 operator()(float2 a, float2 b) const { return {a.x + b.x, a.y + b.y}; }
};

struct Larger {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

struct JoinSoftmax {
  __device__ SoftmaxSum operator()(SoftmaxSum a, SoftmaxSum b) const { return join(a, b); }
};

}  // namespace stepcast::measure
