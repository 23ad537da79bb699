// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/roofline.h"

#include <gtest/gtest.h>

#include "calibrate/table/gemm_prices.h"
#include "sim/check.h"
#include "tests/calibrate/works.h"

namespace stepcast::roofline_test {
namespace {

using test::attention;
using test::gemm;
using test::kernel;
using test::us;

Gpu a100() {
  return test::a100_cluster(1).node.gpu;
}

TEST(OperandBytes, CountsEachOperandOnce) {
  EXPECT_EQ(operand_bytes(gemm(2, 3, 5)).value, 2 * (10 + 15 + 6));
  EXPECT_EQ(operand_bytes(gemm(2, 3, 5, GemmLayout::tn, 4)).value, 4 * 2 * (10 + 15 + 6));
  // Weight gradients read and write an fp32 buffer.
  EXPECT_EQ(operand_bytes(gemm(2, 3, 5, GemmLayout::nt)).value, 2 * (10 + 15) + 8 * 6);
  Work fp8 = gemm(2, 3, 5);
  fp8.dtype = DType::fp8;
  EXPECT_EQ(operand_bytes(fp8).value, 25 + 2 * 6);
  Work fp4 = gemm(1, 1, 3);
  fp4.dtype = DType::fp4;
  EXPECT_EQ(operand_bytes(fp4).value, 3 + 2);
  EXPECT_EQ(operand_bytes(kernel(Kernel::add, 77)).value, 77);
}

TEST(OperandBytes, OfAttentionFollowsHeadsOfQueriesAndKeys) {
  Work w = attention(false, true, 128, 8, 64, 2);
  w.kv_heads = 2;
  EXPECT_EQ(operand_bytes(w).value, 2 * 2 * 64 * (2 * 128 * 8 + 2 * 128 * 2));
  w.kind = WorkKind::attention_backward;
  EXPECT_EQ(operand_bytes(w).value, 2 * 2 * 64 * (4 * 128 * 8 + 4 * 128 * 2));
}

TEST(Roofline, OfACopyToTheHostIsTheLinkToIt) {
  Gpu gpu = a100();
  gpu.host_bandwidth = {31.5e9};
  Work w;
  w.kind = WorkKind::host_copy;
  w.bytes = {int64_t{1} << 34};
  EXPECT_NEAR(17179869184.0 / to_seconds(roofline_time(w, gpu)) / 31.5e9, 0.85, 0.01);
}

TEST(Roofline, OfALargeProductIsTheShareOfThePeak) {
  const Work w = gemm(16384, 16384, 16384);
  EXPECT_NEAR(w.flops.value / to_seconds(roofline_time(w, a100())) / 312e12, 0.79, 0.01);
}

TEST(Roofline, OfALargeCopyIsTheShareOfTheBandwidth) {
  const Work w = kernel(Kernel::copy, int64_t{1} << 34);
  EXPECT_NEAR(17179869184.0 / to_seconds(roofline_time(w, a100())) / 2039e9, 0.83, 0.01);
}

TEST(Roofline, OfATinyKernelIsItsOverhead) {
  EXPECT_NEAR(us(roofline_time(kernel(Kernel::add, 16), a100())), 6.9, 0.01);
}

TEST(Roofline, IsSmoothWhereBothLimitsMeet) {
  // As much arithmetic as memory time: sqrt 2 of each.
  Work w = gemm(4096, 4096, 4096);
  const double both = us(roofline_time(w, a100())) - 6.9;
  Gpu no_memory = a100();
  no_memory.memory_bandwidth = {1e18};
  const double arithmetic = us(roofline_time(w, no_memory)) - 6.9;
  Gpu no_arithmetic = a100();
  no_arithmetic.peak[DType::bf16] = {1e21};
  const double memory = us(roofline_time(w, no_arithmetic)) - 6.9;
  EXPECT_NEAR(both * both, arithmetic * arithmetic + memory * memory, 1e-3 * both * both);
}

TEST(Roofline, FasterHardwareIsNeverSlower) {
  for (size_t arch = 0; arch < kGpuArchitectures.size(); ++arch) {
    for (const Work& w : {gemm(100, 200, 300), gemm(4096, 4096, 128), kernel(Kernel::adam, 1 << 20),
                          attention(true, true, 2048, 8, 128, 1)}) {
      Gpu slow = a100();
      slow.arch = static_cast<GpuArch>(arch);
      Gpu fast = slow;
      fast.peak[DType::bf16] = {500e12};
      fast.memory_bandwidth = {3e12};
      EXPECT_LE(roofline_time(w, fast), roofline_time(w, slow));
      EXPECT_GT(roofline_time(w, fast), Time{});
    }
  }
}

TEST(Roofline, RunsATypeWithoutAPeakAsTheNextOneThatHasOne) {
  Work bf16 = gemm(8192, 8192, 8192);
  Work fp16 = bf16;
  fp16.dtype = DType::fp16;
  EXPECT_EQ(roofline_time(fp16, a100()), roofline_time(bf16, a100()));
  Work tf32 = bf16;
  tf32.dtype = DType::tf32;  // falls to fp32: 16 times slower, and twice the bytes
  EXPECT_GT(roofline_time(tf32, a100()), 10 * roofline_time(bf16, a100()));
  // A GPU that states nothing is limited by memory alone.
  Gpu bare = a100();
  bare.peak.clear();
  EXPECT_LT(roofline_time(bf16, bare), roofline_time(bf16, a100()));
}

TEST(Roofline, RefusesCommunication) {
  EXPECT_THROW(roofline_time(test::collective(WorkKind::all_reduce, Axis::tp, 8), a100()),
               InternalError);
}

}  // namespace
}  // namespace stepcast::roofline_test
