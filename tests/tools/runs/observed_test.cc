// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/observed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>
#include <string>

#include "tools/runs/summary.h"

namespace stepcast::accuracy::observed_test {
namespace {

using ::testing::HasSubstr;

ObservedRun run(const char* source, const char* run_class, double ratio, double cost_error = 0) {
  return {source, run_class, time_from_seconds(2), time_from_seconds(2 * ratio), cost_error};
}

// `count` runs of ratios from `low` to `high`, evenly.
void add(std::vector<ObservedRun>& runs, const char* source, const char* run_class, int count,
         double low, double high) {
  for (int i = 0; i < count; ++i)
    runs.push_back(run(source, run_class, low + (high - low) * i / std::max(1, count - 1)));
}

std::vector<ObservedRun> eight_sources() {
  std::vector<ObservedRun> runs;
  for (const char* source : {"a", "b", "c", "d", "e", "f", "g", "h"})
    add(runs, source, source[0] < 'e' ? "training / short" : "training / long", 40, 0.9,
        source[0] < 'e' ? 1.8 : 1.2);
  return runs;
}

TEST(ObservedErrors, EveryClassAndAllWiderOnesHaveARow) {
  const std::vector<ClassErrors> table = class_errors(eight_sources(), 0.8);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[0].name, "training");
  EXPECT_EQ(table[0].runs, 320);
  EXPECT_EQ(table[0].sources, 8);
  EXPECT_EQ(table[1].name, "training / long");
  EXPECT_EQ(table[1].sources, 4);
  EXPECT_LT(table[1].high, table[0].high);
  EXPECT_LT(table[0].high, table[2].high);
}

TEST(ObservedErrors, ASourceIsOneWitnessHoweverManyRunsItHas) {
  std::vector<ObservedRun> runs;
  add(runs, "huge", "training", 4000, 1.9, 2.1);
  for (const char* source : {"b", "c", "d", "e", "f", "g", "h", "i", "j", "k"})
    add(runs, source, "training", 40, 0.9, 1.1);
  const std::vector<ClassErrors> table = class_errors(runs, 0.8);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_LT(table[0].high, 1.2);
}

// One run says little: it moves the ends by less than a source of many runs does.
TEST(ObservedErrors, ASourceOfOneRunCountsLess) {
  std::vector<ObservedRun> few = eight_sources(), many = eight_sources();
  add(few, "z", "training / long", 1, 3, 3);
  add(many, "z", "training / long", 100, 3, 3);
  EXPECT_LT(class_errors(few, 0.8)[1].high, class_errors(many, 0.8)[1].high);
}

TEST(ObservedErrors, ANarrowClassLeansOnTheWiderOne) {
  std::vector<ObservedRun> runs = eight_sources();
  add(runs, "a", "training / long / new", 3, 1.0, 1.0);
  const std::vector<ClassErrors> table = class_errors(runs, 0.8);
  const ClassErrors* narrow = errors_like(table, "training / long / new");
  ASSERT_NE(narrow, nullptr);
  EXPECT_EQ(narrow->runs, 3);
  EXPECT_GT(narrow->high, 1.1);  // its own runs alone would say 1.0
}

TEST(ObservedErrors, TheForecastLiesInItsOwnInterval) {
  std::vector<ObservedRun> longer, shorter;
  for (const char* source : {"a", "b", "c", "d"}) {
    add(longer, source, "training", 20, 1.5, 1.8);
    add(shorter, source, "training", 20, 0.5, 0.8);
  }
  EXPECT_EQ(class_errors(longer, 0.8)[0].low, 1);
  EXPECT_GT(class_errors(longer, 0.8)[0].high, 1.5);
  EXPECT_EQ(class_errors(shorter, 0.8)[0].high, 1);
}

// What a row is off by counts as it is with its source left out.
TEST(ObservedErrors, RatiosAreThoseOfForecastsThatTheSourceHadNoPartIn) {
  RunRow row;
  row.source = "a";
  row.run_class = "training";
  row.step_time_s = 1;
  row.left_out_s = 0.8;
  row.measured.step_time_s = 1;
  EXPECT_EQ(observed_runs({row}).front().forecast, time_from_seconds(0.8));
  row.left_out_s.reset();
  EXPECT_EQ(observed_runs({row}).front().forecast, time_from_seconds(1));
}

TEST(ObservedErrors, LargerSharesAreWider) {
  const auto most = class_errors(eight_sources(), 0.9), few = class_errors(eight_sources(), 0.5);
  for (size_t i = 0; i < most.size(); ++i) {
    EXPECT_LT(most[i].low, few[i].low);
    EXPECT_GT(most[i].high, few[i].high);
  }
}

// Twelve sources whose runs lie within 0.05 of a middle, the middles `apart`.
std::vector<ObservedRun> sources_apart(double apart) {
  std::vector<ObservedRun> runs;
  double middle = 0.9;
  for (const char* source : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}) {
    add(runs, source, "training", 30, middle - 0.05, middle + 0.05);
    middle += apart;
  }
  return runs;
}

// Sources differ by more than their runs do: without one of them its runs are covered less often
// than with it.
TEST(ObservedErrors, RunsOfSourcesLeftOutAreCoveredAsOftenAsTheLevelSays) {
  const std::vector<ObservedRun> runs = sources_apart(0.01);
  const Coverages c = coverages(runs, share_that_covers(runs, 0.8));
  EXPECT_GT(c.seen.mean(), c.source_unseen.mean());
  EXPECT_NEAR(c.source_unseen.mean(), 0.8, 0.02);
  EXPECT_LT(c.half_unseen.mean(), 0.85);
  const Coverages by_level = coverages_at_level(runs);
  EXPECT_EQ(by_level.source_unseen.by_run, c.source_unseen.by_run);
  EXPECT_EQ(by_level.half_unseen.by_source, c.half_unseen.by_source);
}

TEST(ObservedErrors, WhereHalvesWouldBeCoveredFarTooOftenBothLieOnEitherSideOfTheLevel) {
  const std::vector<ObservedRun> runs = sources_apart(0.04);
  const Coverages c = coverages(runs, share_that_covers(runs, 0.8));
  EXPECT_LT(c.source_unseen.mean(), 0.79);
  EXPECT_NEAR((c.source_unseen.mean() + c.half_unseen.mean()) / 2, 0.8, 0.03);
}

TEST(ObservedErrors, TheAimIsJudgedByRunsOfSourcesLeftOut) {
  const std::vector<ObservedRun> runs = sources_apart(0.01);
  std::vector<RunRow> rows;
  for (const ObservedRun& r : runs) {
    RunRow& row = rows.emplace_back();
    row.source = r.source;
    row.run_class = r.run_class;
    row.step_time_s = to_seconds(r.forecast);
    row.measured.step_time_s = to_seconds(r.measured);
    row.interval = RunInterval{0, 100, 0.8};  // that all would lie in
  }
  const std::vector<Aim> aims = aims_of(rows);
  const auto aim = std::find_if(aims.begin(), aims.end(), [](const Aim& a) {
    return a.what.find("in the interval") != std::string::npos;
  });
  ASSERT_NE(aim, aims.end());
  EXPECT_EQ(aim->of, runs.size());
  EXPECT_NEAR(aim->reached, 80, 2);
  EXPECT_TRUE(aim->is_met);
}

TEST(ObservedErrors, TheFileReadsBackAndIsNotStale) {
  const std::string csv = observed_csv(eight_sources());
  const std::vector<ClassErrors> table = parse_observed_errors(csv);
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[2].runs, 160);
  EXPECT_EQ(stale_errors(csv, csv), "");
  std::vector<ObservedRun> slower = eight_sources();
  for (ObservedRun& r : slower) r.measured = r.measured * 2;
  EXPECT_THAT(stale_errors(csv, observed_csv(slower)), HasSubstr("training / long: 1."));
  std::vector<ObservedRun> more = eight_sources();
  add(more, "a", "training / new", 3, 1.0, 1.1);
  EXPECT_EQ(stale_errors(csv, observed_csv(more)),
            "training: 323 runs of 8 sources, in the table 320 of 8\n"
            "training / new: not in the table\n");
  EXPECT_EQ(stale_errors(observed_csv(more), csv),
            "training: 320 runs of 8 sources, in the table 323 of 8\n"
            "training / new: no run of it\n");
  EXPECT_THROW(stale_errors("x", csv), InputError);
}

TEST(ObservedErrors, OtherNumbersOfRunsOrSourcesOrErrorsOfPricesAreStale) {
  const auto table = [](const char* figures) {
    return std::string("class,runs,sources,low,high,cost_error\ntraining,") + figures + '\n';
  };
  const std::string shipped = table("100,8,0.9,1.5,0.100");
  EXPECT_EQ(stale_errors(shipped, shipped), "");
  EXPECT_EQ(stale_errors(shipped, table("101,8,0.9,1.5,0.100")),
            "training: 101 runs of 8 sources, in the table 100 of 8\n");
  EXPECT_EQ(stale_errors(shipped, table("100,9,0.9,1.5,0.100")),
            "training: 100 runs of 9 sources, in the table 100 of 8\n");
  EXPECT_EQ(stale_errors(shipped, table("100,8,0.9,1.5,0.104")), "");
  EXPECT_EQ(stale_errors(shipped, table("100,8,0.9,1.5,0.120")),
            "training: error of prices 0.120, in the table 0.100\n");
}

TEST(ObservedErrors, OnlyRowsWithTimesAndAClassAreObserved) {
  RunRow row;
  row.source = "a";
  row.run_class = "training";
  row.step_time_s = 2;
  row.measured.step_time_s = 3;
  std::vector<RunRow> rows(4, row);
  rows[1].step_time_s.reset();
  rows[2].measured.step_time_s.reset();
  rows[3].run_class.clear();
  EXPECT_EQ(observed_runs(rows).size(), 1u);
  EXPECT_EQ(coverage_text({}), "");
  EXPECT_THAT(coverage_text(rows), HasSubstr("of 1 runs"));
}

}  // namespace
}  // namespace stepcast::accuracy::observed_test
