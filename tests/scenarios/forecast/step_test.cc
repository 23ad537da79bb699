// SPDX-License-Identifier: Apache-2.0
// Time and peak of a step alone, against the forecast that explains them.
#include "scenarios/forecast/step.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "report/json/result.h"
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
    reserved = std::max(reserved, rank.reserved);
    EXPECT_GE(rank.reserved, rank.memory.peak);
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

Scenario four_stages(const char* memory) {
  LoadOptions options;
  options.set = {{"cluster.node.gpu.memory", memory}};
  return load_scenario_text(
      "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 1\n"
      "parallel: {tp: 2, pp: 4}\nbatch: {global: 8, micro: 1, seq: 4096}\n",
      "four.yaml", options);
}

// The larger the GPU, the more all tensors could grow.
TEST(Step, RoomToGrowIsWhatTheTensorsLeave) {
  const auto room = [](const char* gpu) {
    const Scenario s = four_stages(gpu);
    const LoweredStep step = lower_step(s, s.schedule);
    const StepMemory memory = memory_of(step);
    const double grown = room_to_grow(s, step.graph, memory, 0.5, 2);
    const double usable = static_cast<double>(usable_memory(s).value);
    EXPECT_GE(grown, std::min(2.0, usable / static_cast<double>(memory.reserved.value)) - 0.01);
    EXPECT_LE(grown, std::max(0.5, usable / static_cast<double>(memory.peak.value)) + 0.01);
    EXPECT_EQ(grown >= 1, fits(step)) << gpu;
    return grown;
  };
  EXPECT_EQ(room("80GiB"), 2);
  EXPECT_EQ(room("8GiB"), 0.5);
  const double less = room("15GiB"), more = room("18GiB");
  EXPECT_LT(less, more);
}

// With little room, with enough for some stages, and with plenty.
TEST(Step, AnyNumberOfThreadsForecastsTheSame) {
  std::vector<Scenario> steps;
  for (const char* gpu : {"8GiB", "15GiB", "16GiB", "17GiB", "18GiB", "80GiB"})
    steps.push_back(four_stages(gpu));
  const std::string nodes =
      "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100 x 4\n"
      "parallel: {tp: 2, pp: 4}\nbatch: {global: 16, micro: 1, seq: 4096}\n";
  for (const char* more :
       {"contention: {links: auto}\n", "contention: {links: on}\n",
        "perturb: [{where: all, compute: {lognormal: {sigma: 0.05}}}]\nreplicas: 3\n"})
    steps.push_back(load_scenario_text(nodes + more, "nodes.yaml"));
  for (const Scenario& s : steps) {
    const Result one = forecast(s);
    for (const int jobs : {2, 3, 16})
      EXPECT_EQ(run_json(forecast(s, {.jobs = jobs}), "1"), run_json(one, "1")) << s.name;
  }
}

TEST(Step, ProgressIsToldOnTheThreadThatAskedAndMayEndTheForecast) {
  const Scenario s = load_scenario_text(
      "model: {preset: llama3-8b, num_hidden_layers: 8}\ncluster: dgx-h100\n"
      "parallel: {tp: 2, pp: 4}\nbatch: {global: 16, micro: 1, seq: 4096}\n"
      "perturb: [{where: all, compute: {lognormal: {sigma: 0.05}}}]\nreplicas: 20\n",
      "replicas.yaml");
  struct Enough {};
  const std::thread::id caller = std::this_thread::get_id();
  for (int i = 0; i < 10; ++i) {
    int64_t told = 0;
    const auto progress = [&](int64_t done, int64_t) {
      EXPECT_EQ(std::this_thread::get_id(), caller);
      if (told = done; done > 10) throw Enough{};
    };
    EXPECT_THROW(forecast(s, {.progress = progress, .jobs = 4}), Enough);
    EXPECT_EQ(told, 11);
  }
}

TEST(Step, SaysHowSurelyItFits) {
  const auto share = [](const char* gpu) {
    const Result r = forecast(four_stages(gpu), {.what_if = false});
    EXPECT_LE(r.reserved_interval->low, r.memory_reserved);
    EXPECT_GE(r.reserved_interval->high, r.memory_reserved);
    EXPECT_LE(r.allocated_interval->low, r.memory[r.peak_role].memory.peak);
    return *r.fits_share;
  };
  EXPECT_EQ(share("80GiB"), 0.95);  // as much as so few sources can say
  EXPECT_EQ(share("8GiB"), 0.05);
  EXPECT_LE(share("15GiB"), share("18GiB"));
}

// No time is needed for it, and it is that of the whole forecast.
TEST(Step, MemoryAloneIsThatOfTheForecast) {
  const Scenario s = four_stages("80GiB");
  const std::optional<Result> alone = forecast_memory(s);
  ASSERT_TRUE(alone.has_value());
  const Result whole = forecast(s, {.what_if = false});
  EXPECT_EQ(alone->memory_reserved, whole.memory_reserved);
  EXPECT_EQ(alone->reserved_role, whole.reserved_role);
  EXPECT_EQ(alone->fits_share, whole.fits_share);
  EXPECT_EQ(alone->memory_usable, whole.memory_usable);
}

TEST(Step, WhatDoesNotTrainHasNoIntervalOfMemory) {
  const Scenario s = load_scenario_text(
      "model: llama3-8b\ncluster: dgx-h100 x 1\nmode: prefill\nbatch: {global: 8, micro: 1, seq: "
      "4096}\n",
      "prefill.yaml");
  const Result r = forecast(s, {.what_if = false});
  EXPECT_FALSE(r.reserved_interval.has_value());
  EXPECT_FALSE(r.fits_share.has_value());
}

}  // namespace
}  // namespace stepcast::step_test
