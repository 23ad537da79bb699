// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/table_diff.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/calibrate/tables.h"

namespace stepcast::table_diff_test {
namespace {

using test::empty_table;
using test::full_table;

TEST(TableDifference, OfATableWithItselfIsNothing) {
  const TableDifference d = difference(full_table(), full_table());
  EXPECT_TRUE(d.only_before.empty());
  EXPECT_TRUE(d.only_after.empty());
  EXPECT_TRUE(d.changed.empty());
  ASSERT_EQ(d.families.size(), 10u);
  for (const FamilyDifference& f : d.families) {
    EXPECT_EQ(f.median_ratio, 1) << f.family;
    EXPECT_EQ(f.p90_factor, 1) << f.family;
    EXPECT_GT(f.both, 0u) << f.family;
  }
}

TEST(TableDifference, LargestFactorsFirstFasterOrSlower) {
  TableText a = empty_table();
  for (int64_t m = 1; m <= 5; ++m)
    a.gemms.push_back({DType::bf16, GemmLayout::tn, m, 8, 8, 1, 100, 0, 0});
  TableText b = a;
  b.gemms[0].us = 110;
  b.gemms[1].us = 20;
  b.gemms[3].us = 300;
  const TableDifference d = difference(a, b);
  ASSERT_EQ(d.changed.size(), 3u);
  EXPECT_EQ(d.changed[0].row, "gemm,bf16,tn,2,8,8,1");
  EXPECT_EQ(d.changed[0].before, 100);
  EXPECT_EQ(d.changed[0].after, 20);
  EXPECT_DOUBLE_EQ(d.changed[0].ratio, 0.2);
  EXPECT_EQ(d.changed[1].row, "gemm,bf16,tn,4,8,8,1");
  EXPECT_EQ(d.changed[2].row, "gemm,bf16,tn,1,8,8,1");
  ASSERT_EQ(d.families.size(), 1u);
  EXPECT_EQ(d.families[0].family, "gemm");
  EXPECT_EQ(d.families[0].both, 5u);
  EXPECT_EQ(d.families[0].changed, 3u);
  EXPECT_EQ(d.families[0].median_ratio, 1);
  EXPECT_DOUBLE_EQ(d.families[0].p90_factor, 5);
}

TEST(TableDifference, RowsThatOneOfThemLacks) {
  TableText a = empty_table();
  a.memories = {{Kernel::add, 4096, 2.6, 0, 0}, {Kernel::add, 8192, 2.7, 0, 0}};
  TableText b = empty_table();
  b.memories = {{Kernel::add, 8192, 2.7, 1, 0.5}};  // another source and spread: the same time
  b.launch_us = 4;
  const TableDifference d = difference(a, b);
  EXPECT_EQ(d.only_before, std::vector<std::string>{"memory,add,4096"});
  EXPECT_EQ(d.only_after, std::vector<std::string>{"launch"});
  EXPECT_TRUE(d.changed.empty());
  ASSERT_EQ(d.families.size(), 2u);
  EXPECT_EQ(d.families[0].only_before, 1u);
  EXPECT_EQ(d.families[1].only_after, 1u);
}

TEST(TableDifference, IsTheInverseTheOtherWayRound) {
  TableText b = full_table();
  b.launch_us = 8.2;
  b.fits[0].tflops = 115;
  const TableDifference there = difference(full_table(), b);
  const TableDifference back = difference(b, full_table());
  ASSERT_EQ(there.changed.size(), 2u);
  EXPECT_EQ(there.changed[0].row, back.changed[0].row);
  EXPECT_DOUBLE_EQ(there.changed[0].ratio * back.changed[0].ratio, 1);
  EXPECT_EQ(there.changed[1].row, "fit,gemm,bf16,tflops");
}

}  // namespace
}  // namespace stepcast::table_diff_test
