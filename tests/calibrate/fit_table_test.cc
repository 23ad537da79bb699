// SPDX-License-Identifier: Apache-2.0
#include "calibrate/fit/fit_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "calibrate/table/write_table.h"
#include "tests/calibrate/tables.h"

namespace stepcast {

std::span<const std::pair<std::string_view, std::string_view>> shipped_table_files();

}  // namespace stepcast

namespace stepcast::fit_table_test {
namespace {

using test::empty_table;
using test::problems_of;
using test::smooth_gemms;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TableText gemm_table(std::vector<GemmRow> rows) {
  TableText t = empty_table();
  t.gemms = std::move(rows);
  return t;
}

const FitRow& only_fit(const FittedTable& f) {
  EXPECT_EQ(f.table.fits.size(), 1u);
  return f.table.fits.at(0);
}

GemmRow cube(int64_t side, double us) {
  return {DType::bf16, GemmLayout::tn, side, side, side, 1, us, 0, 0};
}

TEST(FitTable, FindsTheConstantsThatTimesWereMadeOf) {
  const FittedTable f = fit_table(gemm_table(smooth_gemms(5.3, 230, 1695)));
  const FitRow& fit = only_fit(f);
  EXPECT_EQ(fit.kind, WorkKind::gemm);
  EXPECT_NEAR(fit.t0_us, 5.3, 0.001);
  EXPECT_NEAR(fit.tflops, 230, 0.01);
  EXPECT_NEAR(fit.gbs, 1695, 0.1);
  EXPECT_EQ(fit.rows, 36);
  EXPECT_LT(fit.p90_error, 1e-3);
  EXPECT_EQ(fit.flag, FitFlag::none);
  EXPECT_TRUE(f.remarks.empty());
  EXPECT_EQ(f.table.sources[fit.source].key, "fit");
  EXPECT_TRUE(f.table.sources[fit.source].derived);
}

TEST(FitTable, ChangesNothingTheSecondTime) {
  TableText t = gemm_table(smooth_gemms(5.3, 230, 1695));
  t.memories = {{Kernel::add, 4096, 3, 0, 0}, {Kernel::add, 1 << 20, 4, 0, 0}};
  const TableText once = fit_table(t).table;
  EXPECT_EQ(write_table(fit_table(once).table), write_table(once));
}

TEST(FitTable, ShippedTablesHoldTheFitsOfTheirRows) {
  EXPECT_GE(shipped_table_files().size(), 9u);
  for (const auto& [file, text] : shipped_table_files()) {
    const TableText t = parse_table_text(text, std::string(file));
    EXPECT_EQ(write_table(fit_table(t).table), text) << file;
  }
}

// ---------------------------------------------------------------------------------------- outliers
TEST(FitTable, OneOutlierByTenMovesConstantsByLessThanAPercent) {
  for (const double factor : {10.0, 0.1}) {
    for (const size_t which : {size_t{0}, size_t{17}, size_t{35}}) {
      std::vector<GemmRow> rows = smooth_gemms(5.3, 230, 1695);
      for (size_t i = 0; i < rows.size(); ++i) rows[i].us *= i % 2 == 0 ? 1.01 : 0.99;
      const FitRow before = only_fit(fit_table(gemm_table(rows)));
      rows[which].us *= factor;
      const FittedTable f = fit_table(gemm_table(rows));
      const FitRow& fit = only_fit(f);
      EXPECT_NEAR(fit.t0_us / before.t0_us, 1, 0.05) << which;
      EXPECT_NEAR(fit.tflops / before.tflops, 1, 0.01) << which;
      EXPECT_NEAR(fit.gbs / before.gbs, 1, 0.03) << which;
      EXPECT_EQ(fit.flag, FitFlag::none);
      ASSERT_EQ(f.remarks.size(), 1u);
      EXPECT_NE(f.remarks[0].find("times what the fit says"), std::string::npos) << f.remarks[0];
    }
  }
}

TEST(FitTable, RowsOfNoOneFormAreFlagged) {
  std::vector<GemmRow> rows = smooth_gemms(5.3, 230, 1695);
  for (size_t i = 0; i < rows.size(); ++i) rows[i].us *= i % 3 == 0 ? 12 : 1;
  const FittedTable f = fit_table(gemm_table(rows));
  EXPECT_EQ(only_fit(f).flag, FitFlag::scattered);
  EXPECT_GE(f.remarks.size(), 2u);
  EXPECT_LE(f.remarks.size(), 7u);
}

// -------------------------------------------------------------------------------------- degenerate
TEST(FitTable, OneProductGivesItsRateAndAFlag) {
  const FittedTable f = fit_table(gemm_table({cube(4096, 602.5)}));
  const FitRow& fit = only_fit(f);
  EXPECT_EQ(fit.flag, FitFlag::partial);
  EXPECT_EQ(fit.rows, 1);
  EXPECT_EQ(fit.t0_us, 2.5);
  EXPECT_EQ(fit.gbs, 0);
  EXPECT_NEAR(fit.tflops, 2.0 * 4096 * 4096 * 4096 / 600 / 1e6, 0.01);
  EXPECT_EQ(fit.p90_error, 0);
  EXPECT_EQ(f.remarks,
            std::vector<std::string>{"gemm bf16: 1 row does not tell every constant of the form"});
}

TEST(FitTable, ProductsOfOneShapeGiveTheirRateAndAFlag) {
  // The same work in three shapes; as many bytes.
  std::vector<GemmRow> rows;
  for (const auto& [m, n, k] : {std::array<int64_t, 3>{4096, 2048, 1024},
                                {2048, 4096, 1024},
                                {4096, 1024, 2048},
                                {2048, 1024, 4096},
                                {1024, 2048, 4096},
                                {1024, 4096, 2048}}) {
    rows.push_back({DType::bf16, GemmLayout::tn, m, n, k, 1, 102.5, 0, 0});
  }
  const FitRow fit = only_fit(fit_table(gemm_table(rows)));
  EXPECT_EQ(fit.flag, FitFlag::partial);
  EXPECT_EQ(fit.gbs, 0);
  EXPECT_EQ(fit.t0_us, 2.5);
  EXPECT_NEAR(fit.tflops, 2.0 * 4096 * 2048 * 1024 / 100 / 1e6, 0.01);
}

TEST(FitTable, TimesThatDoNotDependOnTheWorkAreFlagged) {
  std::vector<GemmRow> rows;
  for (int64_t side = 1024; side <= 16384; side *= 2) rows.push_back(cube(side, 100));
  const FitRow fit = only_fit(fit_table(gemm_table(rows)));
  EXPECT_EQ(fit.flag, FitFlag::scattered);
  // Never a rate beyond what was seen.
  EXPECT_LE(fit.tflops, 2.0 * 16384 * 16384 * 16384 / 97.5 / 1e6);
}

TEST(FitTable, LargeProductsAloneTellNoOverhead) {
  std::vector<GemmRow> rows;
  for (int64_t side = 8192; side <= 16384; side += 512)
    rows.push_back(cube(side, 2e-6 * static_cast<double>(side * side) * static_cast<double>(side) /
                                  (side % 1024 == 0 ? 700 : 690)));
  const FitRow fit = only_fit(fit_table(gemm_table(rows)));
  EXPECT_EQ(fit.flag, FitFlag::partial);
  EXPECT_NEAR(fit.tflops, 695, 8);
  EXPECT_LE(fit.t0_us, 2.5);
  EXPECT_LT(fit.p90_error, 0.03);
}

TEST(FitTable, NumbersThatAreNoneAreRefusedByRow) {
  const auto problem = [](double us) {
    const auto all = problems_of([&] { fit_table(gemm_table({cube(64, 5), cube(128, us)})); });
    return all.size() == 1 ? all[0].code + " " + all[0].message : std::string("accepted");
  };
  EXPECT_EQ(problem(0), "E310 row 'gemm,bf16,tn,128,128,128,1' has the time 0.000000");
  EXPECT_EQ(problem(kNan), "E310 row 'gemm,bf16,tn,128,128,128,1' has the time nan");
  EXPECT_EQ(problem(-1).substr(0, 4), "E310");
  EXPECT_EQ(problem(std::numeric_limits<double>::infinity()).substr(0, 4), "E310");
  EXPECT_EQ(problem(6), "accepted");
}

// What a fit would write is what the reader takes: 2^50 is a size, the rate that follows is none.
TEST(FitTable, ConstantsBeyondWhatATableHoldsAreRefused) {
  constexpr int64_t kLargest = int64_t{1} << 50;
  const auto all = problems_of([&] { fit_table(gemm_table({cube(kLargest, 5)})); });
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].code, "E310");
  EXPECT_EQ(all[0].message, "row 'fit,gemm,bf16' has a constant that is not from 0 to 1e15");
}

TEST(FitTable, AttentionOfOneAmountOfWorkIsFlagged) {
  TableText t = empty_table();
  t.attentions = {{false, DType::bf16, true, 32, 8, 4096, 4096, 128, 1, 778.3, 0, 0}};
  EXPECT_EQ(only_fit(fit_table(t)).flag, FitFlag::partial);
  t.attentions.push_back({false, DType::bf16, true, 64, 8, 4096, 4096, 64, 1, 900, 0, 0});
  EXPECT_EQ(only_fit(fit_table(t)).flag, FitFlag::partial);
  t.attentions.push_back({false, DType::bf16, true, 64, 8, 8192, 8192, 64, 1, 3200, 0, 0});
  EXPECT_EQ(only_fit(fit_table(t)).flag, FitFlag::none);
}

TEST(FitTable, CollectivesWithoutTheirNvlinkAreRemarkedOn) {
  TableText t = empty_table();
  t.collectives = {{WorkKind::all_reduce, 8, 1, 8, 0, 1 << 20, 41, 0, 0}};
  ASSERT_EQ(fit_table(t).remarks.size(), 1u);
  EXPECT_NE(fit_table(t).remarks[0].find("nvlink_gbs"), std::string::npos);
  t.nvlink_gbs = 450;
  EXPECT_TRUE(fit_table(t).remarks.empty());
}

TEST(CheckRows, GroupsThatTheirNodesDoNotHold) {
  TableText t = empty_table();
  t.collectives = {{WorkKind::all_reduce, 8, 3, 8, 50, 1 << 20, 41, 0, 0}};
  const auto all = problems_of([&] { check_rows(t); });
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].message,
            "row 'collective,all_reduce,8,3,8,50,1048576' has ranks that are not nodes times "
            "ranks_per_node");
}

TEST(CheckRows, NamesEveryBadRow) {
  TableText t = empty_table();
  t.gemms = {cube(0, 5), {DType::bf16, GemmLayout::tn, 1, 1, 1, 1, 5, 7, 0}};
  t.attentions = {{false, DType::bf16, true, 8, 8, 64, 64, 64, 1, 5, 0, kNan}};
  t.memories = {{Kernel::add, -4, 5, 0, 0}};
  t.copies = {{CopyKind::h2d, 8, kNan, 0, 0}};
  t.collectives = {{WorkKind::all_reduce, 8, 1, 8, kNan, 8, 5, 0, 0}};
  t.launch_us = 0;
  t.ratio_nn = kNan;
  std::vector<std::string> rows;
  for (const Diagnostic& d : problems_of([&] { check_rows(t); })) {
    EXPECT_EQ(d.code, "E310");
    rows.push_back(d.message.substr(5, d.message.find('\'', 5) - 5));
  }
  EXPECT_EQ(rows, (std::vector<std::string>{"gemm,bf16,tn,0,0,0,1", "gemm,bf16,tn,1,1,1,1",
                                            "attention,fwd,bf16,1,8,8,64,64,64,1", "memory,add,-4",
                                            "copy,h2d,8", "collective,all_reduce,8,1,8,nan,8",
                                            "launch", "ratio,nn"}));
}

// ---------------------------------------------------------------------------------- what is fitted
TEST(FitTable, KeepsFitsOfOtherSourcesAndStatesTheirResiduals) {
  TableText t = gemm_table(smooth_gemms(5, 200, 1500));
  t.fits = {{WorkKind::gemm, DType::fp16, 5, 100, 1500, 1, 0, 0, 0, FitFlag::none}};
  t.ratio_skinny = 1.5;
  t.ratio_skinny_source = 1;
  const FittedTable f = fit_table(t);
  const FitRow& fit = only_fit(f);  // fp16 stands for bf16 too
  EXPECT_EQ(fit.tflops, 100);
  EXPECT_EQ(f.table.sources[fit.source].key, "other");
  EXPECT_EQ(fit.rows, 36);
  EXPECT_GT(fit.median_error, 0.2);
  EXPECT_EQ(f.table.ratio_skinny, 1.5);
}

TEST(FitTable, EachDataTypeByItsPlainForwardProducts) {
  std::vector<GemmRow> rows = smooth_gemms(5, 200, 1500);
  const size_t count = rows.size();
  for (size_t i = 0; i < count; ++i) {
    GemmRow r = rows[i];
    r.dtype = DType::fp8;
    r.us /= 2;
    rows.push_back(r);
    r.layout = GemmLayout::nn;  // must not count
    r.us *= 3;
    rows.push_back(r);
    r.layout = GemmLayout::tn;
    r.batch = 4;  // nor this
    rows.push_back(r);
  }
  const TableText t = fit_table(gemm_table(rows)).table;
  ASSERT_EQ(t.fits.size(), 2u);
  EXPECT_EQ(t.fits[0].dtype, DType::bf16);
  EXPECT_NEAR(t.fits[0].tflops, 200, 0.1);
  EXPECT_EQ(t.fits[1].dtype, DType::fp8);
  EXPECT_NEAR(t.fits[1].tflops, 400, 0.1 + 10);
  EXPECT_EQ(t.fits[1].rows, 36);
}

TEST(FitTable, AttentionByItsRateAfterAFixedStart) {
  TableText t = empty_table();
  for (int64_t seq = 1024; seq <= 16384; seq *= 2) {
    for (const bool backward : {false, true}) {
      const double flops = 4.0 * static_cast<double>(seq * seq) * 128 * 16 * (backward ? 2.5 : 1);
      t.attentions.push_back({backward, DType::bf16, false, 16, 16, seq, seq, 128, 1,
                              10 + flops / (backward ? 300e6 : 400e6), 0, 0});
    }
  }
  const TableText fitted = fit_table(t).table;
  ASSERT_EQ(fitted.fits.size(), 2u);
  EXPECT_EQ(fitted.fits[0].kind, WorkKind::attention_forward);
  EXPECT_EQ(fitted.fits[0].t0_us, 10);
  EXPECT_NEAR(fitted.fits[0].tflops, 400, 0.01);
  EXPECT_NEAR(fitted.fits[1].tflops, 300, 0.01);
  EXPECT_EQ(fitted.fits[0].flag, FitFlag::none);
}

TEST(FitTable, MemoryBoundKernelsByLaunchPeriodAndBandwidth) {
  TableText t = empty_table();
  for (int64_t bytes = 4096; bytes <= 1 << 30; bytes *= 4) {
    t.memories.push_back({Kernel::add, bytes, 2.6 + static_cast<double>(bytes) / 1.5e6, 0, 0});
    t.memories.push_back({Kernel::copy, bytes, 2.6 + static_cast<double>(bytes) / 1.6e6, 0, 0});
  }
  const FitRow fit = only_fit(fit_table(t));
  EXPECT_EQ(fit.kind, WorkKind::memory_bound);
  EXPECT_NEAR(fit.t0_us, 2.6, 0.05);
  EXPECT_NEAR(fit.gbs, 1550, 30);
  EXPECT_EQ(fit.tflops, 0);
}

TEST(FitTable, RatiosAreMediansOverShapesThatOneSourceHasInBothLayouts) {
  std::vector<GemmRow> rows = smooth_gemms(5, 200, 1500);
  const std::vector<GemmRow> forward = rows;
  for (const GemmRow& f : forward) {
    GemmRow r = f;
    r.layout = GemmLayout::nn;
    r.us *= r.m >= 1024 ? 1.1 : 3;  // small sides do not count
    rows.push_back(r);
    r.layout = GemmLayout::nt;
    r.us = f.us * 2;
    r.source = 1;  // of another source than tn
    rows.push_back(r);
  }
  rows.back().us *= 100;
  const TableText t = fit_table(gemm_table(rows)).table;
  EXPECT_EQ(t.ratio_nn, 1.1);
  EXPECT_FALSE(t.ratio_nt.has_value());
  EXPECT_NEAR(t.ratio_skinny.value_or(0), 1, 0.01);  // m of 64 to 256
  // Two shapes are not enough.
  EXPECT_FALSE(fit_table(gemm_table({forward[0], forward[1]})).table.ratio_skinny.has_value());
}

TEST(CollectiveLines, OneForEachGroupOfSeveralSizes) {
  TableText t = empty_table();
  for (int64_t bytes = 1 << 20; bytes <= 1 << 30; bytes *= 8) {
    t.collectives.push_back(
        {WorkKind::all_reduce, 8, 1, 8, 0, bytes, 20 + static_cast<double>(bytes) / 1e5, 0, 0});
    t.collectives.push_back(
        {WorkKind::all_reduce, 16, 2, 8, 50, bytes, 50 + static_cast<double>(bytes) / 5e4, 0, 0});
  }
  t.collectives.push_back({WorkKind::all_gather, 8, 1, 8, 0, 1 << 20, 40, 0, 0});
  const std::vector<CollectiveLine> lines = collective_lines(t);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].nodes, 1);
  EXPECT_EQ(lines[0].rows, 4);
  EXPECT_NEAR(lines[0].line.alpha_us, 20, 1e-6);
  EXPECT_NEAR(lines[1].line.alpha_us, 50, 1e-6);
  EXPECT_NEAR(lines[1].line.us_per_byte * 5e4, 1, 1e-9);
  EXPECT_TRUE(collective_lines(empty_table()).empty());
}

}  // namespace
}  // namespace stepcast::fit_table_test
