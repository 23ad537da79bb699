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

}  // namespace
}  // namespace stepcast::libraries_test
