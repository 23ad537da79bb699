// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/attention_prices.h"

#include <gtest/gtest.h>

#include <string>

#include "calibrate/table/cost_table.h"
#include "tests/calibrate/works.h"

namespace stepcast::attention_kernels_test {
namespace {

using test::attention;

Work with(AttentionKernel kernel, Work w) {
  w.attention = kernel;
  return w;
}

double time_us(const char* gpu, const Work& w) {
  return shipped_table(gpu)->lookup(w, {})->us;
}

TEST(AttentionKernels, AnswerWithTheirOwnRows) {
  const Work w = attention(true, true, 4096, 160, 128, 2);
  EXPECT_EQ(time_us("a100-sxm-80g", with(AttentionKernel::flash1, w)), 48413);
  EXPECT_EQ(time_us("a100-sxm-80g", with(AttentionKernel::flash1_triton, w)), 51085);
}

// Dao 2023 (arXiv 2307.08691), section 4.1: version 2 is 1.7 to 3 times as fast as version 1.
TEST(AttentionKernels, Version1IsHalfAsFastAsVersion2OrLess) {
  for (const bool backward : {false, true}) {
    for (const int64_t seq : {2048, 4096, 8192}) {
      const Work w = attention(backward, true, seq, 32, 128, 1);
      const double ratio =
          time_us("a100-sxm-80g", with(AttentionKernel::flash1, w)) / time_us("a100-sxm-80g", w);
      EXPECT_GT(ratio, 1.7) << seq;
      EXPECT_LT(ratio, 3.2) << seq;
    }
  }
}

TEST(AttentionKernels, OfTheSameChipServeAllWhoShareItsAttention) {
  const Work w = with(AttentionKernel::flash2, attention(false, true, 4096, 32, 128, 2));
  EXPECT_EQ(time_us("h200-sxm", w), time_us("h100-sxm", w));
  EXPECT_EQ(shipped_table("h200-sxm")->lookup(w, {})->origin, Origin::extrapolated);
  EXPECT_EQ(shipped_table("h200-sxm")->lookup(w, {})->basis.attention, AttentionKernel::flash2);
}

TEST(AttentionKernels, WithoutRowsAreThoseOfTheTable) {
  EXPECT_EQ(shipped_attention(AttentionKernel::flash2, "a100-sxm-80g"), nullptr);
  EXPECT_EQ(shipped_attention(AttentionKernel::table, "a100-sxm-80g"), nullptr);
  const Work w = attention(false, true, 4096, 32, 128, 2);
  EXPECT_EQ(time_us("a100-sxm-80g", with(AttentionKernel::flash2, w)), time_us("a100-sxm-80g", w));
}

TEST(AttentionKernels, WithoutRowsAnotherKernelIsNoMeasurementOfThem) {
  const Work w = attention(true, true, 4096, 160, 128, 2);
  Gpu ampere, blackwell;
  ampere.arch = GpuArch::ampere;
  blackwell.arch = GpuArch::blackwell;
  const CostTable& b200 = *shipped_table("b200-sxm");
  for (const AttentionKernel k :
       {AttentionKernel::flash1, AttentionKernel::flash1_triton, AttentionKernel::flash2}) {
    const auto price = b200.compute(with(k, w), blackwell);
    EXPECT_GE(price->origin, Origin::extrapolated);
    EXPECT_NE(price->basis.find("as there are none of " + std::string(name_of(k))),
              std::string::npos)
        << price->basis;
  }
  EXPECT_EQ(b200.compute(w, blackwell)->basis.find("none of"), std::string::npos);
  // What Ampere's tables measured is FlashAttention 2.
  const CostTable& a100 = *shipped_table("a100-sxm-80g");
  const Work flash2 = with(AttentionKernel::flash2, w);
  EXPECT_EQ(a100.compute(flash2, ampere)->origin, a100.compute(w, ampere)->origin);
  EXPECT_EQ(a100.compute(flash2, ampere)->basis, a100.compute(w, ampere)->basis);
}

TEST(AttentionKernels, AreNamedWhereTheyArePriced) {
  const Work w = with(AttentionKernel::flash1_triton, attention(false, true, 4096, 32, 128, 2));
  EXPECT_NE(describe(w).find(" flash-1-triton"), std::string::npos);
  const auto price = shipped_table("a100-sxm-80g")->compute(w, {});
  EXPECT_NE(price->basis.find("attention rows of flash-1-triton"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::attention_kernels_test
