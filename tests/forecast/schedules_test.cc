// SPDX-License-Identifier: Apache-2.0
// Whole forecasts of schedules that split the backward, hold two replicas, cut sequences, or are
// made for the scenario.
#include <gtest/gtest.h>

#include <numeric>

#include "scenarios/forecast.h"
#include "scenarios/make_schedule.h"
#include "schedules/check.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

Scenario scenario(const Sets& sets) {
  LoadOptions options;
  options.set = sets;
  return load_scenario_text(
      "model: {preset: llama3-8b, num_hidden_layers: 16}\n"
      "cluster: dgx-h100\n"
      "parallel: {pp: 4, tp: 2}\n"
      "batch: {global: 16, seq: 2048}\n",
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

TEST(ForecastSchedules, AutoIsAsGoodAsTheFamiliesOfItsPlacement) {
  const Result made = result_of({{"schedule", "{kind: auto, params: {effort: 2000}}"}});
  ASSERT_TRUE(made.synthesis);
  EXPECT_TRUE(made.fits);
  EXPECT_GE(made.synthesis->objective, made.synthesis->lower_bound);
  EXPECT_GE(made.synthesis->gap, 0);
  for (const char* family : {"1f1b", "zb-h1", "zb-h2", "gpipe"}) {
    const Result fixed = result_of({{"schedule.kind", family}, {"schedule.p2p", "async"}});
    if (!fixed.fits) continue;
    // Prices of a pass alone leave out what the host's launches cost between passes.
    EXPECT_LE(to_seconds(made.step_time), 1.005 * to_seconds(fixed.step_time)) << family;
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
}  // namespace stepcast
