// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/price.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "calibrate/price/compute_price.h"
#include "calibrate/table/cost_table.h"
#include "tests/calibrate/works.h"

namespace stepcast::test::price_parts_test {
namespace {

double product_of(const PriceParts& p) {
  double us = p.row.us > 0 ? p.row.us : p.form.us;
  for (const PriceFactor& f : p.factors) us *= f.value;
  return us;
}

// t0 + sqrt(c^2 + m^2) of what the form states.
double made_again(const PriceForm& f) {
  const double c = f.tflops > 0 ? f.flops / (f.tflops * 1e6) : 0;
  const double m = f.gbs > 0 ? f.bytes / (f.gbs * 1e3) : 0;
  return f.t0_us + std::sqrt(c * c + m * m);
}

std::vector<Work> works() {
  std::vector<Work> all;
  for (const GemmLayout layout : {GemmLayout::tn, GemmLayout::nn, GemmLayout::nt}) {
    all.push_back(gemm(4096, 4096, 4096, layout));
    all.push_back(gemm(4500, 4096, 4096, layout));
    all.push_back(gemm(8192, 14336, 4096, layout));
    all.push_back(gemm(100, 5000, 7000, layout));
    all.push_back(gemm(2048, 2048, 128, layout, 96));
    Work grouped = gemm(3000, 2048, 7168, layout, 32);
    grouped.kind = WorkKind::grouped_gemm;
    all.push_back(grouped);
  }
  for (const bool backward : {false, true}) {
    all.push_back(attention(backward, true, 8192, 16, 128, 1));
    all.push_back(attention(backward, false, 3000, 12, 80, 2));
  }
  return all;
}

TEST(PriceParts, MultiplyToThePrice) {
  for (const std::string_view name : {"a100-sxm-80g", "h100-sxm", "b200-sxm", "h200-sxm"}) {
    const CostTable& table = *shipped_table(name);
    Gpu gpu;
    gpu.sms = 132;
    for (const Work& work : works()) {
      SCOPED_TRACE(std::string(name) + ": " + describe(work));
      PriceParts parts;
      const auto price = table.lookup(work, gpu, &parts);
      ASSERT_TRUE(price.has_value());
      EXPECT_NEAR(product_of(parts) / price->us, 1, 1e-12);
      EXPECT_EQ(price->us, table.lookup(work, gpu)->us) << "asking for parts changes nothing";
      if (parts.form.us == 0) continue;
      EXPECT_NEAR(made_again(parts.form) / parts.form.us, 1, 1e-12);
    }
  }
}

TEST(PriceParts, OfAFactorAreTheRowsThatItIsTheMeanOf) {
  PriceParts parts;
  Gpu gpu;
  gpu.sms = 132;
  const auto price = shipped_table("h100-sxm")->lookup(gemm(8192, 14336, 4096), gpu, &parts);
  ASSERT_TRUE(price.has_value());
  EXPECT_EQ(parts.form.source, "fit,gemm,bf16");
  ASSERT_FALSE(parts.factors.empty());
  for (const PriceFactor& f : parts.factors) {
    double weights = 0, log_mean = 0;
    for (const PriceRow& r : f.rows) {
      weights += r.weight;
      log_mean += r.weight * std::log(r.ratio);
    }
    EXPECT_NEAR(weights, 1, 1e-12) << f.what;
    EXPECT_NEAR(std::exp(log_mean) / f.value, 1, 1e-12) << f.what;
  }
  ASSERT_EQ(parts.factors[0].rows.size(), 17u) << "16 rows and the form itself";
  EXPECT_EQ(parts.factors[0].rows.back().row, "the form itself");
}

TEST(PriceParts, OfAMeasuredShapeAreItsRow) {
  PriceParts parts;
  ASSERT_TRUE(shipped_table("a100-sxm-80g")->lookup(gemm(8192, 8192, 8192), {}, &parts));
  EXPECT_EQ(parts.row.row, "gemm,bf16,tn,8192,8192,8192,1");
  EXPECT_GT(parts.row.us, 0);
  EXPECT_EQ(parts.form.us, 0);
  EXPECT_TRUE(parts.factors.empty());
}

TEST(PriceParts, NameWhatIsDoneToTheTablesAnswer) {
  Gpu gpu = a100_cluster(1).node.gpu;
  gpu.sms = 108;
  Work work = gemm(2048, 2048, 108, GemmLayout::tn, 96);  // rows on 8 bytes
  work.comm_sms = 20;
  PriceParts parts;
  const Price price = compute_price(work, gpu, shipped_table("a100-sxm-80g"), &parts);
  ASSERT_GE(parts.factors.size(), 2u);
  EXPECT_EQ(parts.factors.end()[-2].what, "rows not on 16 bytes: alignment.csv");
  EXPECT_EQ(parts.factors.back().what, "on 88 of 108 SMs");
  EXPECT_NEAR(product_of(parts) / us(price.time), 1, 1e-6);
}

TEST(PriceParts, OfTheDataSheetStateItsRatesAndTheirShares) {
  Gpu gpu = a100_cluster(1).node.gpu;
  PriceParts parts;
  const Price price = compute_price(gemm(4096, 4096, 4096), gpu, nullptr, &parts);
  EXPECT_EQ(price.origin, Origin::roofline);
  EXPECT_EQ(parts.form.source, "data sheet of a100-sxm-80g");
  EXPECT_NEAR(parts.form.tflops, parts.form.tflops_share * 312, 1e-9);
  EXPECT_NEAR(parts.form.gbs, parts.form.gbs_share * 2039, 1e-9);
  EXPECT_NEAR(made_again(parts.form) / us(price.time), 1, 1e-6);
}

}  // namespace
}  // namespace stepcast::test::price_parts_test
