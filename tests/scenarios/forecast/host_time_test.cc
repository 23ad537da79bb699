// SPDX-License-Identifier: Apache-2.0
// How long launching takes, from the scenario to the account.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "report/text/explain.h"
#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"

namespace stepcast::host_time_test {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kSmall =
    "model: gpt2\ncluster: dgx-h100\nparallel: {tp: 2}\nbatch: {global: 16, micro: 1, seq: 512}\n";
constexpr const char* kLarge =
    "model: gpt3-13b\ncluster: dgx-h100\nparallel: {tp: 8}\nbatch: {global: 4, micro: 4, seq: "
    "2048}\n";

Result result_of(const char* text, const Sets& sets = {}) {
  LoadOptions options;
  options.set = sets;
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(load_scenario_text(text, "run.yaml", options), quick);
}

double launch_share(const Result& r) {
  return to_seconds(r.account.by_role[0][static_cast<size_t>(Spend::launch)]) /
         to_seconds(r.step_time);
}

TEST(HostTime, HoldsUpASmallModelAndNotALargeOne) {
  EXPECT_GT(launch_share(result_of(kSmall)), 0.3);
  EXPECT_LT(launch_share(result_of(kLarge)), 0.05);
}

TEST(HostTime, AStepIsNeverShorterThanItsHostNeeds) {
  for (const char* text : {kSmall, kLarge}) {
    const Result r = result_of(text);
    EXPECT_GE(r.makespan, host_time_of(r).total);
  }
}

TEST(HostTime, GraphsTakeLaunchesAway) {
  const Result none = result_of(kSmall);
  const Result layer = result_of(kSmall, {{"kernels.cuda_graph", "layer"}});
  const Result step = result_of(kSmall, {{"kernels.cuda_graph", "step"}});
  EXPECT_GT(host_time_of(none).total, host_time_of(layer).total * 2);
  EXPECT_GT(host_time_of(layer).total, host_time_of(step).total * 2);
  EXPECT_GT(none.step_time, layer.step_time);
  EXPECT_GE(layer.step_time, step.step_time);
  EXPECT_LT(launch_share(step), 0.02);
}

TEST(HostTime, FusedOperatorsAreFewerCalls) {
  const auto host = [](const Sets& sets) { return host_time_of(result_of(kSmall, sets)).total; };
  const Time all = host({{"kernels.modules", "torch"}});
  EXPECT_GT(host({{"kernels.modules", "torch"}, {"kernels.attention", "unfused"}}), all);
}

TEST(HostTime, GrowsWithThePythonOfItsModules) {
  const auto host = [](const char* modules) {
    return host_time_of(result_of(kSmall, {{"kernels.modules", modules}})).total;
  };
  EXPECT_GT(host("megatron"), host("torch"));
}

// Of a small model, whose device is done with a pass before the next one is launched.
TEST(HostTime, IsExposedWhereTheHostWaitsForPasses) {
  const auto step = [](const char* text, const char* waits) {
    return result_of(text, {{"kernels.host_waits", waits}}).step_time;
  };
  for (const char* text : {kSmall, kLarge}) {
    EXPECT_LE(step(text, "none"), step(text, "forward"));
    EXPECT_LE(step(text, "forward"), step(text, "passes"));
  }
  // Nothing is launched ahead: at least the first launch of each pass shows.
  EXPECT_LT(step(kLarge, "none"), step(kLarge, "passes"));
}

TEST(HostTime, WaitsForNothingWithinAGraphOfTheStep) {
  const Sets graph{{"kernels.cuda_graph", "step"}};
  Sets waits = graph;
  waits.emplace_back("kernels.host_waits", "passes");
  EXPECT_EQ(result_of(kSmall, graph).step_time, result_of(kSmall, waits).step_time);
}

TEST(HostTime, AskedToWaitElsewhereIsAnError) {
  EXPECT_THROW(result_of(kSmall, {{"kernels.host_waits", "often"}}), InputError);
  EXPECT_THROW(result_of(kSmall, {{"kernels.modules", "apex"}}), InputError);
}

TEST(HostTime, IsLongerOnGrace) {
  const Result x86 = result_of(kSmall, {{"in_situ", "off"}});
  const Result grace = result_of(kSmall, {{"cluster.node.cpus.link", "c2c"}, {"in_situ", "off"}});
  EXPECT_GT(host_time_of(grace).total, host_time_of(x86).total * 2);
}

// Every exchange of Megatron's 1F1B ends with a synchronisation.
TEST(HostTime, IsExposedBehindExchangesThatSynchronise) {
  const Sets pipeline{{"parallel.tp", "1"}, {"parallel.pp", "4"}};
  Sets blocking = pipeline, async = pipeline;
  blocking.emplace_back("schedule", "{kind: 1f1b, p2p: megatron}");
  async.emplace_back("schedule", "{kind: 1f1b, p2p: async}");
  EXPECT_GT(result_of(kSmall, blocking).step_time, result_of(kSmall, async).step_time);
}

}  // namespace
}  // namespace stepcast::host_time_test
