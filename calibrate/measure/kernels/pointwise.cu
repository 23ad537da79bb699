// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/pointwise.h"

#include "calibrate/measure/kernels/elementwise.h"
#include "calibrate/measure/kernels/launch.h"
#include "calibrate/measure/kernels/vector.cuh"

namespace stepcast::measure {
namespace {

constexpr int kThreads = 256;

template <class Op>
__global__ void __launch_bounds__(kThreads) each_kernel(int64_t count, Op op) {
  const int64_t i = thread_index();
  if (i < count) op(i);
}

// op(first element) for each eight of n elements.
template <class Op>
void for_eights(int64_t n, cudaStream_t stream, Op op) {
  const int64_t count = n / 8;
  if (count == 0) return;
  const auto at = [op] __device__(int64_t i) { op(i * 8); };
  each_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(count, at);
}

// f(value, index within the eight) of each element.
template <class F>
__device__ Floats8 each(Floats8 x, F f) {
#pragma unroll
  for (int i = 0; i < 8; ++i) x.v[i] = f(x.v[i], i);
  return x;
}

struct Mask8 {
  uint8_t v[8];
};

__device__ Mask8 draw_mask(uint64_t seed, int64_t first, float dropped) {
  Mask8 mask;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    mask.v[i] = keeps(seed, static_cast<uint64_t>(first + i), dropped) ? 1 : 0;
  }
  return mask;
}

__device__ void store_mask(uint8_t* at, Mask8 mask) {
  uint2 raw = {0, 0};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    raw.x |= static_cast<unsigned>(mask.v[i]) << (8 * i);
    raw.y |= static_cast<unsigned>(mask.v[i + 4]) << (8 * i);
  }
  *reinterpret_cast<uint2*>(at) = raw;
}

__device__ Mask8 load_mask(const uint8_t* at) {
  const uint2 raw = *reinterpret_cast<const uint2*>(at);
  Mask8 mask;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    mask.v[i] = static_cast<uint8_t>(raw.x >> (8 * i) & 0xff);
    mask.v[i + 4] = static_cast<uint8_t>(raw.y >> (8 * i) & 0xff);
  }
  return mask;
}

__device__ Floats8 masked(Floats8 x, Mask8 mask, float keep_scale) {
  return each(x, [&](float v, int i) { return mask.v[i] != 0 ? v * keep_scale : 0.0f; });
}

__device__ Floats8 plus(Floats8 a, Floats8 b) {
  return each(a, [&](float v, int i) { return v + b.v[i]; });
}

// Element modulo and by width, both multiples of 8; elements < 2^35.  (64-bit division would take
// as long as the memory.)
__device__ int64_t column_of(int64_t element, int64_t width) {
  return static_cast<int64_t>(static_cast<unsigned>(element / 8) %
                              static_cast<unsigned>(width / 8)) *
         8;
}
__device__ int64_t row_of(int64_t element, int64_t width) {
  return static_cast<unsigned>(element / 8) / static_cast<unsigned>(width / 8);
}

__device__ Floats8 bias_at(const Bf16* bias, int64_t element, int64_t width) {
  return bias == nullptr ? Floats8{} : load8(bias + column_of(element, width));
}

}  // namespace

void add(const Bf16* a, const Bf16* b, Bf16* out, int64_t n, cudaStream_t stream) {
  for_eights(n, stream,
             [=] __device__(int64_t i) { store8(out + i, plus(load8(a + i), load8(b + i))); });
}

void accumulate(const Bf16* a, float* sum, int64_t n, cudaStream_t stream) {
  for_eights(n, stream,
             [=] __device__(int64_t i) { store8(sum + i, plus(load8(sum + i), load8(a + i))); });
}

void copy(const Bf16* in, Bf16* out, int64_t n, cudaStream_t stream) {
  for_eights(n, stream, [=] __device__(int64_t i) {
    *reinterpret_cast<uint4*>(out + i) = *reinterpret_cast<const uint4*>(in + i);
  });
}

void cast(const float* in, Bf16* out, int64_t n, cudaStream_t stream) {
  for_eights(n, stream, [=] __device__(int64_t i) { store8(out + i, load8(in + i)); });
}

void fill(float* out, float value, int64_t n, cudaStream_t stream) {
  for_eights(n, stream, [=] __device__(int64_t i) {
    store8(out + i, {{value, value, value, value, value, value, value, value}});
  });
}

void fill(Bf16* out, float value, int64_t n, cudaStream_t stream) {
  for_eights(n, stream, [=] __device__(int64_t i) {
    store8(out + i, {{value, value, value, value, value, value, value, value}});
  });
}

void scale(float* x, const float* factor, float constant, int64_t n, cudaStream_t stream) {
  for_eights(n, stream, [=] __device__(int64_t i) {
    const float by = factor == nullptr ? constant : *factor;
    store8(x + i, each(load8(x + i), [&](float v, int) { return v * by; }));
  });
}

void bias_add(Bf16* x, const Bf16* bias, int64_t rows, int64_t width, cudaStream_t stream) {
  for_eights(rows * width, stream, [=] __device__(int64_t i) {
    store8(x + i, plus(load8(x + i), bias_at(bias, i, width)));
  });
}

void dropout(const Bf16* in, Bf16* out, uint8_t* mask, float dropped, uint64_t seed, int64_t n,
             cudaStream_t stream) {
  const float keep_scale = 1.0f / (1.0f - dropped);
  for_eights(n, stream, [=] __device__(int64_t i) {
    const Mask8 kept = draw_mask(seed, i, dropped);
    store_mask(mask + i, kept);
    store8(out + i, masked(load8(in + i), kept, keep_scale));
  });
}

void dropout_backward(const Bf16* dy, const uint8_t* mask, Bf16* dx, float dropped, int64_t n,
                      cudaStream_t stream) {
  const float keep_scale = 1.0f / (1.0f - dropped);
  for_eights(n, stream, [=] __device__(int64_t i) {
    store8(dx + i, masked(load8(dy + i), load_mask(mask + i), keep_scale));
  });
}

void bias_dropout_add(const Bf16* x, const Bf16* bias, const Bf16* residual, Bf16* out,
                      uint8_t* mask, float dropped, uint64_t seed, int64_t rows, int64_t width,
                      cudaStream_t stream) {
  const float keep_scale = 1.0f / (1.0f - dropped);
  for_eights(rows * width, stream, [=] __device__(int64_t i) {
    const Mask8 kept = draw_mask(seed, i, dropped);
    store_mask(mask + i, kept);
    const Floats8 biased = plus(load8(x + i), bias_at(bias, i, width));
    store8(out + i, plus(load8(residual + i), masked(biased, kept, keep_scale)));
  });
}

void gelu(const Bf16* x, const Bf16* bias, Bf16* y, int64_t rows, int64_t width,
          cudaStream_t stream) {
  for_eights(rows * width, stream, [=] __device__(int64_t i) {
    const Floats8 in = plus(load8(x + i), bias_at(bias, i, width));
    store8(y + i, each(in, [](float v, int) { return gelu(v); }));
  });
}

void gelu_backward(const Bf16* x, const Bf16* bias, const Bf16* dy, Bf16* dx, int64_t rows,
                   int64_t width, cudaStream_t stream) {
  for_eights(rows * width, stream, [=] __device__(int64_t i) {
    const Floats8 in = plus(load8(x + i), bias_at(bias, i, width));
    const Floats8 gradient = load8(dy + i);
    store8(dx + i, each(in, [&](float v, int j) { return gelu_gradient(v) * gradient.v[j]; }));
  });
}

void gated_silu(const Bf16* in, Bf16* y, int64_t rows, int64_t width, cudaStream_t stream) {
  for_eights(rows * width, stream, [=] __device__(int64_t i) {
    const int64_t at = i + row_of(i, width) * width;  // the gate; the up is `width` further on
    const Floats8 up = load8(in + at + width);
    store8(y + i, each(load8(in + at), [&](float v, int j) { return silu(v) * up.v[j]; }));
  });
}

void gated_silu_backward(const Bf16* in, const Bf16* dy, Bf16* din, int64_t rows, int64_t width,
                         cudaStream_t stream) {
  for_eights(rows * width, stream, [=] __device__(int64_t i) {
    const int64_t at = i + row_of(i, width) * width;
    const Floats8 gate = load8(in + at), up = load8(in + at + width), gradient = load8(dy + i);
    store8(din + at,
           each(gate, [&](float v, int j) { return silu_gradient(v) * up.v[j] * gradient.v[j]; }));
    store8(din + at + width, each(gate, [&](float v, int j) { return silu(v) * gradient.v[j]; }));
  });
}

void rotary_table(float2* table, int64_t positions, int64_t head_dim, float base,
                  cudaStream_t stream) {
  const int64_t half = head_dim / 2, count = positions * half;
  const auto entry = [=] __device__(int64_t i) {
    const float exponent = -2.0f * static_cast<float>(i % half) / static_cast<float>(head_dim);
    const float angle = static_cast<float>(i / half) * powf(base, exponent);
    table[i] = {cosf(angle), sinf(angle)};
  };
  each_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(count, entry);
}

void rotary(Bf16* x, const float2* table, int64_t rows, int64_t row_stride, int64_t heads,
            int64_t head_dim, int64_t seq, bool backward, cudaStream_t stream) {
  const int64_t half = head_dim / 2, turned = heads * half;
  for_eights(rows * turned, stream, [=] __device__(int64_t i) {
    const int64_t row = row_of(i, turned), within = column_of(i, turned);
    const int64_t column = column_of(within, half);
    Bf16* const first = x + row * row_stride + row_of(within, half) * head_dim + column;
    const float4* const turns = reinterpret_cast<const float4*>(
        table + static_cast<unsigned>(row) % static_cast<unsigned>(seq) * half + column);
    Floats8 a = load8(first), b = load8(first + half);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const float4 two = turns[j];
      const float sign = backward ? -1.0f : 1.0f;
      const Pair even = rotate({a.v[2 * j], b.v[2 * j]}, two.x, sign * two.y);
      const Pair odd = rotate({a.v[2 * j + 1], b.v[2 * j + 1]}, two.z, sign * two.w);
      a.v[2 * j] = even.first;
      b.v[2 * j] = even.second;
      a.v[2 * j + 1] = odd.first;
      b.v[2 * j + 1] = odd.second;
    }
    store8(first, a);
    store8(first + half, b);
  });
}

namespace {

constexpr int kTile = 64;

// A block turns one tile of 64 x 64 in shared memory, whose rows are one word longer so that
// columns are read without conflicts of banks.
__global__ void __launch_bounds__(kThreads)
    transpose_kernel(const Bf16* in, Bf16* out, int64_t rows, int64_t width) {
  __shared__ Bf16 tile[kTile][kTile + 2];
  const int64_t tiles_across = width / kTile, tiles_down = rows / kTile;
  const int64_t block = blockIdx.x;
  const int64_t column = block % tiles_across * kTile;
  const int64_t row = block / tiles_across % tiles_down * kTile;
  const int64_t base = block / tiles_across / tiles_down * rows * width;
  const int x = static_cast<int>(threadIdx.x) % 32 * 2, y = static_cast<int>(threadIdx.x) / 32;
#pragma unroll
  for (int i = y; i < kTile; i += kThreads / 32) {
    *reinterpret_cast<__nv_bfloat162*>(&tile[i][x]) =
        *reinterpret_cast<const __nv_bfloat162*>(in + base + (row + i) * width + column + x);
  }
  __syncthreads();
#pragma unroll
  for (int i = y; i < kTile; i += kThreads / 32) {
    *reinterpret_cast<__nv_bfloat162*>(out + base + (column + i) * rows + row + x) =
        __halves2bfloat162(tile[x][i], tile[x + 1][i]);
  }
}

}  // namespace

void transpose(const Bf16* in, Bf16* out, int64_t batch, int64_t rows, int64_t width,
               cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(batch * (rows / kTile) * (width / kTile));
  transpose_kernel<<<tiles, kThreads, 0, stream>>>(in, out, rows, width);
}

}  // namespace stepcast::measure
