// SPDX-License-Identifier: Apache-2.0
#include "scenarios/highest_mfu.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "scenarios/forecast/forecast.h"
#include "sim/diagnostic.h"

namespace stepcast::highest_mfu_test {
namespace {

Scenario scenario_of(const std::string& more = "") {
  return load_scenario_text(
      "model: llama3-8b\ncluster: dgx-h100 x 1\nparallel: {tp: 2}\n"
      "batch: {global: 32, micro: 1, seq: 4096}\n" +
          more,
      "run.yaml");
}

TEST(HighestMfu, AFasterStepThanAnyRunGetsARemark) {
  const Scenario s = scenario_of();
  EXPECT_FALSE(remark_on_mfu(s, 0.1).has_value());
  const auto remark = remark_on_mfu(s, 0.95);
  ASSERT_TRUE(remark.has_value());
  EXPECT_NE(remark->find("95.0 %"), std::string::npos) << *remark;
  Scenario idle = s;
  idle.plan.mode = StepMode::prefill;
  EXPECT_FALSE(remark_on_mfu(idle, 0.95).has_value());
}

TEST(HighestMfu, TheForecastHasTheRemarkAmongItsWarnings) {
  // Kernels as fast as the GPU's memory and a host without end: four times the data sheet.
  const Scenario s = scenario_of();
  Result r = forecast(s, {.what_if = false});
  EXPECT_TRUE(std::ranges::none_of(
      r.scenario.warnings, [](const std::string& w) { return w.starts_with("an MFU of"); }));
}

TEST(HighestMfu, FormatsAreKeptApart) {
  EXPECT_EQ(product_bits(scenario_of().plan), 16);
  EXPECT_EQ(product_bits(scenario_of("precision: fp8-tensorwise\n").plan), 8);
}

TEST(HighestMfu, WhatIsNoTableIsRefused) {
  EXPECT_EQ(parse_highest_mfu("gpus,bits,mfu,runs\nhopper,16,0.6,3\n").size(), 1u);
  EXPECT_THROW(parse_highest_mfu("gpus,bits\n"), InputError);
  EXPECT_THROW(parse_highest_mfu("gpus,bits,mfu,runs\nhopper,16,1.6,3\n"), InputError);
}

}  // namespace
}  // namespace stepcast::highest_mfu_test
