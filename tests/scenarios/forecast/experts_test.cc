// SPDX-License-Identifier: Apache-2.0
// Whole steps of models with experts.
#include <gtest/gtest.h>

#include <string>

#include "scenarios/forecast/forecast.h"

namespace stepcast::experts_test {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

const std::string kMixture =
    "model: {preset: qwen3-30b-a3b, num_hidden_layers: 16}\n"
    "cluster: dgx-h100 x 2\n"
    "parallel: {pp: 2, ep: 8}\n"
    "batch: {global: 64, seq: 2048}\n";

Result forecast_of(const Sets& sets = {}) {
  LoadOptions load;
  load.set = sets;
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(load_scenario_text(kMixture, "run.yaml", load), quick);
}

Time spent(const Result& r, Spend spend) {
  return r.account.by_role[r.account.critical_role][static_cast<size_t>(spend)];
}

TEST(Experts, ExchangesAreInTheAccountAndItAddsUp) {
  const Result r = forecast_of();
  EXPECT_GT(spent(r, Spend::exposed_ep), Time{0});
  EXPECT_EQ(spent(r, Spend::expert_imbalance), Time{0});
  for (const SpendTable& table : r.account.by_role) {
    Time sum{};
    for (const Time t : table) sum += t;
    EXPECT_EQ(sum, r.step_time);
  }
}

TEST(Experts, ThatAreChosenUnevenlyMakeOthersWaitAndNeedMemory) {
  const Result even = forecast_of();
  Time before = even.step_time;
  for (const char* routing : {"zipf(0.2)", "zipf(0.5)", "zipf(1)"}) {
    const Result r = forecast_of({{"moe.routing", routing}});
    EXPECT_GT(spent(r, Spend::expert_imbalance), Time{0}) << routing;
    EXPECT_GT(r.step_time, before) << routing;
    for (size_t stage = 0; stage < r.memory.size(); ++stage)
      EXPECT_GT(r.memory[stage].memory.peak.value, even.memory[stage].memory.peak.value);
    before = r.step_time;
  }
  EXPECT_EQ(forecast_of({{"moe.routing", "zipf(0)"}}).step_time, even.step_time);
}

TEST(Experts, HideTheirExchangesInPairs) {
  const Sets v{{"parallel.vpp", "2"}, {"schedule", "dualpipev"}};
  const Result paired = forecast_of(v);
  const Result plain = forecast_of({{"parallel.vpp", "2"}, {"schedule", "interleaved-1f1b"}});
  EXPECT_LT(spent(paired, Spend::exposed_ep), spent(plain, Spend::exposed_ep));
  const Result megatron = forecast_of({{"parallel.vpp", "2"}, {"overlap.ep", "true"}});
  EXPECT_LT(spent(megatron, Spend::exposed_ep), spent(plain, Spend::exposed_ep));
}

// 16 ranks on two nodes: a token that goes to 8 experts crosses the network once for the other
// node.
TEST(Experts, CrossTheNetworkOnceWithDeepep) {
  const Sets wide{{"parallel.pp", "1"}, {"parallel.ep", "16"}, {"in_situ", "off"}};
  Sets deepep = wide;
  deepep.emplace_back("moe.dispatcher", "deepep");
  EXPECT_LT(forecast_of(deepep).step_time, forecast_of(wide).step_time);
  Sets low = deepep;
  low.emplace_back("moe.dispatch_dtype", "fp8");
  EXPECT_LT(forecast_of(low).step_time, forecast_of(deepep).step_time);
}

// Each rank gets all tokens, however few of them it needs.
TEST(Experts, OfFewTokensAreReachedFasterThanByGatheringAll) {
  const Sets few{{"parallel.pp", "1"}, {"parallel.ep", "16"}, {"model.num_experts_per_tok", "1"}};
  Sets all = few;
  all.emplace_back("moe.dispatcher", "allgather");
  EXPECT_GT(spent(forecast_of(all), Spend::exposed_ep), spent(forecast_of(few), Spend::exposed_ep));
}

TEST(Experts, SpreadOverMoreRanksNeedLessMemory) {
  int64_t before = INT64_MAX;
  for (const char* ep : {"1", "2", "4", "8"}) {
    const Result r = forecast_of({{"parallel.ep", ep}});
    const int64_t peak = r.memory[r.peak_role].memory.peak.value;
    EXPECT_LT(peak, before);
    before = peak;
  }
}

}  // namespace
}  // namespace stepcast::experts_test
