// SPDX-License-Identifier: Apache-2.0
#include "tools/runs/observed_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "sim/diagnostic.h"

namespace stepcast::accuracy::observed_memory_test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kAllocated = "memory / allocated";
constexpr const char* kReserved = "memory / reserved";

// `count` runs of ratios from `low` to `high`, evenly.
void add(std::vector<ObservedMemory>& runs, const char* source, const char* name, int count,
         double low, double high) {
  for (int i = 0; i < count; ++i)
    runs.push_back({source, name, low + (high - low) * i / std::max(1, count - 1)});
}

std::vector<ObservedMemory> eight_sources() {
  std::vector<ObservedMemory> runs;
  for (const char* source : {"a", "b", "c", "d"}) add(runs, source, kAllocated, 40, 0.97, 1.03);
  for (const char* source : {"e", "f", "g", "h"}) add(runs, source, kReserved, 40, 0.95, 1.15);
  return runs;
}

TEST(ObservedMemories, OfEachQuantityAndOfAll) {
  const std::vector<MemoryErrors> table = memory_classes(eight_sources());
  ASSERT_EQ(table.size(), 3u);
  EXPECT_EQ(table[0].name, "memory");
  EXPECT_EQ(table[0].runs, 320);
  EXPECT_EQ(table[0].sources, 8);
  EXPECT_EQ(table[1].name, kAllocated);
  EXPECT_EQ(table[2].name, kReserved);
  EXPECT_EQ(table[2].sources, 4);
  EXPECT_LT(table[1].ratios.back(), table[2].ratios.back());
  EXPECT_TRUE(memory_classes({}).empty());
}

TEST(ObservedMemories, ASourceIsOneWitnessHoweverManyRunsItHas) {
  std::vector<ObservedMemory> runs = eight_sources();
  add(runs, "huge", kReserved, 4000, 1.9, 2.1);
  EXPECT_LT(memory_classes(runs)[2].ratios[8], 1.2);  // of four fifths
}

TEST(ObservedMemories, OnlyLikeQuantitiesAreCompared) {
  RunRow row;
  row.source = "a";
  row.memory_class = kReserved;
  row.peak_memory = 50;
  row.measured.peak_memory = 60;
  std::vector<RunRow> rows(4, row);
  rows[1].peak_memory.reset();
  rows[2].measured.peak_memory.reset();
  rows[3].memory_class.clear();
  const std::vector<ObservedMemory> runs = observed_memories(rows);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_DOUBLE_EQ(runs[0].ratio, 1.2);
  EXPECT_EQ(runs[0].memory_class, kReserved);
}

TEST(ObservedMemories, RunsOfASourceLeftOutAreCoveredLessOften) {
  std::vector<ObservedMemory> runs;
  double middle = 0.9;
  for (const char* source : {"a", "b", "c", "d", "e", "f"}) {
    add(runs, source, kReserved, 30, middle - 0.02, middle + 0.02);
    middle += 0.05;
  }
  const Coverages c = memory_coverages(runs);
  EXPECT_GT(c.seen.by_source, c.source_unseen.by_source);
  EXPECT_GT(c.seen.by_run, 0.75);
}

// Rows with a verdict are judged by a table that their source has no part in.
TEST(SurelyFits, CountsRunsByWhatWasSaidOfThem) {
  std::vector<RunRow> rows;
  for (const ObservedMemory& r : eight_sources()) {
    RunRow& row = rows.emplace_back();
    row.source = r.source;
    row.memory_class = r.memory_class;
    row.peak_memory = 1;
    row.measured.peak_memory = r.ratio;
  }
  const auto verdict = [&](double room, bool ran_out) {
    RunRow& row = rows.emplace_back();
    row.source = "verdicts";
    row.memory_room = room;
    row.measured.out_of_memory = ran_out;
  };
  for (int i = 0; i < 10; ++i) verdict(1.2, i == 0);
  for (int i = 0; i < 4; ++i) verdict(0.8, true);
  verdict(1.05, false);
  const std::vector<Surely> bins = surely_fits(rows);
  ASSERT_EQ(bins.size(), 5u);
  EXPECT_EQ(bins.front().from, 0.95);
  EXPECT_EQ(bins.front().runs, 10u);
  EXPECT_EQ(bins.front().ran, 9u);
  EXPECT_EQ(bins.back().runs, 4u);
  EXPECT_EQ(bins.back().ran, 0u);
  EXPECT_EQ(bins[2].runs, 1u);
  const std::string text = memory_trust_text(rows);
  EXPECT_THAT(text, HasSubstr("Measured memory within the 80 % interval, of 320 runs"));
  EXPECT_THAT(text, HasSubstr("   95 to 100 %       10        9     90.0 %"));
  EXPECT_EQ(memory_trust_text({}), "");
}

TEST(MemoryFile, ReadsBackAndIsNotStale) {
  const std::string csv = memory_csv(eight_sources());
  EXPECT_EQ(parse_memory_errors(csv).size(), 3u);
  EXPECT_EQ(stale_memory_errors(csv, csv), "");
  std::vector<ObservedMemory> more = eight_sources();
  more.push_back({"z", kReserved, 1.0});
  EXPECT_THAT(stale_memory_errors(csv, memory_csv(more)),
              HasSubstr("memory / reserved: 161 runs of 5 sources, in the table 160 of 4\n"));
  std::vector<ObservedMemory> larger = eight_sources();
  for (ObservedMemory& r : larger) r.ratio *= 1.1;
  EXPECT_THAT(stale_memory_errors(csv, memory_csv(larger)), HasSubstr("memory: 1."));
  std::vector<ObservedMemory> fewer;
  add(fewer, "a", kAllocated, 40, 0.97, 1.03);
  EXPECT_THAT(stale_memory_errors(csv, memory_csv(fewer)),
              HasSubstr("memory / reserved: no run of it\n"));
  EXPECT_THROW(stale_memory_errors("x", csv), InputError);
}

}  // namespace
}  // namespace stepcast::accuracy::observed_memory_test
