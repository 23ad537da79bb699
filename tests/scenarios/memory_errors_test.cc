// SPDX-License-Identifier: Apache-2.0
#include "scenarios/memory_errors.h"

#include <gtest/gtest.h>

#include <string>

#include "sim/diagnostic.h"

namespace stepcast::memory_errors_test {
namespace {

MemoryErrors like(std::string name = "memory / reserved") {
  MemoryErrors e{std::move(name), 120, 9, {}};
  e.ratios = {0.90, 0.95, 0.97, 0.98, 0.99, 1.00, 1.02, 1.04, 1.06, 1.10, 1.20};
  return e;
}

TEST(MemoryIntervals, LieBetweenTheTenthsAtEitherEnd) {
  const MemoryInterval i = make_memory_interval(Bytes{1'000'000}, like());
  EXPECT_EQ(i.low.value, 950'000);
  EXPECT_EQ(i.high.value, 1'100'000);
  EXPECT_EQ(i.like, "memory / reserved");
  EXPECT_EQ(i.runs, 120);
  EXPECT_EQ(i.sources, 9);
  EXPECT_EQ(i.level, 0.8);
}

TEST(MemoryIntervals, HoldTheForecast) {
  MemoryErrors low = like();
  for (double& ratio : low.ratios) ratio -= 0.5;
  EXPECT_EQ(make_memory_interval(Bytes{1000}, low).high.value, 1000);
  for (double& ratio : low.ratios) ratio += 1;
  EXPECT_EQ(make_memory_interval(Bytes{1000}, low).low.value, 1000);
}

TEST(MemoryIntervals, TheShareThatFitsGrowsWithTheRoom) {
  EXPECT_EQ(share_that_fits(like(), 0.5), 0.05);
  EXPECT_EQ(share_that_fits(like(), 0.9), 0.05);
  EXPECT_NEAR(share_that_fits(like(), 0.95), 0.1, 1e-12);
  EXPECT_NEAR(share_that_fits(like(), 1.03), 0.65, 1e-12);
  EXPECT_NEAR(share_that_fits(like(), 1.15), 0.925, 1e-12);
  EXPECT_EQ(share_that_fits(like(), 1.2), 0.95);
  EXPECT_EQ(share_that_fits(like(), 9), 0.95);
  MemoryErrors all_alike = like();
  all_alike.ratios.fill(1);
  EXPECT_EQ(share_that_fits(all_alike, 0.99), 0.05);
  EXPECT_EQ(share_that_fits(all_alike, 1), 0.95);
}

TEST(MemoryErrorTable, AClassThatIsNotThereIsTheWiderOne) {
  const std::vector<MemoryErrors> table{like("memory"), like()};
  EXPECT_EQ(memory_errors_like(table, "memory / reserved"), &table[1]);
  EXPECT_EQ(memory_errors_like(table, "memory / allocated"), &table[0]);
  EXPECT_EQ(memory_errors_like({}, "memory"), nullptr);
}

TEST(MemoryErrorTable, TheShippedOneHasBothQuantities) {
  for (const std::string_view name : {kAnyMemory, kAllocatedMemory, kReservedMemory}) {
    const MemoryErrors* e = memory_errors_like(memory_errors(), name);
    ASSERT_NE(e, nullptr);
    EXPECT_EQ(e->name, name);
    EXPECT_GE(e->sources, 4);
    EXPECT_LT(e->ratios.front(), e->ratios.back());
  }
}

TEST(MemoryErrorTable, ReadsBackAndRefusesWhatIsNone) {
  const std::string text = memory_errors_csv(std::vector{like()}, "# where from\n");
  const std::vector<MemoryErrors> table = parse_memory_errors(text);
  ASSERT_EQ(table.size(), 1u);
  EXPECT_EQ(table[0].ratios, like().ratios);
  const std::string head = text.substr(0, text.find("memory / "));
  for (const std::string& row : {std::string("x"), std::string(",9,3,1,1,1,1,1,1,1,1,1,1,1"),
                                 std::string("memory,0,0,1,1,1,1,1,1,1,1,1,1,1"),
                                 std::string("memory,3,9,1,1,1,1,1,1,1,1,1,1,1"),
                                 std::string("memory,9,3,0,1,1,1,1,1,1,1,1,1,1"),
                                 std::string("memory,9,3,1,1,2,1,1,1,1,1,1,1,1"),
                                 std::string("memory,9,3,1,1,1,1,1,1,1,1,1,1,inf"),
                                 std::string("memory,9,3,nan,1,1,1,1,1,1,1,1,1,1")})
    EXPECT_THROW(parse_memory_errors(head + row + '\n'), InputError) << row;
  EXPECT_THROW(parse_memory_errors("memory\n"), InputError);
}

}  // namespace
}  // namespace stepcast::memory_errors_test
