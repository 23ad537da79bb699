// SPDX-License-Identifier: Apache-2.0
// Time and peak of a step alone, against the forecast that explains them.
#include "scenarios/forecast/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "scenarios/forecast/forecast.h"
#include "scenarios/pricing_table.h"
#include "schedules/transfers/transfers.h"
#include "sim/diagnostic.h"

namespace stepcast::step_test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Scenario scenario(const std::string& rest) {
  return load_scenario_text(
      "model: {preset: llama3-8b, num_hidden_layers: 16}\ncluster: dgx-h100\n" + rest, "run.yaml");
}

TEST(Step, EvaluatesToTimeAndPeakOfTheForecast) {
  for (const char* rest :
       {"parallel: {pp: 4, tp: 2}\nbatch: {global: 16, seq: 2048}\n",
        "parallel: {pp: 2, tp: 2}\nbatch: {global: 16, seq: 2048}\nschedule: {kind: zb-h1, "
        "post_validation: true}\n",
        "parallel: {pp: 4, tp: 2, vpp: 2}\nbatch: {global: 16, seq: 2048}\nschedule: "
        "interleaved\n"}) {
    const Scenario s = scenario(rest);
    const PricedStep step = price_step(lower_step(s, s.schedule), pricing_table(s).table);
    const auto outcome = evaluate(step);
    const Result result = forecast(s, {.what_if = false});
    ASSERT_TRUE(outcome.has_value()) << rest;
    EXPECT_EQ(outcome->time, result.step_time) << rest;
    EXPECT_EQ(outcome->peak, result.memory[result.peak_role].memory.peak) << rest;
    EXPECT_EQ(fits(lower_step(s, s.schedule)), result.fits) << rest;
  }
}

TEST(Step, KnowsWhichTransfersGoWithASchedule) {
  const Scenario s = scenario(
      "parallel: {pp: 4, tp: 2, vpp: 2}\nbatch: {global: 16, seq: 2048}\nschedule: interleaved\n");
  Scenario other = s;
  for (const P2pStyle style : kAllP2pStyles) {
    other.p2p = style;
    bool lowered = true;
    try {
      lower_step(other, other.schedule);
    } catch (const InputError& e) {
      lowered = false;
      EXPECT_EQ(e.diagnostics.front().code, "E127");
    }
    EXPECT_EQ(!check_transfers(other.schedule, style), lowered) << name_of(style);
  }
}

// With context parallelism and per-op recomputation the stage that allocates most is not the one
// for which the caching allocator reserves most.
TEST(Step, ThePeakIsThatOfTheStageThatAllocatesMost) {
  const Scenario s = load_scenario_text(
      "model: gpt3-1.3b\ncluster: p4d x 1\nparallel: {tp: 1, pp: 2, cp: 2}\n"
      "batch: {global: 4, micro: 1, seq: 2048}\nrecompute: per-op\n",
      "peak.yaml");
  const Result result = forecast(s, {.what_if = false});
  Bytes most{}, reserved{};
  for (const RankMemory& rank : result.memory) {
    most = std::max(most, rank.memory.peak);
    if (rank.reserved) reserved = std::max(reserved, *rank.reserved);
  }
  EXPECT_EQ(result.memory[result.peak_role].memory.peak, most);
  EXPECT_EQ(result.memory_reserved, reserved);
  EXPECT_EQ(result.memory[result.reserved_role].reserved, reserved);
  EXPECT_NE(result.peak_role, result.reserved_role);
}

std::string refusal_of(const Scenario& s) {
  try {
    price_step(lower_step(s, s.schedule), pricing_table(s).table);
  } catch (const InputError& e) {
    EXPECT_FALSE(price_if_possible(lower_step(s, s.schedule), pricing_table(s).table));
    return e.what();
  }
  EXPECT_TRUE(price_if_possible(lower_step(s, s.schedule), pricing_table(s).table));
  return "runs";
}

TEST(Step, OneStageHoldsAsManyLayersAsAProgramHasSlotsFor) {
  const auto of_layers = [](const std::string& layers) {
    return load_scenario_text("model: {preset: llama3-8b, num_hidden_layers: " + layers +
                                  "}\ncluster: dgx-h100\nparallel: {tp: 2}\nbatch: {global: 8, "
                                  "micro: 1, seq: 1024}\n",
                              "layers.yaml");
  };
  EXPECT_EQ(refusal_of(of_layers("1200")), "runs");
  EXPECT_THAT(refusal_of(of_layers("10000")),
              AllOf(HasSubstr("E123"), HasSubstr("ops that others wait for: at most 65535")));
}

TEST(Step, HasNoMoreOpsThanAMinuteRuns) {
  const auto of_batch = [](const char* batch) {
    return load_scenario_text(std::string("model: {preset: llama3-8b, num_hidden_layers: 1000}\n"
                                          "cluster: dgx-h100\nparallel: {tp: 2, pp: 2}\n"
                                          "batch: {micro: 1, seq: 1024, global: ") +
                                  batch + "}\n",
                              "long.yaml");
  };
  EXPECT_EQ(refusal_of(of_batch("2000")), "runs");
  EXPECT_THAT(refusal_of(of_batch("40000")),
              AllOf(HasSubstr("E123"), HasSubstr("at most 500000000 are possible")));
}

TEST(Step, FarBeyondAnyGpuWhatIsReservedIsWhatIsAllocated) {
  const Scenario s = load_scenario_text(
      "model: gpt3-175b\ncluster: dgx-a100-80g x 1\nbatch: {global: 8, micro: 1, seq: 2048}\n",
      "large.yaml");
  const StepMemory memory = memory_of(lower_step(s, s.schedule));
  EXPECT_EQ(memory.reserved, memory.peak);
  EXPECT_FALSE(fits(lower_step(s, s.schedule)));
}

}  // namespace
}  // namespace stepcast::step_test
