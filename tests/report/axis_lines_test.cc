// SPDX-License-Identifier: Apache-2.0
#include "report/text/axis_lines.h"
#include "sim/results/step_ranking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace stepcast::axis_lines_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

StepRow row_of(int64_t tp, int64_t micro, const std::string& settings, int64_t ps) {
  StepRow row;
  row.tp = tp;
  row.micro_batch = micro;
  row.settings = settings;
  row.step_time_ps = ps;
  row.reserved_bytes = int64_t{1} << 30;
  return row;
}

StepPoints points_of(std::vector<StepRow> rows) {
  StepPoints points;
  points.rows = std::move(rows);
  points.counted = points.rows.size();
  return points;
}

TEST(AxisLines, HaveTheRowsThatDifferInOneAxisAlone) {
  const StepPoints points =
      points_of({row_of(4, 1, "", 100), row_of(16, 1, "", 110), row_of(2, 1, "", 120),
                 row_of(4, 2, "", 130), row_of(2, 2, "", 140)});
  const std::vector<AxisLine> lines = axis_lines(points, 0);
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0].axis, "TP");
  EXPECT_THAT(lines[0].points, ElementsAre(Pair("2", 2u), Pair("4", 0u), Pair("16", 1u)));
  EXPECT_EQ(lines[1].axis, "MBS");
  EXPECT_THAT(lines[1].points, ElementsAre(Pair("1", 0u), Pair("2", 3u)));
}

TEST(AxisLines, OfEqualLayoutsTheBestStandsForTheValue) {
  const StepPoints points =
      points_of({row_of(4, 1, "", 100), row_of(2, 1, "", 110), row_of(2, 1, "", 120)});
  EXPECT_THAT(axis_lines(points, 0)[0].points, ElementsAre(Pair("2", 1u), Pair("4", 0u)));
}

TEST(AxisLines, WhatIsSetBesideTheLayoutIsAnAxisToo) {
  const StepPoints points =
      points_of({row_of(4, 1, "parallel.tp=4 cluster.network.latency=1us", 100),
                 row_of(4, 1, "parallel.tp=4 cluster.network.latency=5us", 110),
                 row_of(2, 1, "parallel.tp=2 cluster.network.latency=5us", 120)});
  const std::vector<AxisLine> lines = axis_lines(points, 0);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_EQ(lines[0].axis, "cluster.network.latency");
  EXPECT_THAT(lines[0].points, ElementsAre(Pair("1us", 0u), Pair("5us", 1u)));
}

TEST(AxisLines, OfOneRowOrAnotherScenarioThereAreNone) {
  EXPECT_THAT(axis_lines(points_of({row_of(4, 1, "", 100)}), 0), IsEmpty());
  StepPoints two = points_of({row_of(4, 1, "", 100), row_of(2, 1, "", 110)});
  two.rows[1].name = "another";
  EXPECT_THAT(axis_lines(two, 0), IsEmpty());
  EXPECT_EQ(axis_lines_table({}).rows.size(), 1u);
}

TEST(AxisLines, TheTableHoldsThemAgainstTheFirst) {
  StepPoints points =
      points_of({row_of(4, 1, "", 100'000'000'000), row_of(2, 1, "", 150'000'000'000)});
  points.counted = 1;
  const CellTable table = axis_lines_table(points);
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_THAT(table.rows[1], ElementsAre("TP", "2", "0.1500", "+50.0 %", "1.0", "does not fit"));
  EXPECT_THAT(table.rows[2], ElementsAre("", "4", "0.1000", "-", "1.0", ""));
}

}  // namespace
}  // namespace stepcast::axis_lines_test
