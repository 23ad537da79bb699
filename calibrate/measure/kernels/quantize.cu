// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/quantize.h"

#include <cuda_fp8.h>

#include "calibrate/measure/kernels/vector.cuh"

namespace stepcast::measure {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 128;
constexpr int kAcross = kTile / 8;           // threads for one row of a tile
constexpr int kDown = kThreads / kAcross;    // rows of a tile at once
constexpr int kRowsAThread = kTile / kDown;  // 8

struct alignas(8) Bytes8 {
  uint8_t v[8];
};

__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const Bf16* x, uint8_t* out, uint8_t* transposed, float* scales, int64_t rows,
                    int64_t width) {
  __shared__ float room[kMostWarps];
  // Rows are four bytes longer than a tile, so that columns lie in different banks.
  __shared__ uint8_t tile[kTile][kTile + 4];
  const int64_t tiles_across = width / kTile;
  const int64_t row = blockIdx.x / tiles_across * kTile, column = blockIdx.x % tiles_across * kTile;
  const int across = static_cast<int>(threadIdx.x) % kAcross * 8;
  const int down = static_cast<int>(threadIdx.x) / kAcross;
  Floats8 held[kRowsAThread];
  float largest = 0;
#pragma unroll
  for (int r = 0; r < kRowsAThread; ++r) {
    held[r] = load8(x + (row + down + r * kDown) * width + column + across);
#pragma unroll
    for (int i = 0; i < 8; ++i) largest = fmaxf(largest, fabsf(held[r].v[i]));
  }
  largest = reduce_block(largest, room, Larger{});
  const float factor = fp8_scale(largest);
#pragma unroll
  for (int r = 0; r < kRowsAThread; ++r) {
    Bytes8 low;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      low.v[i] = __nv_cvt_float_to_fp8(held[r].v[i] * factor, __NV_SATFINITE, __NV_E4M3);
      tile[down + r * kDown][across + i] = low.v[i];
    }
    *reinterpret_cast<Bytes8*>(out + (row + down + r * kDown) * width + column + across) = low;
  }
  __syncthreads();
#pragma unroll
  for (int r = 0; r < kRowsAThread; ++r) {
    Bytes8 turned;
#pragma unroll
    for (int i = 0; i < 8; ++i) turned.v[i] = tile[across + i][down + r * kDown];
    *reinterpret_cast<Bytes8*>(transposed + (column + down + r * kDown) * rows + row + across) =
        turned;
  }
  if (threadIdx.x == 0) scales[blockIdx.x] = 1.0f / factor;
}

}  // namespace

void quantize(const Bf16* x, uint8_t* out, uint8_t* transposed, float* scales, int64_t rows,
              int64_t width, cudaStream_t stream) {
  const auto tiles = static_cast<unsigned>(rows / kTile * (width / kTile));
  quantize_kernel<<<tiles, kThreads, 0, stream>>>(x, out, transposed, scales, rows, width);
}

}  // namespace stepcast::measure
