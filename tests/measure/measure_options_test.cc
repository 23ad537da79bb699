// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/measure_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <stdexcept>

#include "calibrate/measure/sweep_progress.h"

namespace stepcast::measure::measure_options_test {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

MeasureOptions read(const std::vector<std::string>& arguments) {
  return read_measure_options(arguments);
}

TEST(MeasureOptions, HaveDefaults) {
  const MeasureOptions o = read({});
  EXPECT_EQ(o.grid, Grid::small);
  EXPECT_DOUBLE_EQ(o.budget_s, 300);
  EXPECT_EQ(o.output, "-");
  EXPECT_TRUE(o.families.empty());
}

TEST(MeasureOptions, AreRead) {
  const MeasureOptions o =
      read({"--plan", "p.csv", "--grid", "full", "--budget", "2min", "--families", "gemm,launch",
            "-o", "t.csv", "--device", "1", "--gpu", "h100-sxm", "--list"});
  EXPECT_EQ(o.plan, "p.csv");
  EXPECT_EQ(o.grid, Grid::full);
  EXPECT_DOUBLE_EQ(o.budget_s, 120);
  EXPECT_THAT(o.families, UnorderedElementsAre("gemm", "launch"));
  EXPECT_EQ(o.output, "t.csv");
  EXPECT_EQ(o.device, 1);
  EXPECT_EQ(o.gpu, "h100-sxm");
  EXPECT_TRUE(o.list);
  EXPECT_TRUE(std::isinf(read({"--budget", "none"}).budget_s));
}

TEST(MeasureOptions, RefuseWhatTheyDoNotKnow) {
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"--plan"},
                                             {"--grid", "large"},
                                             {"--budget", "soon"},
                                             {"--budget", "0"},
                                             {"--families", "gemm,norms"},
                                             {"--families", ""},
                                             {"--device", "-1"},
                                             {"--device", "one"},
                                             {"--verbose"},
                                             {"plan.csv"}}) {
    EXPECT_THROW(read(wrong), InputError) << wrong[0];
  }
}

PlanText plan_of(double weight) {
  return parse_plan_text(
      "# stepcast calibration plan\n# format: 1\n# gpu: g\ngemm,bf16,tn,4096,4608,12288,1," +
          std::to_string(weight) + ",roofline\n",
      "p");
}

TEST(MeasureOptions, PlannedShapesComeBeforeTheGrid) {
  const PlanText plan = plan_of(0.9);
  const auto points = asked_points(read({"--families", "gemm"}), &plan, {});
  ASSERT_GT(points.size(), 10U);
  EXPECT_EQ(points.front().key, "gemm,bf16,tn,4096,4608,12288,1");
  EXPECT_EQ(asked_points(read({"--grid", "none", "--families", "gemm"}), &plan, {}).size(), 1U);
}

TEST(MeasureOptions, LaunchesAreMeasuredEarly) {
  const PlanText plan = plan_of(1);
  const auto points = asked_points(read({}), &plan, {});
  std::set<std::string> first;
  for (size_t i = 0; i < 4; ++i) first.insert(points[i].key);
  EXPECT_TRUE(first.contains("launch") && first.contains("graph_launch"));
}

TEST(MeasureOptions, FamiliesLeaveOthersOut) {
  SweepPoint collective;
  collective.key = "collective,all_reduce,2,1,2,0,1024";
  const auto points =
      asked_points(read({"--families", "launch,collective"}), nullptr, {collective});
  std::set<std::string> keys;
  for (const SweepPoint& p : points) keys.insert(p.key);
  EXPECT_THAT(keys, UnorderedElementsAre("launch", "graph_launch", collective.key));
}

TEST(MeasureOptions, TheListSumsUp) {
  const auto points = asked_points(read({"--families", "launch"}), nullptr, {});
  const std::string text = list_text(points, 300);
  EXPECT_THAT(text, HasSubstr(" launch\n"));
  EXPECT_THAT(text, HasSubstr("# 2 points, 0 s\n"));
  EXPECT_THAT(list_text(points, 0.1), HasSubstr("the budget of 0 s holds the first 1"));
}

TEST(SweepProgress, BarFillsByPointsOrByTime) {
  EXPECT_EQ(sweep_bar(1, 2, 3, 300),
            "[" + std::string(15, '#') + std::string(15, '-') + "] 1/2 points, 3 of 300 s");
  EXPECT_EQ(sweep_bar(0, 2, 150, 300),
            "[" + std::string(15, '#') + std::string(15, '-') + "] 0/2 points, 150 of 300 s");
  EXPECT_EQ(sweep_bar(0, 0, 0, INFINITY), "[" + std::string(30, '#') + "] 0/0 points, 0 s");
  EXPECT_LT(sweep_bar(99999, 99999, 1e6, 1e6).size(), 80U);
}

TEST(SweepProgress, SummaryTellsHowToGoOn) {
  SweepReport report;
  report.measured = 7;
  report.left = 3;
  report.seconds = 12;
  report.skipped = {"gemm,fp8,tn,1,1,1,1: no algorithm"};
  const std::string text = sweep_summary(report, "t.csv", "again");
  EXPECT_THAT(text, HasSubstr("left out: gemm,fp8,tn,1,1,1,1: no algorithm\n"));
  EXPECT_THAT(text, HasSubstr("7 points measured in 12 s, 1 left out, 3 left for want of time\n"));
  EXPECT_THAT(text, HasSubstr("goes on from here: again\n"));
  report.interrupted = true;
  EXPECT_THAT(sweep_summary(report, "t.csv", "again"), HasSubstr("3 left after the interruption"));
  EXPECT_EQ(sweep_summary(report, "-", "again").find("again"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::measure::measure_options_test
