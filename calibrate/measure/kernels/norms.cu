// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/norms.h"

#include "calibrate/measure/device.h"
#include "calibrate/measure/kernels/vector.cuh"

namespace stepcast::measure {
namespace {

constexpr float kEpsilon = 1e-5f;
constexpr int kThreads = 256;
constexpr int kPiece = 8 * kThreads;  // elements that a block takes in one round of loads

// What a norm is applied with; mean and bias are null for RMS norm.
struct NormArguments {
  const Bf16* x;
  const Bf16* gain;
  const Bf16* bias;
  Bf16* y;
  float* mean;
  float* rstd;
  int64_t rows;
  int width;
};

template <int kPieces, bool kCentred>
__global__ void __launch_bounds__(kThreads) norm_kernel(NormArguments a) {
  __shared__ float2 room[kMostWarps];
  const int64_t row = blockIdx.x;
  Floats8 x[kPieces];
  float2 sums = {0, 0};  // of x and of its squares
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int at = p * kPiece + static_cast<int>(threadIdx.x) * 8;
    if (at >= a.width) continue;
    x[p] = load8(a.x + row * a.width + at);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      sums.x += x[p].v[i];
      sums.y += x[p].v[i] * x[p].v[i];
    }
  }
  const float width = static_cast<float>(a.width);
  sums = reduce_block(sums, room, Plus{});
  const float mean = kCentred ? sums.x / width : 0.0f;
  float square = sums.y;
  if (kCentred) {  // around the mean: the difference of large sums would lose digits
    float2 around = {0, 0};
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      if (p * kPiece + static_cast<int>(threadIdx.x) * 8 >= a.width) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) around.x += (x[p].v[i] - mean) * (x[p].v[i] - mean);
    }
    square = reduce_block(around, room, Plus{}).x;
  }
  const float rstd = rsqrtf(square / width + kEpsilon);
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int at = p * kPiece + static_cast<int>(threadIdx.x) * 8;
    if (at >= a.width) continue;
    const Floats8 gain = load8(a.gain + at);
    const Floats8 bias = kCentred ? load8(a.bias + at) : Floats8{};
#pragma unroll
    for (int i = 0; i < 8; ++i) x[p].v[i] = (x[p].v[i] - mean) * rstd * gain.v[i] + bias.v[i];
    store8(a.y + row * a.width + at, x[p]);
  }
  if (threadIdx.x == 0) {
    a.rstd[row] = rstd;
    if (kCentred) a.mean[row] = mean;
  }
}

struct NormGradientArguments {
  const Bf16* dy;
  const Bf16* x;
  const Bf16* gain;
  const float* mean;
  const float* rstd;
  Bf16* dx;
  float* dgain;
  float* dbias;
  int64_t rows;
  int width;
};

// A block goes through rows in strides of the grid and sums their shares of the gain's gradient in
// registers; only the sums are added in memory.
template <int kPieces, bool kCentred>
__global__ void __launch_bounds__(kThreads) norm_backward_kernel(NormGradientArguments a) {
  __shared__ float2 room[kMostWarps];
  const float width = static_cast<float>(a.width);
  Floats8 dgain[kPieces] = {}, dbias[kCentred ? kPieces : 1] = {};
  for (int64_t row = blockIdx.x; row < a.rows; row += gridDim.x) {
    const float mean = kCentred ? a.mean[row] : 0.0f, rstd = a.rstd[row];
    Floats8 normed[kPieces], scaled[kPieces];
    float2 sums = {0, 0};  // of the scaled gradient times x, and of itself
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int at = p * kPiece + static_cast<int>(threadIdx.x) * 8;
      if (at >= a.width) continue;
      normed[p] = load8(a.x + row * a.width + at);
      scaled[p] = load8(a.dy + row * a.width + at);
      const Floats8 gain = load8(a.gain + at);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        normed[p].v[i] = (normed[p].v[i] - mean) * rstd;
        dgain[p].v[i] += scaled[p].v[i] * normed[p].v[i];
        if (kCentred) dbias[p].v[i] += scaled[p].v[i];
        scaled[p].v[i] *= gain.v[i];
        sums.x += scaled[p].v[i] * normed[p].v[i];
        sums.y += scaled[p].v[i];
      }
    }
    sums = reduce_block(sums, room, Plus{});
    const float along = sums.x / width, shift = kCentred ? sums.y / width : 0.0f;
#pragma unroll
    for (int p = 0; p < kPieces; ++p) {
      const int at = p * kPiece + static_cast<int>(threadIdx.x) * 8;
      if (at >= a.width) continue;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        scaled[p].v[i] = rstd * (scaled[p].v[i] - shift - normed[p].v[i] * along);
      }
      store8(a.dx + row * a.width + at, scaled[p]);
    }
  }
#pragma unroll
  for (int p = 0; p < kPieces; ++p) {
    const int at = p * kPiece + static_cast<int>(threadIdx.x) * 8;
    if (at >= a.width) continue;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      atomicAdd(a.dgain + at + i, dgain[p].v[i]);
      if (kCentred) atomicAdd(a.dbias + at + i, dbias[p].v[i]);
    }
  }
}

void check_width(int64_t width) {
  if (width % 8 != 0 || width > 8 * kPiece || width < 8) {
    throw Unsupported("norms take rows of up to 16384 elements, a multiple of 8");
  }
}

template <bool kCentred>
void launch_norm(const NormArguments& a, cudaStream_t stream) {
  check_width(a.width);
  const auto blocks = static_cast<unsigned>(a.rows);
  if (a.width <= kPiece) {
    norm_kernel<1, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  } else if (a.width <= 2 * kPiece) {
    norm_kernel<2, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  } else if (a.width <= 4 * kPiece) {
    norm_kernel<4, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    norm_kernel<8, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  }
}

template <bool kCentred>
void launch_norm_backward(const NormGradientArguments& a, cudaStream_t stream) {
  check_width(a.width);
  // Enough blocks for any GPU of today, few enough for their sums not to matter.
  const auto blocks = static_cast<unsigned>(a.rows < 512 ? a.rows : 512);
  if (a.width <= kPiece) {
    norm_backward_kernel<1, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  } else if (a.width <= 2 * kPiece) {
    norm_backward_kernel<2, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  } else if (a.width <= 4 * kPiece) {
    norm_backward_kernel<4, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  } else {
    norm_backward_kernel<8, kCentred><<<blocks, kThreads, 0, stream>>>(a);
  }
}

}  // namespace

void rms_norm(const Bf16* x, const Bf16* gain, Bf16* y, float* rstd, int64_t rows, int64_t width,
              cudaStream_t stream) {
  launch_norm<false>({x, gain, nullptr, y, nullptr, rstd, rows, static_cast<int>(width)}, stream);
}

void rms_norm_backward(const Bf16* dy, const Bf16* x, const Bf16* gain, const float* rstd, Bf16* dx,
                       float* dgain, int64_t rows, int64_t width, cudaStream_t stream) {
  launch_norm_backward<false>(
      {dy, x, gain, nullptr, rstd, dx, dgain, nullptr, rows, static_cast<int>(width)}, stream);
}

void layer_norm(const Bf16* x, const Bf16* gain, const Bf16* bias, Bf16* y, float* mean,
                float* rstd, int64_t rows, int64_t width, cudaStream_t stream) {
  launch_norm<true>({x, gain, bias, y, mean, rstd, rows, static_cast<int>(width)}, stream);
}

void layer_norm_backward(const Bf16* dy, const Bf16* x, const Bf16* gain, const float* mean,
                         const float* rstd, Bf16* dx, float* dgain, float* dbias, int64_t rows,
                         int64_t width, cudaStream_t stream) {
  launch_norm_backward<true>(
      {dy, x, gain, mean, rstd, dx, dgain, dbias, rows, static_cast<int>(width)}, stream);
}

}  // namespace stepcast::measure
