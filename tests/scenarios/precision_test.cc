// SPDX-License-Identifier: Apache-2.0
// Keys of precision and recomputation: what they make of the plan, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/scenarios/loading.h"

namespace stepcast::precision_test {
namespace {

using ::testing::ElementsAre;
using testing::Failure;
using testing::failure_with;
using ::testing::HasSubstr;
using testing::load_with;

constexpr const char* kBlackwell = "dgx-b200 x 2";

TEST(LowPrecisionKeys, EachPresetIsBf16WithAScaling) {
  struct Row {
    const char* preset;
    Scaling scaling;
    const char* cluster;
  };
  for (const Row& row :
       {Row{"fp8-delayed", Scaling::delayed, "dgx-h100 x 2"},
        Row{"fp8-tensorwise", Scaling::tensorwise, "dgx-h100 x 2"},
        Row{"fp8-blockwise", Scaling::blockwise, "dgx-h100 x 2"},
        Row{"fp8-deepseek", Scaling::blockwise, "dgx-h100 x 2"},
        Row{"mxfp8", Scaling::mxfp8, kBlackwell}, Row{"nvfp4", Scaling::nvfp4, kBlackwell},
        Row{"int8", Scaling::int8, "dgx-a100-80g x 2"}}) {
    const Precision p =
        load_with({{"precision", row.preset}, {"cluster", row.cluster}}).plan.precision;
    EXPECT_EQ(p.scaling, row.scaling) << row.preset;
    EXPECT_EQ(p.params, DType::bf16);
    EXPECT_EQ(p.gradients, DType::fp32);
    EXPECT_TRUE(p.master);
    const bool deepseek = std::string(row.preset) == "fp8-deepseek";
    EXPECT_EQ(p.moments, deepseek ? DType::bf16 : DType::fp32);
    EXPECT_EQ(p.low_params, deepseek);
    EXPECT_EQ(p.low_transposes, std::string(row.cluster) != kBlackwell);
  }
}

TEST(LowPrecisionKeys, TheGpuMustHaveTheFormat) {
  EXPECT_EQ(failure_with({{"precision", "fp8-delayed"}, {"cluster", "dgx-a100-80g x 2"}}).codes,
            "E230");
  EXPECT_EQ(failure_with({{"precision", "nvfp4"}}).codes, "E230");
  // What is not modelled is not looked for on the GPU.
  EXPECT_EQ(failure_with({{"precision.params", "fp4"}}).codes, "E130");
  const Failure mx = failure_with({{"precision", "mxfp8"}});
  EXPECT_EQ(mx.codes, "E230");
  EXPECT_THAT(mx.lines, ElementsAre(HasSubstr("no tensor cores for mxfp8")));
}

TEST(LowPrecisionKeys, WhatAttentionsOutputIsKeptIn) {
  const auto kept = [](const char* precision) {
    return load_with({{"precision", precision}}).plan.precision.attention_output;
  };
  EXPECT_EQ(kept("fp8-deepseek"), std::nullopt);
  EXPECT_EQ(kept("{preset: fp8-deepseek, attention_output: e5m6}"), KeptFormat::e5m6);
  EXPECT_EQ(kept("{preset: fp8-delayed, attention_output: params}"), KeptFormat::params);
  EXPECT_THAT(load_with({{"precision", "{attention_output: e5m6}"}}).warnings,
              ElementsAre(HasSubstr("precision.attention_output has no effect")));
}

TEST(LowPrecisionKeys, LayersAtTheEndsStayWide) {
  const Scenario s = load_with(
      {{"precision", "{preset: fp8-tensorwise, first_last_bf16: true, last_bf16_layers: 2}"}});
  const std::vector<StageContent>& stages = s.plan.stages;
  ASSERT_EQ(stages.size(), 2U);
  int64_t wide = 0;
  for (const StageContent& stage : stages) {
    for (const LayerKind& kind : stage.kinds) wide += kind.wide ? 1 : 0;
  }
  EXPECT_EQ(wide, 1 + 2);
  EXPECT_TRUE(stages.front().kinds.front().wide);
  EXPECT_TRUE(stages.back().kinds.back().wide);
}

TEST(LowPrecisionKeys, WithoutLowPrecisionTheyHaveNoEffectAndSaySo) {
  const Scenario s =
      load_with({{"precision", "{preset: bf16-mixed, fp8_params: true, first_last_bf16: true}"}});
  EXPECT_FALSE(s.plan.precision.low_params);
  int remarks = 0;
  for (const std::string& w : s.warnings)
    remarks += w.find("has no effect: GEMMs are not in low precision") != std::string::npos ? 1 : 0;
  EXPECT_EQ(remarks, 2);
}

TEST(RecomputeKeys, ModulesAreThoseNamed) {
  const Plan plan =
      load_with({{"recompute", "{granularity: selective, modules: [mlp, layernorm]}"}}).plan;
  EXPECT_EQ(plan.recompute, Recompute::selective);
  EXPECT_FALSE(plan.recompute_modules.core_attention);
  EXPECT_TRUE(plan.recompute_modules.mlp);
  EXPECT_TRUE(plan.recompute_modules.norms);
  EXPECT_FALSE(plan.recompute_modules.moe);
  EXPECT_TRUE(load_with({{"recompute", "selective"}}).plan.recompute_modules.core_attention);
  EXPECT_EQ(load_with({{"recompute", "per-op"}}).plan.recompute, Recompute::per_op);
  EXPECT_EQ(failure_with({{"recompute", "{granularity: selective, modules: [mlps]}"}}).all.size(),
            1U);
}

TEST(RecomputeKeys, DistributedCheckpointsNeedTensorParallelismWithoutSequenceParallelism) {
  const Scenario with_sp = load_with({{"recompute", "{granularity: full, distribute: true}"}});
  EXPECT_FALSE(with_sp.plan.recompute_distribute);
  EXPECT_THAT(with_sp.warnings, ::testing::Contains(HasSubstr("recompute.distribute")));
  EXPECT_TRUE(
      load_with({{"recompute", "{granularity: full, distribute: true}"}, {"parallel.sp", "false"}})
          .plan.recompute_distribute);
}

}  // namespace
}  // namespace stepcast::precision_test
