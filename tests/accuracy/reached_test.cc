// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/reached.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/accuracy/plots.h"
#include "tests/accuracy/text_file.h"

namespace stepcast::accuracy::reached_test {
namespace {

using ::testing::HasSubstr;

RunRow run(const char* source, double measured, double predicted) {
  RunRow row;
  row.id = std::string(source) + "-<1>";
  row.source = source;
  row.measured.step_time_s = measured;
  row.step_time_s = predicted;
  return row;
}

TEST(Reached, TableHasErrorsBySourceAndOfAll) {
  EXPECT_THAT(reached_csv({run("a", 1, 1.1), run("b", 2, 1)}),
              ::testing::EndsWith("source,predicted,time_median,time_p90,time_bias,memory_median,"
                                  "memory_p90,ratio,winners,oom_found,false_alarms,covered,"
                                  "profiled_median,profiled_worst\n"
                                  "a,1,10.0,10.0,10.0,,,,,,,,,\n"
                                  "b,1,50.0,50.0,-50.0,,,,,,,,,\n"
                                  "all,2,10.0,50.0,-50.0,,,,,,,,,\n"));
}

TEST(Reached, TableHasMemoryCallsGroupsIntervalsAndStageTimes) {
  RunRow a = run("a", 1, 1), b = run("a", 2, 3);
  for (RunRow* row : {&a, &b}) {
    row->group = "g";
    row->tokens_per_gpu = 1;
    row->measured.out_of_memory = row->out_of_memory = row == &b;
    row->measured.peak_memory = 100;
    row->peak_memory = 90;
  }
  a.interval = RunInterval{0.9, 1.1, 0.8};
  a.profiled_step_s = 0.98;
  const std::string table = reached_csv({a, b});
  EXPECT_THAT(table, HasSubstr("a,2,0.0,50.0,0.0,10.0,10.0,33.3,1,1,0,,,\n"));
  EXPECT_THAT(table, HasSubstr("all,2,0.0,50.0,0.0,10.0,10.0,33.3,1,1,0,100.0,2.0,2.0\n"));
}

TEST(Reached, OnlyWhatIsWorseIsNamed) {
  const std::string before = reached_csv({run("a", 1, 1.1), run("b", 2, 1)});
  EXPECT_EQ(worse_than_reached(before, before), "");
  EXPECT_EQ(worse_than_reached(before, reached_csv({run("a", 1, 1.05), run("b", 2, 1.5)})), "");
  const std::string worse = worse_than_reached(before, reached_csv({run("a", 1, 1.2)}));
  EXPECT_THAT(worse, HasSubstr("a: median error of step time 20, was 10\n"));
  EXPECT_THAT(worse, HasSubstr("a: bias of step time 20, was 10\n"));
  EXPECT_THAT(worse, HasSubstr("b: runs predicted gone, was 1\n"));
  EXPECT_THAT(worse, HasSubstr("all: runs predicted 1, was 2\n"));
}

// ---- one row, by hand ----

std::string table_of(const std::string& cells) {
  const std::string header = reached_csv({});
  return header.substr(0, header.find("all,")) + "x," + cells + '\n';
}

TEST(Reached, BiasMayChangeItsSignAndIntervalsMustHoldAboutFourInFive) {
  const std::string before = table_of("2,,,-3.0,,,,1,1,1,81.0,,");
  EXPECT_EQ(worse_than_reached(before, table_of("2,,,2.9,,,,1,1,1,85.0,,")), "");
  EXPECT_EQ(worse_than_reached(before, table_of("2,,,3.0,,,,2,2,0,75.0,,")), "");
  EXPECT_EQ(worse_than_reached(before, table_of("2,,,-3.1,,,,0,0,2,85.1,,")),
            "x: bias of step time -3.1, was -3\n"
            "x: winners of groups named right 0, was 1\n"
            "x: runs out of memory called so 0, was 1\n"
            "x: false alarms of out of memory 2, was 1\n"
            "x: times in their intervals 85.1, was 81\n");
  const std::string far = table_of("2,,,,,,,,,,60.0,,");
  EXPECT_EQ(worse_than_reached(far, table_of("2,,,,,,,,,,100.0,,")), "");
  EXPECT_NE(worse_than_reached(far, table_of("2,,,,,,,,,,59.9,,")), "");
}

TEST(Reached, WhatIsNoTableIsRefused) {
  const std::string good = reached_csv({run("a", 1, 1.1)});
  for (const std::string& bad :
       {std::string(), std::string("x\n"), good + "b\n", good + "b,1\n",
        good + "b,1,2,3,4,5,6,7,8,9,10,11,12,x\n", good + "b,1,2,3,4,5,6,7,8,9,10,11,12,13,14\n"})
    EXPECT_THROW(worse_than_reached(bad, good), InputError) << bad;
}

// docs/accuracy.md and reached.csv are written by one command; cells of `line` of the table.
std::vector<std::string> cells_of(const std::string& line, char separator) {
  std::vector<std::string> cells;
  std::stringstream in(line);
  for (std::string cell; std::getline(in, cell, separator);) {
    const size_t begin = cell.find_first_not_of(' '), end = cell.find_last_not_of(' ');
    cells.push_back(begin == cell.npos ? "" : cell.substr(begin, end - begin + 1));
  }
  return cells;
}

// The first row of the section "By source" that begins with `name`.
std::vector<std::string> shown_row(const std::string& shown, const std::string& name) {
  const size_t at = shown.find("\n| " + name + " |", shown.find("### By source"));
  if (at == shown.npos) return {};
  return cells_of(shown.substr(at + 1, shown.find('\n', at + 1) - at - 1), '|');
}

TEST(Reached, WhatTheDocumentShowsIsWhatWasReached) {
  const std::string root = STEPCAST_SOURCE_DIR;
  const std::string document = root + "/docs/accuracy.md";
  const std::string shown = between_marks(read_text_file(document), "runs", document);
  std::stringstream reached(read_text_file(root + "/tests/accuracy/reached.csv"));
  size_t rows = 0;
  for (std::string line; std::getline(reached, line);) {
    if (line.starts_with('#') || line.starts_with("source,")) continue;
    std::vector<std::string> figures = cells_of(line + ",", ',');
    ASSERT_EQ(figures.size(), 14u) << line;
    for (std::string& figure : figures)
      if (figure.empty()) figure = "-";
    // "", source, records, predicted, times, median, p90, bias, memories, median, p90, bias
    const std::vector<std::string> cells = shown_row(shown, figures[0]);
    ASSERT_EQ(cells.size(), 12u) << figures[0];
    EXPECT_EQ(cells[3], figures[1]) << figures[0];
    EXPECT_EQ(cells[5], figures[2]) << figures[0];
    EXPECT_EQ(cells[6], figures[3]) << figures[0];
    EXPECT_EQ(cells[9], figures[5]) << figures[0];
    EXPECT_EQ(cells[10], figures[6]) << figures[0];
    ++rows;
  }
  EXPECT_EQ(rows, 23u);
}

size_t count_of(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(Plots, EveryTimedRunIsAMarkAndNamesAreEscaped) {
  std::vector<RunRow> rows{run("a", 1, 1.1), run("b", 200, 0.02)};
  rows[0].parameters = 7e9;
  rows[1].parameters = 1e15;  // at the edge
  for (const std::string& svg : {scatter_svg(rows), errors_svg(rows), sizes_svg(rows)}) {
    EXPECT_EQ(count_of(svg, "fill-opacity=\"0.6\""), 2u);
    EXPECT_THAT(svg, HasSubstr("a-&lt;1&gt;"));
  }
  for (const std::string& svg : {scatter_svg({}), errors_svg({}), sizes_svg({})})
    EXPECT_THAT(svg, HasSubstr("</svg>"));
}

TEST(Plots, SourcesBeyondTheColoursHaveAnotherMark) {
  std::vector<RunRow> rows;
  for (char name = 'a'; name <= 'm'; ++name)
    rows.push_back(run(std::string(1, name).c_str(), 1, 1.1));
  EXPECT_EQ(count_of(scatter_svg(rows), "fill-opacity=\"0.6\""), 13u);
  EXPECT_EQ(count_of(scatter_svg(rows), "<path"), 2u);  // the 13th, and in the legend
}

}  // namespace
}  // namespace stepcast::accuracy::reached_test
