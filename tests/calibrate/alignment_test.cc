// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/compute_price.h"

#include <gtest/gtest.h>

#include "calibrate/price/price_graph.h"
#include "calibrate/table/cost_table.h"
#include "tests/calibrate/works.h"

namespace stepcast::alignment_test {
namespace {

using test::a100_cluster;
using test::gemm;
using test::us;

Work of_type(DType dtype, Work w) {
  w.dtype = dtype;
  return w;
}

TEST(Alignment, IsOfTheContiguousDimensions) {
  EXPECT_EQ(bytes_aligned(gemm(1023, 1024, 128)), 16);
  EXPECT_EQ(bytes_aligned(gemm(1024, 1024, 108)), 8);
  EXPECT_EQ(bytes_aligned(gemm(1024, 1024, 150)), 4);
  EXPECT_EQ(bytes_aligned(gemm(1024, 150, 1024, GemmLayout::nn)), 4);
  EXPECT_EQ(bytes_aligned(gemm(1024, 128, 1023, GemmLayout::nt)), 16);
  EXPECT_EQ(bytes_aligned(gemm(1023, 128, 1024, GemmLayout::nt)), 2);
}

// The rates of the source of alignment.csv.
TEST(Alignment, RatioIsThatOfTheMeasuredRates) {
  const Work odd = gemm(1024, 140, 1024, GemmLayout::nn, 384);
  EXPECT_NEAR(misalignment_ratio(of_type(DType::fp16, odd), GpuArch::ampere), 132.46 / 85.82, 1e-3);
  EXPECT_NEAR(misalignment_ratio(of_type(DType::bf16, odd), GpuArch::ampere), 132.32 / 85.55, 1e-3);
}

TEST(Alignment, OlderLibrariesHaveSlowerKernels) {
  const Work odd = of_type(DType::fp16, gemm(1024, 140, 1024, GemmLayout::nn, 384));
  EXPECT_NEAR(misalignment_ratio(odd, GpuArch::ampere, 2022), 132.48 / 53.89, 1e-3);
  EXPECT_NEAR(misalignment_ratio(odd, GpuArch::ampere, 2021), 132.48 / 53.89, 1e-3);
  EXPECT_NEAR(misalignment_ratio(odd, GpuArch::ampere, 2023), 132.46 / 85.82, 1e-3);
  const Cluster c = a100_cluster(1);
  OpGraph graph;
  graph.works = {odd};
  const auto priced = [&](int64_t libraries) {
    graph.libraries = libraries;
    return us(price(graph, c, RankGrid{}, shipped_table("a100-sxm-80g")).by_work[0].time);
  };
  EXPECT_NEAR(priced(2022) / priced(0), 2.458 / 1.543, 0.01);
}

TEST(Alignment, SaysNothingOfWhatWasNotMeasured) {
  const Work odd = gemm(1024, 140, 1024, GemmLayout::nn, 384);
  EXPECT_EQ(misalignment_ratio(odd, GpuArch::hopper), 1);
  EXPECT_EQ(misalignment_ratio(of_type(DType::fp32, odd), GpuArch::ampere), 1);
  EXPECT_EQ(misalignment_ratio(gemm(1024, 50257, 1024), GpuArch::ampere), 1);
  EXPECT_EQ(misalignment_ratio(gemm(1024, 144, 1024, GemmLayout::nn, 384), GpuArch::ampere), 1);
}

TEST(Alignment, ShorterRowsAreNoFaster) {
  const auto ratio = [](int64_t n) {
    return misalignment_ratio(gemm(1024, n, 1024, GemmLayout::nn, 384), GpuArch::ampere);
  };
  EXPECT_GE(ratio(150), ratio(140));
  EXPECT_GE(ratio(1023), ratio(150));
}

TEST(Alignment, SlowsDownTheHeadsOfUnfusedAttention) {
  const Cluster c = a100_cluster(1);
  OpGraph graph;
  graph.works = {of_type(DType::fp16, gemm(1024, 152, 1024, GemmLayout::nn, 64)),
                 of_type(DType::fp16, gemm(1024, 148, 1024, GemmLayout::nn, 64))};
  const Prices p = price(graph, c, RankGrid{}, shipped_table("a100-sxm-80g"));
  EXPECT_NEAR(us(p.by_work[1].time) / us(p.by_work[0].time), 1.543, 0.1);
  EXPECT_EQ(p.by_work[1].origin, Origin::extrapolated);
  EXPECT_NE(p.by_work[1].basis.find("not on 16 bytes"), std::string::npos);
  EXPECT_EQ(p.by_work[0].basis.find("not on 16 bytes"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::alignment_test
