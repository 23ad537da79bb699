// SPDX-License-Identifier: Apache-2.0
#include "report/text/compare.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/sample.h"

namespace stepcast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<CheckedFigure> kFigures{
    {"a", Figure::step_time, 1.05, 1, 0.1, "paper"},
    {"b", Figure::step_time, 1.3, 1, 0.1, ""},
    {"b", Figure::peak_memory, 2.0 * (1 << 30), 2.0 * (1 << 30), 0.05, ""}};

TEST(CheckTable, SaysHowFarEachFigureIsOffAndWhetherThatIsWithinItsTolerance) {
  const std::string text = check_table(kFigures, {});
  EXPECT_THAT(text, HasSubstr("a  step time"));
  EXPECT_THAT(text, HasSubstr("+5.0 %"));
  EXPECT_THAT(text, HasSubstr("+30.0 %  10.0 %  outside\n"));
  EXPECT_THAT(text, HasSubstr("0.0 %  5.0 %\n"));
  EXPECT_THAT(text, HasSubstr("step time: 2 runs, median error 5.0 %, worst 30.0 %\n"));
  EXPECT_THAT(text, Not(HasSubstr("peak memory: 1 runs")));
  EXPECT_THAT(text, Not(HasSubstr("doubts")));
}

TEST(CheckTable, NamesFromFilesAreHarmless) {
  const CheckedFigure bad{"a\x1b[31m", Figure::step_time, 1, 1, 0.1, ""};
  EXPECT_THAT(check_table(std::vector{bad}, {}), Not(HasSubstr("\x1b")));
}

TEST(CheckTable, JsonIsWithinOnlyIfAllFiguresAre) {
  EXPECT_THAT(check_json(kFigures, {}, {}), HasSubstr("\n  \"within\": false,"));
  EXPECT_THAT(check_json(std::vector{kFigures[0]}, {}, {}),
              HasSubstr("\n  \"within\": true,\n  \"errors\": []\n}"));
}

TEST(CheckTable, JsonHasTheReasonsOfFilesThatCouldNotBeChecked) {
  Diagnostic missing;
  missing.code = "E101";
  missing.message = "cannot read 'b.yaml'";
  const std::string json = check_json(kFigures, {}, std::vector{missing});
  EXPECT_THAT(json, HasSubstr("\"run\": \"a\""));
  EXPECT_THAT(json, HasSubstr("\"code\": \"E101\""));
}

TEST(CheckTable, DoubtsAreWorksWithoutMeasuredPricesLongestFirst) {
  const Result r = sample_result();
  const std::vector<Doubt> doubts = largest_doubts("run", 3, r, 2);
  ASSERT_LE(doubts.size(), 2u);
  for (const Doubt& d : doubts) {
    EXPECT_NE(d.origin, "measured");
    EXPECT_NE(d.origin, "interpolated");
  }
  ASSERT_EQ(doubts.size(), 2u);
  EXPECT_GE(doubts[0].share, doubts[1].share);
  EXPECT_EQ(doubts[1].run_index, 3u);
}

TEST(CheckTable, LargestDoubtOfEachRunIsNamedAsSuch) {
  const Doubt a{"one", "product", "extrapolated", "from 16", 0.25},
      b{"one", "norm", "roofline", "", 0.1};
  EXPECT_THAT(check_table({}, std::vector{a, b}),
              HasSubstr("\nlargest doubt: product, extrapolated (from 16), 25.0 % of device time\n"
                        "         next: norm, roofline, 10.0 % of device time\n"));
  const Doubt other{"two", "norm", "roofline", "", 0.2, 1};
  EXPECT_THAT(
      check_table({}, std::vector{a, b, other}),
      HasSubstr("\nlargest doubt: one: product, extrapolated (from 16), 25.0 % of device time\n"
                "         next: norm, roofline, 10.0 % of device time\n"
                "largest doubt: two: norm, roofline, 20.0 % of device time\n"));
}

TEST(CheckTable, RunsOfOneNameHaveTheirDoubtsApart) {
  const Doubt a{"one", "product", "roofline", "", 0.25, 0},
      b{"one", "norm", "roofline", "", 0.1, 1};
  EXPECT_THAT(check_table({}, std::vector{a, b}),
              HasSubstr("\nlargest doubt: one: product, roofline, 25.0 % of device time\n"
                        "largest doubt: one: norm, roofline, 10.0 % of device time\n"));
}

}  // namespace
}  // namespace stepcast
