// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/attention.h"

#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <vector>

#include "calibrate/measure/attention_graph.h"
#include "calibrate/measure/kernels/attention.h"
#include "tests/measure/gpu_arrays.h"

namespace stepcast::measure {
namespace {

TEST(Heads, AreExchangedWithTokensAndBack) {
  if (!device()) GTEST_SKIP() << "no GPU";
  constexpr int64_t kSequences = 2, kTokens = 5, kHeads = 3, kDim = 16;
  constexpr int64_t kCount = kSequences * kTokens * kHeads * kDim;
  std::vector<uint16_t> values(kCount), merged(kCount), back(kCount);
  std::iota(values.begin(), values.end(), uint16_t{0});
  const DeviceMemory in(kCount * 2), out(kCount * 2), again(kCount * 2);
  const Stream stream;
  check_cuda(cudaMemcpy(in.data(), values.data(), kCount * 2, cudaMemcpyHostToDevice), "copy");
  check_cuda(cudaDeviceSynchronize(), "copy");  // kernels run on another stream
  merge_heads(in.as<__nv_bfloat16>(), out.as<__nv_bfloat16>(), kSequences, kTokens, kHeads, kDim,
              stream.get());
  split_heads(out.as<__nv_bfloat16>(), again.as<__nv_bfloat16>(), kSequences, kTokens, kHeads, kDim,
              stream.get());
  check_cuda(cudaStreamSynchronize(stream.get()), "kernels");
  check_cuda(cudaMemcpy(merged.data(), out.data(), kCount * 2, cudaMemcpyDeviceToHost), "copy");
  check_cuda(cudaMemcpy(back.data(), again.data(), kCount * 2, cudaMemcpyDeviceToHost), "copy");
  for (int64_t s = 0; s < kSequences; ++s)
    for (int64_t t = 0; t < kTokens; ++t)
      for (int64_t h = 0; h < kHeads; ++h)
        for (int64_t d = 0; d < kDim; ++d)
          ASSERT_EQ(merged[static_cast<size_t>(((s * kTokens + t) * kHeads + h) * kDim + d)],
                    values[static_cast<size_t>(((s * kHeads + h) * kTokens + t) * kDim + d)]);
  EXPECT_EQ(back, values);
}

Work attention(WorkKind kind, int64_t dim, int64_t value_dim, bool causal) {
  Work w;
  w.kind = kind;
  w.causal = causal;
  w.m = w.n = 512;
  w.k = dim;
  w.value_dim = value_dim;
  w.heads = 8;
  w.kv_heads = 2;
  return w;
}

TEST(FusedAttention, IsTimedInBothDirections) {
  const std::optional<Device> gpu = device();
  if (!gpu) GTEST_SKIP() << "no GPU";
  const Stream stream;
  Bench bench{*gpu, stream.get(), {}};
  bench.timing.limit_seconds = 0.2;
  int timed = 0;
  for (const WorkKind kind : {WorkKind::attention_forward, WorkKind::attention_backward}) {
    for (const bool causal : {false, true}) {
      try {
        EXPECT_GT(time_attention(bench, attention(kind, 64, 0, causal)).us, 0);
        ++timed;
      } catch (const Unsupported& e) {
        RecordProperty("skipped", e.what());
      }
    }
  }
  if (timed == 0) GTEST_SKIP() << "no fused attention here";
  EXPECT_EQ(timed, 4);
}

TEST(FusedAttention, RefusesWhatItHasNoKernelFor) {
  if (!device()) GTEST_SKIP() << "no GPU";
  Work wide = attention(WorkKind::attention_forward, 64, 0, false);
  wide.dtype = DType::fp32;
  EXPECT_THROW(FusedAttention(attention_shape(wide), false), Unsupported);
  Work rectangle = attention(WorkKind::attention_forward, 64, 0, true);
  rectangle.n = 1024;
  EXPECT_THROW(FusedAttention(attention_shape(rectangle), false), Unsupported);
  EXPECT_THROW(
      FusedAttention(attention_shape(attention(WorkKind::attention_forward, 7, 0, false)), false),
      Unsupported);
}

}  // namespace
}  // namespace stepcast::measure
