// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/optimizer.h"

#include "calibrate/measure/kernels/vector.cuh"

namespace stepcast::measure {
namespace {

constexpr int kThreads = 256;
constexpr int64_t kChunk = int64_t{kThreads} * 8;  // elements of one block
// Tensors of one launch: their list is a parameter of the kernel, of at most 4 KiB.
constexpr int kTensors = 64;

struct AdamList {
  AdamTensor tensors[kTensors];
  int64_t first_chunk[kTensors + 1];
  int count;
};

__global__ void __launch_bounds__(kThreads)
    adam_kernel(const __grid_constant__ AdamList list, AdamStep step) {
  const int64_t chunk = blockIdx.x;
  int low = 0, high = list.count;  // the tensor is in [low, high)
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (list.first_chunk[middle] <= chunk) {
      low = middle;
    } else {
      high = middle;
    }
  }
  const AdamTensor& t = list.tensors[low];
  const int64_t at =
      (chunk - list.first_chunk[low]) * kChunk + static_cast<int64_t>(threadIdx.x) * 8;
  if (at >= t.elements) return;
  const Floats8 gradient = load8(t.gradient + at);
  Floats8 weight = load8(t.weight + at), first = load8(t.first + at), second = load8(t.second + at);
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    const AdamState next = adam_update({weight.v[i], first.v[i], second.v[i]}, gradient.v[i], step);
    weight.v[i] = next.weight;
    first.v[i] = next.first;
    second.v[i] = next.second;
  }
  store8(t.weight + at, weight);
  store8(t.first + at, first);
  store8(t.second + at, second);
}

}  // namespace

void adam(std::span<const AdamTensor> tensors, const AdamStep& step, cudaStream_t stream) {
  while (!tensors.empty()) {
    AdamList list = {};
    list.count = static_cast<int>(tensors.size() < kTensors ? tensors.size() : kTensors);
    int64_t chunks = 0;
    for (int i = 0; i < list.count; ++i) {
      list.tensors[i] = tensors[static_cast<size_t>(i)];
      list.first_chunk[i] = chunks;
      chunks += (list.tensors[i].elements + kChunk - 1) / kChunk;
    }
    if (chunks > 0) {
      adam_kernel<<<static_cast<unsigned>(chunks), kThreads, 0, stream>>>(list, step);
    }
    tensors = tensors.subspan(static_cast<size_t>(list.count));
  }
}

}  // namespace stepcast::measure
