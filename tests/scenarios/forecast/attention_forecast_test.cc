// SPDX-License-Identifier: Apache-2.0
// Whole steps with sequences split over ranks, latent attention, windows.
#include <gtest/gtest.h>

#include <numeric>
#include <string>

#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"

namespace stepcast::attention_forecast_test {
namespace {

Result forecast_text(const std::string& text) {
  ForecastOptions options;
  options.what_if = false;
  return forecast(load_scenario_text(text, "run.yaml"), options);
}

Result long_context(const std::string& layout, const std::string& seq = "65536") {
  return forecast_text(
      "model: llama3-8b\ncluster: dgx-h100 x 2\nrecompute: full\nin_situ: off\nbatch: {global: 2, "
      "micro: 1, seq: " +
      seq + "}\nparallel: {" + layout + "}\n");
}

Time spent(const Result& r, Spend s) {
  return r.account.by_role.front()[static_cast<size_t>(s)];
}

double activations(const Result& r) {
  double sum = 0;
  for (const auto& [label, bytes] : r.memory.front().activation_terms)
    sum += static_cast<double>(bytes.value);
  return sum;
}

TEST(LongContext, EveryAccountSumsToTheStepAndMemoryReturns) {
  for (const char* how :
       {"", ", cp_comm: allgather", ", cp_comm: a2a", ", cp_comm: a2a+p2p, cp_inner: 2"}) {
    const Result r = long_context(std::string("tp: 2, pp: 2, cp: 4") + how);
    for (const SpendTable& table : r.account.by_role)
      EXPECT_EQ(std::accumulate(table.begin(), table.end(), Time{0}), r.step_time) << how;
    for (const RankMemory& stage : r.memory) EXPECT_EQ(stage.memory.start, stage.memory.end) << how;
  }
}

// The work of a step's attention grows with the square of the sequence, what its ring moves with
// the sequence: the ring hides behind long sequences, not behind short ones.
TEST(LongContext, HidesItsRing) {
  const auto exposed = [](const std::string& seq) {
    const Result r = long_context("cp: 16", seq);
    return to_seconds(spent(r, Spend::exposed_cp)) / to_seconds(r.step_time);
  };
  EXPECT_LT(exposed("262144"), 0.01);
  EXPECT_GT(exposed("8192"), 0.05);
}

TEST(LongContext, TwiceTheRanksHoldHalfTheActivations) {
  const double two = activations(long_context("tp: 2, cp: 4"));
  const double four = activations(long_context("tp: 2, cp: 8"));
  EXPECT_NEAR(four / two, 0.5, 0.01);
}

// Ranks that hold parts of the same sequences sum their gradients though there is one replica.
TEST(LongContext, GradientsAreSummedOverItsRanks) {
  const Result r = long_context("tp: 2, cp: 8");
  bool summed = false;
  for (const Work& w : r.graph->works)
    summed = summed || (w.kind == WorkKind::all_reduce && w.axis == Axis::data);
  EXPECT_TRUE(summed);
  EXPECT_GT(spent(r, Spend::exposed_dp), Time{});
}

TEST(Windows, InHalfOfTheLayersSaveTheirPairs) {
  const auto attention = [](const std::string& model) {
    const Result r = forecast_text("model: {preset: llama3-8b" + model +
                                   "}\ncluster: dgx-h100 x 1\nparallel: {tp: 8}\nbatch: {global: "
                                   "8, micro: 1, seq: 8192}\n");
    return to_seconds(spent(r, Spend::attention));
  };
  const double all = attention("");
  EXPECT_LT(attention(", sliding_window: 128, sliding_window_pattern: 2"), 0.65 * all);
  EXPECT_GT(attention(", sliding_window: 128, sliding_window_pattern: 2"), 0.45 * all);
}

TEST(LatentAttention, OfDeepSeekRunsInWholeSteps) {
  const Result r = forecast_text(
      "model: {model_type: deepseek_v3, num_hidden_layers: 4, first_k_dense_replace: 4, "
      "n_routed_experts: null}\ncluster: dgx-h100 x 1\nparallel: {tp: 4, pp: 2}\n"
      "recompute: {granularity: selective, modules: [mla_up_proj]}\n"
      "batch: {global: 4, micro: 1, seq: 4096}\n");
  for (const RankMemory& stage : r.memory) EXPECT_EQ(stage.memory.start, stage.memory.end);
  EXPECT_GT(spent(r, Spend::recompute), Time{});
}

}  // namespace
}  // namespace stepcast::attention_forecast_test
