// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/cost_table.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sim/check.h"
#include "sim/diagnostic.h"
#include "tests/calibrate/works.h"

namespace stepcast::cost_table_test {
namespace {

using test::attention;
using test::gemm;
using test::kernel;
using test::us;

CostTable make(const std::string& rows, const std::string& header = "") {
  int count = 0;
  for (const char c : rows) count += c == '\n' ? 1 : 0;
  return CostTable::parse(
      "# stepcast cost table\n# format: 1\n# gpu: test\n# nvlink_gbs: 300\n"
      "# source: m measured here\n# source: d derived there\n" +
          header + "# rows: " + std::to_string(count) + "\n" + rows,
      "t.csv");
}

// Smooth form of "fit,gemm,bf16,5,200,1000".
double smooth(const Work& w, double out_bytes = 2) {
  const auto m = static_cast<double>(w.m);
  const auto n = static_cast<double>(w.n);
  const auto k = static_cast<double>(w.k);
  const double bytes = static_cast<double>(w.batch) * (2 * (m * k + n * k) + out_bytes * m * n);
  return 5 + std::hypot(w.flops.value / 200e6, bytes / 1000e3);
}

const std::string kFit = "fit,gemm,bf16,5,200,1000,d\n";

TEST(GemmLookup, GivesTheExactRow) {
  const CostTable t = make(kFit + "gemm,bf16,tn,2048,4096,1024,1,123.5,m\n");
  const auto p = t.compute(gemm(2048, 4096, 1024), {});
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->time, Time{123'500'000});
  EXPECT_EQ(p->origin, Origin::measured);
  EXPECT_EQ(p->basis, "table test: row 2048x4096x1024");
}

TEST(GemmLookup, TreatsFp16AsBf16ButNotFp8OrFp32) {
  const CostTable t = make(kFit + "gemm,bf16,tn,2048,4096,1024,1,123.5,m\n");
  Work w = gemm(2048, 4096, 1024);
  w.dtype = DType::fp16;
  EXPECT_EQ(t.compute(w, {})->time, Time{123'500'000});
  w.dtype = DType::fp8;
  EXPECT_FALSE(t.compute(w, {}).has_value());
  w.dtype = DType::fp32;
  EXPECT_FALSE(t.compute(w, {}).has_value());
}

// Rows at two m with residuals 1.0 and 1.21.
CostTable two_rows(int64_t low_m, int64_t high_m) {
  const Work low = gemm(low_m, 4096, 4096);
  const Work high = gemm(high_m, 4096, 4096);
  return make(kFit + "gemm,bf16,tn," + std::to_string(low_m) + ",4096,4096,1," +
              std::to_string(smooth(low)) + ",m\n" + "gemm,bf16,tn," + std::to_string(high_m) +
              ",4096,4096,1," + std::to_string(1.21 * smooth(high)) + ",m\n");
}

TEST(GemmLookup, IsStraightOverTheLogarithmBetweenRowsThatAreClose) {
  const Work mid = gemm(4480, 4096, 4096);  // halfway between 4096 and 4900
  const auto p = two_rows(4096, 4900).compute(mid, {});
  EXPECT_NEAR(us(p->time) / smooth(mid), 1.105, 1e-4);
  EXPECT_EQ(p->origin, Origin::interpolated);
  EXPECT_NE(p->basis.find("rows 4096x4096x4096 and m = 4900"), std::string::npos) << p->basis;
}

TEST(GemmLookup, IsBetweenRowsThatAreFarApart) {
  const Work mid = gemm(2048, 4096, 4096);
  const auto p = two_rows(1024, 4096).compute(mid, {});
  EXPECT_NEAR(us(p->time) / smooth(mid), 1.1, 0.02);
  EXPECT_EQ(p->origin, Origin::interpolated);
}

// Two shapes alike in size, one of which fills its last wave: the new shape follows the one whose
// waves are as its own.
TEST(GemmLookup, ShapesGoWithThoseThatFillTheGpuAlike) {
  Gpu gpu;
  gpu.sms = 100;
  const int64_t full = 128 * 10, over = full + 128;  // 10 or 11 by 10 tiles of 128x128
  std::string rows = kFit;
  for (const int64_t k : {2048, 8192}) {
    for (const int64_t m : {full, over}) {
      const double slow = m == full ? 1.0 : 1.5;
      rows += "gemm,bf16,tn," + std::to_string(m) + "," + std::to_string(full) + "," +
              std::to_string(k) + ",1," + std::to_string(slow * smooth(gemm(m, full, k))) + ",m\n";
    }
  }
  const CostTable t = make(rows);
  const Work fills = gemm(full, full, 4096), spills = gemm(over, full, 4096);
  const auto ratio = [&](const Work& w, const Gpu& on) {
    return us(t.compute(w, on)->time) / smooth(w);
  };
  EXPECT_LT(ratio(fills, gpu), 1.02);
  EXPECT_GT(ratio(spills, gpu), 1.47);
  EXPECT_GT(ratio(fills, {}), ratio(fills, gpu));
}

TEST(GemmLookup, WithoutTextSaysTheSame) {
  const CostTable t = two_rows(1024, 4096);
  const Work mid = gemm(2048, 4096, 4096);
  const auto quick = t.lookup(mid, {});
  const auto p = t.compute(mid, {});
  EXPECT_NEAR(quick->us, us(p->time), 1e-6);
  EXPECT_EQ(quick->origin, p->origin);
  EXPECT_EQ("table " + t.name() + ": " + basis_text(quick->basis, mid), p->basis);
}

TEST(GemmLookup, TakesTheResidualOfNearShapesElsewhere) {
  std::string rows = kFit;
  for (const int64_t n : {2048, 8192}) {
    for (const int64_t k : {2048, 8192}) {
      for (const int64_t m : {1024, 8192}) {
        const Work w = gemm(m, n, k);
        rows += "gemm,bf16,tn," + std::to_string(m) + "," + std::to_string(n) + "," +
                std::to_string(k) + ",1," + std::to_string(1.2 * smooth(w)) + ",m\n";
      }
    }
  }
  const CostTable t = make(rows);
  const Work inside = gemm(4096, 4096, 4096);
  EXPECT_NEAR(us(t.compute(inside, {})->time) / smooth(inside), 1.2, 0.02);
  EXPECT_EQ(t.compute(inside, {})->origin, Origin::interpolated);
  for (const Work& outside :
       {gemm(512, 4096, 4096), gemm(4096, 9000, 4096), gemm(4096, 4096, 999)}) {
    EXPECT_EQ(t.compute(outside, {})->origin, Origin::extrapolated) << describe(outside);
    EXPECT_NEAR(us(t.compute(outside, {})->time) / smooth(outside), 1.2, 0.02);
  }
}

TEST(GemmLookup, UsesTheLayoutsOwnRowsOrTheRatio) {
  std::string rows = kFit + "ratio,nn,1.5,d\nratio,nt,1.25,d\n";
  for (int64_t m = 1024; m <= 131072; m *= 2) {
    rows += "gemm,bf16,tn," + std::to_string(m) + ",4096,4096,1," +
            std::to_string(smooth(gemm(m, 4096, 4096))) + ",m\n";
    rows += "gemm,bf16,nn," + std::to_string(m) + ",4096,4096,1," +
            std::to_string(3 * smooth(gemm(m, 4096, 4096))) + ",m\n";
  }
  const CostTable t = make(rows);
  const Work nn = gemm(1024, 4096, 4096, GemmLayout::nn);
  EXPECT_NEAR(us(t.compute(nn, {})->time) / smooth(nn), 3, 1e-5);
  EXPECT_EQ(t.compute(nn, {})->origin, Origin::measured);
  // nt adds into an fp32 buffer: 8 bytes an element of the output.
  const Work nt = gemm(1024, 4096, 4096, GemmLayout::nt);
  EXPECT_NEAR(us(t.compute(nt, {})->time) / smooth(nt, 8), 1.25, 1e-5);
  EXPECT_EQ(t.compute(nt, {})->origin, Origin::extrapolated);
}

// A single row of a layout is the answer to its own shape, and to those between it and its
// neighbour along m; all others go by tn.
TEST(GemmLookup, FewRowsOfALayoutAnswerForThemselves) {
  std::string rows = kFit + "ratio,nn,1.5,d\n";
  for (int64_t m = 1024; m <= 131072; m *= 2) {
    rows += "gemm,bf16,tn," + std::to_string(m) + ",4096,4096,1," +
            std::to_string(smooth(gemm(m, 4096, 4096))) + ",m\n";
  }
  const Work low = gemm(4096, 4096, 4096, GemmLayout::nn);
  const Work high = gemm(4900, 4096, 4096, GemmLayout::nn);
  rows += "gemm,bf16,nn,4096,4096,4096,1," + std::to_string(3 * smooth(low)) + ",m\n" +
          "gemm,bf16,nn,4900,4096,4096,1," + std::to_string(3 * smooth(high)) + ",m\n";
  const CostTable t = make(rows);
  EXPECT_NEAR(us(t.compute(low, {})->time) / smooth(low), 3, 1e-5);
  EXPECT_EQ(t.compute(low, {})->origin, Origin::measured);
  const Work between = gemm(4480, 4096, 4096, GemmLayout::nn);
  EXPECT_NEAR(us(t.compute(between, {})->time) / smooth(between), 3, 1e-5);
  EXPECT_EQ(t.compute(between, {})->origin, Origin::interpolated);
  const Work other = gemm(8192, 4096, 4096, GemmLayout::nn);
  EXPECT_NEAR(us(t.compute(other, {})->time) / smooth(other), 1.5, 1e-5);
  EXPECT_EQ(t.compute(other, {})->origin, Origin::extrapolated);
}

TEST(GemmLookup, ExactRowsNeedNoFit) {
  const CostTable t = make("gemm,fp8,nn,2048,4096,1024,1,123.5,m\ngemm,fp8,tn,64,64,64,8,9,m\n");
  Work w = gemm(2048, 4096, 1024, GemmLayout::nn);
  w.dtype = DType::fp8;
  ASSERT_TRUE(t.compute(w, {}).has_value());
  EXPECT_EQ(t.compute(w, {})->time, Time{123'500'000});
  EXPECT_EQ(t.compute(w, {})->origin, Origin::measured);
  w.m = 2049;
  EXPECT_FALSE(t.compute(w, {}).has_value());
  w = gemm(64, 64, 64, GemmLayout::tn, 8);
  w.dtype = DType::fp8;
  w.kind = WorkKind::grouped_gemm;
  ASSERT_TRUE(t.compute(w, {}).has_value());
  EXPECT_EQ(t.compute(w, {})->time, Time{9'000'000});
  w.m = 65;
  EXPECT_FALSE(t.compute(w, {}).has_value());
}

TEST(GemmLookup, BatchedProductsHaveRowsOfTheirOwn) {
  const Work grouped = gemm(512, 4096, 4096, GemmLayout::tn, 8);
  const CostTable t =
      make(kFit + "ratio,skinny,1.3,d\n" + "gemm,bf16,tn,512,4096,4096,1,1000000,m\n" +
           "gemm,bf16,tn,512,4096,4096,8," + std::to_string(2 * smooth(grouped)) + ",m\n");
  EXPECT_EQ(t.compute(grouped, {})->origin, Origin::measured);
  EXPECT_NEAR(us(t.compute(grouped, {})->time) / smooth(grouped), 2, 1e-5);
  // Attention scores are nothing like it: the smooth form and the ratio of skinny products.
  const Work scores = gemm(2048, 2048, 128, GemmLayout::tn, 96);
  EXPECT_NEAR(us(t.compute(scores, {})->time) / smooth(scores), 1.3, 1e-5);
  EXPECT_EQ(t.compute(scores, {})->origin, Origin::extrapolated);
}

TEST(GemmLookup, CallsDerivedRowsExtrapolated) {
  const CostTable t = make(kFit +
                           "gemm,bf16,tn,1024,4096,4096,1,200,d\n"
                           "gemm,bf16,tn,4096,4096,4096,1,800,m\n");
  EXPECT_EQ(t.compute(gemm(1024, 4096, 4096), {})->origin, Origin::extrapolated);
  EXPECT_EQ(t.compute(gemm(4096, 4096, 4096), {})->origin, Origin::measured);
  EXPECT_EQ(t.compute(gemm(2048, 4096, 4096), {})->origin, Origin::extrapolated);
}

const std::string kAttention =
    "fit,attention_forward,bf16,10,100,0,d\nfit,attention_backward,bf16,10,80,0,d\n"
    "attention,fwd,bf16,1,16,16,2048,2048,128,1,200,m\n"
    "attention,fwd,bf16,1,16,16,8192,8192,128,1,2400,m\n"
    "attention,bwd,bf16,1,16,16,2048,2048,128,1,500,m\n";

TEST(AttentionLookup, GivesTheExactRowOfItsPass) {
  const CostTable t = make(kAttention);
  EXPECT_EQ(t.compute(attention(false, true, 2048, 16, 128, 1), {})->time, Time{200'000'000});
  EXPECT_EQ(t.compute(attention(true, true, 2048, 16, 128, 1), {})->time, Time{500'000'000});
  EXPECT_EQ(t.compute(attention(false, true, 2048, 16, 128, 1), {})->origin, Origin::measured);
}

// Values narrower than queries: rows have the mean of both widths.
TEST(AttentionLookup, OfNarrowValuesIsTheRowOfTheMeanWidth) {
  const CostTable t = make(kAttention);
  Work w = attention(false, true, 2048, 16, 128, 1);
  w.k = 160;
  w.value_dim = 96;
  EXPECT_EQ(t.compute(w, {})->time, Time{200'000'000});
}

TEST(AttentionLookup, InterpolatesTheRateOverLength) {
  const CostTable t = make(kAttention);
  const auto rate = [&](int64_t seq, Origin origin) {
    const Work w = attention(false, true, seq, 16, 128, 1);
    const auto p = t.compute(w, {});
    EXPECT_EQ(p->origin, origin) << seq;
    return w.flops.value / us(p->time) * 1e-6;
  };
  const double low = rate(2048, Origin::measured);
  const double high = rate(8192, Origin::measured);
  ASSERT_LT(low, high);
  EXPECT_GT(rate(4096, Origin::interpolated), low);
  EXPECT_LT(rate(4096, Origin::interpolated), high);
  // Far outside: about the rate at the edge, not one that runs away.
  EXPECT_NEAR(rate(131072, Origin::extrapolated) / high, 1, 0.05);
}

TEST(AttentionLookup, ASlidingWindowIsNotTheFullKernel) {
  const CostTable t = make(kAttention);
  Work w = attention(false, true, 8192, 16, 128, 1);
  w.flops = w.flops * 0.25;
  const auto p = t.compute(w, {});
  EXPECT_NE(p->origin, Origin::measured);
  EXPECT_LT(us(p->time), 0.3 * 2400);
}

TEST(AttentionLookup, SaysNothingWithoutRowsOfThatPass) {
  const CostTable t = make(
      "fit,attention_forward,bf16,10,100,0,d\n"
      "attention,fwd,bf16,1,16,16,2048,2048,128,1,200,m\n");
  EXPECT_FALSE(t.compute(attention(true, true, 2048, 16, 128, 1), {}).has_value());
}

TEST(KernelLookup, FollowsTheKernelsOwnCurve) {
  const CostTable t = make(
      "memory,softmax,1000000,10,m\nmemory,softmax,4000000,40,m\n"
      "memory,add,1000000,5,m\n");
  EXPECT_EQ(t.compute(kernel(Kernel::softmax, 1000000), {})->time, Time{10'000'000});
  EXPECT_EQ(t.compute(kernel(Kernel::softmax, 1000000), {})->origin, Origin::measured);
  EXPECT_DOUBLE_EQ(us(t.compute(kernel(Kernel::softmax, 2000000), {})->time), 20);
  EXPECT_EQ(t.compute(kernel(Kernel::softmax, 2000000), {})->origin, Origin::interpolated);
}

TEST(KernelLookup, LetsTheNearestKernelStandInAndSaysSo) {
  const CostTable t = make(
      "memory,softmax,1000000,10,m\nmemory,add,1000000,5,m\n"
      "fit,memory_bound,bf16,2,0,0,d\n");
  const auto backward = t.compute(kernel(Kernel::softmax_backward, 1000000), {});
  EXPECT_DOUBLE_EQ(us(backward->time), 10);
  EXPECT_EQ(backward->origin, Origin::extrapolated);
  EXPECT_EQ(backward->basis, "table test: rows of softmax");
  for (const Kernel k : {Kernel::adam, Kernel::layer_norm, Kernel::rms_norm, Kernel::transpose,
                         Kernel::cross_entropy, Kernel::none}) {
    EXPECT_DOUBLE_EQ(us(t.compute(kernel(k, 1000000), {})->time), 5) << name_of(k);
  }
  // Small kernels end at the launch period.
  EXPECT_NEAR(us(t.compute(kernel(Kernel::add, 1000), {})->time), 2.003, 1e-6);
  EXPECT_FALSE(make(kFit).compute(kernel(Kernel::add, 1000), {}).has_value());
}

const std::string kCollectives =
    "collective,all_reduce,8,1,8,0,1024,20,m\ncollective,all_reduce,8,1,8,0,1048576,60,m\n"
    "collective,all_reduce,16,2,8,25,1048576,120,m\n"
    "collective,all_reduce,16,2,8,50,1048576,90,m\n";

TEST(CostTable, TakesOverWhatItSharesAndNothingElse) {
  const CostTable other =
      make(kFit + "gemm,bf16,tn,1024,4096,4096,1,200,m\n" + kAttention +
           "memory,add,1000000,5,m\nlaunch,4.1,m\ninterference,1.25,1.5,m\n" + kCollectives);
  CostTable t = make("memory,add,1000000,7,m\n", "# share: x gemm attention collective launch\n");
  EXPECT_EQ(t.share_from(), "x");
  EXPECT_FALSE(t.launch().has_value());
  EXPECT_FALSE(t.interference().has_value());
  t.take_over(other);
  EXPECT_DOUBLE_EQ(us(t.compute(gemm(1024, 4096, 4096), {})->time), 200);
  EXPECT_EQ(t.compute(gemm(1024, 4096, 4096), {})->origin, Origin::extrapolated);
  EXPECT_EQ(t.compute(attention(false, true, 2048, 16, 128, 1), {})->origin, Origin::extrapolated);
  EXPECT_DOUBLE_EQ(us(t.compute(kernel(Kernel::add, 1000000), {})->time), 7);
  EXPECT_EQ(t.compute(kernel(Kernel::add, 1000000), {})->origin, Origin::measured);
  EXPECT_EQ(t.launch(), Time{4'100'000});
  ASSERT_TRUE(t.interference().has_value());
  EXPECT_EQ(t.interference()->compute, 1.25);
  EXPECT_EQ(t.interference()->communication, 1.5);
  const auto curves = t.collectives(WorkKind::all_reduce, 8, 1, 8);
  ASSERT_EQ(curves.size(), 1u);
  EXPECT_TRUE(curves[0].curve[0].derived);
}

TEST(CostTable, KeepsItsOwnInterferenceAndLaunches) {
  const CostTable other =
      make(kFit +
           "gemm,bf16,tn,1024,4096,4096,1,200,m\nlaunch,4.1,m\ngraph_launch,1.6,m\n"
           "interference,1.25,1.5,m\ncopy,h2d,1048576,40,m\n");
  CostTable t = make("launch,3,m\ninterference,1.1,1.2,m\n", "# share: x gemm launch\n");
  t.take_over(other);
  EXPECT_EQ(t.launch(), Time{3'000'000});
  EXPECT_EQ(t.graph_launch(), Time{1'600'000});
  EXPECT_EQ(t.interference()->compute, 1.1);
  Work copy;
  copy.kind = WorkKind::host_copy;
  copy.bytes = {1 << 20};
  EXPECT_EQ(t.compute(copy, {})->time, Time{40'000'000});
  EXPECT_EQ(t.compute(copy, {})->origin, Origin::extrapolated);
}

TEST(CostTable, RefusesCommunicationAsComputeAndShapesOfNothing) {
  const CostTable t = make(kFit + kAttention);
  EXPECT_THROW(t.compute(test::collective(WorkKind::all_reduce, Axis::tp, 8), {}), InternalError);
  EXPECT_THROW(t.compute(gemm(0, 1, 1), {}), InternalError);
  EXPECT_THROW(t.compute(attention(false, true, 0, 1, 1, 1), {}), InternalError);
}

TEST(CostTable, NamesTheFileOfABadRow) {
  try {
    CostTable::parse("not a table", "mine.csv");
    FAIL();
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics[0].file, "mine.csv");
    EXPECT_EQ(exit_status_of(e.diagnostics), 2);
  }
}

}  // namespace
}  // namespace stepcast::cost_table_test
