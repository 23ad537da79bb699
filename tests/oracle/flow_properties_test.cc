// SPDX-License-Identifier: Apache-2.0
// What must hold for any flows on shared links, and what does not: a wider link can make the whole
// slower where flows wait for each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "tests/oracle/flows.h"
#include "tests/oracle/network_ends.h"
#include "tests/oracle/random_graph.h"
#include "tests/random_cases.h"

namespace stepcast::flow_properties_test {
namespace {

using oracle::Draws;
using oracle::FlowCase;
using oracle::network_ends;
using oracle::TimedFlow;

constexpr int64_t kFree = INT64_MAX;
constexpr int64_t kUnit = 1'000'000'000;        // bytes, and bytes per second
constexpr int64_t kSecond = 1'000'000'000'000;  // ps

int64_t makespan(const std::vector<int64_t>& capacity, const std::vector<TimedFlow>& flows) {
  const std::vector<int64_t> ends = network_ends(capacity, flows);
  return *std::max_element(ends.begin(), ends.end());
}

std::vector<uint32_t> shuffled(Draws& draws, size_t n) {
  std::vector<uint32_t> order(n);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = static_cast<uint32_t>(n); i > 1; --i)
    std::swap(order[i - 1], order[draws.below(i)]);
  return order;
}

// The smallest case known of a faster part that makes the whole slower: with the wider link flow 1
// ends sooner, 3 starts sooner and takes half of link y from 2, for which 4 waits.
TEST(Anomaly, AWiderLinkMakesTheWholeSlower) {
  enum : uint32_t { x, y, z };
  const std::vector<TimedFlow> flows = {
      {0, {}, 8 * kUnit, kFree, {{z}}, {}},       {0, {}, 4 * kUnit, kFree, {{z}}, {}},
      {0, {}, 4 * kUnit, kFree, {{y}, {z}}, {}},  {0, {1}, 4 * kUnit, kFree, {{y}}, {}},
      {0, {2}, 6 * kUnit, kFree, {{x}, {z}}, {}},
  };
  EXPECT_EQ(makespan({2 * kUnit, 1 * kUnit, 3 * kUnit}, flows), 8 * kSecond);
  EXPECT_EQ(makespan({2 * kUnit, 1 * kUnit, 6 * kUnit}, flows), 94 * kSecond / 10);
}

FlowCase random_dag(Draws& draws) {
  FlowCase c;
  for (int l = 0; l < 3; ++l) c.capacity.push_back(draws.between(1, 4) * kUnit);
  for (uint32_t f = 0; f < 5; ++f) {
    TimedFlow flow{0, {}, draws.between(1, 8) * kUnit, kFree, {}, {}};
    for (uint32_t l = 0; l < 3; ++l)
      if (draws.chance(45)) flow.uses.push_back({l});
    if (flow.uses.empty()) flow.uses.push_back({draws.below(3)});
    if (f > 0 && draws.chance(60)) flow.after.push_back(draws.below(f));
    c.flows.push_back(flow);
  }
  return c;
}

TEST(Anomaly, IsRareAndBoundedOnSmallGraphs) {
  constexpr int kCases = 20'000;
  Draws draws(2024);
  int slower = 0;
  double worst = 1;
  for (int i = 0; i < kCases; ++i) {
    FlowCase c = random_dag(draws);
    const int64_t before = makespan(c.capacity, c.flows);
    c.capacity[draws.below(3)] *= 2;
    const double ratio =
        static_cast<double>(makespan(c.capacity, c.flows)) / static_cast<double>(before);
    if (ratio > 1 + 1e-9) ++slower;
    worst = std::max(worst, ratio);
  }
  RecordProperty("slower", slower);
  RecordProperty("worst", std::to_string(worst));
  EXPECT_GT(slower, 0);
  EXPECT_LT(slower, kCases / 100);
  EXPECT_LT(worst, 1.5);
}

TEST(FlowTimes, AreNotChangedByLinksThatNobodyUses) {
  for (uint64_t seed = 0; seed < stepcast::testing::random_cases(200); ++seed) {
    FlowCase c = oracle::random_flows(seed);
    const std::vector<int64_t> want = network_ends(c.capacity, c.flows);
    c.capacity.insert(c.capacity.begin(), 17);
    for (TimedFlow& f : c.flows)
      for (LinkUse& u : f.uses) ++u.link;
    c.capacity.push_back(1);
    ASSERT_EQ(network_ends(c.capacity, c.flows), want) << "seed " << seed;
  }
}

TEST(FlowTimes, DoNotDependOnTheOrderOfFlowsOrLinks) {
  for (uint64_t seed = 0; seed < stepcast::testing::random_cases(500); ++seed) {
    FlowCase c = oracle::random_flows(seed);
    for (TimedFlow& f : c.flows) f.after.clear();  // they refer to earlier flows
    const std::vector<int64_t> want = network_ends(c.capacity, c.flows);
    Draws draws(seed);
    const std::vector<uint32_t> links = shuffled(draws, c.capacity.size());
    const std::vector<uint32_t> order = shuffled(draws, c.flows.size());
    FlowCase moved = c;
    for (size_t l = 0; l < links.size(); ++l) moved.capacity[links[l]] = c.capacity[l];
    for (size_t f = 0; f < order.size(); ++f) {
      TimedFlow& flow = moved.flows[order[f]] = c.flows[f];
      for (LinkUse& u : flow.uses) u.link = links[u.link];
      std::reverse(flow.uses.begin(), flow.uses.end());
    }
    const std::vector<int64_t> got = network_ends(moved.capacity, moved.flows);
    for (size_t f = 0; f < order.size(); ++f)
      ASSERT_EQ(got[order[f]], want[f]) << "seed " << seed << ", flow " << f;
  }
}

// Capacities with so many divisors that every share is whole; then scaling is exact.
FlowCase divisible(Draws& draws) {
  FlowCase c = random_dag(draws);
  for (int64_t& x : c.capacity) x = x / kUnit * 7'207'200;  // 2^5 3^2 5^2 7 11 13
  return c;
}

TEST(FlowTimes, AreTheSameWithKTimesTheBytesOnKTimesTheCapacity) {
  Draws draws(5);
  for (uint64_t i = 0; i < stepcast::testing::random_cases(2000); ++i) {
    FlowCase c = divisible(draws);
    const std::vector<int64_t> want = network_ends(c.capacity, c.flows);
    for (int64_t& x : c.capacity) x *= 3;
    for (TimedFlow& f : c.flows) f.bytes *= 3;
    ASSERT_EQ(network_ends(c.capacity, c.flows), want) << "case " << i;
  }
}

// Up to the picosecond by which each end before it is rounded up.
TEST(FlowTimes, GrowAsTheBytesDo) {
  Draws draws(6);
  for (uint64_t i = 0; i < stepcast::testing::random_cases(2000); ++i) {
    FlowCase c = random_dag(draws);
    const std::vector<int64_t> want = network_ends(c.capacity, c.flows);
    for (TimedFlow& f : c.flows) f.bytes *= 10;
    const std::vector<int64_t> got = network_ends(c.capacity, c.flows);
    for (size_t f = 0; f < got.size(); ++f) {
      ASSERT_LE(got[f], 10 * want[f] + 200) << "case " << i;
      ASSERT_GE(got[f], 10 * want[f] - 200) << "case " << i;
    }
  }
}

// Bytes over a link are never more than its capacity allows, and somebody always moves: no longer
// than all flows one after the other, no shorter than the fullest link.
TEST(FlowTimes, LieBetweenTheFullestLinkAndOneAfterTheOther) {
  Draws draws(8);
  for (uint64_t i = 0; i < stepcast::testing::random_cases(2000); ++i) {
    const FlowCase c = random_dag(draws);
    const int64_t end = makespan(c.capacity, c.flows);
    std::vector<double> over(c.capacity.size());
    double serial = 0;
    for (const TimedFlow& f : c.flows) {
      double alone = 0;
      for (const LinkUse& u : f.uses) {
        const double seconds =
            static_cast<double>(f.bytes) / static_cast<double>(c.capacity[u.link]);
        over[u.link] += seconds;
        alone = std::max(alone, seconds);
      }
      serial += alone;
    }
    const double seconds = static_cast<double>(end) * 1e-12;
    ASSERT_GE(seconds, *std::max_element(over.begin(), over.end()) * (1 - 1e-9)) << "case " << i;
    ASSERT_LE(seconds, serial * (1 + 1e-6)) << "case " << i;
  }
}

}  // namespace
}  // namespace stepcast::flow_properties_test
