// SPDX-License-Identifier: Apache-2.0
// The 13B example beside the rule of thumb (rule_of_thumb_test.cc); docs/memory.md tells the story.
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "scenarios/forecast/forecast.h"
#include "scenarios/scenario.h"

namespace stepcast::thirteen_b_test {
namespace {

Result forecast_of(const std::vector<std::pair<std::string, std::string>>& set) {
  LoadOptions options;
  options.set = set;
  const std::string path =
      std::string(STEPCAST_SOURCE_DIR) + "/scenarios/examples/gpt-13b-8xa100.yaml";
  ForecastOptions quick;
  quick.what_if = false;
  return forecast(load_scenario(path, options), quick);
}

double category(const RoleMemory& memory, std::initializer_list<MemoryCategory> of) {
  double sum = 0;
  for (MemoryCategory c : of)
    sum += static_cast<double>(memory.at_peak[static_cast<size_t>(c)].value);
  return sum;
}

constexpr double kSbh = 4096.0 * 5120.0;  // tokens of a microbatch times hidden
constexpr double kLayersOfAStage = 10;

TEST(ThirteenB, FirstStageHoldsFourMicrobatchesOf34Sbh) {
  const Result result = forecast_of({});
  const RankMemory& first = result.memory.at(0);
  EXPECT_EQ(first.memory.peak_in_flight, 4);
  std::map<std::string, double> units;
  for (const auto& [label, bytes] : first.activation_terms) {
    units[label] = static_cast<double>(bytes.value) / (kSbh * kLayersOfAStage * 4);
  }
  // Tensors of whole layers: nothing of them is freed yet at the first backward's first product.
  EXPECT_DOUBLE_EQ(units["fc1 output"], 8);
  EXPECT_DOUBLE_EQ(units["activation output"], 8);
  EXPECT_DOUBLE_EQ(units["queries, keys, values"], 6);
  EXPECT_DOUBLE_EQ(units["residual stream"], 4);
  EXPECT_DOUBLE_EQ(units["norm 1 output"], 2);
  EXPECT_DOUBLE_EQ(units["norm 2 output"], 2);
  EXPECT_DOUBLE_EQ(units["attention context"], 2);
  EXPECT_DOUBLE_EQ(units["attention dropout mask"], 1);
  // The last layer of the oldest microbatch has freed its own by then.
  EXPECT_DOUBLE_EQ(units["mlp dropout mask"], 1 - 1.0 / 40);
  EXPECT_EQ(units.count("attention softmax"), 0U);
}

TEST(ThirteenB, StagesOrderAsTheRuleDoesAndFit) {
  const Result result = forecast_of({});
  EXPECT_TRUE(result.fits);
  for (size_t stage = 0; stage < 4; ++stage) {
    const RoleMemory& memory = result.memory[stage].memory;
    EXPECT_EQ(memory.peak_in_flight, 4 - static_cast<int>(stage));
    // State: (6 + 12/2) bytes a parameter; the middle stages hold 10 layers and nothing else.
    const double state = category(memory, {MemoryCategory::parameters, MemoryCategory::gradients,
                                           MemoryCategory::optimizer_state});
    const double layers = 12 * kLayersOfAStage * (12 * 5120.0 * 5120.0 + 13 * 5120.0);
    if (stage == 1 || stage == 2) {
      EXPECT_DOUBLE_EQ(state, layers);
    } else {
      EXPECT_GT(state, layers + 12 * 51200.0 * 5120.0);
    }
  }
}

TEST(ThirteenB, PipelineAloneOrZero1AloneIsOutOfMemory) {
  const Result pipeline = forecast_of({{"parallel.zero", "0"}});
  EXPECT_FALSE(pipeline.fits);
  EXPECT_GT(pipeline.memory_reserved.value, 80'000'000'000);
  const Result zero1 = forecast_of({{"parallel.pp", "1"}});
  EXPECT_FALSE(zero1.fits);
  EXPECT_GT(zero1.memory_reserved.value, 80'000'000'000);
}

}  // namespace
}  // namespace stepcast::thirteen_b_test
