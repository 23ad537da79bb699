// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/kernels/attention.h"

#include "calibrate/measure/device.h"
#include "calibrate/measure/kernels/launch.h"

namespace stepcast::measure {
namespace {

constexpr int kThreads = 256;

// out[sequence][b][a] = in[sequence][a][b], `eights` times 16 bytes each; a thread takes 16 bytes
// of `out`, so that whole warps write lines.
__global__ void __launch_bounds__(kThreads)
    exchange_kernel(const uint4* in, uint4* out, int64_t count, int64_t as, int64_t bs,
                    int64_t eights) {
  const int64_t step = static_cast<int64_t>(gridDim.x) * kThreads;
  for (int64_t i = static_cast<int64_t>(blockIdx.x) * kThreads + threadIdx.x; i < count;
       i += step) {
    const int64_t part = i % eights, pair = i / eights;
    const int64_t a = pair % as, b = pair / as % bs, sequence = pair / (as * bs);
    out[i] = in[((sequence * as + a) * bs + b) * eights + part];
  }
}

void exchange(const __nv_bfloat16* in, __nv_bfloat16* out, int64_t sequences, int64_t as,
              int64_t bs, int64_t head_dim, cudaStream_t stream) {
  const int64_t eights = head_dim / 8, count = sequences * as * bs * eights;
  exchange_kernel<<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
      reinterpret_cast<const uint4*>(in), reinterpret_cast<uint4*>(out), count, as, bs, eights);
  check_cuda(cudaGetLastError(), "exchanging heads and tokens");
}

}  // namespace

void merge_heads(const __nv_bfloat16* in, __nv_bfloat16* out, int64_t sequences, int64_t tokens,
                 int64_t heads, int64_t head_dim, cudaStream_t stream) {
  exchange(in, out, sequences, heads, tokens, head_dim, stream);
}

void split_heads(const __nv_bfloat16* in, __nv_bfloat16* out, int64_t sequences, int64_t tokens,
                 int64_t heads, int64_t head_dim, cudaStream_t stream) {
  exchange(in, out, sequences, tokens, heads, head_dim, stream);
}

}  // namespace stepcast::measure
