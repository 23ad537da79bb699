// SPDX-License-Identifier: Apache-2.0
// Software profiles: defaults between the field table's and the user's own keys.
#include "scenarios/schema/software.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "scenarios/presets.h"
#include "tests/scenarios/loading.h"

namespace stepcast::testing::software_test {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Setting setting(const Scenario& s, const std::string& path) {
  for (const Setting& x : s.settings)
    if (x.path == path) return x;
  return {};
}

Scenario with(const std::string& software, Sets sets = {}) {
  sets.insert(sets.begin(), {"software", software});
  return load(kMinimal, sets);
}

TEST(Software, EveryProfileLoadsAndEveryFactHasASource) {
  const auto names = preset_names(PresetKind::software);
  EXPECT_THAT(names, Contains("megatron-core"));
  for (const std::string_view name : names) {
    Problems problems;
    for (const SoftwareFact& fact : software_facts(name, {}, problems))
      EXPECT_GT(fact.source.size(), 8u) << name;
    EXPECT_FALSE(problems.any()) << name;
    const Scenario s = with(std::string(name));
    EXPECT_EQ(s.software, name);
    for (const SoftwareFact& fact : software_facts(name, {}, problems))
      for (const auto& [path, value] : fact.set) EXPECT_NE(setting(s, path).path, "") << path;
  }
}

TEST(Software, TheDefaultProfileStatesTheTablesOwnDefaults) {
  Problems problems;
  const auto facts = software_facts("megatron-core", {}, problems);
  EXPECT_FALSE(facts.empty());
  for (const SoftwareFact& fact : facts)
    for (const auto& [path, value] : fact.set)
      EXPECT_EQ(value.text, find_field(path)->fallback) << path;
  EXPECT_EQ(with("megatron-core").hash, load(kMinimal).hash);
  EXPECT_EQ(load(kMinimal).software, "megatron-core");
}

TEST(Software, FactsStandInForDefaultsAndSayTheirSource) {
  const Scenario s = with("megatron-lm-2021");
  EXPECT_FALSE(s.plan.kernels.flash_attention);
  EXPECT_EQ(s.plan.overlap.tp, TpOverlap::none);
  EXPECT_FALSE(s.plan.sp);
  EXPECT_NE(s.hash, load(kMinimal).hash);
  EXPECT_THAT(setting(s, "kernels.attention").origin,
              StartsWith("software megatron-lm-2021 (megatron/model/transformer.py"));
  EXPECT_THAT(setting(s, "software").origin, StartsWith("--set"));
  EXPECT_TRUE(s.warnings.empty());
}

TEST(Software, AnyKeyOfTheUserWins) {
  const Scenario s =
      with("megatron-lm-2021",
           {{"kernels.attention", "flash"}, {"parallel.sp", "true"}, {"overlap.tp", "backward"}});
  EXPECT_TRUE(s.plan.kernels.flash_attention);
  EXPECT_TRUE(s.plan.sp);
  EXPECT_EQ(s.plan.overlap.tp, TpOverlap::backward);
  EXPECT_EQ(setting(s, "kernels.attention").origin, "--set");
}

TEST(Software, LaterFactsAndOnesWithConditionsWin) {
  EXPECT_EQ(with("megatron-lm-2022").plan.overlap.tp, TpOverlap::backward);  // its base: none
  EXPECT_TRUE(with("nemo", {{"precision", "fp8-tensorwise"}}).plan.precision.low_params);
  EXPECT_FALSE(with("nemo", {{"precision", "fp8-blockwise"}}).plan.precision.low_params);
  // The main gradients of a profile, not those of the precision's preset.
  EXPECT_EQ(with("nemo").plan.precision.gradients, DType::bf16);
  EXPECT_EQ(with("nemo").plan.precision.reduce, DType::bf16);
  EXPECT_EQ(with("nemo", {{"precision.grads", "fp32"}}).plan.precision.gradients, DType::fp32);
}

TEST(Software, GptNeoxReducesAllGradientsAfterItsPipeline) {
  const Plan plan = with("gpt-neox", {{"parallel.zero", "1"}, {"precision", "fp16-mixed"}}).plan;
  EXPECT_EQ(plan.zero_exchange, ZeroExchange::all_reduce);
  EXPECT_FALSE(plan.overlap.dp_grad);
  EXPECT_EQ(with("gpt-neox").p2p, P2pStyle::deepspeed);
  EXPECT_EQ(plan.kernels.fused_attention, AttentionKernel::flash1);
  EXPECT_EQ(plan.kernels.layer_norm, LayerNormKernel::torch_2021);
}

TEST(Software, AProfileSaysWhatIsRecomputed) {
  const Plan plan = with("deepseek").plan;
  EXPECT_EQ(plan.recompute, Recompute::selective);
  EXPECT_FALSE(plan.recompute_modules.core_attention);
  EXPECT_TRUE(plan.recompute_modules.norms);
  EXPECT_TRUE(with("deepseek").warnings.empty());  // that the model has no experts
  EXPECT_EQ(with("deepseek", {{"recompute", "none"}}).plan.recompute, Recompute::none);
}

TEST(Software, ModulesOfPyTorchHaveItsOperatorsAndItsLoss) {
  for (const char* name : {"deepspeed-zero3", "pytorch-fsdp"}) {
    const Kernels k = with(name).plan.kernels;
    EXPECT_FALSE(k.fused_norm) << name;
    EXPECT_FALSE(k.fused_activation) << name;
    EXPECT_EQ(k.loss, Loss::torch) << name;
    EXPECT_EQ(k.fused_attention, AttentionKernel::flash2) << name;
  }
  EXPECT_EQ(with("pytorch-fsdp").plan.optimizer_kernel, OptimizerKernel::foreach);
  EXPECT_EQ(with("deepspeed-zero3").plan.optimizer_kernel, OptimizerKernel::fused);
  // flash-attn's loss keeps the logits beside their gradient.
  EXPECT_EQ(with("llm-foundry").plan.kernels.loss, Loss::torch_compiled);
}

TEST(Software, TransfersAreTheSoftwaresWhereTheScheduleHasNoWayOfItsOwn) {
  EXPECT_EQ(with("megatron-deepspeed-2022").p2p, P2pStyle::deepspeed);
  EXPECT_EQ(with("megatron-deepspeed-2022", {{"schedule", "zb-h1"}}).p2p,
            load(kMinimal, {{"schedule", "zb-h1"}}).p2p);
  EXPECT_EQ(with("megatron-deepspeed-2022", {{"overlap.pp_p2p", "true"}}).p2p, P2pStyle::async);
  Sets interleaved{{"schedule", "interleaved-1f1b"}, {"parallel.vpp", "2"}, {"parallel.pp", "4"}};
  EXPECT_EQ(load(kMinimal, interleaved).p2p, P2pStyle::megatron_overlap);
  EXPECT_EQ(with("megatron-lm-2021", interleaved).p2p, P2pStyle::megatron);
  interleaved.back().second = "2";  // which blocking transfers cannot run
  EXPECT_EQ(with("megatron-lm-2021", interleaved).p2p, P2pStyle::megatron_overlap);
}

TEST(Software, UnknownNamesAreRefusedWithASuggestion) {
  const Failure near = failure_with({{"software", "megatron-lm-2020"}});
  EXPECT_EQ(near.codes, "E125");
  EXPECT_THAT(near.all.front().label, HasSubstr("did you mean 'megatron-lm-202"));
  const Failure far = failure_with({{"software", "qqqqqqqq"}});
  EXPECT_EQ(far.codes, "E125");
  EXPECT_EQ(far.all.front().help, "`stepcast presets software` lists them");
  EXPECT_EQ(failure_with({{"software", "[nemo]"}}).codes, "E107");
}

TEST(FieldValuesAssume, TakesOnlyRowsThatHoldAValueAndRightOnes) {
  Problems problems;
  Value root;
  root.kind = Value::Kind::mapping;
  FieldValues values(root, "", problems);
  Value word;
  word.kind = Value::Kind::scalar;
  word.text = "pipelined";
  values.assume("overlap.tp", word, "here");
  EXPECT_TRUE(values.is("overlap.tp", TpOverlap::pipelined));
  EXPECT_TRUE(values.says("overlap.tp", "pipelined"));
  EXPECT_FALSE(values.says("overlap.tpp", "pipelined"));
  EXPECT_TRUE(values.stated("overlap.tp"));
  EXPECT_FALSE(values.given("overlap.tp"));
  EXPECT_FALSE(values.stated("overlap.bucket"));
  EXPECT_FALSE(problems.any());
  for (const char* wrong : {"overlap", "overlap.none", "overlap.dp_grad"}) {
    Problems found;
    found.add_source({"profile", "pipelined", Source::Kind::preset});
    FieldValues fresh(root, "", found);
    fresh.assume(wrong, word, "here");
    EXPECT_TRUE(found.any()) << wrong;
  }
}

}  // namespace
}  // namespace stepcast::testing::software_test
