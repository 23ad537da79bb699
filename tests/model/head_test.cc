// SPDX-License-Identifier: Apache-2.0
// What each kind of cross-entropy holds of the logits, and that every step returns all of it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/passes/stage_passes.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::head_test {
namespace {

constexpr int64_t kSeq = 512;
constexpr int64_t kVocab = 320000;  // so much that nothing else is as large
constexpr StageContent kLast{.layers = 1, .head = true};

Plan plan_of(Loss loss, int64_t tp = 1) {
  Plan plan = sample::plan(tp, 1, 1, 1, 1, kSeq);
  plan.kernels.flash_attention = true;
  plan.kernels.loss = loss;
  return plan;
}

struct HeadStage {
  OpGraph graph;
  RoleMemory memory;
  std::vector<std::string> logits;  // labels of what the peak holds of them

  explicit HeadStage(const Plan& plan) {
    GraphBuilder builder(graph);
    const StagePasses passes = add_stage_passes(builder, sample::llama(1, 64, 8, 8, 192, kVocab),
                                                plan, kLast, PassChoice{});
    RoleOps role;
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
      Item item;
      item.pass = pass_of(passes, kind, false, false);
      item.has_action = true;
      item.action = {kind, 0, 0};
      role.items.push_back(item);
    }
    graph.roles.push_back(role);
    check_graph(graph);
    memory = trace_memory(graph).front();
    EXPECT_EQ(memory.end, memory.start);
  }
  // At the peak, in logits of two bytes each.
  double sets_at_peak(int64_t vocab) const {
    const Bytes held = memory.at_peak[static_cast<size_t>(MemoryCategory::logits)];
    return static_cast<double>(held.value) / static_cast<double>(2 * kSeq * vocab);
  }
  int64_t collectives() const {
    int64_t count = 0;
    for (const Op& op : graph.passes[0].ops)
      count += is_communication(graph.works[static_cast<size_t>(op.work)].kind) ? 1 : 0;
    return count;
  }
};

TEST(Loss, MegatronsHoldsTheLogitsAndTheirSoftmaxInFp32) {
  EXPECT_DOUBLE_EQ(HeadStage(plan_of(Loss::megatron)).sets_at_peak(kVocab), 1 + 2);
}

TEST(Loss, NanotronsHoldsTheLogitsInFp32BesideTheirSoftmax) {
  EXPECT_DOUBLE_EQ(HeadStage(plan_of(Loss::megatron_copied)).sets_at_peak(kVocab), 2 + 2);
}

TEST(Loss, CompiledItHoldsASecondCopyInFp32ForAWhile) {
  Plan plan = plan_of(Loss::megatron);
  plan.kernels.fused_cross_entropy = true;
  EXPECT_DOUBLE_EQ(HeadStage(plan).sets_at_peak(kVocab), 1 + 2 + 2);
}

TEST(Loss, InPlaceItHoldsTheLogitsAlone) {
  EXPECT_DOUBLE_EQ(HeadStage(plan_of(Loss::in_place)).sets_at_peak(kVocab), 1);
}

TEST(Loss, TorchsHoldsThreeCopiesInFp32InItsBackward) {
  EXPECT_DOUBLE_EQ(HeadStage(plan_of(Loss::torch)).sets_at_peak(kVocab), 3 * 2);
}

TEST(Loss, CompiledTorchsHoldsLogitsAndGradient) {
  EXPECT_DOUBLE_EQ(HeadStage(plan_of(Loss::torch_compiled)).sets_at_peak(kVocab), 2);
}

TEST(Loss, GatheredEveryRankHoldsTheWholeVocabulary) {
  const HeadStage shards(plan_of(Loss::torch, 4));
  const HeadStage gathered(plan_of(Loss::torch_gathered, 4));
  EXPECT_DOUBLE_EQ(shards.sets_at_peak(kVocab), 3 * 2 / 4.0);
  EXPECT_DOUBLE_EQ(gathered.sets_at_peak(kVocab), 3 * 2);
  EXPECT_EQ(shards.collectives() - gathered.collectives(), 3 - 1);  // three sums, one gather
}

TEST(Loss, WithoutTensorParallelismNothingIsGathered) {
  const HeadStage shards(plan_of(Loss::torch));
  const HeadStage gathered(plan_of(Loss::torch_gathered));
  EXPECT_EQ(shards.memory.peak, gathered.memory.peak);
  EXPECT_EQ(shards.graph.passes[0].ops.size(), gathered.graph.passes[0].ops.size());
}

// Beside what the loss itself holds.
TEST(HeldLogits, StayToTheEndOfTheirBackward) {
  Plan plan = plan_of(Loss::torch);
  plan.kernels.held_logits = 1;
  EXPECT_DOUBLE_EQ(HeadStage(plan).sets_at_peak(kVocab), 3 * 2 + 1);
  plan = plan_of(Loss::megatron);
  plan.kernels.held_logits = 1;
  EXPECT_DOUBLE_EQ(HeadStage(plan).sets_at_peak(kVocab), 1 + 2 + 1);
}

TEST(HeldLogits, AreOfTheWholeVocabularyWhereItIsGathered) {
  Plan plan = plan_of(Loss::torch_gathered, 4);
  plan.kernels.held_logits = 1;
  EXPECT_DOUBLE_EQ(HeadStage(plan).sets_at_peak(kVocab), 3 * 2 + 1);
}

TEST(Loss, InFp32NothingIsConverted) {
  Plan plan = plan_of(Loss::torch);
  plan.precision.params = DType::fp32;
  EXPECT_DOUBLE_EQ(HeadStage(plan).sets_at_peak(kVocab), 3 * 2);
}

TEST(GatedActivation, InTwoKernelsItKeepsTheActivatedGateToo) {
  const auto peak = [](bool fused) {
    Plan plan = plan_of(Loss::in_place);
    plan.kernels.fused_activation = fused;
    OpGraph graph;
    GraphBuilder builder(graph);
    const StagePasses passes = add_stage_passes(builder, sample::llama(1, 64, 8, 8, 192, 1000),
                                                plan, StageContent{.layers = 1}, PassChoice{});
    int64_t kept = 0;
    const Pass& forward = graph.passes[static_cast<size_t>(passes.forward)];
    for (const MemoryEvent& e : forward.memory) {
      const int64_t bytes = graph.tensor(forward, e).bytes.value;
      kept += e.allocate ? bytes : -bytes;
    }
    return kept;
  };
  EXPECT_EQ(peak(false) - peak(true), 2 * kSeq * 192);
}

}  // namespace
}  // namespace stepcast::head_test
