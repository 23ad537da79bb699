// SPDX-License-Identifier: Apache-2.0
#include "model/host/library_memory.h"

#include <gtest/gtest.h>

#include <vector>

#include "model/passes/stage_passes.h"
#include "tests/model/sample.h"

namespace stepcast::library_memory_test {
namespace {

constexpr int64_t kMiB = 1 << 20;
constexpr int64_t kHidden = 64, kFfn = 192, kVocab = 1000;
constexpr StageContent kMiddle{.layers = 2};
constexpr StageContent kLast{.layers = 2, .head = true};

Plan plan_of(Modules modules) {
  Plan plan = sample::plan(1, 1, 1, 1, 1, 128);
  plan.kernels.flash_attention = true;
  plan.kernels.modules = modules;
  plan.kernels.blas_workspace = Bytes{32 * kMiB};
  plan.kernels.engine_workspace = Bytes{4 * kMiB};
  return plan;
}

Bytes memory_of(const Transformer& model, const Plan& plan, const StageContent& content) {
  OpGraph graph;
  GraphBuilder builder(graph);
  const StagePasses passes = add_stage_passes(builder, model, plan, content, PassChoice{});
  std::vector<PassId> ids{passes.forward};
  if (plan.trains()) ids.push_back(passes.backward);
  return library_memory(graph, plan, ids);
}

Transformer llama() {
  return sample::llama(2, kHidden, 8, 8, kFfn, kVocab);
}

TEST(LibraryMemory, PyTorchMultipliesInTwoThreads) {
  EXPECT_EQ(memory_of(llama(), plan_of(Modules::torch), kMiddle), Bytes{2 * 32 * kMiB});
}

TEST(LibraryMemory, TransformerEngineLeavesTheHeadToPyTorch) {
  const Plan plan = plan_of(Modules::transformer_engine);
  EXPECT_EQ(memory_of(llama(), plan, kMiddle), Bytes{4 * kMiB});
  EXPECT_EQ(memory_of(llama(), plan, kLast), Bytes{(4 + 2 * 32) * kMiB});
}

TEST(LibraryMemory, UnfusedAttentionIsPyTorchs) {
  Plan plan = plan_of(Modules::transformer_engine);
  plan.kernels.flash_attention = false;
  EXPECT_EQ(memory_of(llama(), plan, kMiddle), Bytes{(4 + 2 * 32) * kMiB});
}

TEST(LibraryMemory, GroupedProductsHaveFourStreams) {
  Transformer model = llama();
  model.experts = 4;
  model.experts_per_token = 2;
  model.moe_ffn = kFfn;
  const Plan plan = plan_of(Modules::transformer_engine);
  EXPECT_EQ(memory_of(model, plan, kMiddle), Bytes{(4 + 4 * 4 + 2 * 32) * kMiB});  // and the router
}

TEST(LibraryMemory, APlaceholderIsKeptForEachShapeOfWeights) {
  Plan plan = plan_of(Modules::transformer_engine);
  plan.kernels.blas_workspace = plan.kernels.engine_workspace = Bytes{};
  plan.kernels.gradient_placeholders = true;
  const int64_t layer = kHidden * (3 * kHidden + kHidden + 2 * kFfn + kFfn);  // of both layers
  EXPECT_EQ(memory_of(llama(), plan, kMiddle), Bytes{2 * layer});
  EXPECT_EQ(memory_of(llama(), plan, kLast), Bytes{2 * (layer + kVocab * kHidden)});
  plan.kernels.gradient_accumulation_fusion = false;
  EXPECT_EQ(memory_of(llama(), plan, kLast), Bytes{});
  plan.kernels.gradient_accumulation_fusion = true;
  plan.kernels.modules = Modules::torch;
  EXPECT_EQ(memory_of(llama(), plan, kLast), Bytes{});
}

}  // namespace
}  // namespace stepcast::library_memory_test
