// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/spin.h"

namespace stepcast::measure {
namespace {

__device__ unsigned long long nanoseconds() {
  unsigned long long now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void spin_kernel(unsigned long long duration) {
  const unsigned long long begin = nanoseconds();
  while (nanoseconds() - begin < duration) {
  }
}

__global__ void empty_kernel() {}

}  // namespace

void spin(double us, cudaStream_t stream) {
  spin_kernel<<<1, 1, 0, stream>>>(static_cast<unsigned long long>(us * 1e3));
}

void launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, 32, 0, stream>>>();
}

}  // namespace stepcast::measure
