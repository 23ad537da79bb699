// SPDX-License-Identifier: Apache-2.0
#include "sim/contention/flow_network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "sim/check.h"

namespace stepcast::flow_network_test {
namespace {

using ::testing::ElementsAre;

constexpr int64_t kFree = INT64_MAX;
constexpr int64_t kSecond = 1'000'000'000'000;  // ps; so B/s times kSecond ps is whole bytes

// Links 0 to 3; as the patterns of flows, which outlive the network.
constexpr std::array<LinkUse, 1> kOn0 = {{{0}}}, kOn1 = {{{1}}};
constexpr std::array<LinkUse, 2> kOn01 = {{{0}, {1}}}, kOn23 = {{{2}, {3}}};

// Tags of what ends next.
std::vector<uint64_t> end_next(FlowNetwork& network) {
  std::vector<FlowNetwork::Ended> ended;
  network.end_due(network.next_end(), ended);
  std::vector<uint64_t> tags;
  for (const FlowNetwork::Ended& e : ended) tags.push_back(e.tag);
  return tags;
}

TEST(FlowNetwork, HasNoEndWithoutFlows) {
  FlowNetwork network({100});
  EXPECT_EQ(network.next_end(), INT64_MAX);
}

TEST(FlowNetwork, EndsAtTheFirstPicosecondAtWhichNothingIsLeft) {
  FlowNetwork network({3});
  network.start(0, 10, kFree, kOn0, 7);
  EXPECT_EQ(network.next_end(), 3'333'333'333'334);
  EXPECT_THAT(end_next(network), ElementsAre(7));
  EXPECT_EQ(network.next_end(), INT64_MAX);
}

TEST(FlowNetwork, SharesWhileBothAreThere) {
  FlowNetwork network({100});
  network.start(0, 1000, kFree, kOn0, 0);
  const FlowNetwork::Flow late = network.start(4 * kSecond, 100, kFree, kOn0, 1);
  EXPECT_EQ(network.rate(late), 50);
  EXPECT_EQ(network.next_end(), 6 * kSecond);
  EXPECT_THAT(end_next(network), ElementsAre(1));
  EXPECT_EQ(network.next_end(), 11 * kSecond);
}

// What an entry of the queue says that is no longer true must neither end a flow nor move the clock
// to where nothing happens: here the first end seen is void twice over.
TEST(FlowNetwork, NeverEndsOrMovesOnBecauseOfAnEndThatIsNoLongerTrue) {
  FlowNetwork network({100, 100});
  network.start(0, 1000, kFree, kOn0, 0);
  EXPECT_EQ(network.next_end(), 10 * kSecond);
  network.start(1 * kSecond, 450, kFree, kOn0, 1);  // 0 now ends later, 1 at the old end
  EXPECT_EQ(network.next_end(), 10 * kSecond);
  network.start(2 * kSecond, 100, kFree, kOn01, 2);  // and now nobody ends at 10 s
  EXPECT_EQ(network.next_end(), 5 * kSecond + 30'303'030'304);
  network.start(3 * kSecond, 10, kFree, kOn1, 3);  // before the end just seen
  EXPECT_EQ(network.next_end(), 3 * kSecond + 151'515'151'516);
  EXPECT_THAT(end_next(network), ElementsAre(3));
}

TEST(FlowNetwork, EndsEverythingDueAtOnceInTheOrderOfStarts) {
  FlowNetwork network({100, 100, 100, 100});
  network.start(0, 100, 50, kOn23, 5);
  network.start(0, 100, 50, kOn0, 9);
  network.start(kSecond, 50, 50, kOn1, 1);
  EXPECT_EQ(network.next_end(), 2 * kSecond);
  EXPECT_THAT(end_next(network), ElementsAre(5, 9, 1));
}

TEST(FlowNetwork, SolvesOnceForAllChangesAtOneMoment) {
  FlowNetwork network({100});
  for (uint64_t i = 0; i < 50; ++i) network.start(0, 100, kFree, kOn0, i);
  EXPECT_EQ(network.next_end(), 50 * kSecond);
  EXPECT_EQ(network.solves(), 1);
  EXPECT_EQ(end_next(network).size(), 50U);
  EXPECT_EQ(network.next_end(), INT64_MAX);
  EXPECT_EQ(network.solves(), 1);
}

TEST(FlowNetwork, SolvesNothingThatSharesNoLinkWithTheChange) {
  FlowNetwork network({100, 100, 100, 100});
  network.start(0, 1000, kFree, kOn23, 0);
  network.start(0, 1000, kFree, kOn23, 1);
  network.next_end();
  EXPECT_EQ(network.solved_flows(), 2);
  network.start(kSecond, 1000, kFree, kOn01, 2);
  network.next_end();
  EXPECT_EQ(network.solved_flows(), 3);
}

TEST(FlowNetwork, DoesNotJoinFlowsOnALinkThatTheyCannotFill) {
  FlowNetwork network({100});
  network.start(0, 1000, 30, kOn0, 0);
  network.start(0, 1000, 70, kOn0, 1);
  network.next_end();
  EXPECT_EQ(network.solves(), 2);  // each by itself
  EXPECT_EQ(network.solved_flows(), 2);
  const FlowNetwork::Flow third = network.start(kSecond, 1000, 1, kOn0, 2);
  EXPECT_EQ(network.rate(third), 1);
  EXPECT_GT(network.solved_flows(), 3);  // now they fill it
}

TEST(FlowNetwork, GivesBackWhatAFlowTookFromALinkThatIsNoLongerFull) {
  FlowNetwork network({100});
  const FlowNetwork::Flow slow = network.start(0, 1000, 60, kOn0, 0);
  network.start(0, 50, 60, kOn0, 1);
  EXPECT_EQ(network.rate(slow), 50);
  EXPECT_THAT(end_next(network), ElementsAre(1));
  EXPECT_EQ(network.rate(slow), 60);
}

TEST(FlowNetwork, FollowsAChangedCap) {
  FlowNetwork network({100});
  const FlowNetwork::Flow a = network.start(0, 1000, kFree, kOn0, 0);
  const FlowNetwork::Flow b = network.start(0, 1000, kFree, kOn0, 1);
  network.set_cap(2 * kSecond, a, 20);  // b 80
  EXPECT_EQ(network.rate(a), 20);
  EXPECT_EQ(network.rate(b), 80);
  network.set_cap(4 * kSecond, a, kFree);
  EXPECT_EQ(network.rate(b), 50);
  // b: 100 + 160, then 740 at 50.
  EXPECT_EQ(network.next_end(), 18 * kSecond + 800'000'000'000);
}

TEST(FlowNetwork, KeepsTheEndIfTheRateComesOutTheSame) {
  FlowNetwork network({100, 100});
  const FlowNetwork::Flow a = network.start(0, 1000, 40, kOn0, 0);
  EXPECT_EQ(network.next_end(), 25 * kSecond);
  network.start(1, 1, kFree, kOn0, 1);
  EXPECT_EQ(network.rate(a), 40);
  end_next(network);
  EXPECT_EQ(network.next_end(), 25 * kSecond);
}

TEST(FlowNetwork, UsesThePlaceOfAnEndedFlowAgainWithoutMixingThemUp) {
  FlowNetwork network({100, 100});
  network.start(0, 100, kFree, kOn0, 0);
  network.start(0, 200, kFree, kOn0, 1);
  network.next_end();
  network.start(kSecond, 10, kFree, kOn0, 2);
  EXPECT_THAT(end_next(network), ElementsAre(2));
  const int64_t now = 1'400'000'000'000;
  network.start(now, 1000, kFree, kOn1, 3);  // in the place of 2
  EXPECT_THAT(end_next(network), ElementsAre(0));
  EXPECT_THAT(end_next(network), ElementsAre(1));
  EXPECT_EQ(network.next_end(), now + 10 * kSecond);
  EXPECT_THAT(end_next(network), ElementsAre(3));
}

TEST(FlowNetwork, MovesAFlowWithoutLinksAtItsCap) {
  FlowNetwork network({1});
  network.start(5, 1000, 10, {}, 0);
  EXPECT_EQ(network.next_end(), 100 * kSecond + 5);
}

TEST(FlowNetwork, CountsTheLoadOfAFlowOnItsLink) {
  constexpr std::array<LinkUse, 1> half = {{{0, kFullLoad / 2}}};
  FlowNetwork network({100});
  EXPECT_EQ(network.rate(network.start(0, 1000, kFree, half, 0)), 200);
}

TEST(FlowNetwork, CountsPetabytesExactly) {
  FlowNetwork network({1'000'000'000'000});
  network.start(0, 1'000'000'000'000'000, kFree, kOn0, 0);
  network.start(0, 1'000'000'000'000'001, kFree, kOn0, 1);
  EXPECT_EQ(network.next_end(), 2000 * kSecond);
  EXPECT_THAT(end_next(network), ElementsAre(0));
  EXPECT_EQ(network.next_end(), 2000 * kSecond + 1);
}

TEST(FlowNetwork, NeverEndsWhatWouldTakeLongerThanTimeLasts) {
  FlowNetwork network({1});
  const FlowNetwork::Flow flow = network.start(0, INT64_MAX, kFree, kOn0, 0);
  EXPECT_EQ(network.next_end(), INT64_MAX);
  EXPECT_EQ(network.rate(flow), 1);
}

TEST(FlowNetwork, RefusesWhatItsCallerMustNotDo) {
  FlowNetwork network({100});
  EXPECT_THROW(FlowNetwork({100, 0}), InternalError);
  EXPECT_THROW(network.start(0, 0, 1, kOn0, 0), InternalError);
  EXPECT_THROW(network.start(0, 1, 0, kOn0, 0), InternalError);
  constexpr std::array<LinkUse, 1> nothing = {{{0, 0}}};
  EXPECT_THROW(network.start(0, 1, 1, nothing, 0), InternalError);
  network.start(10, 1000, kFree, kOn0, 0);
  EXPECT_THROW(network.start(9, 1, 1, kOn0, 0), InternalError);
  std::vector<FlowNetwork::Ended> ended;
  EXPECT_THROW(network.end_due(11, ended), InternalError);
}

}  // namespace
}  // namespace stepcast::flow_network_test
