// SPDX-License-Identifier: Apache-2.0
#include "calibrate/price/plausible_times.h"

#include "sim/diagnostic.h"
#include "tests/calibrate/tables.h"

namespace stepcast::plausible_times_test {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// 1,000 TFLOP/s, 3 TB/s.
Gpu test_gpu() {
  Gpu gpu;
  gpu.name = "test-gpu";
  gpu.peak = {{DType::bf16, {1000e12}}, {DType::fp32, {60e12}}, {DType::tf32, {500e12}}};
  gpu.memory_bandwidth = {3e12};
  return gpu;
}

TableText table_of(const GemmRow& row) {
  TableText t = test::empty_table();
  t.gemms = {row};
  return t;
}

// 4096^3: 137.4 us at the peak.
GemmRow product(double us, DType type = DType::bf16) {
  return {type, GemmLayout::tn, 4096, 4096, 4096, 1, us, 0, 0};
}

std::vector<Diagnostic> problems(const TableText& t, std::string_view text = {}) {
  return test::problems_of([&] { check_plausible(t, test_gpu(), "t.csv", text); });
}

TEST(PlausibleTimes, ProductsReachATenthMoreThanThePeakAndNoMore) {
  EXPECT_THAT(problems(table_of(product(126))), IsEmpty());
  const std::vector<Diagnostic> found = problems(table_of(product(124)));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].code, "E311");
  EXPECT_EQ(
      found[0].message,
      "gemm,bf16,tn,4096,4096,4096,1 of 124 us is 1108 TFLOP/s, and the peak of test-gpu is 1000");
  EXPECT_THAT(found[0].help, HasSubstr("from 124.9 us on: 1.1 times the peak"));
}

TEST(PlausibleTimes, LaunchesTakeUpToTenMilliseconds) {
  TableText t = test::empty_table();
  t.launch_us = 10'000;
  EXPECT_THAT(problems(t), IsEmpty());
  t.launch_us = 1e9;
  t.graph_launch_us = 1e5;
  const std::vector<Diagnostic> found = problems(t, "# rows: 2\nlaunch,1e9,a\n");
  ASSERT_THAT(found, SizeIs(2));
  EXPECT_EQ(found[0].line, 2);
  EXPECT_EQ(found[0].source_line, "launch,1e9,a");
  EXPECT_EQ(found[0].code, "E311");
  EXPECT_THAT(found[0].message, HasSubstr("launch of 1e+09 us"));
  EXPECT_THAT(found[1].message, HasSubstr("graph_launch of 1e+05 us"));
}

TEST(PlausibleTimes, RowsTakeUpToAHundredTimesTheDataSheet) {
  EXPECT_THAT(problems(table_of(product(15900))), IsEmpty());
  const std::vector<Diagnostic> found = problems(table_of(product(137.4e6)));
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("of 1.374e+08 us takes"));
  EXPECT_THAT(found[0].help, HasSubstr("100 times the data sheet's"));
}

TEST(PlausibleTimes, ProductsOfFp32MayHaveRunInTheTensorCores) {
  EXPECT_THAT(problems(table_of(product(300, DType::fp32))), IsEmpty());
  EXPECT_THAT(problems(table_of(product(200, DType::fp32))), SizeIs(1));
}

TEST(PlausibleTimes, AttentionAndKernelsAreHeldToTheirRates) {
  TableText t = test::empty_table();
  t.attentions = {{false, DType::bf16, false, 32, 32, 4096, 4096, 128, 1, 200, 0, 0}};  // 275 us
  t.memories = {{Kernel::add, 3000000000, 200, 0, 0}};                                  // 1 ms
  const std::vector<Diagnostic> found = problems(t);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_THAT(found[0].message, HasSubstr("attention,fwd"));
  EXPECT_EQ(found[0].note, "the first of 2 such rows");
  t.attentions[0].us = 300;
  EXPECT_THAT(problems(t)[0].message, HasSubstr("15000 GB/s, and the memory of test-gpu has 3000"));
  t.memories[0].us = 300;
  EXPECT_THAT(problems(t), IsEmpty());
}

TEST(PlausibleTimes, ARateThatIsNotStatedBoundsNothing) {
  const TableText t = table_of(product(1e-3));
  EXPECT_THAT(test::problems_of([&] { check_plausible(t, Gpu{}); }), IsEmpty());
}

TEST(PlausibleTimes, TheRowHasItsLine) {
  const std::string text = "# a\n# b\ngemm,bf16,tn,4096,4096,4096,1,1,bench\n";
  const std::vector<Diagnostic> found = problems(table_of(product(1)), text);
  ASSERT_THAT(found, SizeIs(1));
  EXPECT_EQ(found[0].file, "t.csv");
  EXPECT_EQ(found[0].line, 3);
  EXPECT_EQ(found[0].source_line, "gemm,bf16,tn,4096,4096,4096,1,1,bench");
}

}  // namespace
}  // namespace stepcast::plausible_times_test
