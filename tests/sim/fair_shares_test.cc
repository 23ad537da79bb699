// SPDX-License-Identifier: Apache-2.0
#include "sim/contention/fair_shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <string>
#include <vector>

#include "sim/check.h"
#include "tests/random_cases.h"

namespace stepcast::fair_shares_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

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

// Shares kept up to date against those of Filling from scratch, after every change.

constexpr std::array<LinkUse, 1> kOn0 = {{{0}}}, kOn1 = {{{1}}}, kOn2 = {{{2}}};
constexpr std::array<LinkUse, 2> kOn01 = {{{0}, {1}}}, kOn12 = {{{1}, {2}}};

struct Running {
  bool runs = false;
  int64_t cap = 0;
  std::vector<LinkUse> uses;
};

// Shares of all that run, from scratch; what does not run has 0.
std::vector<Share> from_scratch(const std::vector<int64_t>& capacity,
                                const std::vector<Running>& flows) {
  Filling filling;
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> members(capacity.size());
  std::vector<uint32_t> number(flows.size());
  for (size_t f = 0; f < flows.size(); ++f) {
    if (!flows[f].runs) continue;
    number[f] = filling.add_flow(to_share(flows[f].cap));
    for (const LinkUse& u : flows[f].uses) members[u.link].emplace_back(number[f], u.load);
  }
  for (size_t l = 0; l < capacity.size(); ++l) {
    filling.add_link(capacity[l]);
    for (const auto& [flow, load] : members[l]) filling.add_use(flow, load);
  }
  filling.solve();
  std::vector<Share> shares(flows.size());
  for (size_t f = 0; f < flows.size(); ++f)
    if (flows[f].runs) shares[f] = filling.share(number[f]);
  return shares;
}

uint64_t whole(Share share) {
  return static_cast<uint64_t>(share >> kShareBits);
}

TEST(FlowShares, NameThoseThatChanged) {
  FlowShares shares({100, 100, 100});
  shares.enter(0, kFree, kOn01);
  shares.enter(1, kFree, kOn12);
  EXPECT_THAT(shares.solve(), UnorderedElementsAre(0, 1));
  shares.enter(2, kFree, kOn2);  // with flow 1 on a link that is as full as link 1
  EXPECT_THAT(shares.solve(), ElementsAre(2));
  shares.enter(3, kFree, kOn2);
  EXPECT_THAT(shares.solve(), UnorderedElementsAre(0, 1, 2, 3));
  EXPECT_EQ(whole(shares.share(0)), 66U);
  EXPECT_EQ(whole(shares.share(1)), 33U);
  shares.leave(3);
  EXPECT_THAT(shares.solve(), UnorderedElementsAre(0, 1, 2));
  EXPECT_EQ(whole(shares.share(0)), 50U);
  EXPECT_THAT(shares.solve(), IsEmpty());
}

// A collective on a thousand ports that one of them holds back.
TEST(FlowShares, LookOnlyAtTheLinksOfTheChange) {
  constexpr uint32_t kPorts = 1000;
  FlowShares shares(std::vector<int64_t>(kPorts, 100));
  std::vector<LinkUse> all;
  for (uint32_t l = 0; l < kPorts; ++l) all.push_back({l});
  shares.enter(0, kFree, all);
  for (uint32_t l = 0; l < kPorts; ++l) {
    const std::array<LinkUse, 1> port = {{{l}}};
    shares.enter(1 + l, 10, port);
  }
  const std::array<LinkUse, 1> slow = {{{77}}};
  shares.enter(kPorts + 1, kFree, slow);
  shares.solve();
  EXPECT_EQ(whole(shares.share(0)), 45U);
  const int64_t before = shares.solved_flows();
  for (uint32_t i = 0; i < 10; ++i) {
    const std::array<LinkUse, 1> port = {{{300 + i}}};
    shares.enter(kPorts + 2, 20, port);
    EXPECT_THAT(shares.solve(), ElementsAre(kPorts + 2));
    shares.set_cap(kPorts + 2, 30);
    EXPECT_THAT(shares.solve(), ElementsAre(kPorts + 2));
    shares.leave(kPorts + 2);
    EXPECT_THAT(shares.solve(), IsEmpty());
  }
  EXPECT_LE(shares.solved_flows() - before, 10 * 2 * 3);
}

// Thirds of 100 do not add up to 100: what rounding leaves on a link must not go to the one that
// came last, nor hold back or pull up anybody else.
TEST(FlowShares, GiveWhatRoundingLeavesToNobody) {
  FlowShares shares({100, 100});
  shares.enter(0, kFree, kOn0);
  shares.enter(1, kFree, kOn01);
  shares.enter(2, kFree, kOn01);
  EXPECT_EQ(shares.solve().size(), 3U);
  shares.enter(3, kFree, kOn1);
  EXPECT_THAT(shares.solve(), ElementsAre(3));
  EXPECT_EQ(shares.share(3), shares.share(0));
  EXPECT_EQ(shares.share(3), to_room(100) / (3 * kFullLoad));
}

// Links in a row, a flow across each two neighbours: the change runs down the whole row.
TEST(FlowShares, FollowALongChainOfEffects) {
  constexpr uint32_t kLinks = 100;
  std::vector<int64_t> capacity;
  std::vector<Running> flows;
  for (uint32_t l = 0; l < kLinks; ++l) capacity.push_back(1'000'000 + 1000 * l);
  for (uint32_t l = 0; l + 1 < kLinks; ++l) flows.push_back({true, kFree, {{l}, {l + 1}}});
  flows.push_back({true, kFree, {{0}}});
  FlowShares shares(capacity);
  for (uint32_t f = 0; f < flows.size(); ++f) shares.enter(f, flows[f].cap, flows[f].uses);
  shares.solve();
  shares.set_cap(kLinks - 1, 1);
  flows.back().cap = 1;
  EXPECT_EQ(shares.solve().size(), kLinks);
  const std::vector<Share> want = from_scratch(capacity, flows);
  for (uint32_t f = 0; f < flows.size(); ++f) EXPECT_EQ(whole(shares.share(f)), whole(want[f]));
}

TEST(FlowShares, RefuseAUseThatPutsNothingOnALink) {
  FlowShares shares({100});
  const std::array<LinkUse, 1> nothing = {{{0, 0}}};
  EXPECT_THROW(shares.enter(0, kFree, nothing), InternalError);
}

// What random changes are made of.
struct Kind {
  const char* name;
  uint32_t ports;             // links
  uint32_t slots;             // flows at most
  uint32_t large_percent;     // of flows that start: collectives
  uint32_t large_links;       // of a collective, at most
  uint32_t changes_together;  // at one moment, at most
  bool few_values;            // loads, caps and capacities that make levels equal
};

// The values below stand for patterns seen in training: full loads and (n-1)/n of a ring.
class Changes {
 public:
  Changes(const Kind& kind, uint32_t seed)
      : kind_(kind),
        random_(seed),
        capacity_(capacities()),
        shares_(capacity_),
        flows_(kind.slots) {}

  void step() {
    for (uint32_t n = 1 + below(kind_.changes_together); n > 0; --n) change();
    shares_.solve();
  }
  void check() {
    const std::vector<Share> want = from_scratch(capacity_, flows_);
    for (uint32_t f = 0; f < flows_.size(); ++f) {
      if (!flows_[f].runs) continue;
      ASSERT_EQ(static_cast<uint64_t>(shares_.share(f) >> 64), static_cast<uint64_t>(want[f] >> 64))
          << "flow " << f;
      ASSERT_EQ(static_cast<uint64_t>(shares_.share(f)), static_cast<uint64_t>(want[f]))
          << "flow " << f;
    }
  }
  const FlowShares& shares() const { return shares_; }

 private:
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(random_() % n); }

  std::vector<int64_t> capacities() {
    std::vector<int64_t> capacity;
    for (uint32_t l = 0; l < kind_.ports; ++l)
      capacity.push_back(kind_.few_values ? 50'000'000'000 : 1'000'000 + below(100'000'000));
    return capacity;
  }

  uint32_t load() {
    if (!kind_.few_values) return 1 + below(3 * kFullLoad);
    constexpr std::array<uint32_t, 3> kLoads = {kFullLoad, kFullLoad / 128 * 127, 2 * kFullLoad};
    return kLoads[below(3)];
  }

  int64_t cap() {
    if (below(3) == 0) return kFree;
    if (!kind_.few_values) return 1 + below(100'000'000);
    return 5'000'000'000 * (1 + below(10));
  }

  std::vector<LinkUse> uses() {
    const bool large = below(100) < kind_.large_percent;
    const uint32_t links = large ? 1 + below(kind_.large_links) : 1 + below(3);
    const uint32_t same = load();
    std::vector<LinkUse> out;
    for (uint32_t i = 0; i < links; ++i)
      out.push_back({below(kind_.ports), below(4) == 0 ? load() : same});  // perhaps twice on one
    return out;
  }

  void change() {
    const uint32_t f = below(kind_.slots);
    Running& flow = flows_[f];
    if (!flow.runs) {
      flow = {true, cap(), uses()};
      shares_.enter(f, flow.cap, flow.uses);
    } else if (below(3) == 0) {
      flow.cap = cap();
      shares_.set_cap(f, flow.cap);
    } else {
      flow.runs = false;
      shares_.leave(f);
    }
  }

  Kind kind_;
  std::mt19937 random_;
  std::vector<int64_t> capacity_;
  FlowShares shares_;
  std::vector<Running> flows_;
};

uint32_t more() {
  return static_cast<uint32_t>(testing::random_cases(1));
}

class RandomChanges : public ::testing::TestWithParam<Kind> {};

TEST_P(RandomChanges, GiveTheSharesThatAreFoundFromScratch) {
  for (uint32_t seed = 0; seed < more(); ++seed) {
    Changes changes(GetParam(), seed);
    for (uint32_t step = 0; step < 6 * GetParam().slots; ++step) {
      changes.step();
      changes.check();
      ASSERT_FALSE(HasFatalFailure()) << "seed " << seed << ", step " << step;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kind, RandomChanges,
                         ::testing::Values(Kind{"PairsAlike", 20, 40, 0, 0, 1, true},
                                           Kind{"PairsUnlike", 20, 40, 0, 0, 1, false},
                                           Kind{"ManyAtOneMoment", 30, 60, 10, 30, 30, true},
                                           Kind{"CollectivesAlike", 200, 120, 10, 200, 2, true},
                                           Kind{"CollectivesUnlike", 200, 120, 10, 200, 2, false},
                                           Kind{"CrowdedAlike", 6, 80, 5, 6, 2, true},
                                           Kind{"CrowdedUnlike", 6, 80, 5, 6, 2, false},
                                           Kind{"Chains", 120, 100, 0, 0, 1, false}),
                         [](const ::testing::TestParamInfo<Kind>& kind) {
                           return std::string(kind.param.name);
                         });

}  // namespace
}  // namespace stepcast::fair_shares_test
