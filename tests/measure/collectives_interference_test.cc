// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "calibrate/measure/families/interference_ratio.h"

namespace stepcast::measure::collectives_interference_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

TEST(Interference, OnlyCallsWithCompanyFromBeginningToEndCount) {
  // The other side is at work from 10 to 40.
  const std::vector<Interval> others{{10, 20}, {22, 40}};
  const std::vector<Interval> calls{{5, 12}, {12, 19}, {19, 30}, {30, 40}, {40, 45}};
  EXPECT_THAT(accompanied(calls, others), ElementsAre(7, 11, 10));
}

TEST(Interference, WithoutTheOtherSideNoCallHasCompany) {
  const std::vector<Interval> calls{{5, 12}};
  EXPECT_THAT(accompanied(calls, {}), IsEmpty());
  EXPECT_THAT(accompanied({}, calls), IsEmpty());
  EXPECT_THAT(accompanied(calls, std::vector<Interval>{{12, 20}}), IsEmpty());
}

TEST(Interference, BothSidesRunAboutEquallyLong) {
  EXPECT_THAT(calls_beside(1000, 250, 20000), Pair(20, 80));
  EXPECT_THAT(calls_beside(50000, 250, 20000), Pair(4, 80));
  EXPECT_THAT(calls_beside(1000, 0, 20000), Pair(20, 200));
}

TEST(Interference, RatiosAreMediansOverSizes) {
  const std::vector<Beside> all{{100, 10, 110, 15}, {200, 20, 240, 26}, {300, 30, 390, 36}};
  const auto ratios = interference_ratios(all);
  ASSERT_TRUE(ratios);
  EXPECT_DOUBLE_EQ(ratios->first, 1.2);
  EXPECT_DOUBLE_EQ(ratios->second, 1.3);
}

TEST(Interference, NothingIsFasterBesideSomething) {
  const std::vector<Beside> all{{100, 10, 98, 9}};
  EXPECT_THAT(*interference_ratios(all), Pair(1, 1));
}

TEST(Interference, NothingMeasuredHasNoRatio) {
  EXPECT_FALSE(interference_ratios({}));
}

}  // namespace
}  // namespace stepcast::measure::collectives_interference_test
