// SPDX-License-Identifier: Apache-2.0
#include "tests/accuracy/observed.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

namespace stepcast::accuracy {
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

TEST(ObservedErrors, LargerSharesAreWider) {
  const auto most = class_errors(eight_sources(), 0.9), few = class_errors(eight_sources(), 0.5);
  for (size_t i = 0; i < most.size(); ++i) {
    EXPECT_LT(most[i].low, few[i].low);
    EXPECT_GT(most[i].high, few[i].high);
  }
}

TEST(ObservedErrors, UnseenRunsAreCoveredAsOftenAsTheLevelSays) {
  // Sources that differ by more than their runs do: without one of them its runs are covered less
  // often than with it.
  std::vector<ObservedRun> runs;
  const char* sources[] = {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"};
  double middle = 0.9;
  for (const char* source : sources) {
    add(runs, source, "training", 30, middle - 0.05, middle + 0.05);
    middle += 0.04;
  }
  const double share = share_that_covers(runs, 0.8);
  const Coverages c = coverages(runs, share);
  EXPECT_GT(c.seen.by_run, c.source_unseen.by_run);
  EXPECT_NEAR(middle_of_unseen(c), 0.8, 0.02);
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
  EXPECT_EQ(stale_errors(csv, observed_csv(more)), "training / new: not in the table\n");
  EXPECT_EQ(stale_errors(observed_csv(more), csv), "training / new: no run of it\n");
  EXPECT_THROW(stale_errors("x", csv), std::invalid_argument);
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
}  // namespace stepcast::accuracy
