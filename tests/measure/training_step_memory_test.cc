// SPDX-License-Identifier: Apache-2.0
#include "calibrate/measure/training_step_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <vector>

#include "calibrate/measure/training_step_works.h"

namespace stepcast::measure {
namespace {

TEST(Arena, GivesPlacesOf256Bytes) {
  Arena arena;
  EXPECT_EQ(arena.take(1), 0);
  EXPECT_EQ(arena.take(257), 256);
  EXPECT_EQ(arena.take(256), 768);
  EXPECT_EQ(arena.peak(), 1024);
}

TEST(Arena, TakesTheSmallestGapThatFits) {
  Arena arena;
  const int64_t large = arena.take(1024);
  arena.take(256);
  const int64_t small = arena.take(512);
  arena.take(256);
  arena.give_back(large);
  arena.give_back(small);
  EXPECT_EQ(arena.take(512), small);
  EXPECT_EQ(arena.take(512), large);
  EXPECT_EQ(arena.take(512), large + 512);
  EXPECT_EQ(arena.peak(), 2048);
}

TEST(Arena, JoinsNeighbouringGaps) {
  Arena arena;
  const int64_t a = arena.take(256), b = arena.take(256), c = arena.take(256);
  arena.take(256);
  arena.give_back(a);
  arena.give_back(c);
  arena.give_back(b);
  EXPECT_EQ(arena.take(768), 0);
  EXPECT_EQ(arena.peak(), 1024);
}

TEST(Arena, IsAsNewWhenEverythingIsGivenBack) {
  Arena arena;
  const auto run = [&] {
    std::vector<int64_t> places;
    for (int64_t bytes : {512, 2048, 256}) places.push_back(arena.take(bytes));
    arena.give_back(places[0]);
    for (int64_t bytes : {256, 1024}) places.push_back(arena.take(bytes));
    std::vector<int64_t> held(places.begin() + 1, places.end());
    for (int64_t place : held) arena.give_back(place);
    EXPECT_TRUE(arena.empty());
    return places;
  };
  const std::vector<int64_t> first = run();
  const int64_t peak = arena.peak();
  EXPECT_EQ(run(), first);
  EXPECT_EQ(arena.peak(), peak);
}

TEST(Arena, NeverGivesAPlaceTwice) {
  Arena arena;
  std::mt19937 random(3);
  std::map<int64_t, int64_t> held;
  for (int i = 0; i < 3000; ++i) {
    if (held.size() > 20 || (!held.empty() && random() % 3 == 0)) {
      auto it = held.begin();
      std::advance(it, random() % held.size());
      arena.give_back(it->first);
      held.erase(it);
      continue;
    }
    const int64_t bytes = 1 + random() % 5000, place = arena.take(bytes);
    const auto next = held.lower_bound(place);
    const bool below = next == held.end() || place + bytes <= next->first;
    const bool above = next == held.begin() || [&] {
      const auto before = std::prev(next);
      return before->first + before->second <= place;
    }();
    ASSERT_TRUE(below && above);
    held[place] = bytes;
    ASSERT_LE(place + bytes, arena.peak());
  }
}

// Gaps that nothing fits into cost less than a fifth: about the scores of one layer.
TEST(MicrobatchBytes, AreLittleMoreThanTheTensorsOfThePeak) {
  for (const bool fused : {false, true}) {
    TrainingStep s;
    s.fused_attention = fused;
    const StepWorks works = step_works(s);
    const auto tensors = static_cast<double>(works.peak_bytes - works.state_bytes);
    const auto block = static_cast<double>(microbatch_bytes(s));
    EXPECT_GE(block, tensors);
    EXPECT_LT(block, 1.2 * tensors) << fused;
  }
}

}  // namespace
}  // namespace stepcast::measure
