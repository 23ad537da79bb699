// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "calibrate/measure/device.h"
#include "calibrate/measure/kernels/hash.h"
#include "calibrate/measure/kernels/launch.h"

namespace stepcast::measure {
namespace {

template <class T>
__device__ T from_float(float value) {
  return T(value);
}
template <>
__device__ int8_t from_float<int8_t>(float value) {
  return static_cast<int8_t>(fminf(fmaxf(rintf(value), -127.0f), 127.0f));
}
template <>
__device__ uint8_t from_float<uint8_t>(float value) {
  return static_cast<uint8_t>(fminf(fmaxf(rintf(value) + 128.0f, 0.0f), 255.0f));
}

template <class T>
__global__ void normal_kernel(T* data, int64_t elements, uint64_t seed, float deviation) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    data[i] = from_float<T>(deviation * normal(seed, static_cast<uint64_t>(i)));
  }
}

__global__ void indices_kernel(int32_t* data, int64_t elements, int32_t limit, uint64_t seed) {
  const int64_t stride = static_cast<int64_t>(gridDim.x) * blockDim.x;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < elements;
       i += stride) {
    const uint64_t bits = mix(seed, static_cast<uint64_t>(i)) >> 32;
    data[i] = static_cast<int32_t>(bits * static_cast<uint64_t>(limit) >> 32);
  }
}

template <class T>
void fill(void* data, int64_t elements, uint64_t seed, float deviation, cudaStream_t stream) {
  normal_kernel<T><<<blocks_for(elements, 256), 256, 0, stream>>>(static_cast<T*>(data), elements,
                                                                  seed, deviation);
}

}  // namespace

void fill_normal(void* data, DType dtype, int64_t elements, uint64_t seed, float deviation,
                 cudaStream_t stream) {
  constexpr float kInt8Deviation = 32;
  switch (dtype) {
    case DType::fp32:
    case DType::tf32: fill<float>(data, elements, seed, deviation, stream); break;
    case DType::fp16: fill<__half>(data, elements, seed, deviation, stream); break;
    case DType::bf16: fill<__nv_bfloat16>(data, elements, seed, deviation, stream); break;
    case DType::fp8: fill<__nv_fp8_e4m3>(data, elements, seed, deviation, stream); break;
    case DType::int8: fill<int8_t>(data, elements, seed, deviation * kInt8Deviation, stream); break;
    case DType::uint8:
      fill<uint8_t>(data, elements, seed, deviation * kInt8Deviation, stream);
      break;
    case DType::fp4: throw Unsupported("no random data in fp4");
  }
  check_cuda(cudaGetLastError(), "random data");
}

void fill_indices(int32_t* data, int64_t elements, int32_t limit, uint64_t seed,
                  cudaStream_t stream) {
  indices_kernel<<<blocks_for(elements, 256), 256, 0, stream>>>(data, elements, limit, seed);
  check_cuda(cudaGetLastError(), "random indices");
}

}  // namespace stepcast::measure
