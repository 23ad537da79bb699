// SPDX-License-Identifier: Apache-2.0
#include "sim/contention/radix_heap.h"

#include <gtest/gtest.h>

#include <functional>
#include <queue>
#include <random>
#include <tuple>
#include <utility>
#include <vector>

namespace stepcast::radix_heap_test {
namespace {

const auto kAll = [](const auto&) { return true; };

TEST(RadixHeap, IsEmptyAtFirst) {
  RadixHeap<int> heap;
  EXPECT_EQ(heap.least(kAll), INT64_MAX);
  EXPECT_EQ(heap.clock(), 0);
}

TEST(RadixHeap, TakesEqualKeysInTheOrderTheyWerePutIn) {
  RadixHeap<int> heap;
  for (int i = 0; i < 100; ++i) heap.push(i % 3 == 0 ? 1000 : 1000 + i % 3, i);
  heap.push(999, -1);
  std::vector<int> taken;
  const auto take = [&](int v) { taken.push_back(v); };
  for (int64_t key = 0; (key = heap.least(kAll)) < INT64_MAX;) heap.advance(key, take);
  std::vector<int> want = {-1};
  for (int rest = 0; rest < 3; ++rest)
    for (int i = rest; i < 100; i += 3) want.push_back(i);
  EXPECT_EQ(taken, want);
  EXPECT_EQ(heap.clock(), 1002);
  EXPECT_EQ(heap.size(), 0U);
}

TEST(RadixHeap, TakesAnEarlierKeyAfterALaterOneWasSeen) {
  RadixHeap<int> heap;
  heap.push(1 << 20, 1);
  EXPECT_EQ(heap.least(kAll), 1 << 20);
  heap.push(3, 2);
  EXPECT_EQ(heap.least(kAll), 3);
}

TEST(RadixHeap, NeverMovesItsClockToAVoidEntry) {
  RadixHeap<int> heap;
  for (int i = 0; i < 8; ++i) heap.push(100 + i, i);
  const auto odd_and_late = [](int v) { return v == 7; };
  EXPECT_EQ(heap.least(odd_and_late), 107);
  heap.push(50, 9);  // before everything that was dropped
  EXPECT_EQ(heap.least(kAll), 50);
  EXPECT_EQ(heap.clock(), 0);
}

TEST(RadixHeap, KeepsAllKeysApartThatDifferInOneBit) {
  RadixHeap<int> heap;
  for (int bit = 62; bit >= 0; --bit) heap.push(int64_t{1} << bit, bit);
  for (int bit = 0; bit < 63; ++bit) {
    ASSERT_EQ(heap.least(kAll), int64_t{1} << bit);
    heap.advance(int64_t{1} << bit, [&](int v) { EXPECT_EQ(v, bit); });
  }
  EXPECT_EQ(heap.least(kAll), INT64_MAX);
}

TEST(RadixHeap, TakesTheGreatestKey) {
  RadixHeap<int> heap;
  heap.push(INT64_MAX - 1, 5);
  heap.advance(INT64_MAX - 1, [](int v) { EXPECT_EQ(v, 5); });
  EXPECT_EQ(heap.size(), 0U);
}

TEST(RadixHeap, RefusesThePast) {
  RadixHeap<int> heap;
  heap.advance(10, [](int) {});
  EXPECT_THROW(heap.push(9, 0), InternalError);
  EXPECT_THROW(heap.advance(9, [](int) {}), InternalError);
}

TEST(RadixHeap, PurgesWhatIsVoidOnly) {
  RadixHeap<int> heap;
  for (int i = 0; i < 1000; ++i) heap.push(i * i, i);
  heap.purge([](int v) { return v % 10 == 0; });
  EXPECT_EQ(heap.size(), 100U);
  int64_t taken = 0;
  for (int64_t key = 0; (key = heap.least(kAll)) < INT64_MAX; ++taken)
    heap.advance(key, [&](int v) { EXPECT_EQ(int64_t{v} * v, key); });
  EXPECT_EQ(taken, 100);
}

uint32_t below(std::mt19937& random, uint32_t n) {
  return static_cast<uint32_t>(random() % n);
}

// Random pushes, looks, and steps of the clock, some between keys; a third of the entries is made
// void on the way.  std::priority_queue with a running number is the oracle.
TEST(RadixHeap, IsAPriorityQueueWithARunningNumber) {
  using Entry = std::pair<int64_t, uint32_t>;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    std::mt19937 random(seed);
    RadixHeap<uint32_t> heap;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> oracle;
    std::vector<bool> is_void;
    const auto valid = [&](uint32_t v) { return !is_void[v]; };
    const uint32_t width = 1 + below(random, seed % 2 == 0 ? 8 : 1'000'000);
    for (int step = 0; step < 400; ++step) {
      if (random() % 3 > 0) {
        const auto id = static_cast<uint32_t>(is_void.size());
        is_void.push_back(false);
        const int64_t key = heap.clock() + below(random, width);
        heap.push(key, id);
        oracle.emplace(key, id);
      }
      if (random() % 3 == 0 && !is_void.empty()) is_void[random() % is_void.size()] = true;
      while (!oracle.empty() && is_void[oracle.top().second]) oracle.pop();
      const int64_t least = oracle.empty() ? INT64_MAX : oracle.top().first;
      ASSERT_EQ(heap.least(valid), least);
      if (oracle.empty() || random() % 2 == 0) continue;
      const int64_t to = random() % 4 == 0 ? (heap.clock() + least) / 2 : least;
      std::vector<uint32_t> taken, want;
      heap.advance(to, [&](uint32_t v) {
        if (valid(v)) taken.push_back(v);
      });
      for (; !oracle.empty() && oracle.top().first == to; oracle.pop())
        if (valid(oracle.top().second)) want.push_back(oracle.top().second);
      ASSERT_EQ(taken, want) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace stepcast::radix_heap_test
