// SPDX-License-Identifier: Apache-2.0
#include "report/svg/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace stepcast::table_svg_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

size_t count(const std::string& text, const std::string& what) {
  size_t n = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
  return n;
}

FitPlot sample() {
  FitPlot plot{"Copies", "bytes copied", "B", "bandwidth", "B/s", {}, "fit"};
  plot.series.push_back({"h2d",
                         {{1e3, 2e8, false, "1 kB: 5 us"}, {1e9, 5e10, true, "1 GB"}},
                         {{1e3, 1e8}, {1e6, 2e10}, {1e9, 5e10}}});
  return plot;
}

TEST(FitPlot, HasAMarkForEachPointAndALegend) {
  const std::string svg = fit_plots_svg("mine <1>", std::vector{sample()});
  // Two points, one of the series in the legend, one that says what a hollow mark is.
  EXPECT_EQ(count(svg, "<circle"), 4U);
  EXPECT_EQ(count(svg, "fill=\"#fff\" fill-opacity"), 2U);
  EXPECT_EQ(count(svg, "<path"), 2U);  // the curve, and its legend
  EXPECT_THAT(svg, HasSubstr("<title>1 kB: 5 us</title>"));
  EXPECT_THAT(svg, HasSubstr("derived, not measured here"));
  EXPECT_THAT(svg, HasSubstr("mine &lt;1&gt;"));
}

TEST(FitPlot, AxesAreLabelledWithUnits) {
  const std::string svg = fit_plots_svg("t", std::vector{sample()});
  for (const char* label : {">1 kB<", ">1 MB<", ">1 GB<", ">1 GB/s<", ">10 GB/s<", ">bytes copied<",
                            ">bandwidth<", ">Copies<"})
    EXPECT_THAT(svg, HasSubstr(label));
}

TEST(FitPlot, NarrowAndSmallRangesHaveTicksToo) {
  FitPlot plot{"Kernels", "bytes", "B", "time", "s", {}, ""};
  plot.series.push_back({"add", {{2.4e6, 3.1e-6, false, ""}, {2.9e6, 3.3e-6, false, ""}}, {}});
  const std::string svg = fit_plots_svg("t", std::vector{plot});
  EXPECT_THAT(svg, HasSubstr(">2 us<"));
  EXPECT_THAT(svg, HasSubstr(">5 us<"));
  EXPECT_THAT(svg, HasSubstr(">2 MB<"));
}

TEST(FitPlot, OnePointIsDrawn) {
  FitPlot plot{"Kernels", "bytes", "B", "time", "s", {}, ""};
  plot.series.push_back({"add", {{1000, 1e-6, false, ""}}, {}});
  EXPECT_EQ(count(fit_plots_svg("t", std::vector{plot}), "<circle"), 2U);
}

TEST(FitPlot, WhatCannotBeDrawnIsLeftOut) {
  FitPlot plot = sample();
  plot.series[0].points.push_back({0, 1, false, "zero"});
  plot.series[0].points.push_back({1e6, std::numeric_limits<double>::infinity(), false, "inf"});
  plot.series[0].points.push_back({std::numeric_limits<double>::quiet_NaN(), 1, false, "nan"});
  const FitPlot empty{"Nothing", "x", "B", "y", "s", {}, ""};
  const std::string svg = fit_plots_svg("t", std::vector{empty, plot});
  EXPECT_EQ(count(svg, "<circle"), 4U);
  EXPECT_THAT(svg, Not(HasSubstr("Nothing")));
  EXPECT_THAT(fit_plots_svg("t", {}), HasSubstr("</svg>"));
}

}  // namespace
}  // namespace stepcast::table_svg_test
