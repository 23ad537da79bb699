// SPDX-License-Identifier: Apache-2.0
// What must not change a forecast, or must change it in a known way.
#include <gtest/gtest.h>

#include <fstream>
#include <numeric>
#include <random>
#include <string>

#include "scenarios/forecast.h"
#include "sim/lanes.h"
#include "sim/program.h"
#include "sim/run.h"

namespace stepcast {
namespace {

using Sets = std::vector<std::pair<std::string, std::string>>;

// 16 ranks on two nodes: tp 2, pp 4, dp 2.
const std::string kBase =
    "model: {preset: gpt3-1.3b, tie_word_embeddings: false}\n"
    "cluster: dgx-a100-80g x 2\n"
    "parallel: {tp: 2, pp: 4, dp: 2}\n"
    "batch: {global: 16, micro: 1, seq: 2048}\n";

Result forecast_of(const std::string& text, const Sets& sets = {}) {
  LoadOptions load;
  load.set = sets;
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(load_scenario_text(text, "run.yaml", load), quick);
}

Time step_of(const Sets& sets) {
  return forecast_of(kBase, sets).step_time;
}

std::string slow(const std::string& where, double speed) {
  return "{where: " + where + ", compute: " + std::to_string(speed) + "}";
}

TEST(Metamorphic, TimesScaleWithAllPrices) {
  for (const char* schedule : {"1f1b", "interleaved", "zb-h1"}) {
    Sets sets{{"schedule", schedule}, {"overlap.dp_grad", "true"}};
    if (std::string(schedule) == "interleaved") sets.emplace_back("parallel.vpp", "2");
    const Result r = forecast_of(kBase, sets);
    for (const int64_t k : {2, 7}) {
      Prices scaled = *r.prices;
      for (Price& p : scaled.by_work) p.time *= k;
      scaled.launch *= k;
      EXPECT_EQ(run(compile(*r.graph, scaled), Record::nothing).makespan, r.makespan * k);
      LaneSet lanes;
      lanes.digits = {{Axis::tp, 2}, {Axis::cp, 1}, {Axis::dp, 2}};
      EXPECT_EQ(run_lanes(*r.graph, scaled, lanes).makespan, r.makespan * k);
    }
  }
}

TEST(Metamorphic, BitsAndBytesAreTheSameBandwidth) {
  EXPECT_EQ(step_of({{"cluster.node.nics.bw", "400Gb/s"}}),
            step_of({{"cluster.node.nics.bw", "50GB/s"}}));
  EXPECT_EQ(step_of({{"cluster.node.intra.bw", "2400Gb/s"}}),
            step_of({{"cluster.node.intra.bw", "300GB/s"}}));
}

// Ranks of one tensor-parallel group are equal, and so are replicas that lie alike.
TEST(Metamorphic, WhichOfEqualRanksIsSlowDoesNotMatter) {
  const auto step = [](int rank) {
    return step_of({{"perturb", '[' + slow("rank " + std::to_string(rank), 0.7) + ']'}});
  };
  // tp is innermost, then dp, then pp: ranks 0 to 3 are the first stage.
  EXPECT_EQ(step(0), step(1));
  EXPECT_EQ(step(0), step(2));
  EXPECT_EQ(step(12), step(15));
}

TEST(Metamorphic, ANodeThatNobodyUsesChangesNothing) {
  const Time two = step_of({});
  EXPECT_EQ(step_of({{"cluster.nodes", "3"}, {"cluster.placement.nodes", "[0, 1]"}}), two);
  EXPECT_EQ(step_of({{"cluster.nodes", "3"}, {"cluster.placement.nodes", "[2, 0]"}}), two);
  EXPECT_EQ(step_of({{"cluster.nodes", "3"},
                     {"cluster.placement.nodes", "[0, 1]"},
                     {"perturb", "[{where: node 2, compute: 0.5, bw: 0.5}]"}}),
            two);
}

TEST(Metamorphic, OrderOfTheListDoesNotMatter) {
  const std::string a = slow("rank 3", 0.7), b = slow("stage 2", 0.9),
                    c = "{where: node 1, bw: 0.5}";
  EXPECT_EQ(step_of({{"perturb", '[' + a + ',' + b + ',' + c + ']'}}),
            step_of({{"perturb", '[' + c + ',' + a + ',' + b + ']'}}));
}

TEST(Metamorphic, FactorsOfOnePlaceMultiply) {
  EXPECT_EQ(step_of({{"perturb", "[{where: rank 3, compute: 0.5}, {where: gpu 3, compute: 0.5}]"}}),
            step_of({{"perturb", "[{where: rank 3, compute: 0.25}]"}}));
}

TEST(Metamorphic, ExtendsIsTheSameAsWritingItOut) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/base.yaml") << kBase;
  std::ofstream(folder + "/derived.yaml")
      << "extends: base.yaml\nname: x\nperturb: [{where: rank 3, compute: 0.8}]\n";
  ForecastOptions quick;
  quick.what_if = false;
  const Result derived = forecast(load_scenario(folder + "/derived.yaml"), quick);
  const Result flat = forecast_of(kBase + "name: x\nperturb: [{where: rank 3, compute: 0.8}]\n");
  EXPECT_EQ(derived.step_time, flat.step_time);
  EXPECT_EQ(derived.scenario.hash, flat.scenario.hash);
}

// Random sets of slow ranks, nodes and links; then one more.  Orders are fixed and no capacity is
// shared, so times are (max,+) sums of prices.
TEST(Metamorphic, ASlowerPartNeverMakesTheStepFaster) {
  std::mt19937 random(20260726);
  const auto draw = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  const auto any = [&] {
    const std::string factor = "0." + std::to_string(3 + draw(6));
    switch (draw(5)) {
      case 0: return "{where: rank " + std::to_string(draw(16)) + ", compute: " + factor + '}';
      case 1: return "{where: node " + std::to_string(draw(2)) + ", compute: " + factor + '}';
      case 2: return "{where: stage " + std::to_string(draw(4)) + ", compute: " + factor + '}';
      case 3:
        return "{where: node " + std::to_string(draw(2)) + " nic " + std::to_string(draw(8)) +
               ", bw: " + factor + '}';
      default:
        return "{where: rank " + std::to_string(draw(16)) + ", compute: " + factor +
               ", from: 20ms, until: 80ms}";
    }
  };
  for (int round = 0; round < 6; ++round) {
    const Sets schedule{{"schedule", round % 2 == 0 ? "1f1b" : "zb-h1"}};
    std::string items;
    Time last = step_of(schedule);
    for (int i = 0; i < 4; ++i) {
      items += (items.empty() ? "" : ", ") + any();
      Sets sets = schedule;
      sets.emplace_back("perturb", '[' + items + ']');
      const Result now = forecast_of(kBase, sets);
      EXPECT_GE(now.step_time, last) << items;
      for (const SpendTable& table : now.account.by_role)
        EXPECT_EQ(std::accumulate(table.begin(), table.end(), Time{}), now.step_time) << items;
      last = now.step_time;
    }
  }
}

}  // namespace
}  // namespace stepcast
