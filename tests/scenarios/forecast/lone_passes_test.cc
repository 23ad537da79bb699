// SPDX-License-Identifier: Apache-2.0
// Steps whose passes are each run once by themselves, against the engine that runs all of them
// beside everything else.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "scenarios/forecast/step.h"
#include "scenarios/pricing_table.h"
#include "scenarios/scenario.h"
#include "sim/contention/contention.h"
#include "sim/contention/lone_passes.h"
#include "sim/engine/run.h"
#include "sim/lanes/lane_speeds.h"
#include "tests/random_cases.h"
#include "tests/scenarios/forecast/contended_steps.h"
#include "tests/scenarios/forecast/random_layouts.h"

namespace stepcast::lone_passes_test {
namespace {

using stepcast::testing::RandomLayouts;

std::optional<ContentionResult> lone(const PricedStep& step, int64_t compute, int64_t communication,
                                     bool merge = true, bool record = true,
                                     LonePassCache* cache = nullptr) {
  return contention::run_lone_passes(step.graph, step.prices, 1, compute, communication, merge,
                                     record, cache);
}

ContentionResult plain(const PricedStep& step, int64_t compute, int64_t communication,
                       bool record = true) {
  return testing::run_every_op(
      step,
      {static_cast<double>(compute) / kNominal, static_cast<double>(communication) / kNominal},
      record);
}

TEST(LonePasses, TakeAsLongAsBesideEverythingElse) {
  RandomLayouts layouts(31);
  std::mt19937 random(32);
  uint64_t alone = 0;
  const uint64_t cases = testing::random_cases(150);
  for (uint64_t i = 0; i < cases; ++i) {
    const Scenario s = layouts.next();
    std::optional<PricedStep> step =
        price_if_possible(lower_step(s, s.schedule), pricing_table(s).table);
    if (!step) continue;
    // A host that is far ahead, one that is late now and then, one that is late throughout.
    const int64_t slower = std::array{0, 1, 1, 4, 20}[random() % 5];
    for (Time& t : step->prices.by_launch) t *= slower;
    const int64_t compute = kNominal + static_cast<int64_t>(random() % 3 * (random() % 2000));
    const int64_t communication = kNominal + 1 + static_cast<int64_t>(random() % 4000);
    const bool merge = random() % 4 > 0, record = random() % 3 > 0;
    std::optional<ContentionResult> got;
    try {
      got = lone(*step, compute, communication, merge, record);
      if (!got) continue;
      const ContentionResult want = plain(*step, compute, communication, record);
      ASSERT_EQ(testing::difference_of(*step, *got, want), "")
          << s.schedule.name << ", layout " << i;
    } catch (const Deadlock&) {
      ASSERT_FALSE(got) << s.schedule.name << ", layout " << i;
    }
    ++alone;
  }
  EXPECT_GT(alone, cases / 4);
}

PricedStep priced(const Scenario& scenario) {
  return price_step(lower_step(scenario, scenario.schedule), pricing_table(scenario).table);
}

Scenario scenario_of(const std::string& rest) {
  return load_scenario_text(
      "model: {preset: gpt3-1.3b, num_hidden_layers: 8}\ncluster: dgx-a100-80g x 1\n" + rest,
      "run.yaml");
}

constexpr int64_t kCompute = 5000, kCommunication = 6000;

TEST(LonePasses, AreThoseOfPipelinesThatExchangeBetweenPasses) {
  for (const char* rest :
       {"parallel: {tp: 2, pp: 4}\nbatch: {global: 16, micro: 1, seq: 1024}\nschedule: 1f1b\n",
        "parallel: {tp: 2, pp: 4, vpp: 2}\nbatch: {global: 16, micro: 1, seq: 1024}\n"
        "schedule: {kind: interleaved, p2p: megatron}\n",
        "parallel: {tp: 8}\nbatch: {global: 16, micro: 1, seq: 1024}\n"}) {
    const Scenario s = scenario_of(rest);
    const PricedStep step = priced(s);
    const auto got = lone(step, kCompute, kCommunication);
    ASSERT_TRUE(got) << rest;
    EXPECT_EQ(testing::difference_of(step, *got, plain(step, kCompute, kCommunication)), "")
        << rest;
  }
}

// A cache that has seen other steps says what an empty one says: other factors, prices, launches,
// and hosts that are late in other ways.
TEST(LonePasses, AreTheSameWithWhatOtherStepsLeft) {
  RandomLayouts layouts(33);
  std::mt19937 random(34);
  LonePassCache cache;
  uint64_t compared = 0;
  const uint64_t cases = testing::random_cases(100);
  for (uint64_t i = 0; i < cases; ++i) {
    const Scenario s = layouts.next();
    std::optional<PricedStep> step =
        price_if_possible(lower_step(s, s.schedule), pricing_table(s).table);
    if (!step) continue;
    for (const auto& [launch, price, compute, communication, merge] :
         {std::tuple(1, 1, 5000, 6000, true), std::tuple(1, 1, 6000, 5000, true),
          std::tuple(8, 1, 5000, 6000, true), std::tuple(1, 2, 5000, 6000, false),
          std::tuple(1, 1, 5000, 6000, false)}) {
      PricedStep changed = *step;
      for (Time& t : changed.prices.by_launch) t *= launch;
      for (Price& p : changed.prices.by_work) p.time *= price;
      for (const bool record : {false, true}) {
        const auto kept = lone(changed, compute, communication, merge, record, &cache);
        const auto fresh = lone(changed, compute, communication, merge, record);
        if (!kept || !fresh) continue;  // how many have to be run may decide which engine answers
        ASSERT_EQ(testing::difference_of(changed, *kept, *fresh), "")
            << s.schedule.name << ", layout " << i;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 2 * cases);
  EXPECT_GT(cache.size(), 0U);
}

TEST(LonePasses, AreForgottenWhereThereAreMany) {
  LonePassCache cache;
  for (int64_t i = 0; i < 999; ++i) cache.of({i});
  cache.of({0}).resize(64);
  cache.of({1}).resize(65);
  cache.make_room();
  EXPECT_EQ(cache.size(), 999U);
  EXPECT_EQ(cache.of({0}).size(), 64U);
  EXPECT_TRUE(cache.of({1}).empty());  // would be looked through for each pass
  cache.of({999});
  cache.make_room();
  EXPECT_EQ(cache.size(), 0U);
  cache.of(std::vector<int64_t>(size_t{4} << 20U));  // 32 MiB
  cache.make_room();
  EXPECT_EQ(cache.size(), 0U);
}

TEST(LonePasses, AreNoneWhereTransfersRunBesidePasses) {
  const Scenario s = scenario_of(
      "parallel: {tp: 2, pp: 4}\nbatch: {global: 16, micro: 1, seq: 1024}\n"
      "schedule: {kind: 1f1b, p2p: async}\n");
  EXPECT_FALSE(lone(priced(s), kCompute, kCommunication));
}

// Gradients of one chunk are reduced while the next runs; those of a stage that has only one,
// within its last pass.
TEST(LonePasses, AreNoneWhereGradientsAreReducedBesidePasses) {
  const std::string rest =
      "batch: {global: 16, micro: 1, seq: 1024}\noverlap: {dp_grad: true}\n"
      "parallel: {tp: 1, pp: 4, zero: 1";
  const PricedStep within = priced(scenario_of(rest + "}\nschedule: 1f1b\n"));
  const auto got = lone(within, kCompute, kCommunication);
  ASSERT_TRUE(got);
  EXPECT_EQ(testing::difference_of(within, *got, plain(within, kCompute, kCommunication)), "");
  EXPECT_FALSE(
      lone(priced(scenario_of(rest + ", vpp: 2}\nschedule: {kind: interleaved, p2p: megatron}\n")),
           kCompute, kCommunication));
}

// A step that never ends, and one too long to count, are left to the engine that says so.
TEST(LonePasses, AreNoneOfAStepThatDeadlocksOrIsTooLong) {
  const Scenario s = scenario_of(
      "parallel: {tp: 2, pp: 4}\nbatch: {global: 16, micro: 1, seq: 1024}\nschedule: 1f1b\n");
  PricedStep step = priced(s);
  PricedStep stuck = priced(s);
  std::erase_if(stuck.graph.roles.back().items,
                [](const Item& i) { return i.kind == ItemKind::post; });
  EXPECT_FALSE(lone(stuck, kCompute, kCommunication));
  for (Price& price : step.prices.by_work) price.time *= 1'000'000;
  EXPECT_FALSE(lone(step, kCompute, kCommunication));
}

}  // namespace
}  // namespace stepcast::lone_passes_test
