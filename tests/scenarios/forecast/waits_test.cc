// SPDX-License-Identifier: Apache-2.0
// What the waits of a pipeline are booked to.
#include <gtest/gtest.h>

#include "scenarios/forecast/forecast.h"
#include "scenarios/forecast/what_if.h"

namespace stepcast::waits_test {
namespace {

// Its passes are captured: what the host exposes behind blocking exchanges is another matter.
Result result_of(const char* p2p) {
  LoadOptions options;
  options.set = {{"schedule", std::string("{kind: 1f1b, p2p: ") + p2p + "}"}};
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(load_scenario_text("model: {preset: gpt3-1.3b, tie_word_embeddings: false}\n"
                                     "cluster: dgx-h100\n"
                                     "parallel: {pp: 8}\n"
                                     "batch: {global: 16, seq: 2048}\n"
                                     "kernels: {cuda_graph: step}\n",
                                     "run.yaml", options),
                  quick);
}

double share(const Result& r, size_t role, Spend spend) {
  return to_seconds(r.account.by_role[role][static_cast<size_t>(spend)]) / to_seconds(r.step_time);
}

// In an exchange a rank sends and receives.  That the neighbour takes its message late does not
// hold it up as long as it waits for the neighbour's anyway: filling and draining the pipeline are
// not the fault of blocking transfers.
TEST(Waits, FillOf1F1BIsNotBlockedThoughItsExchangesBlock) {
  const Result blocking = result_of("megatron"), free = result_of("async");
  for (size_t role = 1; role + 1 < blocking.account.by_role.size(); ++role) {
    EXPECT_LT(share(blocking, role, Spend::blocked), 0.005) << role;
    EXPECT_NEAR(share(blocking, role, Spend::fill), share(free, role, Spend::fill), 0.01) << role;
  }
}

// The slowest stage waits for no other: what the others wait for it is not in its account, but
// would be gained all the same.
TEST(Waits, EveningStagesOutIsToldThoughTheSlowestOneIsCritical) {
  const Result r =
      forecast(load_scenario_text("model: gpt3-1.3b\n"
                                  "cluster: dgx-h100\n"
                                  "parallel: {pp: 8, layout: 'Et*3|(t*3|)*6t*3L'}\n"
                                  "batch: {global: 64, seq: 2048}\n"
                                  "kernels: {cuda_graph: step}\n",
                                  "run.yaml"));
  const SpendTable& critical = r.account.by_role[r.account.critical_role];
  EXPECT_EQ(r.account.critical_role, 7u);
  EXPECT_EQ(critical[static_cast<size_t>(Spend::imbalance)], Time{0});
  const auto even = std::find_if(r.what_if.begin(), r.what_if.end(),
                                 [](const WhatIf& w) { return w.spend == Spend::imbalance; });
  ASSERT_NE(even, r.what_if.end());
  EXPECT_GT(even->saved, r.step_time / 5);
  EXPECT_LT(even->saved, r.step_time / 2);
}

// Where nobody waits for unlike stages and equal ones would take longer there is no cost to remove.
TEST(Waits, StagesThatCostNothingByTheirDifferenceHaveNoWhatIf) {
  Variation levelled;
  levelled.pass_scale = {0.5};
  const auto answers = [&](Time waited, Time then) {
    SpendTable account{};
    account[static_cast<size_t>(Spend::imbalance)] = waited;
    return what_if(account, levelled, Time{100}, [&](const Variation&) { return then; });
  };
  EXPECT_TRUE(answers(Time{0}, Time{105}).empty());
  EXPECT_TRUE(answers(Time{0}, Time{100}).empty());
  EXPECT_EQ(answers(Time{0}, Time{90}).at(0).saved, Time{10});
  EXPECT_EQ(answers(Time{7}, Time{105}).at(0).saved, Time{-5});
}

}  // namespace
}  // namespace stepcast::waits_test
