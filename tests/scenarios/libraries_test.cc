// SPDX-License-Identifier: Apache-2.0
// Keys that say which library computes the loss and the optimizer's step, and what libraries keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/scenarios/loading.h"

namespace stepcast::libraries_test {
namespace {

using testing::failure_with;
using testing::kMinimal;
using testing::load;
using testing::Sets;

constexpr int64_t kMiB = 1 << 20;

TEST(Libraries, WorkspacesAreThoseOfTheGpu) {
  const Kernels hopper = load(kMinimal).plan.kernels;
  EXPECT_EQ(hopper.blas_workspace, Bytes{32 * kMiB});
  EXPECT_EQ(hopper.engine_workspace, Bytes{32 * kMiB});
  const Kernels ampere = load(kMinimal, {{"cluster", "dgx-a100-80g x 2"}}).plan.kernels;
  EXPECT_EQ(ampere.blas_workspace, Bytes{8320 * 1024});
  EXPECT_EQ(ampere.engine_workspace, Bytes{4 * kMiB});
  const Kernels blackwell = load(kMinimal, {{"cluster", "dgx-b200 x 2"}}).plan.kernels;
  EXPECT_EQ(blackwell.blas_workspace, Bytes{8320 * 1024});
  EXPECT_EQ(blackwell.engine_workspace, Bytes{32 * kMiB});
}

TEST(Libraries, AWorkspaceCanBeSaid) {
  const Sets sets{{"kernels.blas_workspace", "16MiB"}, {"cluster", "dgx-a100-80g x 2"}};
  EXPECT_EQ(load(kMinimal, sets).plan.kernels.blas_workspace, Bytes{16 * kMiB});
  EXPECT_EQ(failure_with({{"kernels.blas_workspace", "16 apples"}}).all.size(), 1u);
  EXPECT_EQ(failure_with({{"kernels.blas_workspace", "-1MiB"}}).all.size(), 1u);
}

TEST(Libraries, TheLossHasAName) {
  EXPECT_EQ(load(kMinimal).plan.kernels.loss, Loss::megatron);
  const auto loss = [](const char* name) {
    return load(kMinimal, {{"kernels.loss", name}}).plan.kernels.loss;
  };
  EXPECT_EQ(loss("in-place"), Loss::in_place);
  EXPECT_EQ(loss("torch"), Loss::torch);
  EXPECT_EQ(loss("torch-compiled"), Loss::torch_compiled);
  EXPECT_EQ(loss("torch-gathered"), Loss::torch_gathered);
  EXPECT_EQ(failure_with({{"kernels.loss", "liger"}}).codes, "E125");
}

TEST(Libraries, TheOptimizersKernelHasAName) {
  EXPECT_EQ(load(kMinimal).plan.optimizer_kernel, OptimizerKernel::fused);
  const auto kernel = [](const char* name) {
    return load(kMinimal, {{"optimizer.kernel", name}}).plan.optimizer_kernel;
  };
  EXPECT_EQ(kernel("foreach"), OptimizerKernel::foreach);
  EXPECT_EQ(kernel("flat"), OptimizerKernel::flat);
  EXPECT_EQ(failure_with({{"optimizer.kernel", "loop"}}).codes, "E125");
}

TEST(Libraries, PlaceholdersCanBeLeftOut) {
  EXPECT_TRUE(load(kMinimal).plan.kernels.gradient_placeholders);
  EXPECT_FALSE(load(kMinimal, {{"kernels.gradient_placeholders", "false"}})
                   .plan.kernels.gradient_placeholders);
}

TEST(Libraries, GradientsOfABackwardStayIfSaidSo) {
  EXPECT_FALSE(load(kMinimal).plan.precision.own_gradients);
  EXPECT_TRUE(load(kMinimal, {{"precision.own_grads", "true"}}).plan.precision.own_gradients);
  EXPECT_EQ(failure_with({{"precision.own_grads", "often"}}).all.size(), 1u);
}

TEST(Libraries, WhatIsStatedInVainIsRemarkedOn) {
  using ::testing::Contains;
  using ::testing::HasSubstr;
  const std::pair<Sets, const char*> cases[] = {
      {{{"parallel.pp", "2"}, {"parallel.split", "products"}, {"parallel.layout", "Et*16|t*16L"}},
       "parallel.split"},
      {{{"kernels.loss", "torch"}, {"kernels.fused_cross_entropy", "true"}},
       "kernels.fused_cross_entropy"},
      {{{"kernels.cuda_graph", "step"}, {"kernels.host_waits", "passes"}}, "kernels.host_waits"},
      {{{"kernels.attention", "unfused"}, {"kernels.flash_kernel", "flash-1"}},
       "kernels.flash_kernel"},
      {{{"kernels.modules", "torch"}, {"kernels.gradient_placeholders", "true"}},
       "kernels.gradient_placeholders"}};
  for (const auto& [sets, path] : cases) {
    const std::string remark = std::string(path) + " has no effect";
    EXPECT_THAT(load(kMinimal, sets).warnings, Contains(HasSubstr(remark))) << path;
    for (const auto& one : sets) {  // by itself it has one
      if (one.first == "parallel.layout") continue;
      EXPECT_THAT(load(kMinimal, {one}).warnings, ::testing::Not(Contains(HasSubstr(remark))));
    }
  }
}

// Keys of what frameworks keep, in a scenario that keeps nothing of the kind, and in one that does.
TEST(Libraries, WhatIsKeptInVainIsRemarkedOn) {
  using ::testing::Contains;
  using ::testing::HasSubstr;
  using ::testing::Not;
  struct Case {
    std::pair<std::string, std::string> key;
    Sets vain, useful;
  };
  const Sets nothing{}, unfused{{"kernels.attention", "unfused"}};
  const Sets by_operators{{"kernels.attention", "unfused"}, {"kernels.fused_softmax", "false"}};
  const Case cases[] = {
      {{"kernels.softmax_fp32", "true"}, nothing, by_operators},
      {{"kernels.softmax_fp32", "true"}, unfused, by_operators},
      {{"kernels.context_copies", "true"}, nothing, {{"batch.micro", "2"}}},
      {{"kernels.context_copies", "true"},
       {{"kernels.attention", "unfused"}, {"batch.micro", "2"}},
       {{"batch.micro", "2"}}},
      {{"kernels.held_logits", "1"}, {{"kernels.loss", "in-place"}}, nothing},
      {{"kernels.held_logits", "1"}, {{"kernels.loss", "torch-compiled"}}, nothing},
      {{"kernels.held_logits", "2"}, {{"batch.global", "4"}}, {{"batch.global", "8"}}},
      {{"optimizer.whole_master", "true"}, {{"parallel.zero", "0"}}, {{"parallel.zero", "1"}}},
      {{"optimizer.gradient_copies", "for-norm"},
       {{"precision.grads", "fp32"}},
       {{"precision.grads", "bf16"}}},
      {{"optimizer.gradient_copies", "for-norm"},
       {{"precision.grads", "bf16"}, {"optimizer.clip", "false"}},
       {{"precision.grads", "bf16"}}},
      {{"precision.product_grads", "tensors"},
       nothing,
       {{"kernels.gradient_accumulation_fusion", "false"}}},
      {{"precision.own_grads", "true"},
       {{"precision.grads", "bf16"}},
       {{"precision.grads", "fp32"}}},
  };
  for (Case c : cases) {
    const std::string remark = c.key.first + " has no effect";
    c.vain.push_back(c.key);
    c.useful.push_back(c.key);
    EXPECT_THAT(load(kMinimal, c.vain).warnings, Contains(HasSubstr(remark)));
    EXPECT_THAT(load(kMinimal, c.useful).warnings, Not(Contains(HasSubstr(remark)))) << remark;
  }
}

// They are of DeepSpeed's ZeRO-1 and of its optimizer without ZeRO.
TEST(Libraries, CopiesOfGradientsAreNotThoseOfZero2And3) {
  using ::testing::Contains;
  using ::testing::Not;
  for (const char* copies : {"by-tensor", "flat"}) {
    for (const char* zero : {"0", "1", "2", "3"}) {
      const bool vain = *zero >= '2';
      const Scenario s = load(
          kMinimal,
          {{"parallel.pp", "1"}, {"parallel.zero", zero}, {"optimizer.gradient_copies", copies}});
      const std::string remark = std::string("optimizer.gradient_copies: ") + copies +
                                 " has no effect with parallel.zero: " + zero;
      if (vain) {
        EXPECT_THAT(s.warnings, Contains(remark));
        EXPECT_EQ(s.plan.gradient_copies, GradientCopies::none);
      } else {
        EXPECT_THAT(s.warnings, Not(Contains(remark)));
        EXPECT_NE(s.plan.gradient_copies, GradientCopies::none);
      }
    }
  }
}

TEST(Libraries, AVersionOfNcclIsOneThatWasReleased) {
  EXPECT_EQ(load(kMinimal, {{"kernels.nccl", "20900"}}).plan.kernels.nccl_version, 20900);
  EXPECT_EQ(load(kMinimal, {{"kernels.nccl", "2804"}}).plan.kernels.nccl_version, 2804);
  EXPECT_EQ(load(kMinimal, {{"kernels.nccl", "23007"}}).plan.kernels.nccl_version, 23007);
  for (const char* wrong : {"2215", "221", "2900", "20803", "20899"}) {
    const testing::Failure f = failure_with({{"kernels.nccl", wrong}});
    EXPECT_EQ(f.codes, "E127") << wrong;
    EXPECT_THAT(f.all.front().help, ::testing::HasSubstr("22105 for 2.21.5"));
  }
  for (const char* wrong : {"30000", "221005", "0", "2.21.5"})
    EXPECT_EQ(failure_with({{"kernels.nccl", wrong}}).all.size(), 1u) << wrong;
}

TEST(Libraries, AYearOfLibrariesIsOneThatCudaHas) {
  for (const char* year : {"0", "2007", "2023", "2099"})
    EXPECT_EQ(load(kMinimal, {{"kernels.libraries", year}}).plan.kernels.libraries,
              std::stoll(year));
  for (const char* wrong : {"23", "1999", "2006", "2100", "20235", "-1"})
    EXPECT_EQ(failure_with({{"kernels.libraries", wrong}}).all.size(), 1u) << wrong;
}

}  // namespace
}  // namespace stepcast::libraries_test
