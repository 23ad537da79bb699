// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/reached.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/accuracy/plots.h"

namespace stepcast::accuracy {
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
              ::testing::EndsWith("source,predicted,time_median,time_p90,memory_median,memory_p90\n"
                                  "a,1,10.0,10.0,,\nb,1,50.0,50.0,,\nall,2,10.0,50.0,,\n"));
}

TEST(Reached, OnlyWhatIsWorseIsNamed) {
  const std::string before = reached_csv({run("a", 1, 1.1), run("b", 2, 1)});
  EXPECT_EQ(worse_than_reached(before, before), "");
  EXPECT_EQ(worse_than_reached(before, reached_csv({run("a", 1, 1.05), run("b", 2, 1.5)})), "");
  const std::string worse = worse_than_reached(before, reached_csv({run("a", 1, 1.2)}));
  EXPECT_THAT(worse, HasSubstr("a: median error of step time 20, was 10\n"));
  EXPECT_THAT(worse, HasSubstr("b: runs predicted gone, was 1\n"));
  EXPECT_THAT(worse, HasSubstr("all: runs predicted 1, was 2\n"));
}

TEST(Reached, WhatIsNoTableIsRefused) {
  const std::string good = reached_csv({run("a", 1, 1.1)});
  for (const std::string& bad : {std::string(), std::string("x\n"), good + "b\n", good + "b,1\n",
                                 good + "b,1,2,3,4,x\n", good + "b,1,2,3,4,5,6\n"})
    EXPECT_THROW(worse_than_reached(bad, good), std::invalid_argument) << bad;
}

TEST(Plots, EveryTimedRunIsAMarkAndNamesAreEscaped) {
  const std::vector<RunRow> rows{run("a", 1, 1.1), run("b", 200, 0.02)};
  for (const std::string& svg : {scatter_svg(rows), errors_svg(rows)}) {
    size_t marks = 0;
    for (size_t at = svg.find("fill-opacity"); at != svg.npos;
         at = svg.find("fill-opacity", at + 1))
      ++marks;
    EXPECT_EQ(marks, 2u);
    EXPECT_THAT(svg, HasSubstr("a-&lt;1&gt;"));
  }
  EXPECT_THAT(scatter_svg({}), HasSubstr("</svg>"));
  EXPECT_THAT(errors_svg({}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace stepcast::accuracy
