// SPDX-License-Identifier: Apache-2.0
#include "report/text/scatter.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/format.h"

namespace stepcast::scatter_test {
namespace {

const ScatterAxis kSeconds{"s a step", [](double s) { return fixed(s, 1); }};
const ScatterAxis kGibis{"GiB", [](double g) { return fixed(g, 0); }};

TEST(Scatter, PutsNumbersWhereThePointsAre) {
  const std::vector<ScatterPoint> points{{1, 80}, {2, 40}, {3, 20}};
  EXPECT_EQ(scatter(points, kSeconds, kGibis, 21, 4),
            "  GiB\n"
            "  80 |1\n"
            "     |\n"
            "     |          2\n"
            "  20 |                    3\n"
            "     +---------------------\n"
            "      1.0      3.0 s a step\n");
}

TEST(Scatter, WhereTwoMeetTheFirstStays) {
  const std::vector<ScatterPoint> points{{1, 2}, {1, 2}, {5, 1}};
  const std::string text = scatter(points, kSeconds, kGibis, 21, 4);
  EXPECT_NE(text.find("|1\n"), std::string::npos);
  EXPECT_EQ(text.find('2', text.find('|') + 1), std::string::npos);
}

TEST(Scatter, OnePointIsNoFront) {
  const std::vector<ScatterPoint> one{{1, 2}};
  EXPECT_EQ(scatter(one, kSeconds, kGibis), "");
  EXPECT_EQ(scatter({}, kSeconds, kGibis), "");
}

TEST(Scatter, EqualValuesAreOneColumn) {
  const std::vector<ScatterPoint> points{{1, 2}, {1, 3}};
  EXPECT_NE(scatter(points, kSeconds, kGibis, 21, 4).find("3 |2\n"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::scatter_test
