// SPDX-License-Identifier: Apache-2.0
#include "report/text/explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "report/json/result.h"
#include "report/text/compare.h"
#include "report/text/run.h"
#include "tests/report/sample.h"

namespace stepcast {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

Interval around(double low, double high) {
  Interval i;
  i.low = time_from_seconds(low);
  i.high = time_from_seconds(high);
  i.cost_error = 0.05;
  i.cost_parts = {{"product", 0.03}, {"attention", 0}, {"memory", 0.04}};
  i.like = "training / long kernels";
  i.runs = 1200;
  i.sources = 21;
  i.like_low = 0.95;
  i.like_high = 1.2;
  i.like_cost_error = 0.08;
  return i;
}

const Time kStep = time_from_seconds(10);
const TextStyle kWide{.width = 1000};

TEST(IntervalText, PlusMinusOnlyWhereBothEndsAreAsFar) {
  EXPECT_EQ(step_text(kStep, around(9.6, 10.4)), "10.00 s \u00b1 4 %");
  EXPECT_EQ(step_text(kStep, around(9.65, 10.43)), "10.00 s \u00b1 4 %");
  EXPECT_EQ(step_text(kStep, around(9.6, 11)), "10.00 s");
  EXPECT_EQ(step_text(kStep, around(10.1, 11)), "10.00 s");  // known to be too short
  EXPECT_EQ(step_text(Time{}, around(0, 0)), format_time(Time{}));
}

TEST(IntervalText, SaysBothEndsAndWhoseTheyAre) {
  EXPECT_EQ(interval_name(around(9.6, 11)), "80 % interval");
  EXPECT_EQ(interval_text(kStep, around(9.6, 11)),
            "9.600 s to 11.00 s   -4 % to +10 %, as 1,200 runs of 21 sources");
  EXPECT_THAT(interval_text(kStep, around(10.1, 11)), HasSubstr("+1 % to +10 %"));
}

TEST(IntervalText, ExplainsWhereItComesFrom) {
  std::string text = explain_interval(kStep, around(9.6, 11), kWide);
  EXPECT_THAT(text, HasSubstr("9.600 s to 11.00 s"));
  EXPECT_THAT(text, HasSubstr("training / long kernels: 80 % of 1,200 runs of 21 sources"));
  EXPECT_THAT(text, HasSubstr("(product 3.0 %, memory 4.0 %, added in squares)"));
  EXPECT_THAT(text, HasSubstr("the interval is theirs"));
  Interval worse = around(9.6, 11);
  worse.cost_error = 0.2;
  text = explain_interval(kStep, worse, kWide);
  EXPECT_THAT(text, HasSubstr("20.0 %"));
  EXPECT_THAT(text, HasSubstr("wider"));
}

TEST(IntervalText, WhatIsLikeNoRunHasNone) {
  EXPECT_EQ(explain_interval(kStep, {}, kWide),
            "how far to trust 10.00 s: no run like this one was published and forecast, so it has "
            "no interval\n");
  JsonWriter json(0);
  json.begin_object();
  write_interval_basis(json, {});
  json.end_object();
  EXPECT_EQ(json.text(), "{\"interval\":null}");
}

TEST(IntervalText, JsonHasTheEndsInSeconds) {
  Result r = sample_result();
  EXPECT_THAT(run_json(r, "1"), HasSubstr("\"interval\": null"));
  r.interval = around(9.6, 11);
  EXPECT_THAT(
      run_json(r, "1"),
      HasSubstr("\"interval\": {\n    \"low_s\": 9.6,\n    \"high_s\": 11.0,\n    \"level\": "
                "0.8\n  }"));
  JsonWriter json(0);
  json.begin_object();
  write_interval_basis(json, around(9.6, 11));
  json.end_object();
  EXPECT_THAT(json.text(), HasSubstr("\"sources\":21"));
  EXPECT_THAT(json.text(), HasSubstr("\"memory\":0.04"));
}

TEST(IntervalText, IsALineOfTheReport) {
  Result r = sample_result();
  EXPECT_THAT(text_report(r), Not(HasSubstr("interval")));
  r.interval = around(9.6, 11);
  EXPECT_THAT(text_report(r), HasSubstr("\n  80 % interval  9.600 s to 11.00 s   "));
}

TEST(CheckTable, SaysWhetherWhatWasMeasuredLiesInTheInterval) {
  CheckedFigure in{"a", Figure::step_time, 1.05, 1, 0.1, ""};
  in.interval = {0.9, 1.2, 0.8};
  CheckedFigure out = in;
  out.run = "b";
  out.measured = 1.3;
  const CheckedFigure without{"c", Figure::peak_memory, 5, 5, 0.1, ""};
  const std::string text = check_table(std::vector{in, out, without}, {});
  EXPECT_THAT(text, HasSubstr("in its 80 %\n"));
  EXPECT_THAT(text, HasSubstr("yes\nb"));
  EXPECT_THAT(text, HasSubstr("outside  no\n"));
  const std::string json = check_json(std::vector{in, without}, {}, {});
  EXPECT_THAT(json, HasSubstr("\"low_s\": 0.9,"));
  EXPECT_THAT(json, HasSubstr("\"in_interval\": true"));
  EXPECT_THAT(json, HasSubstr("\"in_interval\": null"));
  EXPECT_THAT(json, HasSubstr("\"interval\": null"));
  CheckedFigure rate = in;
  rate.figure = Figure::tokens_per_gpu_s;
  EXPECT_THAT(check_json(std::vector{rate}, {}, {}), HasSubstr("\"high\": 1.2,"));
}

}  // namespace
}  // namespace stepcast
