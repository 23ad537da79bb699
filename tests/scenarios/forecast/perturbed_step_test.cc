// SPDX-License-Identifier: Apache-2.0
// Ranks that differ, from the scenario to the result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/lane_set.h"
#include "scenarios/forecast/perturbed_step.h"
#include "scenarios/pricing_table.h"
#include "sim/diagnostic.h"

namespace stepcast::perturbed_step_test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;

// Four nodes of 8: tp 4 inside a node, two pipeline stages, dp 4.
const std::string kBase =
    "model: {preset: gpt3-1.3b, tie_word_embeddings: false}\n"
    "cluster: dgx-a100-80g x 4\n"
    "parallel: {tp: 4, pp: 2, dp: 4, zero: 1}\n"
    "batch: {global: 16, micro: 1, seq: 2048}\n";

LoadOptions without_interference() {
  LoadOptions options;
  options.set = {{"contention.interference", "off"}};
  return options;
}

// Without interference, unless `more` asks for it.
Result forecast_with(const std::string& more, bool all_ranks = false) {
  ForecastOptions options;
  options.what_if = false;
  options.all_ranks = all_ranks;
  const bool interferes = more.find("interference") != std::string::npos;
  return forecast(load_scenario_text(kBase + more, "run.yaml",
                                     interferes ? LoadOptions{} : without_interference()),
                  options);
}

std::string item(const std::string& text) {
  return "perturb: [{" + text + "}]\n";
}

Time sum_of(const SpendTable& table) {
  return std::accumulate(table.begin(), table.end(), Time{});
}

TEST(PerturbedStep, EveryRankByItselfIsTheStepOfEqualRanks) {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const std::string more = "schedule: " + std::string(schedule) + "\n";
    const Result once = forecast_with(more), each = forecast_with(more, true);
    EXPECT_EQ(each.step_time, once.step_time) << schedule;
    EXPECT_EQ(each.span, once.span) << schedule;
    EXPECT_EQ(each.rank_ops, once.rank_ops * 16) << schedule;
    ASSERT_TRUE(each.disturbance.has_value());
    EXPECT_EQ(each.disturbance->undisturbed, once.step_time);
    EXPECT_EQ(each.disturbance->lanes, 32);
    EXPECT_EQ(each.disturbance->slow_ranks, 0);
    EXPECT_FALSE(once.disturbance.has_value());
  }
}

TEST(PerturbedStep, OneSlowRankHoldsAllOthersUp) {
  const Result r = forecast_with(item("where: rank 5, compute: 0.5"));
  const Disturbance& d = *r.disturbance;
  EXPECT_EQ(d.slow_ranks, 1);
  EXPECT_EQ(d.slow_links, 0);
  EXPECT_EQ(d.waiting, 31);
  EXPECT_GT(d.mean_wait, Time{});
  EXPECT_LE(d.mean_wait, r.step_time - d.undisturbed);
  EXPECT_GT(r.step_time, d.undisturbed);
  // Half the speed of one of two stages: at most twice the step.
  EXPECT_LT(r.step_time, d.undisturbed * 2);
}

TEST(PerturbedStep, AccountsSumToTheStepAndShowTheStraggler) {
  const Result r =
      forecast_with(item("where: rank 5, compute: 0.8") + "schedule: {kind: 1f1b, p2p: async}\n");
  Time straggler{};
  for (const SpendTable& table : r.account.by_role) {
    EXPECT_EQ(sum_of(table), r.step_time);
    straggler += table[static_cast<size_t>(Spend::straggler)];
  }
  EXPECT_GT(straggler, Time{});
  Time at{};
  for (const PathSegment& s : r.critical_path) {
    EXPECT_EQ(s.begin, at);
    at = s.end;
  }
  EXPECT_EQ(at, r.makespan);
}

TEST(PerturbedStep, ARankOfNormalSpeedChangesNothing) {
  const Time plain = forecast_with("").step_time;
  EXPECT_EQ(forecast_with(item("where: ranks 0-31, compute: 1")).step_time, plain);
  EXPECT_EQ(forecast_with(item("where: all, compute: {lognormal: {sigma: 0}}")).step_time, plain);
  EXPECT_EQ(forecast_with(item("where: node 1, bw: 1")).step_time, plain);
}

TEST(PerturbedStep, AWindowCountsForWhatLiesInIt) {
  const Time plain = forecast_with("").step_time;
  const Time always = forecast_with(item("where: rank 5, compute: 0.5")).step_time;
  const auto window = [](const std::string& times) {
    return forecast_with(item("where: rank 5, compute: 0.5, " + times)).step_time;
  };
  EXPECT_EQ(window("from: 1h"), plain);
  EXPECT_EQ(window("from: 0s, until: 1h"), always);
  const Time some = window("from: 0s, until: 150ms");
  EXPECT_GT(some, plain);
  EXPECT_LE(some, plain + Time{75'000'000'000});
}

TEST(PerturbedStep, NicsSlowWhatLeavesTheNodeAndNothingElse) {
  const Time plain = forecast_with("").step_time;
  const Result slow = forecast_with(item("where: node 1 nic 3, bw: 0.1"));
  EXPECT_GT(slow.step_time, plain);
  EXPECT_GT(slow.disturbance->slow_links, 0);
  // Weaker links are never faster.
  Time last = plain;
  for (const char* bw : {"0.9", "0.5", "0.2", "0.05"}) {
    const Time now = forecast_with(item("where: node 1 nic 3, bw: " + std::string(bw))).step_time;
    EXPECT_GE(now, last) << bw;
    last = now;
  }
  // A job on one node does not use its NICs.
  LoadOptions options;
  options.set = {{"cluster.nodes", "1"}, {"parallel.dp", "1"}, {"contention.interference", "off"}};
  ForecastOptions quick;
  quick.what_if = false;
  const Result alone = forecast(load_scenario_text(kBase, "run.yaml", options), quick);
  options.set.emplace_back("perturb", "[{where: node 0, bw: 0.1}]");
  const Result same = forecast(load_scenario_text(kBase, "run.yaml", options), quick);
  EXPECT_EQ(same.step_time, alone.step_time);
  EXPECT_EQ(same.disturbance->slow_links, 0);
}

TEST(PerturbedStep, NvlinkSlowsGroupsInsideTheNode) {
  const Result slow = forecast_with(item("where: node 2 nvlink, bw: 0.25"));
  EXPECT_GT(slow.step_time, slow.disturbance->undisturbed);
  EXPECT_EQ(slow.disturbance->slow_ranks, 0);
}

TEST(PerturbedStep, ClassesAreThoseOfTheGroupsOnTheSlowNic) {
  const Scenario s = load_scenario_text(kBase + item("where: node 1 nic 3, bw: 0.25"), "run.yaml",
                                        without_interference());
  const Result sound = forecast_with("");
  const OpGraph& graph = *sound.graph;
  const Prices& prices = *sound.prices;
  const LaneSet lanes = lane_set(s, graph, prices, 0);
  EXPECT_TRUE(lanes.slowness.empty());
  EXPECT_EQ(lanes.class_ps.size(), 1U);
  // Rank 11 is on node 1, GPU 3: tp 3 of its group, dp 2.  Its tp group stays in the node; its dp
  // group has the four ranks with tp 3 of its stage.
  EXPECT_TRUE(lanes.group_class[static_cast<size_t>(Axis::tp)].empty());
  const auto& dp = lanes.group_class[static_cast<size_t>(Axis::dp)];
  ASSERT_EQ(dp.size(), 2U);
  for (int64_t lane = 0; lane < 16; ++lane) {
    EXPECT_EQ(dp[0][static_cast<size_t>(lane)], lane % 4 == 3 ? 1 : 0) << lane;
    EXPECT_EQ(dp[1][static_cast<size_t>(lane)], 0) << lane;
  }
  for (size_t w = 0; w < graph.works.size(); ++w) {
    const int64_t now = prices.by_work[w].time.count();
    EXPECT_GE(lanes.class_ps[0][w], now);
    if (!is_communication(graph.works[w].kind)) {
      EXPECT_EQ(lanes.class_ps[0][w], now);
    }
  }
}

TEST(PerturbedStep, WhatIsDrawnDependsOnTheSeedAlone) {
  const std::string jitter = item("where: all, compute: {lognormal: {sigma: 0.05}}");
  EXPECT_EQ(forecast_with(jitter + "seed: 3\n").step_time,
            forecast_with(jitter + "seed: 3\n", true).step_time);
  EXPECT_NE(forecast_with(jitter + "seed: 3\n").step_time,
            forecast_with(jitter + "seed: 4\n").step_time);
  const std::string ranks = item("where: all, compute: {lognormal: {sigma: 0.05, per: rank}}");
  EXPECT_EQ(forecast_with(ranks + "seed: 3\n").step_time,
            forecast_with(ranks + "seed: 3\n", true).step_time);
  EXPECT_NE(forecast_with(ranks + "seed: 3\n").step_time,
            forecast_with(ranks + "seed: 4\n").step_time);
}

TEST(PerturbedStep, ReplicasRunTheSeedsInARow) {
  const std::string jitter =
      item("where: all, compute: {lognormal: {sigma: 0.05, per: rank}}") + "seed: 3\n";
  std::vector<Time> single;
  for (int seed = 3; seed < 6; ++seed)
    single.push_back(forecast_with(item("where: all, compute: {lognormal: {sigma: 0.05, per: "
                                        "rank}}") +
                                   "seed: " + std::to_string(seed) + "\n")
                         .step_time);
  const Result r = forecast_with(jitter + "replicas: 3\n");
  ASSERT_TRUE(r.replicas.has_value());
  EXPECT_EQ(r.replicas->count, 3);
  EXPECT_EQ(r.replicas->first_seed, 3U);
  EXPECT_EQ(r.step_time, single[0]);
  EXPECT_EQ(r.replicas->min, *std::min_element(single.begin(), single.end()));
  EXPECT_EQ(r.replicas->max, *std::max_element(single.begin(), single.end()));
  EXPECT_EQ(r.replicas->mean, (single[0] + single[1] + single[2]) / 3);
}

// Compute and communication that slow each other down draw nothing: every seed has the same step.
TEST(Replicas, AreOneStepWhereNothingIsDrawn) {
  for (const char* interference : {"auto", "on", "off"}) {
    LoadOptions load;
    load.set = {{"contention.interference", interference}, {"replicas", "10000"}};
    const Result r = forecast(load_scenario_text(kBase, "run.yaml", load), {.what_if = false});
    EXPECT_FALSE(r.replicas.has_value()) << interference;
    EXPECT_EQ(r.disturbance.has_value(), std::string(interference) != "off");
  }
}

TEST(Replicas, AreAsManyAsAMinuteRuns) {
  LoadOptions load;
  load.set = {{"batch.global", "256"}, {"replicas", "10000"}};
  const Scenario scenario = load_scenario_text(
      kBase + item("where: all, compute: {lognormal: {sigma: 0.05}}"), "run.yaml", load);
  try {
    forecast(scenario, {.what_if = false});
    FAIL() << "minutes of replicas were run";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.front().code, "E123");
    EXPECT_EQ(e.diagnostics.front().message.find("10000 replicas of this step are too many"), 0u);
  }
}

TEST(PerturbedStep, ProgressIsToldAfterEachReplica) {
  ForecastOptions options;
  options.what_if = false;
  std::vector<int64_t> seen;
  options.progress = [&](int64_t done, int64_t total) {
    EXPECT_EQ(total, 3);
    seen.push_back(done);
  };
  forecast(load_scenario_text(kBase + item("where: rank 1, compute: 0.9") + "replicas: 3\n",
                              "run.yaml", without_interference()),
           options);
  EXPECT_EQ(seen, (std::vector<int64_t>{1, 2, 3}));
}

Result traced(const std::string& more, std::vector<int64_t> ranks = {}) {
  ForecastOptions options;
  options.what_if = false;
  options.trace = true;
  options.trace_ranks = std::move(ranks);
  return forecast(load_scenario_text(kBase + more, "run.yaml", without_interference()), options);
}

// Time in ops of compute on the compute stream, from the trace.
Time traced_compute(const Result& r, const TracedLane& lane, uint32_t role) {
  const RoleTimeline& times = lane.timeline.roles[role];
  Time sum{};
  size_t at = 0;
  for (const Item& item : r.graph->roles[role].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : r.graph->passes[static_cast<size_t>(item.pass)].ops) {
      const Time took = times.op_end[at] - times.op_start[at];
      ++at;
      if (!is_communication(r.graph->works[static_cast<size_t>(op.work)].kind)) sum += took;
    }
  }
  return sum;
}

TEST(PerturbedStep, ATraceHasTheRanksOfTheLaneThatEndsLast) {
  const Result r = traced(item("where: rank 5, compute: 0.5"));
  ASSERT_EQ(r.traced.size(), 1U);
  EXPECT_EQ(r.traced[0].roles, (std::vector<uint32_t>{0, 1}));
  EXPECT_EQ(
      std::count(r.traced[0].names.begin(), r.traced[0].names.end(), r.disturbance->last_rank), 1);
  EXPECT_EQ(r.traced[0].timeline.makespan, r.makespan);
  Time last{};
  for (const RoleTimeline& role : r.traced[0].timeline.roles)
    for (const Time t : role.op_end) last = std::max(last, t);
  EXPECT_EQ(last, r.makespan);
}

TEST(PerturbedStep, GivenRanksAreTracedWithTheirOwnTimes) {
  for (const char* contention : {"", "contention: {interference: on, links: on}\n"}) {
    const Result r = traced(item("where: rank 5, compute: 0.5") + contention, {6, 5, 21, 5});
    ASSERT_EQ(r.traced.size(), 2U) << contention;  // 5 and 21 are one lane
    EXPECT_EQ(r.traced[0].names, (std::vector<std::string>{"rank 5 (stage 0, tp 1, dp 1)",
                                                           "rank 21 (stage 1, tp 1, dp 1)"}));
    EXPECT_EQ(r.traced[1].names, (std::vector<std::string>{"rank 6 (stage 0, tp 2, dp 1)"}));
    const Time slow = traced_compute(r, r.traced[0], 0), sound = traced_compute(r, r.traced[1], 0);
    if (*contention == 0) {
      EXPECT_EQ(slow, sound * 2);
    } else {
      EXPECT_GT(slow, sound * 3 / 2);
    }
    for (const TracedLane& lane : r.traced)
      for (const RoleTimeline& role : lane.timeline.roles)
        for (size_t i = 0; i < role.op_start.size(); ++i) {
          ASSERT_LE(role.op_start[i], role.op_end[i]);
          ASSERT_LE(role.op_end[i], r.makespan);
        }
  }
}

TEST(PerturbedStep, ATraceOfEqualRanksIsThatOfOneOfEachStage) {
  const Result once = traced(""), given = traced("", {0});
  EXPECT_TRUE(once.traced.empty());
  const RoleTimeline &a = once.timeline.roles[0], &b = given.traced[0].timeline.roles[0];
  EXPECT_EQ(a.op_start, b.op_start);
  size_t at = 0;
  for (const Item& item : once.graph->roles[0].items) {
    if (item.kind != ItemKind::pass) continue;
    for (const Op& op : once.graph->passes[static_cast<size_t>(item.pass)].ops) {
      ASSERT_EQ(b.op_end[at],
                a.op_start[at] + once.prices->by_work[static_cast<size_t>(op.work)].time);
      ++at;
    }
  }
}

TEST(PerturbedStep, WhatIfsOfManyRanksThatDifferAreLeftOutUnlessAskedFor) {
  std::string base = kBase;
  base.replace(base.find("global: 16"), 10, "global: 2048");
  const std::string drawn = item("where: all, compute: {lognormal: {sigma: 0.02, per: rank}}");
  const auto answers = [&](const std::string& more, ForecastOptions options) {
    return forecast(load_scenario_text(base + more, "run.yaml", without_interference()), options);
  };
  const Result quick = answers(drawn, {});
  EXPECT_TRUE(quick.what_if_left_out);
  EXPECT_TRUE(quick.what_if.empty());
  const Result asked = answers(drawn, {.every_what_if = true});
  EXPECT_FALSE(asked.what_if_left_out);
  EXPECT_FALSE(asked.what_if.empty());
  EXPECT_EQ(asked.step_time, quick.step_time);
  // Of equal ranks one is simulated.
  const Result equal = answers("", {.all_ranks = true});
  EXPECT_FALSE(equal.what_if_left_out);
  EXPECT_FALSE(equal.what_if.empty());
}

TEST(PerturbedStep, WhatIfsAreOfTheStepOfRanksThatDiffer) {
  const auto answers = [](const std::string& more) {
    return forecast(load_scenario_text(kBase + more, "run.yaml", without_interference()), {});
  };
  const auto saved = [](const Result& r, Spend spend) {
    for (const WhatIf& w : r.what_if)
      if (w.spend == spend) return w.saved;
    return Time::max();
  };
  const Result plain = answers("");
  const Result nominal = answers(item("where: rank 5, compute: 1"));
  ASSERT_FALSE(plain.what_if.empty());
  for (const WhatIf& w : plain.what_if) EXPECT_EQ(saved(nominal, w.spend), w.saved);
  // All at half the speed: what compute costs saves more.
  const Result half = answers(item("where: all, compute: 0.5"));
  EXPECT_GT(saved(half, Spend::optimizer), saved(plain, Spend::optimizer));
  EXPECT_FALSE(half.what_if_without_contention);
  // The straggler is free when it is as priced.
  const Result slow = answers(item("where: rank 5, compute: 0.5"));
  if (saved(slow, Spend::straggler) != Time::max()) {
    EXPECT_EQ(saved(slow, Spend::straggler), slow.step_time - plain.step_time);
  }
}

const std::string kContended = "contention: {interference: on, links: on}\n";

TEST(PerturbedStep, AccountsOfContentionSumToTheStep) {
  for (const std::string& more :
       {kContended, kContended + "overlap: {dp_grad: true}\nschedule: {kind: 1f1b, p2p: async}\n",
        kContended + item("where: rank 5, compute: 0.8")}) {
    const Result r = forecast_with(more);
    Time contention{};
    for (const SpendTable& table : r.account.by_role) {
      EXPECT_EQ(sum_of(table), r.step_time) << more;
      for (const Time t : table) EXPECT_GE(t, Time{}) << more;
      contention += table[static_cast<size_t>(Spend::contention)];
    }
    EXPECT_GT(contention, Time{}) << more;
    Time at{};
    for (const PathSegment& s : r.critical_path) {
      EXPECT_EQ(s.begin, at);
      at = s.end;
    }
    EXPECT_EQ(at, r.makespan) << more;
  }
}

TEST(PerturbedStep, LinksThatNobodyElseUsesAreNoContention) {
  const std::string alone = "contention: {links: on}\n";
  LoadOptions one_node;
  one_node.set = {{"cluster.nodes", "1"}, {"parallel.dp", "1"}, {"contention.interference", "off"}};
  ForecastOptions quick;
  quick.what_if = false;
  const Result r = forecast(load_scenario_text(kBase + alone, "run.yaml", one_node), quick);
  const Result plain = forecast(load_scenario_text(kBase, "run.yaml", one_node), quick);
  // Rates are whole bytes per second: less than a picosecond a transfer.
  constexpr Time kRounding{1'000};
  EXPECT_LE(r.step_time, plain.step_time + kRounding);
  EXPECT_GE(r.step_time + kRounding, plain.step_time);
  for (const SpendTable& table : r.account.by_role)
    EXPECT_LE(table[static_cast<size_t>(Spend::contention)], kRounding);
}

TEST(PerturbedStep, WhatIfsOfContentionAreOfTheStepWithoutIt) {
  const Result r = forecast(load_scenario_text(kBase + kContended, "run.yaml"), {});
  const Result plain = forecast(load_scenario_text(kBase, "run.yaml", without_interference()), {});
  EXPECT_TRUE(r.what_if_without_contention);
  EXPECT_FALSE(plain.what_if_without_contention);
  for (const WhatIf& w : r.what_if) {
    if (w.spend == Spend::contention) {
      EXPECT_EQ(w.saved, r.step_time - plain.step_time);
    }
    for (const WhatIf& v : plain.what_if) {
      if (v.spend == w.spend) {
        EXPECT_EQ(v.saved, w.saved) << name_of(w.spend);
      }
    }
  }
}

bool speaks_of_interference(const Result& r) {
  return std::ranges::any_of(r.scenario.warnings, [](const std::string& w) {
    return w.find("interference") != std::string::npos;
  });
}

TEST(PerturbedStep, StepsOfHoursLeaveSharedLinksOutAndSaySo) {
  // A step of 20 minutes and more is longer than lanes can count.
  const auto of = [](const char* links, const char* global) {
    LoadOptions options;
    options.set = {{"contention.links", links},
                   {"contention.interference", "off"},
                   {"batch.global", global},
                   {"cluster.node.nics.bw", "200kB/s"}};
    return load_scenario_text(kBase, "run.yaml", options);
  };
  const Result off = forecast(of("off", "16"), {.what_if = false});
  ASSERT_GT(to_seconds(off.step_time), 1200);
  const Result automatic = forecast(of("auto", "16"), {.what_if = false});
  EXPECT_EQ(automatic.step_time, off.step_time);
  EXPECT_THAT(automatic.scenario.warnings, Contains(HasSubstr("longer than 19 minutes")));
  EXPECT_THROW(forecast(of("on", "16"), {.what_if = false}), InputError);
}

TEST(PerturbedStep, InterferenceNeedsAMeasurement) {
  const Result on = forecast_with("contention: {interference: on}\noverlap: {dp_grad: true}\n");
  EXPECT_GE(on.step_time, on.disturbance->undisturbed);
  EXPECT_TRUE(on.disturbance->interference);
  LoadOptions options;
  options.set = {{"cluster", "dgx-1-v100 x 4"}, {"contention.interference", "on"}};
  ForecastOptions quick;
  quick.what_if = false;
  EXPECT_THROW(
      forecast(load_scenario_text(kBase + "precision: fp16-mixed\n", "run.yaml", options), quick),
      InputError);
  options.set[1].second = "auto";
  const Result automatic =
      forecast(load_scenario_text(kBase + "precision: fp16-mixed\n", "run.yaml", options), quick);
  EXPECT_FALSE(automatic.disturbance.has_value());
  EXPECT_FALSE(speaks_of_interference(automatic));
}

const std::string kOverlap = "overlap: {dp_grad: true}\nschedule: {kind: 1f1b, p2p: async}\n";

TEST(PerturbedStep, InterferenceIsOnUnlessItIsSaid) {
  const Result by_default = forecast(load_scenario_text(kBase + kOverlap, "run.yaml"), {});
  const Result on = forecast_with("contention: {interference: on}\n" + kOverlap);
  const Result off = forecast_with(kOverlap);
  EXPECT_EQ(by_default.step_time, on.step_time);
  EXPECT_GT(by_default.step_time, off.step_time);
  EXPECT_FALSE(off.disturbance.has_value());
  ASSERT_TRUE(by_default.disturbance.has_value());
  EXPECT_TRUE(by_default.disturbance->interference);
  EXPECT_EQ(by_default.disturbance->undisturbed, off.step_time);
  EXPECT_FALSE(speaks_of_interference(by_default));
}

TEST(PerturbedStep, InterferenceCountsWhereRanksDifferAndWhereTheyShareLinks) {
  for (const std::string& more :
       {item("where: rank 5, compute: 0.8"), std::string("contention: {links: on}\n")}) {
    const Result r = forecast(load_scenario_text(kBase + kOverlap + more, "run.yaml"), {});
    LoadOptions set;
    set.set = {{"contention.interference", "on"}};
    const Result on = forecast(load_scenario_text(kBase + kOverlap + more, "run.yaml", set), {});
    EXPECT_EQ(r.step_time, on.step_time) << more;
    EXPECT_EQ(r.account.by_role, on.account.by_role) << more;
    EXPECT_GT(r.step_time, forecast_with(kOverlap + more).step_time) << more;
    EXPECT_TRUE(r.disturbance->interference) << more;
    EXPECT_FALSE(speaks_of_interference(r)) << more;
  }
}

TEST(PerturbedStep, AutoLeavesInterferenceOutWhereThatTakesLong) {
  const std::string jitter =
      kOverlap + item("where: all, compute: {lognormal: {sigma: 0.02}}") + "replicas: 1000\n";
  const Result r = forecast(load_scenario_text(kBase + jitter, "run.yaml"), {.what_if = false});
  const Result off = forecast_with(jitter);
  EXPECT_EQ(r.step_time, off.step_time);
  EXPECT_EQ(r.replicas->p95, off.replicas->p95);
  EXPECT_FALSE(r.disturbance->interference);
  ASSERT_EQ(r.scenario.warnings.size(), off.scenario.warnings.size() + 1);
  EXPECT_THAT(r.scenario.warnings,
              Contains(HasSubstr("contention.interference: auto leaves out that compute")));
}

TEST(PerturbedStep, AutoLeavesInterferenceOutWhereLinksAreAutoToo) {
  const Result r =
      forecast(load_scenario_text(kBase + kOverlap + "contention: {links: auto}\n" +
                                      item("where: all, compute: {lognormal: {sigma: 0.02}}") +
                                      "replicas: 1000\n",
                                  "run.yaml"),
               {.what_if = false});
  EXPECT_FALSE(r.disturbance->interference);
  EXPECT_TRUE(speaks_of_interference(r));
}

TEST(PerturbedStep, InterferenceIsLeftOutOnlyWhereRanksDifferOrShareLinks) {
  const auto with = [](const std::string& more) {
    return load_scenario_text(kBase + more, "run.yaml");
  };
  const std::string differ = item("where: rank 5, compute: 0.8");
  EXPECT_FALSE(may_leave_out_interference(with("")));  // however many ranks a trace shows
  EXPECT_TRUE(may_leave_out_interference(with(differ)));
  EXPECT_FALSE(may_leave_out_interference(with(differ + "contention: {interference: on}\n")));
  EXPECT_TRUE(may_leave_out_interference(with("contention: {links: on}\n")));
  Scenario tried = with("contention: {links: auto}\n");
  tried.share_links = true;
  EXPECT_FALSE(may_leave_out_interference(tried));
}

TEST(PerturbedStep, AutoLeavesInterferenceOutOfStepsThatCannotBeCounted) {
  // 2^50 ps are 19 minutes.
  LoadOptions slow;
  slow.set = {{"cluster.node.nics.bw", "0.3MB/s"}};
  const Result r = forecast(load_scenario_text(kBase, "run.yaml", slow), {});
  EXPECT_GT(to_seconds(r.step_time), 1000);
  EXPECT_FALSE(r.disturbance.has_value());
  ASSERT_FALSE(r.scenario.warnings.empty());
  EXPECT_NE(r.scenario.warnings.back().find("2^50 ps"), std::string::npos);
}

// CUDA_LAUNCH_BLOCKING=1: nothing runs beside anything else.
TEST(PerturbedStep, NothingInterferesWhereTheHostWaitsForAllThatItLaunches) {
  LoadOptions blocking;
  blocking.set = {{"kernels.host_waits", "launches"}};
  const Result r =
      forecast(load_scenario_text(kBase + kOverlap, "run.yaml", blocking), {.what_if = false});
  EXPECT_FALSE(r.disturbance.has_value());
  EXPECT_FALSE(speaks_of_interference(r));
  EXPECT_GT(r.step_time, forecast_with(kOverlap).step_time);
}

// The same error wherever the time of a step is asked for.
TEST(PerturbedStep, WhatIsTooLongForContentionIsRefusedByItsCode) {
  LoadOptions slow;
  slow.set = {{"cluster.node.nics.bw", "0.3MB/s"}, {"contention.interference", "on"}};
  const Scenario s = load_scenario_text(kBase, "run.yaml", slow);
  const PricedStep step = price_step(lower_step(s, s.schedule), pricing_table(s).table);
  try {
    (void)step_time_of(s, step.table, step.graph, step.prices);
    FAIL() << "not refused";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics.front().code, "E123");
  }
}

// Without the barrier of the optimizer too, and of every rank as of one.
TEST(PerturbedStep, InterferenceNeverMakesAStepShorter) {
  for (const char* schedule : {"1f1b", "zb-h1", "gpipe"}) {
    for (const char* overlap : {"true", "false"}) {
      const std::string more = "schedule: {kind: " + std::string(schedule) +
                               ", p2p: async}\noverlap: {dp_grad: " + overlap + "}\n";
      const Result on = forecast_with("contention: {interference: on}\n" + more);
      const Result each = forecast_with("contention: {interference: on}\n" + more, true);
      const Result off = forecast_with(more);
      EXPECT_GE(on.step_time, off.step_time) << more;
      EXPECT_GE(on.span, off.span) << more;
      EXPECT_EQ(each.step_time, on.step_time) << more;
      EXPECT_EQ(each.span, on.span) << more;
    }
  }
}

TEST(PerturbedStep, TheTimeAloneIsThatOfTheForecast) {
  for (const char* schedule : {"1f1b", "zb-h1"}) {
    const Scenario s = load_scenario_text(
        kBase + "schedule: " + schedule + "\noverlap: {dp_grad: true}\n", "run.yaml");
    const Result r = forecast(s, {});
    ASSERT_TRUE(r.disturbance.has_value());
    EXPECT_EQ(step_time_of(s, pricing_table(s).table, *r.graph, *r.prices), r.step_time);
  }
}

// Groups that share a slow NIC divide what is left of it, not what it once had.
TEST(PerturbedStep, SlowNicsAreSharedAsSlowOnes) {
  const auto step = [](const LoadOptions& options, const std::string& more) {
    ForecastOptions quick;
    quick.what_if = false;
    const std::string few = kBase + "contention: {links: on}\n" + more;
    return to_seconds(forecast(load_scenario_text(few, "run.yaml", options), quick).step_time);
  };
  LoadOptions few, built;
  few.set = {{"cluster.node.nics.count", "2"}};
  built.set = few.set;
  built.set.emplace_back("cluster.node.nics.bw", "100Gb/s");
  const double sound = step(few, ""), slow = step(few, item("where: all, bw: 0.5"));
  EXPECT_GT(slow, sound);
  EXPECT_NEAR(slow, step(built, ""), 1e-4 * slow);
}

TEST(PerturbedStep, ReplicasAreTheStepsOfTheirSeeds) {
  const auto with = [](const std::string& items, int seed, int replicas) {
    return forecast_with("contention: {links: on}\nperturb: [" + items + "]\nseed: " +
                         std::to_string(seed) + "\nreplicas: " + std::to_string(replicas) + "\n");
  };
  for (const char* items : {"{where: all, compute: {lognormal: {sigma: 0.05}}}",
                            "{where: all, compute: {lognormal: {sigma: 0.05, per: rank}}}"}) {
    const Result both = with(items, 3, 2);
    const Time one = with(items, 3, 1).step_time, two = with(items, 4, 1).step_time;
    EXPECT_EQ(both.replicas->min, std::min(one, two)) << items;
    EXPECT_EQ(both.replicas->max, std::max(one, two)) << items;
    EXPECT_NE(one, two) << items;
  }
}

TEST(PerturbedStep, FasterRanksDifferToo) {
  const Result r = forecast_with(item("where: ranks 0-3, compute: 1.25"));
  EXPECT_EQ(r.disturbance->fast_ranks, 4);
  EXPECT_EQ(r.disturbance->slow_ranks, 0);
  EXPECT_LE(r.step_time, r.disturbance->undisturbed);
}

TEST(PerturbedStep, WindowsThatBeginAfterTheStepAreToldOf) {
  const auto warnings = [](const std::string& from) {
    const Result r = forecast_with(item("where: rank 3, compute: 0.5, from: " + from));
    return r.scenario.warnings.size();
  };
  EXPECT_EQ(warnings("1ms"), 0u);
  EXPECT_EQ(warnings("1000s"), 1u);
}

TEST(PerturbedStep, SharedLinksNeverMakeAStepOfOneTransferAtATimeFaster) {
  const Result shared = forecast_with("contention: {links: on}\n");
  EXPECT_TRUE(shared.disturbance->shared_links);
  EXPECT_GE(shared.step_time, shared.disturbance->undisturbed);
  EXPECT_LE(shared.event_ops, shared.rank_ops);
}

TEST(PerturbedStep, LinksAreSharedAutomaticallyWhereThatIsQuick) {
  for (const char* routing : {"ecmp", "adaptive"}) {
    const auto with = [&](const char* links) {
      LoadOptions options;
      options.set = {{"contention.links", links},
                     {"contention.interference", "on"},
                     {"cluster.fabric.routing", routing}};
      return forecast(load_scenario_text(kBase, "run.yaml", options), {});
    };
    const Result on = with("on"), automatic = with("auto");
    ASSERT_TRUE(automatic.disturbance.has_value());
    EXPECT_TRUE(automatic.disturbance->shared_links) << routing;
    EXPECT_EQ(automatic.step_time, on.step_time) << routing;
    EXPECT_EQ(automatic.account.by_role, on.account.by_role) << routing;
  }
}

TEST(PerturbedStep, WhereThatTakesLongARemarkSaysSo) {
  const auto of = [](const char* nodes, const char* dp, const char* links) {
    LoadOptions options;
    options.set = {{"contention.links", links},
                   {"cluster.nodes", nodes},
                   {"parallel.dp", dp},
                   {"batch.global", "8192"}};
    return forecast(load_scenario_text(kBase, "run.yaml", options), {.what_if = false});
  };
  const Result off = of("512", "512", "off"), different = of("512", "512", "auto"),
               many = of("1024", "1024", "auto");
  EXPECT_EQ(different.step_time, off.step_time);
  ASSERT_EQ(different.scenario.warnings.size(), off.scenario.warnings.size() + 1);
  EXPECT_THAT(different.scenario.warnings,
              Contains(AllOf(HasSubstr("ranks differ by their routes, and on would take about"),
                             HasSubstr("with cluster.fabric.routing: adaptive they cost"))));
  EXPECT_THAT(many.scenario.warnings, Contains(HasSubstr("there are more than 4096 ranks")));
}

}  // namespace
}  // namespace stepcast::perturbed_step_test
