// SPDX-License-Identifier: Apache-2.0
// Whole forecasts of schedules that split the backward, hold two replicas, cut sequences, or are
// made for the scenario.
#include <gtest/gtest.h>

#include <numeric>

#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/make_schedule.h"
#include "scenarios/forecast/stage_costs.h"
#include "scenarios/pricing_table.h"
#include "schedules/check.h"
#include "sim/diagnostic.h"

namespace stepcast::schedules_test {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

// Without in-situ parameters: with them the host sets the pace of so small a step.
Scenario scenario(const Sets& sets) {
  LoadOptions options;
  options.set = sets;
  return load_scenario_text(
      "model: {preset: llama3-8b, num_hidden_layers: 16}\n"
      "cluster: dgx-h100\n"
      "parallel: {pp: 4, tp: 2}\n"
      "batch: {global: 16, seq: 2048}\nin_situ: off\n",
      "run.yaml", options);
}

Result result_of(const Sets& sets) {
  ForecastOptions options;
  options.what_if = false;
  return forecast(scenario(sets), options);
}

Time sum_of(const SpendTable& table) {
  return std::accumulate(table.begin(), table.end(), Time{});
}

// Of other costs, of other parameters, and of the same again.
TEST(ForecastSchedules, KeptListsAreThoseThatWouldBeMade) {
  MadeLists lists;
  for (const char* kind : {"zb-1p", "zb-2p", "zb-1p"})
    for (const char* seq : {"2048", "1024", "2048"})
      for (const char* zero : {"0", "1"}) {
        const Scenario s =
            scenario({{"schedule.kind", kind}, {"batch.seq", seq}, {"parallel.zero", zero}});
        const CostTable* table = pricing_table(s).table;
        EXPECT_EQ(make_schedule(s, table, &lists).schedule, make_schedule(s, table).schedule)
            << kind << ", " << seq;
      }
}

TEST(ForecastSchedules, EveryFamilyIsForecast) {
  int forecasts = 0;
  for (const ScheduleFamily& family : schedule_families()) {
    for (const char* vpp : {"null", "2"}) {
      try {
        const Result r =
            result_of({{"schedule.kind", std::string(family.name)}, {"parallel.vpp", vpp}});
        EXPECT_GT(r.step_time, Time{}) << family.name;
        EXPECT_LE(r.span, r.step_time) << family.name;
        for (const SpendTable& table : r.account.by_role)
          EXPECT_EQ(sum_of(table), r.step_time) << family.name;
        ++forecasts;
        break;
      } catch (const InputError& e) {
        EXPECT_EQ(e.diagnostics[0].code, "E205") << family.name << ": " << e.what();
      }
    }
  }
  EXPECT_EQ(forecasts, static_cast<int>(schedule_families().size()));
}

TEST(ForecastSchedules, PostValidationCostsTheSpan) {
  const Sets sets{{"schedule.kind", "zb-h2"}, {"model.tie_word_embeddings", "false"}};
  Sets open = sets;
  open.emplace_back("schedule.post_validation", "true");
  const Result barrier = result_of(sets), without = result_of(open);
  EXPECT_EQ(without.step_time, without.span);
  EXPECT_EQ(barrier.span, without.span);
  EXPECT_LT(without.step_time, barrier.step_time);
  Time longest{};
  for (const RoleTimeline& role : without.timeline.roles)
    longest = std::max(longest, role.end - role.compute_begin);
  EXPECT_EQ(without.step_time, longest);
  for (const SpendTable& table : without.account.by_role)
    EXPECT_EQ(sum_of(table), without.step_time);
}

// Gathers that the barrier lets begin beside the first forward come at the end without it.
TEST(ForecastSchedules, TheSpanIsNoLongerThanTheStep) {
  for (const char* perturb : {"null", "[{where: gpu 0, compute: 0.9}]"}) {
    LoadOptions load;
    load.set = {{"perturb", perturb}};
    const Result r =
        forecast(load_scenario_text("model: {preset: llama3-8b, num_hidden_layers: 8}\n"
                                    "cluster: dgx-h100 x 2\n"
                                    "parallel: {pp: 4, zero: 1}\n"
                                    "overlap: {dp_param: true, dp_grad: true}\n"
                                    "batch: {global: 64, micro: 1, seq: 2048}\n"
                                    "schedule: dualpipe\n",
                                    "run.yaml", load));
    EXPECT_LE(r.span, r.step_time) << perturb;
    EXPECT_GT(to_seconds(r.span), 0.9 * to_seconds(r.step_time)) << perturb;
  }
}

// What the host reads back in each layer of a dropless mixture delays a step without a barrier,
// too.
TEST(ForecastSchedules, StepsWithoutABarrierWaitForTheHostAsOthersDo) {
  const auto mixture = [](const char* post_validation) {
    LoadOptions load;
    load.set = {{"schedule.post_validation", post_validation}};
    ForecastOptions quick;
    quick.what_if = false;
    return forecast(load_scenario_text("model: {preset: qwen3-30b-a3b, num_hidden_layers: 16}\n"
                                       "cluster: dgx-h100 x 2\n"
                                       "parallel: {pp: 2, ep: 8}\n"
                                       "batch: {global: 64, seq: 2048}\n"
                                       "schedule: zb-h1\n",
                                       "run.yaml", load),
                    quick);
  };
  const Result barrier = mixture("false"), open = mixture("true");
  EXPECT_EQ(barrier.span, std::min(barrier.step_time, open.step_time));
  EXPECT_GT(to_seconds(open.step_time), to_seconds(barrier.step_time) * 0.98);
}

TEST(ForecastSchedules, FamiliesOfCostsGetTheScenariosPrices) {
  const Scenario s = scenario({{"schedule.kind", "zb-2p"}});
  ASSERT_TRUE(s.to_make);
  const PipelineCosts costs = stage_costs(s, nullptr);
  ASSERT_EQ(costs.times.size(), 4u);
  for (size_t stage = 0; stage < 4; ++stage) {
    EXPECT_GT(costs.times[stage].forward, Time{});
    if (stage < 3) {
      EXPECT_GT(costs.times[stage].backward_input, costs.times[stage].forward);
    }
    EXPECT_GT(costs.times[stage].backward_weight, Time{});
    EXPECT_GT(costs.memory[stage].forward, 0);
    EXPECT_EQ(costs.memory[stage].forward + costs.memory[stage].backward_input +
                  costs.memory[stage].backward_weight,
              0);
    EXPECT_GT(costs.memory_limit[stage], 0);
  }
  EXPECT_GT(costs.times[3].forward, costs.times[1].forward);  // the head
  for (const Time hop : costs.hops) EXPECT_GT(hop, Time{});
  EXPECT_TRUE(check_schedule(schedule_of(s)).empty());
}

// Every family that can run with these sizes on a placement that auto may take.
void expect_auto_beats_families(const Sets& sets, const std::string& vpp) {
  Sets automatic = sets;
  automatic.emplace_back("schedule", "{kind: auto, params: {effort: 300}}");
  automatic.emplace_back("parallel.vpp", vpp);
  const Result made = result_of(automatic);
  ASSERT_TRUE(made.synthesis);
  EXPECT_TRUE(made.fits);
  EXPECT_GE(made.synthesis->gap.value_or(0), 0);
  EXPECT_FALSE(made.synthesis->winner.empty());
  int compared = 0;
  for (const ScheduleFamily& family : schedule_families()) {
    // Two replicas, pieces of sequences, a shared vocabulary: not the actions that auto orders.
    if (family.name == "dualpipe" || family.name == "chimera" || family.name == "seq1f1b" ||
        family.name == "vocab-1f1b" || family.name == "v-controllable-memory")
      continue;
    Sets fixed = sets;
    fixed.emplace_back("schedule.kind", std::string(family.name));
    fixed.emplace_back("parallel.vpp", vpp);
    try {
      const Result r = result_of(fixed);
      if (!r.fits) continue;
      EXPECT_LE(made.step_time, r.step_time) << family.name << ", vpp " << vpp;
      ++compared;
    } catch (const InputError&) {
      // Not for these sizes.
    }
  }
  EXPECT_GE(compared, 5);
}

TEST(ForecastSchedules, AutoIsNeverSlowerThanAFamilyThatFits) {
  expect_auto_beats_families({}, "1");
  expect_auto_beats_families({}, "2");
}

TEST(ForecastSchedules, AutoIsNeverSlowerWhereCollectivesHideBesideWeightGradients) {
  const Sets sets{{"parallel.tp", "4"}, {"parallel.pp", "2"}, {"batch.global", "12"}};
  expect_auto_beats_families(sets, "1");
  expect_auto_beats_families(sets, "2");
}

TEST(ForecastSchedules, AutoIsNeverSlowerWithoutABarrierOrWithLittleMemory) {
  expect_auto_beats_families({{"schedule.post_validation", "true"}}, "1");
  expect_auto_beats_families({{"cluster.node.gpu.memory", "50GiB"}}, "1");
}

TEST(ForecastSchedules, StagesHaveATimeOfWholeBackwards) {
  const PipelineCosts costs = stage_costs(scenario({{"schedule", "auto"}}), nullptr);
  for (const StageTimes& t : costs.times) {
    EXPECT_GT(t.backward, t.backward_input);
    EXPECT_LT(t.backward, t.backward_input + t.backward_weight);  // tp = 2
  }
}

TEST(ForecastSchedules, StagesOfAStepThatDoesNotTrainHaveForwardsOnly) {
  const PipelineCosts costs = stage_costs(scenario({{"mode", "prefill"}}), nullptr);
  for (const StageTimes& t : costs.times) {
    EXPECT_GT(t.forward, Time{0});
    EXPECT_EQ(t.backward + t.backward_input + t.backward_weight, Time{0});
  }
}

TEST(ForecastSchedules, WherePairsHideCommunicationNoBoundIsKnown) {
  const Sets experts{{"model", "{preset: mixtral-8x7b, num_hidden_layers: 8}"},
                     {"parallel", "{tp: 2, pp: 2, ep: 2, etp: 1, vpp: 2}"},
                     {"schedule", "{kind: auto, params: {effort: 300}}"}};
  const Result paired = result_of(experts);
  ASSERT_TRUE(paired.synthesis);
  EXPECT_EQ(paired.synthesis->winner, "dualpipev");
  EXPECT_FALSE(paired.synthesis->lower_bound);
  EXPECT_FALSE(paired.synthesis->gap);

  const Result single =
      result_of({{"schedule", "{kind: auto, params: {effort: 300, split_backward: true}}"}});
  ASSERT_TRUE(single.synthesis && single.synthesis->lower_bound);
  EXPECT_LE(*single.synthesis->lower_bound, single.synthesis->objective);
  EXPECT_LE(*single.synthesis->lower_bound, single.step_time);
}

// A host that sets the pace launches a pass while the last kernels of the one before run: a step is
// shorter than its passes by themselves.
TEST(ForecastSchedules, WhereTheHostSetsThePaceNoBoundIsKnown) {
  const Result r =
      result_of({{"schedule", "{kind: auto, params: {effort: 300, split_backward: true}}"},
                 {"in_situ", "on"}});
  ASSERT_TRUE(r.synthesis);
  EXPECT_FALSE(r.synthesis->lower_bound);
}

TEST(ForecastSchedules, AutoSaysWhereTwoChunksAreOpen) {
  const auto open = [](Sets sets) {
    sets.emplace_back("schedule", "{kind: auto, params: {effort: 100}}");
    return result_of(sets).synthesis->could_have_chunks;
  };
  EXPECT_TRUE(open({}));
  EXPECT_FALSE(open({{"parallel.vpp", "2"}}));
  EXPECT_FALSE(open({{"parallel.layout", "Et*4|t*4|t*4|t*4L"}}));
  EXPECT_FALSE(open({{"model.num_hidden_layers", "12"}}));
  EXPECT_TRUE(open({{"model.num_hidden_layers", "12"}, {"parallel.split", "products"}}));
}

TEST(ForecastSchedules, AutoKeepsToWholeOrSplitBackwardsWhereToldSo) {
  for (const char* split : {"true", "false"}) {
    const Scenario s = scenario({{"schedule", std::string("{kind: auto, params: {effort: 100, ") +
                                                  "split_backward: " + split + "}}"}});
    const ActionKind never = *split == 't' ? ActionKind::backward : ActionKind::backward_weight;
    for (const auto& list : schedule_of(s).ranks)
      for (const Action& a : list) EXPECT_NE(a.kind, never);
  }
}

TEST(ForecastSchedules, AutoKeepsToItsMemory) {
  const Scenario s = scenario({{"schedule", "auto"}});
  const PipelineCosts costs = stage_costs(s, nullptr);
  const int64_t one = costs.memory[0].forward;
  const auto limited = [&](int64_t bytes) {
    return result_of({{"schedule", "{kind: auto, memory_limit: " + std::to_string(bytes) +
                                       "B, params: {effort: 500}}"}});
  };
  const Result tight = limited(one * 5), wide = limited(one * 16);
  for (const RankMemory& rank : tight.memory) EXPECT_LE(rank.memory.peak_in_flight, 6);
  EXPECT_LE(wide.step_time, tight.step_time);
  try {
    limited(one / 2);
    FAIL() << "no order fits";
  } catch (const InputError& e) {
    EXPECT_EQ(e.diagnostics[0].code, "E205");
    EXPECT_NE(e.diagnostics[0].message.find("one microbatch holds"), std::string::npos);
  }
}

TEST(ForecastSchedules, WithoutRoomAutoSaysSoAndDoesNotFit) {
  const Result r = result_of(
      {{"schedule", "{kind: auto, params: {effort: 200}}"}, {"cluster.node.gpu.memory", "8GiB"}});
  EXPECT_FALSE(r.fits);
  ASSERT_FALSE(r.scenario.warnings.empty());
  EXPECT_NE(r.scenario.warnings.back().find("what 1F1B would hold"), std::string::npos);
}

}  // namespace
}  // namespace stepcast::schedules_test
