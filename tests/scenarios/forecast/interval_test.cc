// SPDX-License-Identifier: Apache-2.0
// Intervals of forecasts: which published runs a scenario is like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "scenarios/forecast/forecast.h"
#include "scenarios/observed_errors.h"
#include "tests/scenarios/loading.h"

namespace stepcast::interval_test {
namespace {

using ::testing::HasSubstr;
using testing::kMinimal;
using testing::load;
using testing::Sets;

std::string class_of(const std::string& text, const Sets& sets = {}) {
  const Scenario scenario = load(text, sets);
  return run_class(scenario, forecast(scenario, {.what_if = false}));
}

TEST(ForecastInterval, GoesByTheLengthOfKernelsTheGpuAndSharding) {
  EXPECT_EQ(class_of(kMinimal), "training / long kernels / Hopper or Blackwell");
  EXPECT_EQ(class_of(kMinimal, {{"cluster", "dgx-a100-80g x 2"}}),
            "training / long kernels / Volta or Ampere");
  EXPECT_EQ(class_of(kMinimal, {{"parallel", "{tp: 1, pp: 1, zero: 3}"}}),
            "training / long kernels / sharded parameters");
  EXPECT_EQ(class_of(kMinimal, {{"batch", "{global: 16, micro: 1, seq: 128}"}}),
            "training / short kernels / below 50 us");
}

TEST(ForecastInterval, IsOfTheStepAndOfItsClass) {
  const Result r = forecast(load(kMinimal), {.what_if = false});
  ASSERT_TRUE(r.interval);
  EXPECT_LT(r.interval->low, r.interval->high);
  EXPECT_THAT(r.interval->like, HasSubstr("training"));
  EXPECT_GE(r.interval->sources, 5);
  EXPECT_NEAR(to_seconds(r.interval->low) / to_seconds(r.step_time), r.interval->like_low, 0.1);
}

TEST(ForecastInterval, InferenceHasNoneAsNobodyComparedARunOfIt) {
  for (const char* mode : {"prefill", "decode"})
    EXPECT_FALSE(forecast(load(kMinimal, {{"mode", mode}}), {.what_if = false}).interval) << mode;
}

}  // namespace
}  // namespace stepcast::interval_test
