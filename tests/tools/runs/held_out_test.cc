// SPDX-License-Identifier: Apache-2.0
// Bounds are what is reached with some room (docs/calibration.md has the figures in full); nothing
// may become worse unnoticed.
#include "tools/runs/held_out.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string>
#include <vector>

#include "calibrate/price/cost_errors.h"
#include "calibrate/table/cost_table.h"
#include "tools/runs/collectives.h"

namespace stepcast::accuracy::held_out_test {
namespace {

TableText table(const char* gpu) {
  return parse_table_text(shipped_table_text(gpu), gpu);
}

template <class Held>
HeldOutErrors over_seeds(const char* gpu, Held held) {
  HeldOutErrors e;
  for (const uint32_t seed : {1u, 2u, 3u}) e.add(held(table(gpu), seed));
  return e;
}

HeldOutErrors rows(const char* gpu) {
  return over_seeds(gpu, [](const TableText& t, uint32_t seed) {
    return held_out_gemms(t, Holdout::rows, seed);
  });
}

HeldOutErrors weights(const char* gpu) {
  return over_seeds(gpu, [](const TableText& t, uint32_t seed) {
    return held_out_gemms(t, Holdout::weights, seed);
  });
}

void expect_within(const HeldOutErrors& e, double median, double p90) {
  EXPECT_LT(percentile(e.table, 0.5), median);
  EXPECT_LT(percentile(e.table, 0.9), p90);
  EXPECT_LT(percentile(e.table, 0.5), percentile(e.contrast, 0.5) / 2);
}

TEST(HeldOut, ProductsOfAmpere) {
  const HeldOutErrors e = rows("a100-pcie-80g");
  EXPECT_GT(e.table.size(), 500u);
  expect_within(e, 0.03, 0.11);
  expect_within(weights("a100-pcie-80g"), 0.04, 0.125);
}

TEST(HeldOut, ProductsOfHopper) {
  expect_within(rows("h100-sxm"), 0.045, 0.18);
  expect_within(weights("h100-sxm"), 0.04, 0.17);
}

TEST(HeldOut, ProductsOfBlackwell) {
  expect_within(rows("b200-sxm"), 0.045, 0.25);
  expect_within(weights("b200-sxm"), 0.045, 0.27);
}

TEST(HeldOut, AttentionAndMemoryBoundKernels) {
  HeldOutErrors attention, memory;
  for (const char* gpu : {"a100-pcie-80g", "a100-sxm-80g", "h100-sxm", "b200-sxm"}) {
    attention.add(over_seeds(gpu, held_out_attention));
    memory.add(over_seeds(gpu, held_out_memory));
  }
  EXPECT_LT(percentile(attention.table, 0.5), 0.08);
  EXPECT_LT(percentile(memory.table, 0.5), 0.06);
}

TEST(HeldOut, CollectivesThinned) {
  const HeldOutErrors quarter =
      thinned_collectives(std::string(STEPCAST_TEST_DATA) + "/collectives", 4);
  EXPECT_GT(quarter.table.size(), 700u);
  expect_within(quarter, 0.03, 0.16);
}

TEST(HeldOut, TheSameSeedHoldsOutTheSameRows) {
  const HeldOutErrors a = held_out_gemms(table("b200-sxm"), Holdout::rows, 5);
  EXPECT_EQ(a.table, held_out_gemms(table("b200-sxm"), Holdout::rows, 5).table);
  EXPECT_NE(a.table, held_out_gemms(table("b200-sxm"), Holdout::rows, 6).table);
}

// calibrate/data/cost_errors.csv says what is found here.
template <class Held>
void expect_shipped(CostFamily family, std::initializer_list<Origin> origins, Held held) {
  HeldOutErrors e;
  for (const TableText& t : tables_with_rows())
    for (const uint32_t seed : {1u, 2u, 3u}) e.add(held(t, seed));
  for (const Origin origin : origins) {
    const auto o = static_cast<size_t>(origin);
    ASSERT_GE(e.by_origin[o].size(), 20u);
    EXPECT_NEAR(percentile(e.by_origin[o], 0.8), cost_errors()[static_cast<size_t>(family)][o],
                0.03)
        << name_of(family) << ' ' << name_of(origin);
  }
}

TEST(CostErrors, AreThoseOfRowsHeldOut) {
  expect_shipped(
      CostFamily::product, {Origin::interpolated, Origin::roofline},
      [](const TableText& t, uint32_t seed) { return held_out_gemms(t, Holdout::weights, seed); });
  expect_shipped(CostFamily::attention, {Origin::interpolated, Origin::roofline},
                 held_out_attention);
  expect_shipped(CostFamily::memory, {Origin::interpolated, Origin::roofline}, held_out_memory);
}

TEST(CostErrors, OfCommunicationAreThoseOfLogs) {
  const std::string folder = std::string(STEPCAST_TEST_DATA) + "/collectives";
  const auto& shipped = cost_errors()[static_cast<size_t>(CostFamily::communication)];
  EXPECT_NEAR(percentile(thinned_collectives(folder, 4).table, 0.8),
              shipped[static_cast<size_t>(Origin::interpolated)], 0.03);
  std::vector<double> model;
  const Study s = study(read_logs(folder));
  for (const auto& log : s.left_out)
    for (size_t c = size_class(2e6); c < kSizeClasses; ++c)
      for (const double e : log[c]) model.push_back(std::fabs(e));
  EXPECT_NEAR(percentile(model, 0.8), shipped[static_cast<size_t>(Origin::roofline)], 0.04);
}

// A row that is looked up in the table that has it is exact: the figures above are of tables that
// have it not.
TEST(HeldOut, RowsHeldOutAreNotInTheTable) {
  const HeldOutErrors e = rows("a100-pcie-80g");
  const auto exact = std::count(e.table.begin(), e.table.end(), 0.0);
  EXPECT_LT(exact, static_cast<long>(e.table.size() / 50));
}

TEST(HeldOut, ReportHasEveryFamilyAndSaysWhatIsMissed) {
  const std::string report = held_out_report(STEPCAST_TEST_DATA);
  for (const char* word : {"products, a fifth of the rows", "(n, k) whole", "fused attention",
                           "memory-bound kernels", "every fourth size kept", "h100-sxm"}) {
    EXPECT_NE(report.find(word), std::string::npos) << word;
  }
}

}  // namespace
}  // namespace stepcast::accuracy::held_out_test
