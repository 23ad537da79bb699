// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/families/attention.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "calibrate/measure/families/attention_graph.h"
#include "tests/measure/gpu_arrays.h"

namespace stepcast::measure::attention_gpu_test {
namespace {

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
}  // namespace stepcast::measure::attention_gpu_test
