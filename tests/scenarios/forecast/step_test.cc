// SPDX-License-Identifier: Apache-2.0
// Time and peak of a step alone, against the forecast that explains them.
#include "scenarios/forecast/step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "scenarios/forecast/forecast.h"
#include "scenarios/pricing_table.h"
#include "schedules/transfers/transfers.h"
#include "sim/diagnostic.h"

namespace stepcast::step_test {
namespace {

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
