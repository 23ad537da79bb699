// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/power_limit.h"

#include <gtest/gtest.h>

#include "calibrate/price/compute_price.h"
#include "tests/calibrate/works.h"

namespace stepcast::power_limit_test {
namespace {

using test::gemm;
using test::kernel;
using test::us;

Gpu limited(double limit) {
  Gpu gpu = test::a100_cluster(1).node.gpu;
  gpu.power = {400};
  gpu.power_limit = {limit};
  return gpu;
}

// power_limit.csv: 0.5455 of the rating leaves 0.7748 of the rate, 0.3571 of it 0.327.
TEST(PowerLimit, LeavesTheRateThatWasMeasured) {
  EXPECT_EQ(rate_at_limit({1200}, {1100}), 1);
  EXPECT_EQ(rate_at_limit({1100}, {1100}), 1);
  EXPECT_NEAR(rate_at_limit({600}, {1100}), 3087.0 / 3984, 1e-3);
  EXPECT_NEAR(rate_at_limit({500}, {1400}), 617.0 / 1887, 1e-3);
}

TEST(PowerLimit, IsAPowerLawBetweenMeasurementsAndBelowThem) {
  const double fit = rate_at_limit({500}, {700});  // 5/7 to the power of 0.42
  EXPECT_NEAR(fit, 0.868, 0.002);
  EXPECT_NEAR(rate_at_limit({510.2}, {1000}) / rate_at_limit({500}, {1000}),
              rate_at_limit({408.16}, {1000}) / rate_at_limit({400}, {1000}), 1e-3);
  EXPECT_LT(rate_at_limit({100}, {1000}), rate_at_limit({200}, {1000}) / 3);
}

TEST(PowerLimit, SlowsArithmeticAndNotMemory) {
  const Gpu gpu = limited(200);
  EXPECT_GT(slower_at_limit(gemm(8192, 8192, 8192), gpu, gpu.power), 1.3);
  EXPECT_LT(slower_at_limit(gemm(16, 8192, 8192), gpu, gpu.power), 1.01);
  EXPECT_EQ(slower_at_limit(kernel(Kernel::add, 1 << 28), gpu, gpu.power), 1);
}

TEST(PowerLimit, CountsOnceAndSaysSo) {
  const Work product = gemm(4096, 12288, 4096);
  const Gpu free = limited(400);
  const Gpu slow = limited(250);
  for (const CostTable* table :
       {shipped_table("a100-sxm-80g"), static_cast<const CostTable*>(nullptr)}) {
    const Price before = compute_price(product, free, table);
    const Price after = compute_price(product, slow, table);
    EXPECT_NEAR(us(after.time) / us(before.time), slower_at_limit(product, slow, {400}), 1e-6);
    EXPECT_NE(after.basis.find("at 250 of 400 W"), std::string::npos) << after.basis;
    EXPECT_EQ(before.basis.find(" W"), std::string::npos) << before.basis;
  }
}

// Rows of a GPU that was measured under a limit are slow already.
TEST(PowerLimit, CountsAgainstTheTablesOwn) {
  const std::string text =
      "# stepcast cost table\n# format: 1\n# gpu: a100-sxm-80g\n# power: 250W\n"
      "# source: here measured\n# rows: 1\ngemm,bf16,tn,4096,12288,4096,1,2000,here\n";
  const CostTable table = CostTable::parse(text, "mine.csv");
  EXPECT_EQ(table.power().value, 250);
  EXPECT_EQ(us(compute_price(gemm(4096, 12288, 4096), limited(250), &table).time), 2000);
  EXPECT_GT(us(compute_price(gemm(4096, 12288, 4096), limited(200), &table).time), 2100);
}

}  // namespace
}  // namespace stepcast::power_limit_test
