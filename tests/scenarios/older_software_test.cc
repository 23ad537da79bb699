// SPDX-License-Identifier: Apache-2.0
// A scenario on V100 or A100 that names no software may have meant that of their time.
#include "scenarios/older_software.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/scenarios/loading.h"

namespace stepcast::older_software_test {
namespace {

using testing::Sets;

// One pipeline of GPT-3 on two DGX A100.
const std::string kGpt =
    "model: gpt3-13b\n"
    "cluster: dgx-a100-80g x 2\n"
    "parallel: {tp: 4, pp: 2}\n"
    "batch: {global: 32, micro: 1, seq: 2048}\n";

// The profile that a scenario may have meant; "": none.
std::string older(const std::string& text, const Sets& sets = {}) {
  const Scenario s = testing::load(text, sets);
  return s.with_older_software ? s.with_older_software->software : "";
}

std::string older_with(const std::string& path, const std::string& value) {
  return older(kGpt, {{path, value}});
}

TEST(OlderSoftware, IsThatOfThe2021RunThatAScenarioCouldBe) {
  EXPECT_EQ(older(kGpt), "megatron-lm-2021");
  EXPECT_EQ(older(kGpt, {{"cluster", "dgx-1-v100 x 2"}, {"precision", "fp16-mixed"}}),
            "megatron-lm-2021");
  EXPECT_EQ(older(kGpt, {{"model", "bert-large"}, {"batch.seq", "512"}}), "megatron-lm-2021");
  EXPECT_EQ(older_with("recompute", "full"), "megatron-lm-2021");
  EXPECT_EQ(older_with("kernels.attention", "unfused"), "megatron-lm-2021");
}

TEST(OlderSoftware, SequenceParallelismAndSelectiveRecomputationCameIn2022) {
  EXPECT_EQ(older_with("parallel.sp", "true"), "megatron-lm-2022");
  EXPECT_EQ(older_with("parallel.sp", "false"), "megatron-lm-2022");  // a switch of then
  EXPECT_EQ(older_with("recompute", "selective"), "megatron-lm-2022");
}

TEST(OlderSoftware, IsNotAskedForWhereTheScenarioSaysMore) {
  EXPECT_EQ(older_with("software", "megatron-core"), "");
  EXPECT_EQ(older_with("kernels.attention", "flash"), "");
  EXPECT_EQ(older_with("kernels.modules", "transformer-engine"), "");
  EXPECT_EQ(older_with("cluster", "dgx-h100 x 2"), "");
  EXPECT_EQ(older_with("model", "llama2-13b"), "");
  EXPECT_EQ(older_with("parallel.zero", "3"), "");
  EXPECT_EQ(older_with("schedule", "zb-h1"), "");
  EXPECT_EQ(older_with("mode", "prefill"), "");
  EXPECT_EQ(older(testing::kMinimal), "");
}

TEST(OlderSoftware, HasTheValuesOfItsProfileAndWhatTheUserSays) {
  const Scenario s = testing::load(kGpt, {{"overlap.tp", "backward"}});
  ASSERT_NE(s.with_older_software, nullptr);
  const Scenario& then = *s.with_older_software;
  EXPECT_TRUE(s.plan.kernels.flash_attention);
  EXPECT_FALSE(then.plan.kernels.flash_attention);
  EXPECT_EQ(then.plan.overlap.tp, TpOverlap::backward);
  EXPECT_EQ(then.plan.grid.world(), s.plan.grid.world());
  EXPECT_EQ(then.with_older_software, nullptr);
}

TEST(OlderSoftware, IsRemarkedOnFromATwentiethOn) {
  const Time today{1'000'000};
  const auto remark = [&](int64_t then, bool fits = true) -> std::string {
    const auto older = compare_with_older_software("megatron-lm-2021", today, Time{then}, fits);
    return older ? remark_on_older_software({&*older, 1}) : "";
  };
  EXPECT_EQ(remark(1'049'000), "");
  EXPECT_EQ(remark(951'000), "");
  EXPECT_THAT(remark(1'124'000),
              ::testing::EndsWith("(software: megatron-lm-2021) the step takes 12 % longer"));
  EXPECT_THAT(remark(900'000), ::testing::EndsWith("the step takes 10 % less"));
  EXPECT_THAT(remark(1'124'000, false),
              ::testing::EndsWith("the step takes 12 % longer and does not fit"));
}

TEST(OlderSoftware, OfSeveralStepsIsOneRemark) {
  const OlderSoftware longer{"megatron-lm-2021", 0.21, true}, less{"megatron-lm-2021", -0.08, true},
      of_2022{"megatron-lm-2022", 0.08, false};
  const auto remark = [](const std::vector<OlderSoftware>& steps) {
    return remark_on_older_software(steps);
  };
  EXPECT_EQ(remark({longer, longer}), remark({longer}));
  EXPECT_THAT(remark({longer, of_2022}),
              ::testing::EndsWith("(software: megatron-lm-2021 or megatron-lm-2022) the step takes "
                                  "8 to 21 % longer and does not fit in 1 of 2"));
  EXPECT_THAT(remark({longer, less}), ::testing::EndsWith("takes 8 % less to 21 % longer"));
  const OlderSoftware far_less{"megatron-lm-2021", -0.3, true};
  EXPECT_THAT(remark({far_less, less}), ::testing::EndsWith("takes 8 to 30 % less"));
  EXPECT_THAT(remark({of_2022, of_2022}), ::testing::EndsWith("8 % longer and does not fit"));
}

}  // namespace
}  // namespace stepcast::older_software_test
