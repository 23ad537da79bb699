// SPDX-License-Identifier: Apache-2.0
#include "sim/contention/fair_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace stepcast {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kFree = INT64_MAX;

struct Flow {
  int64_t cap = kFree;
  std::vector<LinkUse> uses;
};

uint32_t below(std::mt19937& random, uint32_t n) {
  return static_cast<uint32_t>(random() % n);
}

std::vector<int64_t> rates(const std::vector<int64_t>& capacity, const std::vector<Flow>& flows) {
  std::vector<FlowDemand> demands;
  for (const Flow& f : flows) demands.push_back({f.cap, f.uses});
  return max_min_rates(capacity, demands);
}

TEST(MaxMinRates, OfNoFlowsAreNone) {
  EXPECT_THAT(rates({5}, {}), IsEmpty());
}

TEST(MaxMinRates, OfAFlowAloneIsItsCapOrItsNarrowestLink) {
  EXPECT_THAT(rates({30, 20, 25}, {{kFree, {{0}, {1}, {2}}}}), ElementsAre(20));
  EXPECT_THAT(rates({30, 20, 25}, {{7, {{0}, {1}, {2}}}}), ElementsAre(7));
  EXPECT_THAT(rates({}, {{kFree, {}}}), ElementsAre(kFree));
}

TEST(MaxMinRates, ShareALinkEquallyAndGiveOthersWhatACapLeaves) {
  EXPECT_THAT(rates({90}, {{kFree, {{0}}}, {kFree, {{0}}}, {kFree, {{0}}}}),
              ElementsAre(30, 30, 30));
  EXPECT_THAT(rates({90}, {{kFree, {{0}}}, {10, {{0}}}, {kFree, {{0}}}}), ElementsAre(40, 10, 40));
}

// Bertsekas and Gallager's example: a long flow across links that have flows of their own.
TEST(MaxMinRates, OfTheParkingLotLeaveTheRestToWhoCanUseIt) {
  EXPECT_THAT(rates({100, 100, 200}, {{kFree, {{0}, {1}, {2}}},
                                      {kFree, {{0}}},
                                      {kFree, {{1}}},
                                      {kFree, {{1}}},
                                      {kFree, {{2}}}}),
              ElementsAre(33, 66, 33, 33, 166));
}

TEST(MaxMinRates, CountTheLoadThatAFlowPutsOnALink) {
  EXPECT_THAT(rates({90}, {{kFree, {{0, 2 * kFullLoad}}}, {kFree, {{0, kFullLoad}}}}),
              ElementsAre(30, 30));
  EXPECT_THAT(rates({90}, {{kFree, {{0, kFullLoad / 2}}}}), ElementsAre(180));
  // Twice on a link is a load of two.
  EXPECT_THAT(rates({90}, {{kFree, {{0}, {0}}}}), ElementsAre(45));
}

TEST(MaxMinRates, AreRoundedDownOnceSoThatThirdsMakeAWhole) {
  // Three get 10/3 of link 0 each; that leaves the fourth exactly 9 of link 1, and the fifth
  // exactly 21 of link 2.
  const std::vector<Flow> flows = {{kFree, {{0}, {1}}},
                                   {kFree, {{0}, {1}}},
                                   {kFree, {{0}, {1}}},
                                   {kFree, {{1}, {2}}},
                                   {kFree, {{2}}}};
  EXPECT_THAT(rates({10, 19, 30}, flows), ElementsAre(3, 3, 3, 9, 21));
}

TEST(MaxMinRates, AreAtLeastOneBytePerSecond) {
  EXPECT_THAT(rates({2}, {{kFree, {{0}}}, {kFree, {{0}}}, {kFree, {{0}}}}), ElementsAre(1, 1, 1));
}

TEST(MaxMinRates, DoNotOverflowAtTheGreatestCapacities) {
  EXPECT_THAT(rates({INT64_MAX}, {{kFree, {{0, 1}}}}), ElementsAre(INT64_MAX));
  EXPECT_THAT(rates({INT64_MAX, 1}, {{kFree, {{0}}}, {kFree, {{0}}}, {kFree, {{1}}}}),
              ElementsAre(INT64_MAX / 2, INT64_MAX / 2, 1));
  EXPECT_THAT(rates({INT64_MAX}, {{kFree, {{0, UINT32_MAX}}}}),
              ElementsAre(static_cast<int64_t>(to_room(INT64_MAX) / UINT32_MAX >> kShareBits)));
}

// Enough flows for the heap of link shares; what a scan of all links gives is known for each part.
TEST(MaxMinRates, OfManyFlowsAreThoseOfEachPartByItself) {
  std::mt19937 random(7);
  std::vector<int64_t> capacity, want;
  std::vector<Flow> flows;
  for (uint32_t part = 0; part < 200; ++part) {
    std::vector<int64_t> own_capacity;
    std::vector<Flow> own;
    for (uint32_t l = 0; l < 4; ++l) own_capacity.push_back(1 + below(random, 1000));
    for (uint32_t f = 0; f < 6; ++f) {
      own.push_back({1 + below(random, 500), {}});
      for (uint32_t l = 0; l < 4; ++l)
        if (below(random, 2) == 0)
          own.back().uses.push_back({l, kFullLoad * (1 + below(random, 3)) / 2});
    }
    for (const int64_t r : rates(own_capacity, own)) want.push_back(r);
    for (Flow& f : own)
      for (LinkUse& u : f.uses) u.link += part * 4;
    capacity.insert(capacity.end(), own_capacity.begin(), own_capacity.end());
    flows.insert(flows.end(), own.begin(), own.end());
  }
  EXPECT_EQ(rates(capacity, flows), want);
}

struct Problem {
  std::vector<int64_t> capacity;
  std::vector<Flow> flows;
};

// Large enough for the heap, connected, with many equal levels.
Problem tangled(uint32_t seed) {
  std::mt19937 random(seed);
  Problem p;
  for (uint32_t l = 0; l < 60; ++l) p.capacity.push_back(1'000'000 * (1 + below(random, 4)));
  for (uint32_t f = 0; f < 300; ++f) {
    p.flows.push_back({below(random, 4) == 0 ? 200'000 : kFree, {}});
    for (int i = 0; i < 4; ++i)
      p.flows.back().uses.push_back({below(random, 60), kFullLoad * (1 + below(random, 2))});
  }
  return p;
}

TEST(MaxMinRates, DoNotDependOnTheOrderOfFlowsOrLinks) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem p = tangled(seed);
    const std::vector<int64_t> want = rates(p.capacity, p.flows);
    std::mt19937 random(seed);
    std::vector<uint32_t> link_to(p.capacity.size()), flow_to(p.flows.size());
    for (uint32_t i = 0; i < link_to.size(); ++i) link_to[i] = i;
    for (uint32_t i = 0; i < flow_to.size(); ++i) flow_to[i] = i;
    std::shuffle(link_to.begin(), link_to.end(), random);
    std::shuffle(flow_to.begin(), flow_to.end(), random);
    Problem q = p;
    for (uint32_t l = 0; l < link_to.size(); ++l) q.capacity[link_to[l]] = p.capacity[l];
    for (uint32_t f = 0; f < flow_to.size(); ++f) {
      q.flows[flow_to[f]] = p.flows[f];
      for (LinkUse& u : q.flows[flow_to[f]].uses) u.link = link_to[u.link];
    }
    const std::vector<int64_t> got = rates(q.capacity, q.flows);
    for (uint32_t f = 0; f < flow_to.size(); ++f) ASSERT_EQ(got[flow_to[f]], want[f]);
  }
}

// The definition of max-min fairness: a flow below its cap has a link that is full and on which
// nobody is faster.  Rates are whole, so "full" leaves less than a byte per second for each flow.
TEST(MaxMinRates, GiveEveryFlowABottleneck) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const Problem p = tangled(seed);
    const std::vector<int64_t> r = rates(p.capacity, p.flows);
    std::vector<int64_t> taken(p.capacity.size()), loads(p.capacity.size()),
        fastest(p.capacity.size());
    for (size_t f = 0; f < r.size(); ++f)
      for (const LinkUse& u : p.flows[f].uses) {
        taken[u.link] += r[f] * u.load;
        loads[u.link] += u.load;
        fastest[u.link] = std::max(fastest[u.link], r[f]);
      }
    for (size_t l = 0; l < taken.size(); ++l) ASSERT_LE(taken[l], p.capacity[l] * kFullLoad);
    for (size_t f = 0; f < r.size(); ++f) {
      const bool held =
          std::any_of(p.flows[f].uses.begin(), p.flows[f].uses.end(), [&](const LinkUse& u) {
            return taken[u.link] + loads[u.link] > p.capacity[u.link] * int64_t{kFullLoad} &&
                   fastest[u.link] == r[f];
          });
      ASSERT_TRUE(held || r[f] == p.flows[f].cap) << "flow " << f << " of seed " << seed;
    }
  }
}

}  // namespace
}  // namespace stepcast
