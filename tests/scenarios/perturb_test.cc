// SPDX-License-Identifier: Apache-2.0
// perturb, seed, replicas, contention, cluster.placement: what they may say.
#include <gtest/gtest.h>

#include "scenarios/forecast/perturbed_step.h"
#include "tests/scenarios/loading.h"

namespace stepcast::testing::perturb_test {
namespace {

// kMinimal with these items of perturb: 16 ranks on two nodes, two pipeline stages.
Scenario perturbed(const std::string& items) {
  return load(kMinimal + "perturb:\n  - " + items + "\n");
}
std::string problem(const std::string& item) {
  const Failure f = failure(kMinimal + "perturb:\n  - " + item + "\n");
  return f.lines.size() == 1 ? f.lines.front() : f.codes;
}

TEST(Perturb, NothingIsSlowUnlessItIsSaid) {
  const Scenario s = load(kMinimal);
  EXPECT_TRUE(s.perturb.empty());
  EXPECT_EQ(s.replicas, 1);
  EXPECT_FALSE(s.share_links);
  EXPECT_EQ(s.interference, Scenario::Interference::automatic);
  EXPECT_TRUE(s.placement.in_order());
}

TEST(Perturb, ReadsPlacesFactorsAndTimes) {
  const Scenario s = perturbed(
      "{where: ranks 3-5, compute: 0.8}\n"
      "  - {where: node 1 nic 3, bw: 0.25, latency: 5us, from: 2s, until: 6s}\n"
      "  - {where: all nvlink, bw: 0.5}\n"
      "  - {where: stage 1, compute: {lognormal: {sigma: 0.1, per: rank}}}\n"
      "  - {where: all, compute: {lognormal: {sigma: 0.02}}}");
  ASSERT_EQ(s.perturb.size(), 5U);
  EXPECT_EQ(s.perturb[0].place, Perturbation::Place::ranks);
  EXPECT_EQ(s.perturb[0].first, 3);
  EXPECT_EQ(s.perturb[0].last, 5);
  EXPECT_EQ(s.perturb[0].speed, 0.8);
  EXPECT_TRUE(s.perturb[0].always());
  EXPECT_EQ(s.perturb[1].place, Perturbation::Place::nodes);
  EXPECT_EQ(s.perturb[1].links, Perturbation::Links::nic);
  EXPECT_EQ(s.perturb[1].nic, 3);
  EXPECT_EQ(s.perturb[1].bandwidth, 0.25);
  EXPECT_EQ(s.perturb[1].latency, Time{5'000'000});
  EXPECT_EQ(s.perturb[1].from, Time{2'000'000'000'000});
  EXPECT_EQ(s.perturb[1].until, Time{6'000'000'000'000});
  EXPECT_EQ(s.perturb[2].links, Perturbation::Links::nvlink);
  EXPECT_FALSE(s.perturb[3].each_op);
  EXPECT_TRUE(s.perturb[4].each_op);
  EXPECT_EQ(s.perturb[4].sigma, 0.02);
}

TEST(Perturb, HelpsWithWhatIsOftenWritten) {
  const Failure percent = failure(kMinimal + "perturb:\n  - {where: rank 3, compute: 80%}\n");
  ASSERT_EQ(percent.codes, "E107");
  EXPECT_EQ(percent.all[0].help, "write a fraction: 0.8 stands for 80%");
  const Failure on = failure(kMinimal + "contention: on\n");
  ASSERT_EQ(on.codes, "E107");
  EXPECT_EQ(on.all[0].help, "its keys are: links, interference");
}

TEST(Routing, IsEcmpUnlessItIsSaid) {
  const Scenario s = load(kMinimal);
  EXPECT_FALSE(s.cluster.fabric.adaptive);
  EXPECT_TRUE(s.cluster.fabric.rail_aware);
  EXPECT_TRUE(s.cluster.fabric.pxn);
  const Sets sets{{"cluster.fabric", "{routing: adaptive, rail_aware: false, pxn: false}"},
                  {"contention.links", "on"},
                  {"replicas", "2"}};
  const Scenario other = load(kMinimal, sets);
  EXPECT_TRUE(other.cluster.fabric.adaptive);
  EXPECT_FALSE(other.cluster.fabric.rail_aware);
  EXPECT_FALSE(other.cluster.fabric.pxn);
  // Nothing is drawn any more.
  ASSERT_EQ(other.warnings.size(), 1u);
  EXPECT_NE(other.warnings[0].find("all replicas are equal"), std::string::npos);
  EXPECT_EQ(failure_with({{"cluster.fabric.routing", "adaptiv"}}).codes, "E125");
}

TEST(Routing, MattersOnlyWhereLinksAreShared) {
  const Scenario s = load_with({{"cluster.fabric.routing", "adaptive"}});
  ASSERT_EQ(s.warnings.size(), 1u);
  EXPECT_NE(s.warnings[0].find("contention: {links: on}"), std::string::npos) << s.warnings[0];
}

TEST(Perturb, RefusesPlacesThatAreNone) {
  EXPECT_EQ(problem("{where: everywhere, compute: 0.5}"),
            "E125 6:13 there is no place 'everywhere'");
  EXPECT_EQ(problem("{where: rnk 3, compute: 0.5}"),
            "E125 6:13 there is no place 'rnk 3'; did you mean 'rank'?");
  EXPECT_EQ(problem("{where: rank, compute: 0.5}"), "E125 6:13 'rank' needs a number");
  EXPECT_EQ(problem("{where: ranks 5-3, compute: 0.5}"),
            "E125 6:13 the range 5-3 ends before it begins");
  EXPECT_EQ(problem("{where: rank -1, compute: 0.5}").substr(0, 9), "E125 6:13");
  EXPECT_EQ(problem("{where: gpu 1 nic 2, bw: 0.5}"), "E125 6:13 only a node has numbered NICs");
  EXPECT_EQ(problem("{where: node 1 switch, bw: 0.5}"), "E125 6:13 'switch' is not known here");
  EXPECT_EQ(problem("{compute: 0.5}").substr(0, 4), "E126");
}

TEST(Perturb, RefusesPlacesThatTheJobDoesNotHave) {
  EXPECT_EQ(problem("{where: rank 16, compute: 0.5}"),
            "E240 6:13 there is no rank 16: the job has 16, 0 to 15");
  EXPECT_EQ(problem("{where: ranks 8-20, compute: 0.5}"),
            "E240 6:13 there is no rank 20: the job has 16, 0 to 15");
  EXPECT_EQ(problem("{where: gpu 16, compute: 0.5}").substr(0, 4), "E240");
  EXPECT_EQ(problem("{where: node 2, compute: 0.5}"),
            "E240 6:13 there is no node 2: the cluster has 2, 0 to 1");
  EXPECT_EQ(problem("{where: stage 2, compute: 0.5}"),
            "E240 6:13 there is no stage 2: the pipeline has 2, 0 to 1");
  EXPECT_EQ(problem("{where: node 0 nic 8, bw: 0.5}"),
            "E240 6:13 there is no nic 8: a node has 8, 0 to 7");
  const Failure f = failure(kMinimal + "perturb: [{where: rank 16, compute: 0.5}]\n");
  EXPECT_EQ(f.all.front().help, "the nearest is rank 15");
}

TEST(Perturb, RefusesFactorsThatMakeNoSense) {
  EXPECT_EQ(problem("{where: rank 3, compute: 0}"), "E121 6:30 'compute' must be above 0");
  EXPECT_EQ(problem("{where: rank 3, compute: -0.5}").substr(0, 4), "E122");
  EXPECT_EQ(problem("{where: rank 3, compute: fast}").substr(0, 9), "E107 6:30");
  EXPECT_EQ(problem("{where: rank 3, compute: 0.0001}").substr(0, 4), "E123");
  EXPECT_EQ(problem("{where: rank 3, bw: 1.5}"), "E123 6:25 'bw' is above 1");
  EXPECT_EQ(problem("{where: rank 3, bw: 0}"), "E121 6:25 'bw' must be above 0");
  EXPECT_EQ(problem("{where: rank 3, compute: {lognormal: {sigma: 1.5, per: rank}}}").substr(0, 4),
            "E123");
  EXPECT_EQ(problem("{where: rank 3, compute: {lognormal: {per: rank}}}").substr(0, 4), "E126");
  EXPECT_EQ(problem("{where: rank 3, compute: {lognormal: {sigma: 0.1}}}"),
            "E127 6:13 times of ops are drawn for all ranks together");
  EXPECT_EQ(problem("{where: rank 3}"), "E126 6:13 nothing is slower here");
  EXPECT_EQ(problem("{where: node 0 nic 1, compute: 0.5}").substr(0, 4), "E127");
  EXPECT_EQ(problem("{where: rank 3, compute: 0.5, speed: 2}").substr(0, 4), "E102");
}

TEST(Perturb, RefusesTimesThatEndBeforeTheyBegin) {
  EXPECT_EQ(problem("{where: rank 3, compute: 0.5, from: 2s, until: 2s}"),
            "E127 6:52 'until' is not after 'from'");
  EXPECT_EQ(problem("{where: rank 3, compute: 0.5, from: 2}").substr(0, 4), "E120");
  EXPECT_EQ(problem("{where: all, compute: {lognormal: {sigma: 0.1}}, from: 1s}").substr(0, 4),
            "E127");
}

TEST(Perturb, RefusesLatenciesBeyondAnyNetwork) {
  EXPECT_EQ(problem("{where: rank 1, latency: 100d}"), "E123 6:30 'latency' is too large: 100d");
  EXPECT_EQ(problem("{where: rank 1, latency: 1s}"), "");
  EXPECT_EQ(problem("{where: rank 1, latency: 900ms}\n  - {where: rank 1, latency: 900ms}\n"
                    "  - {where: rank 2, latency: 900ms}"),
            "E123 8:30 the latencies of the list are above 2 s together");
  EXPECT_EQ(failure_with({{"cluster.node.nics.latency", "100d"}}).codes, "E123");
  EXPECT_EQ(failure_with({{"cluster.fabric.latency_per_hop", "100d"}}).codes, "E123");
}

TEST(Perturb, IsAListOfMappings) {
  EXPECT_EQ(failure(kMinimal + "perturb: rank 3\n").codes, "E107");
  EXPECT_EQ(failure(kMinimal + "perturb: [3]\n").codes, "E107");
  EXPECT_EQ(failure(kMinimal + "perturb: []\n").codes, "");
}

TEST(Placement, ListsNodesInTheOrderOfTheRanks) {
  const Scenario s =
      load_with({{"cluster.nodes", "8"}, {"cluster.placement.nodes", "[5, 0-1, 7]"}});
  EXPECT_EQ(s.placement.nodes, (std::vector<int64_t>{5, 0, 1, 7}));
  EXPECT_EQ(s.plan.grid.world(), 32);
  EXPECT_EQ(s.placement.gpu_of(0), 40);
  EXPECT_EQ(s.placement.gpu_of(9), 1);
}

TEST(Placement, RefusesNodesThatAreNotThereOrTwice) {
  const auto first = [](const char* nodes) {
    const Failure f = failure_with({{"cluster.placement.nodes", nodes}});
    return f.lines.empty() ? "" : f.lines.front().substr(0, 60);
  };
  EXPECT_EQ(first("[0, 2]"), "E240 1:5 there is no node 2: the cluster has 2, counted from");
  EXPECT_EQ(first("[1, 1]"), "E127 1:5 node 1 is named twice");
  EXPECT_EQ(first("[0, one]"), "E107 1:5 'one' is no node and no range of nodes");
}

TEST(Contention, OfLinksIsOffUnlessItIsSaid) {
  EXPECT_FALSE(load_with({}).share_links);
  const Scenario s = load_with({{"contention.links", "on"}, {"contention.interference", "off"}});
  EXPECT_TRUE(s.share_links);
  EXPECT_EQ(s.interference, Scenario::Interference::off);
  EXPECT_FALSE(load_with({{"contention.links", "auto"}}).share_links);
  EXPECT_EQ(load_with({{"contention.links", "auto"}}).links, Scenario::Links::automatic);
  EXPECT_EQ(failure_with({{"contention.links", "perhaps"}}).codes, "E125");
  EXPECT_EQ(failure_with({{"contention.nodes", "on"}}).codes, "E102");
}

TEST(Replicas, ArePercentilesByNearestRank) {
  std::vector<Time> times;
  for (int64_t i = 20; i >= 1; --i) times.push_back(Time{i * 10});
  const ReplicaTimes t = summary_of(times);
  EXPECT_EQ(t.count, 20);
  EXPECT_EQ(t.mean, Time{105});
  EXPECT_EQ(t.min, Time{10});
  EXPECT_EQ(t.p5, Time{10});
  EXPECT_EQ(t.p50, Time{100});
  EXPECT_EQ(t.p95, Time{190});
  EXPECT_EQ(t.max, Time{200});
  EXPECT_EQ(summary_of({Time{7}}).p95, Time{7});
}

TEST(Replicas, AreEqualIfNothingIsDrawn) {
  EXPECT_EQ(load_with({{"replicas", "5"}}).warnings,
            std::vector<std::string>{"nothing is drawn from the seed, so all replicas are equal"});
  EXPECT_TRUE(load_with({{"replicas", "5"}, {"contention.links", "on"}}).warnings.empty());
}

TEST(Replicas, AreAtLeastOne) {
  EXPECT_EQ(failure_with({{"replicas", "0"}}).codes, "E121");
  EXPECT_EQ(load_with({{"replicas", "5"}, {"seed", "3"}}).replicas, 5);
  EXPECT_EQ(load_with({{"replicas", "5"}, {"seed", "3"}}).seed, 3U);
}

}  // namespace
}  // namespace stepcast::testing::perturb_test
