// SPDX-License-Identifier: Apache-2.0
// The whole path on odd but legal scenarios.
#include "scenarios/forecast/forecast.h"

#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "scenarios/scenario.h"
#include "sim/diagnostic.h"

namespace stepcast::forecast_test {
namespace {

Result forecast_text(const std::string& text) {
  return forecast(load_scenario_text(text, "run.yaml"));
}

TEST(Forecast, AModelManyTimesTooLargeIsOutOfMemoryNotABug) {
  const Result result = forecast_text(
      "model: gpt3-175b\ncluster: dgx-a100-80g x 1\nbatch: {global: 8, micro: 1, seq: 2048}\n");
  EXPECT_FALSE(result.fits);
  EXPECT_GT(result.memory_reserved.value, 2'000'000'000'000);
}

// A GPT on A100 without `software` is today's; the remark says how much longer the step of 2021 is.
TEST(Forecast, OlderSoftwareIsRemarkedOnByWhatItsOwnForecastTakes) {
  const std::string text =
      "model: gpt3-13b\ncluster: dgx-a100-80g x 2\nparallel: {tp: 8, pp: 2}\n"
      "batch: {global: 32, micro: 1, seq: 2048}\n";
  const auto remarks = [](const Result& result) {
    std::string found;
    for (const std::string& warning : result.scenario.warnings)
      if (warning.find("no software is named") != std::string::npos) found += warning;
    return found;
  };
  const Result today = forecast_text(text);
  const Result then = forecast_text(text + "software: megatron-lm-2021\n");
  const std::string said = remarks(today);
  ASSERT_NE(said.find("(software: megatron-lm-2021) the step takes "), std::string::npos) << said;
  const double percent = std::stod(said.substr(said.find("takes ") + 6));
  EXPECT_GT(percent, 5);
  EXPECT_NEAR(percent, 100 * (to_seconds(then.step_time) / to_seconds(today.step_time) - 1), 1.5);
  EXPECT_EQ(remarks(then), "");
  EXPECT_EQ(remarks(forecast_text(text + "software: megatron-core\n")), "");
  EXPECT_EQ(remarks(forecast_text(text + "perturb: [{where: rank 3, compute: 0.9}]\n")), "");
}

TEST(Forecast, AStepOfMonthsIsAMistakeOfTheUser) {
  const auto refusal = [](const std::string& rate, const std::string& oversub) {
    try {
      forecast(load_scenario_text(
          "model: llama3-8b\nparallel: {tp: 8, pp: 2}\nbatch: {global: 512, micro: 1, seq: 2048}\n"
          "cluster: {preset: dgx-h100, nodes: 2, node: {nics: {bw: " +
              rate + "GB/s}}, fabric: {tiers: [{size: 8}, {size: 16, oversub: " + oversub +
              "}]}}\n",
          "slow.yaml"));
    } catch (const InputError& e) {
      return e.diagnostics[0].code;
    }
    return std::string("none");
  };
  EXPECT_EQ(refusal("1e-3", "1"), "none");
  EXPECT_EQ(refusal("1e-7", "1"), "E123");   // all the transfers together
  EXPECT_EQ(refusal("1e-10", "1"), "E123");  // each of them
  EXPECT_EQ(refusal("1e-300", "1e300"), "E123");
}

TEST(Forecast, ATransferIsPricedByItsSlowestPairOfRanks) {
  // Stages of 6 ranks on nodes of 8: ranks 0 and 6 share a node, 2 and 8 do not.
  const Result result = forecast_text(
      "model: llama3-8b\ncluster: dgx-h100 x 3\nparallel: {tp: 2, pp: 4}\n"
      "batch: {global: 12, micro: 1, seq: 8192}\n");
  for (size_t w = 0; w < result.graph->works.size(); ++w) {
    const Work& work = result.graph->works[w];
    if (work.kind != WorkKind::send_recv) continue;
    EXPECT_GT(result.prices->by_work[w].time, Time{300'000'000}) << describe(work);
  }
}

TEST(Forecast, EveryAccountSumsToTheStepAndMemoryReturns) {
  for (const char* rest : {"parallel: {tp: 1, pp: 1}", "parallel: {tp: 8, pp: 2}\nrecompute: full",
                           "parallel: {tp: 2, pp: 4, vpp: 2, zero: 1}\noverlap: {dp_grad: true, "
                           "dp_param: true}",
                           "parallel: {tp: 4, pp: 4}\nprecision: fp32\nrecompute: selective"}) {
    const Result result = forecast_text(
        std::string("model: llama3-8b\ncluster: dgx-h100 x 2\nbatch: {global: 64, micro: 1, seq: "
                    "4096}\n") +
        rest + "\n");
    for (const SpendTable& table : result.account.by_role) {
      EXPECT_EQ(std::accumulate(table.begin(), table.end(), Time{0}), result.step_time) << rest;
    }
    for (const RankMemory& stage : result.memory) {
      EXPECT_EQ(stage.memory.start, stage.memory.end) << rest;
    }
    EXPECT_NEAR(std::accumulate(result.trust.begin(), result.trust.end(), 0.0), 1, 1e-9) << rest;
  }
}

TEST(Forecast, TracingDoesNotChangeTheAnswer) {
  const Scenario scenario =
      load_scenario(STEPCAST_SOURCE_DIR "/scenarios/examples/gpt-13b-8xa100.yaml");
  ForecastOptions traced;
  traced.trace = true;
  EXPECT_EQ(forecast(scenario, traced).step_time, forecast(scenario).step_time);
}

TEST(Forecast, SizesThatNoGpuHoldsAreAnAnswer) {
  const Result wide = forecast(load_scenario_text(
      "model: llama3-8b\ncluster: dgx-h100 x 1\nparallel: {tp: 8, vocab_multiple: 100000000}\n"
      "batch: {global: 8, micro: 1, seq: 16}\n",
      "wide.yaml"));
  EXPECT_FALSE(wide.fits);
  const Result experts = forecast(load_scenario_text(
      "model: {preset: llama, num_hidden_layers: 1, hidden_size: 64, num_attention_heads: 1, "
      "intermediate_size: 64, vocab_size: 64, num_experts: 32768, num_experts_per_tok: 1, "
      "moe_intermediate_size: 64}\ncluster: {preset: dgx-h100, node: {gpus: 1}}\n"
      "batch: {global: 1, micro: 1, seq: 1}\nmoe: {grouped_gemm: true}\n",
      "experts.yaml"));
  EXPECT_GT(experts.step_time, Time{});
}

}  // namespace
}  // namespace stepcast::forecast_test
