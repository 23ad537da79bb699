// SPDX-License-Identifier: Apache-2.0
#include "calibrate/table/write_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "calibrate/table/table_text.h"
#include "tests/calibrate/tables.h"

namespace stepcast::write_table_test {
namespace {

using test::empty_table;
using test::full_table;

TEST(WriteTable, ReadsBackAsItWas) {
  const TableText t = full_table();
  EXPECT_EQ(parse_table_text(write_table(t), "t.csv"), t);
  EXPECT_EQ(parse_table_text(write_table(empty_table()), "t.csv"), empty_table());
}

TEST(WriteTable, WritesWhatItReadTheSameAgain) {
  const std::string text = write_table(full_table());
  EXPECT_EQ(write_table(parse_table_text(text, "t.csv")), text);
}

TEST(WriteTable, LooksLikeThis) {
  TableText t = empty_table();
  t.conditions = {"SM clock 1410 MHz"};
  t.gemms = {{DType::bf16, GemmLayout::tn, 4096, 576, 5120, 1, 155.87, 0, 0.012}};
  t.fits = {{WorkKind::gemm, DType::bf16, 5, 230.5, 1695, 1, 1, 0.5, 0.25, FitFlag::partial}};
  EXPECT_EQ(write_table(t),
            "# stepcast cost table\n"
            "# format: 3\n"
            "# gpu: test-gpu\n"
            "# conditions: SM clock 1410 MHz\n"
            "# source: bench measured a benchmark, 2 runs\n"
            "# source: other derived from another GPU\n"
            "# rows: 2\n"
            "# checksum: header 9c0d5b11cede1eaf\n"
            "# checksum: gemm b62beb7d867570d3\n"
            "# checksum: fit 6f3f320d7b177a73\n"
            "gemm,bf16,tn,4096,576,5120,1,155.87,bench,0.012\n"
            "fit,gemm,bf16,5,230.5,1695,other,1,0.5,0.25,partial\n");
}

TEST(WriteTable, SortsRowsByShapeWhateverTheirOrder) {
  TableText t = full_table();
  const std::string text = write_table(t);
  std::ranges::reverse(t.gemms);
  std::ranges::reverse(t.attentions);
  std::ranges::reverse(t.memories);
  std::ranges::reverse(t.copies);
  std::ranges::reverse(t.collectives);
  std::ranges::reverse(t.fits);
  EXPECT_EQ(write_table(t), text);
  EXPECT_NE(t, full_table());
  sort_rows(t);
  EXPECT_EQ(t, full_table());
}

TEST(WriteTable, KeepsWiresAndCurvesTogether) {
  TableText t = empty_table();
  t.sources[0].wires = {.inside = InsideLink{InsideLink::Kind::nvswitch, 4},
                        .network = NicDriver::roce};
  t.sources[1].wires = {.inside = InsideLink{InsideLink::Kind::pcie, 5},
                        .network = NicDriver::efa_v1,
                        .sharp = true,
                        .one_process = true};
  for (const int64_t bytes : {4096, 1024})
    for (const uint16_t source : {uint16_t{1}, uint16_t{0}})
      t.collectives.push_back({WorkKind::all_reduce, 16, 2, 8, 50, bytes, 41, source, 0});
  const std::string text = write_table(t);
  EXPECT_NE(text.find("# wires: other pcie5 efa-v1 sharp one-process\n"), std::string::npos);
  sort_rows(t);
  EXPECT_EQ(t.collectives[0].source, t.collectives[1].source);
  EXPECT_LT(t.collectives[0].bytes, t.collectives[1].bytes);
  EXPECT_EQ(parse_table_text(text, "t.csv"), t);
  std::set<std::string> names;
  for (const NamedTime& n : named_times(t)) names.insert(n.row);
  EXPECT_EQ(names.size(), 4u);
}

TEST(WriteTable, KeepsEveryDigitAndWritesNoExponents) {
  for (const double us : {1e15, 100000.0, 0.1, 1.0 / 3, 123456789.125, 2e-6}) {
    TableText t = empty_table();
    t.launch_us = us;
    const std::string text = write_table(t);
    EXPECT_EQ(parse_table_text(text, "t.csv").launch_us, us) << us;
    const std::string row = text.substr(text.find("\nlaunch,"));
    EXPECT_EQ(row.substr(0, row.find(",bench")).find('e'), std::string::npos) << row;
  }
}

TEST(WriteTable, LineEndsInTextsCannotMakeRows) {
  TableText t = empty_table();
  t.software = "one\nlaunch,1,bench\r\n# gpu: x";
  t.sources[0].text = "two\nlines";
  const TableText back = parse_table_text(write_table(t), "t.csv");
  EXPECT_EQ(back.gpu, "test-gpu");
  EXPECT_FALSE(back.launch_us.has_value());
  EXPECT_EQ(back.sources[0].text, "two lines");
}

TEST(WriteTable, NamesEveryNumberOnce) {
  std::vector<std::string> rows;
  for (const NamedTime& n : named_times(full_table())) rows.push_back(n.row);
  EXPECT_EQ(std::set<std::string>(rows.begin(), rows.end()).size(), rows.size());
  // 3 products, 2 attentions, 2 kernels, 2 copies, 2 collectives, 2 launches, 2 of interference,
  // 3 + 1 constants of fits, 3 ratios.
  EXPECT_EQ(rows.size(), 22u);
  EXPECT_EQ(rows.front(), "gemm,bf16,tn,4096,576,5120,1");
  EXPECT_EQ(rows.back(), "ratio,skinny");
}

}  // namespace
}  // namespace stepcast::write_table_test
