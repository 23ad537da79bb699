// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/unite.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "calibrate/fit/fit_table.h"
#include "calibrate/table/cost_table.h"
#include "calibrate/table/write_table.h"
#include "tests/calibrate/tables.h"

namespace stepcast::unite_test {
namespace {

using test::empty_table;
using test::full_table;
using test::problems_of;

United united(const std::vector<TableText>& inputs, const std::string& gpu = {}) {
  return unite(inputs, gpu);
}

TableText with_gemm(int64_t m, double us, uint16_t source = 0) {
  TableText t = empty_table();
  t.gemms = {{DType::bf16, GemmLayout::tn, m, 1024, 1024, 1, us, source, 0}};
  return t;
}

std::string problem(const std::vector<TableText>& inputs) {
  const std::vector<Diagnostic> all = problems_of([&] { united(inputs); });
  return all.size() == 1 ? all[0].code + " " + all[0].message
                         : std::to_string(all.size()) + " problems";
}

TEST(Unite, OfOneTableIsItself) {
  const TableText t = full_table();
  const United u = united({t});
  EXPECT_EQ(u.table, t);
  EXPECT_EQ(u.dropped, std::vector<size_t>{0});
}

TEST(Unite, OfATableWithItselfIsItself) {
  const TableText once = united({full_table()}).table;
  const United u = united({full_table(), full_table()});
  EXPECT_EQ(write_table(u.table), write_table(once));
  // Every row of the second: 11 with a time, 2 launches, interference, 2 fits, 3 ratios.
  EXPECT_EQ(u.dropped, (std::vector<size_t>{0, 19}));
}

TEST(Unite, TakesTheRowsOfAll) {
  const United u = united({with_gemm(512, 9), with_gemm(256, 7), with_gemm(128, 5)});
  ASSERT_EQ(u.table.gemms.size(), 3u);
  EXPECT_EQ(u.table.gemms[0].us, 5);  // sorted
  EXPECT_EQ(u.table.gemms[2].us, 9);
  EXPECT_EQ(u.dropped, (std::vector<size_t>{0, 0, 0}));
}

TEST(Unite, TheEarlierInputWinsAmongEquals) {
  const United u = united({with_gemm(512, 9), with_gemm(512, 7)});
  ASSERT_EQ(u.table.gemms.size(), 1u);
  EXPECT_EQ(u.table.gemms[0].us, 9);
  EXPECT_EQ(u.dropped, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(united({with_gemm(512, 9, 1), with_gemm(512, 7, 1)}).table.gemms[0].us, 9);
}

TEST(Unite, MeasuredBeatsDerivedWhateverTheOrder) {
  const United u = united({with_gemm(512, 9, 1), with_gemm(512, 7), with_gemm(512, 6)});
  ASSERT_EQ(u.table.gemms.size(), 1u);
  EXPECT_EQ(u.table.gemms[0].us, 7);
  EXPECT_EQ(u.dropped, (std::vector<size_t>{1, 0, 1}));

  TableText derived = empty_table();
  derived.launch_us = 5;
  derived.launch_source = 1;
  derived.launch_spread = 0.5;
  TableText measured = empty_table();
  measured.launch_us = 4;
  const TableText both = united({derived, measured}).table;
  EXPECT_EQ(both.launch_us, 4);
  EXPECT_EQ(both.launch_spread, 0);
  EXPECT_FALSE(both.sources[both.launch_source].derived);
}

TEST(Unite, SourcesOfOneKeyAndDifferentTextsAreKeptApart) {
  TableText a = with_gemm(512, 9);
  TableText b = with_gemm(256, 7);
  TableText c = with_gemm(128, 5);
  b.sources[0].text = "another benchmark";
  c.sources[0].text = "a third one";
  const TableText t = united({a, b, c, b}).table;
  ASSERT_EQ(t.sources.size(), 3u);  // without "other", which no row names
  EXPECT_EQ(t.sources[0].key, "bench");
  EXPECT_EQ(t.sources[1].key, "bench-2");
  EXPECT_EQ(t.sources[1].text, "another benchmark");
  EXPECT_EQ(t.sources[2].key, "bench-3");
  EXPECT_EQ(t.sources[t.gemms[1].source].text, "another benchmark");  // m = 256
  EXPECT_EQ(united({t, a}).table, t);
}

TEST(Unite, RefusesTablesOfDifferentGpusUnlessToldWhichOneItIs) {
  TableText other = with_gemm(256, 7);
  other.gpu = "other-gpu";
  const std::vector<TableText> both{with_gemm(512, 9), other};
  EXPECT_EQ(problem(both), "E310 tables of different GPUs: 'test-gpu' and 'other-gpu'");
  TableText nameless = empty_table();
  nameless.gpu.clear();
  EXPECT_EQ(problem({nameless}), "E310 the tables do not say which GPU they are of");
}

TEST(Unite, RowsOfAnotherGpuAreDerivedOnes) {
  TableText other = with_gemm(256, 7);
  other.gpu = "other-gpu";
  other.gemms.push_back(with_gemm(512, 8).gemms[0]);
  const United u = united({other, with_gemm(512, 9)}, "test-gpu");
  EXPECT_EQ(u.table.gpu, "test-gpu");
  ASSERT_EQ(u.table.gemms.size(), 2u);
  const auto source = [&](size_t row) { return u.table.sources[u.table.gemms[row].source]; };
  EXPECT_TRUE(source(0).derived);
  EXPECT_EQ(source(0).text, "of other-gpu: a benchmark, 2 runs");
  EXPECT_EQ(u.table.gemms[1].us, 9);  // its own beats the other's, though that came first
  EXPECT_FALSE(source(1).derived);
  EXPECT_EQ(u.dropped, (std::vector<size_t>{1, 0}));
  EXPECT_EQ(u.remarks, std::vector<std::string>{
                           "what is of other-gpu counts as derived in a table of test-gpu"});
  EXPECT_TRUE(united({with_gemm(512, 9)}, "test-gpu").remarks.empty());
}

TEST(Unite, CollectivesOfOneFabricOnly) {
  TableText a = empty_table();
  a.nvlink_gbs = 450;
  a.collectives = {{WorkKind::all_reduce, 8, 1, 8, 0, 1 << 20, 41, 0, 0}};
  TableText b = a;
  b.in_network_reduction = true;
  EXPECT_EQ(problem({a, b}).substr(0, 16), "E310 collectives");
  b = a;
  b.nvlink_gbs = 900;
  EXPECT_EQ(problem({a, b}).substr(0, 16), "E310 collectives");
  b.nvlink_gbs = 0;
  EXPECT_EQ(problem({a, b}), problem({b, a}));
  EXPECT_EQ(problem({a, b}).substr(0, 45), "E310 collectives of an NVLink that is not sta");
  // A table without collectives has no say.
  TableText link = empty_table();
  link.nvlink_gbs = 450;
  EXPECT_EQ(united({link, b}).table.nvlink_gbs, 0);
  b.nvlink_gbs = 900;
  b.collectives.clear();
  EXPECT_EQ(united({b, a}).table.nvlink_gbs, 450);
  EXPECT_EQ(united({a, b}).table.nvlink_gbs, 450);
}

TEST(Unite, RowsOfOtherWiresDoNotTakeEachOthersPlace) {
  TableText a = empty_table();
  a.sources[0].wires.network = NicDriver::verbs;
  a.collectives = {{WorkKind::all_reduce, 16, 2, 8, 50, 1 << 20, 41, 0, 0}};
  TableText b = a;
  b.collectives[0].us = 70;
  EXPECT_EQ(united({a, b}).table.collectives.size(), 1u);
  EXPECT_EQ(united({a, b}).table.collectives[0].us, 41);
  b.sources[0].wires.network = NicDriver::efa;
  const TableText both = united({a, b}).table;
  ASSERT_EQ(both.collectives.size(), 2u);
  EXPECT_EQ(both.sources[both.collectives[1].source].wires.network, NicDriver::efa);
}

TEST(Unite, SharedRowsStayBesideOnesOwnAsDerived) {
  const TableText h100 = parse_table_text(shipped_table_text("h100-sxm"), "h100-sxm");
  TableText shares = empty_table();
  shares.share_from = "h100-sxm";
  shares.shared[static_cast<size_t>(Family::gemm)] = true;
  shares.shared[static_cast<size_t>(Family::attention)] = true;
  TableText own = with_gemm(512, 9);
  own.gemms.push_back(h100.gemms[0]);
  own.gemms[1].us = 1;
  own.gemms[1].source = 0;
  const United u = united({shares, own});
  const TableText& t = u.table;
  EXPECT_EQ(t.share_from, "h100-sxm");
  EXPECT_FALSE(t.shared[static_cast<size_t>(Family::gemm)]);
  EXPECT_TRUE(t.shared[static_cast<size_t>(Family::attention)]);
  EXPECT_EQ(t.gemms.size(), h100.gemms.size() + 1);
  size_t measured = 0;
  for (const GemmRow& r : t.gemms) measured += t.sources[r.source].derived ? 0 : 1;
  EXPECT_EQ(measured, 2u);
  EXPECT_TRUE(t.attentions.empty());
  EXPECT_TRUE(t.interference.has_value());
  EXPECT_EQ(u.dropped, (std::vector<size_t>{0, 0}));
  EXPECT_EQ(u.remarks,
            std::vector<std::string>{"shared from h100-sxm, now derived rows of this table: gemm"});
  // A fixed point: nothing is shared that there are rows of.
  EXPECT_EQ(united({t}).table, t);
  EXPECT_TRUE(united({t}).remarks.empty());
}

TEST(Unite, SharesFromOneShippedTable) {
  TableText shares = empty_table();
  shares.share_from = "h100-sxm";
  shares.shared[static_cast<size_t>(Family::gemm)] = true;
  TableText others = shares;
  others.share_from = "a100-sxm-80g";
  EXPECT_EQ(problem({shares, others}).substr(0, 20), "E310 families shared");
  shares.share_from = "tpu-v5p";
  EXPECT_EQ(united({shares}).table.share_from, "tpu-v5p");  // found when it is used
  EXPECT_EQ(problem({shares, with_gemm(512, 9)}),
            "E310 there is no shipped table of 'tpu-v5p', which families are shared from");
}

// Collectives are of one NVLink: those of another are no evidence, derived or not.
TEST(Unite, SharedCollectivesOfAnotherNvlinkAreLeftOut) {
  TableText shares = empty_table();
  shares.share_from = "h100-sxm";
  shares.shared[static_cast<size_t>(Family::collective)] = true;
  shares.nvlink_gbs = 450;
  shares.in_network_reduction = true;
  shares.collectives = {{WorkKind::all_reduce, 8, 1, 8, 0, 12345, 41, 0, 0}};
  EXPECT_GT(united({shares}).table.collectives.size(), 10u);
  shares.nvlink_gbs = 900;
  const United u = united({shares});
  EXPECT_EQ(u.table.collectives.size(), 1u);
  EXPECT_TRUE(u.table.share_from.empty());
  ASSERT_EQ(u.remarks.size(), 1u);
  EXPECT_NE(u.remarks[0].find("another NVLink"), std::string::npos);
}

TEST(Unite, TextsOfAllWithoutRepetition) {
  TableText a = empty_table();
  a.software = "CUDA 13.0";
  a.conditions = {"1410 MHz", "35 C"};
  TableText b = a;
  b.about = "second";
  b.software = "CUDA 13";  // part of the first, yet another one
  b.conditions = {"35 C", "40 C"};
  const TableText t = united({a, b, a}).table;
  EXPECT_EQ(t.about, "second");
  EXPECT_EQ(t.software, "CUDA 13.0; CUDA 13");
  EXPECT_EQ(t.conditions, (std::vector<std::string>{"1410 MHz", "35 C", "40 C"}));
}

TEST(Unite, LeavesOutWhatTheFitterMadeOfOneInput) {
  TableText a = empty_table();
  a.gemms = test::smooth_gemms(5, 200, 1500);
  const TableText fitted = fit_table(a).table;
  ASSERT_EQ(fitted.fits.size(), 1u);
  const TableText t = united({fitted, with_gemm(17, 9)}).table;
  EXPECT_TRUE(t.fits.empty());
  EXPECT_FALSE(t.ratio_skinny.has_value());
  EXPECT_EQ(t.sources.size(), 1u);
}

TEST(Unite, RefusesRowsThatAreNoMeasurements) {
  EXPECT_EQ(problem({with_gemm(512, 9), with_gemm(512, 0)}),
            "E310 row 'gemm,bf16,tn,512,1024,1024,1' has the time 0.000000");
}

}  // namespace
}  // namespace stepcast::unite_test
