// SPDX-License-Identifier: Apache-2.0
#include "scenarios/observed_errors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace stepcast::observed_errors_test {
namespace {

using ::testing::HasSubstr;

const ClassErrors kLike{"training / long kernels", 120, 9, 0.9, 1.3, 0.10};

double seconds(Time t) {
  return to_seconds(t);
}

TEST(Intervals, AreTheRatiosOfLikeRunsWhereCostsAreAsGood) {
  for (const double cost_error : {0.0, 0.05, 0.10}) {
    const Interval i = make_interval(time_from_seconds(2), cost_error, kLike);
    EXPECT_NEAR(seconds(i.low), 1.8, 1e-9);
    EXPECT_NEAR(seconds(i.high), 2.6, 1e-9);
    EXPECT_EQ(i.runs, 120);
    EXPECT_EQ(i.sources, 9);
    EXPECT_EQ(i.like, kLike.name);
    EXPECT_EQ(i.level, 0.8);
  }
}

TEST(Intervals, WidenOnEitherSideAlikeWithWorseCosts) {
  const Interval as_good = make_interval(time_from_seconds(2), 0.10, kLike);
  const Interval worse = make_interval(time_from_seconds(2), 0.40, kLike);
  EXPECT_LT(worse.low, as_good.low);
  EXPECT_GT(worse.high, as_good.high);
  EXPECT_NEAR(seconds(worse.high) / seconds(as_good.high),
              seconds(as_good.low) / seconds(worse.low), 1e-9);
}

TEST(Intervals, OfNothingAndOfMonthsAreNoError) {
  const Interval none = make_interval(Time{}, 0.1, kLike);
  EXPECT_EQ(none.low, Time{});
  EXPECT_EQ(none.high, Time{});
  const Interval months = make_interval(time_from_seconds(9e6), 0.1, kLike);
  EXPECT_GE(months.high, months.low);
}

TEST(ObservedErrors, AClassThatIsNotThereIsTheNextWiderOne) {
  const std::vector<ClassErrors> table{{"training", 9, 3, 1, 2, 0}, kLike};
  EXPECT_EQ(errors_like(table, kLike.name)->runs, 120);
  EXPECT_EQ(errors_like(table, "training / long kernels / another")->runs, 120);
  EXPECT_EQ(errors_like(table, "training / short kernels / tiny")->runs, 9);
  EXPECT_EQ(errors_like(table, "inference"), nullptr);
  EXPECT_EQ(errors_like(table, ""), nullptr);
  EXPECT_EQ(errors_like({}, "training"), nullptr);
}

TEST(ObservedErrors, ShippedTableIsATreeOfClassesWithSources) {
  std::set<std::string> names;
  for (const ClassErrors& c : observed_errors()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    const size_t cut = c.name.rfind(" / ");
    if (cut == std::string::npos) {
      EXPECT_EQ(c.name, "training");
      EXPECT_GE(c.sources, 20);
    } else {
      EXPECT_TRUE(names.contains(c.name.substr(0, cut))) << c.name;
    }
    EXPECT_LT(c.low, c.high) << c.name;
  }
  EXPECT_TRUE(names.contains("training"));
}

TEST(ObservedErrors, WhatIsNoTableIsRefused) {
  const std::string head = "class,runs,sources,low,high,cost_error\n";
  EXPECT_EQ(parse_observed_errors("# of then\n" + head + "training,9,3,0.9,1.5,0.1\n").size(), 1u);
  for (const std::string& bad :
       {std::string(), std::string("x\n"), head + "training\n", head + "training,9,3,0.9,1.5\n",
        head + "training,9,3,0.9,1.5,0.1,1\n", head + "training,9,3,0.9,1.5,x\n",
        head + ",9,3,0.9,1.5,0.1\n", head + "training,0,0,0.9,1.5,0.1\n",
        head + "training,3,9,0.9,1.5,0.1\n", head + "training,9,3,0,1.5,0.1\n",
        head + "training,9,3,1.6,1.5,0.1\n", head + "training,9,3,0.9,inf,0.1\n",
        head + "training,9,3,0.9,1.5,-0.1\n", head + "training,9,3,nan,1.5,0.1\n"})
    EXPECT_THROW(parse_observed_errors(bad), InputError) << bad;
}

}  // namespace
}  // namespace stepcast::observed_errors_test
