// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/in_situ_step.h"

#include <gtest/gtest.h>

#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"
#include "sim/graph/price.h"

namespace stepcast::in_situ_step_test {
namespace {

Scenario scenario_of(const std::string& more) {
  return load_scenario_text(
      "model: llama3-8b\ncluster: dgx-h100 x 2\nparallel: {tp: 2, pp: 2}\n"
      "batch: {global: 32, micro: 1, seq: 4096}\n" +
          more,
      "run.yaml");
}

Time step_of(const Scenario& s) {
  return forecast(s, {.what_if = false}).step_time;
}

// Perturbed ranks run in another engine.
TEST(InSituStep, IsTheForecastWithTheShippedValuesAndWithoutAny) {
  for (const char* more : {"", "schedule: zb-h1\n", "perturb: [{where: rank 3, compute: 0.9}]\n",
                           "perturb: [{where: rank 3, bw: 0.3, latency: 10us}]\n"}) {
    Scenario s = scenario_of(more);
    const InSituStep step(s);
    const Node& node = s.cluster.node;
    const Time on = step_of(s);
    EXPECT_EQ(step.time(in_situ_values(in_situ_parameters(), node, 0)), on) << more;
    s.in_situ = false;
    EXPECT_EQ(step.time(neutral_in_situ()), step_of(s)) << more;
    EXPECT_LT(step_of(s), on) << more;
  }
}

// Twenty replicas may take too many turns: what is asked is of one of them.
TEST(InSituStep, OfSeveralReplicasIsATimeToo) {
  const Scenario s = load_scenario(STEPCAST_SOURCE_DIR "/scenarios/examples/straggler.yaml");
  const InSituStep step(s);
  const double time =
      to_seconds(step.time(in_situ_values(in_situ_parameters(), s.cluster.node, 0)));
  EXPECT_NEAR(time, to_seconds(step_of(s)), 0.01 * time);
}

// The same E123 as of a forecast, not a failed check of the program's.
TEST(InSituStep, RefusesWhatIsTooMuchToRun) {
  const Scenario s = load_scenario_text(
      "model: {preset: llama3-8b, num_hidden_layers: 10000}\ncluster: dgx-h100 x 1\n"
      "parallel: {tp: 8}\nbatch: {global: 1, micro: 1, seq: 16}\n",
      "run.yaml");
  const auto code_of = [](auto call) {
    try {
      call();
    } catch (const InputError& e) {
      return e.diagnostics.front().code;
    }
    return std::string();
  };
  EXPECT_EQ(code_of([&] { step_of(s); }), "E123");
  EXPECT_EQ(code_of([&] { InSituStep{s}; }), "E123");
}

TEST(InSituStep, WaitsOfTheHostFollowThePrices) {
  const Scenario s = load_scenario_text(
      "model: mixtral-8x7b\ncluster: dgx-h100 x 1\nparallel: {ep: 8}\n"
      "batch: {global: 16, micro: 1, seq: 4096}\n",
      "run.yaml");
  EXPECT_EQ(InSituStep(s).time(in_situ_values(in_situ_parameters(), s.cluster.node, 0)),
            step_of(s));
}

TEST(InSitu, TheTrustLineHasWhatTheyAddAndNoMore) {
  Scenario s = scenario_of("");
  const Result on = forecast(s, {.what_if = false});
  s.in_situ = false;
  const Result off = forecast(s, {.what_if = false});
  constexpr auto kFitted = static_cast<size_t>(Origin::fitted);
  EXPECT_EQ(off.trust[kFitted], 0);
  EXPECT_GT(on.trust[kFitted], 0.01);
  EXPECT_LT(on.trust[kFitted], 0.3);
  for (size_t w = 0; w < on.prices->by_work.size(); ++w) {
    const Price& price = on.prices->by_work[w];
    EXPECT_EQ(price.time - price.in_situ, off.prices->by_work[w].time);
    EXPECT_EQ(price.origin, off.prices->by_work[w].origin);
  }
}

TEST(InSitu, StepsThatDoNotTrainAreLeftAlone) {
  Scenario s = load_scenario_text(
      "model: llama3-8b\ncluster: dgx-h100 x 1\nmode: prefill\nparallel: {tp: 8}\n"
      "batch: {global: 8, micro: 8, seq: 4096}\n",
      "run.yaml");
  const Time on = step_of(s);
  s.in_situ = false;
  EXPECT_EQ(step_of(s), on);
}

}  // namespace
}  // namespace stepcast::in_situ_step_test
