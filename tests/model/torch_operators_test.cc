// SPDX-License-Identifier: Apache-2.0
// What layers keep for the backward where PyTorch's operators take the place of fused kernels, in
// closed form.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "model/passes/stage_passes.h"
#include "sim/memory/memory.h"
#include "tests/model/sample.h"

namespace stepcast::torch_operators_test {
namespace {

constexpr int64_t kSeq = 512, kMicro = 2, kHidden = 256, kHeads = 8, kKvHeads = 4;
constexpr int64_t kTokens = kSeq * kMicro;
constexpr int64_t kHalf = 2, kFloat = 4;  // bytes

Transformer llama() {
  return sample::llama(1, kHidden, kHeads, kKvHeads, 768, 1000);
}

Plan plan_of(int64_t micro = kMicro) {
  Plan plan = sample::plan(1, 1, 1, 1, micro, kSeq);
  plan.kernels.flash_attention = true;
  return plan;
}

// One layer without embedding and head.
class Layer {
 public:
  explicit Layer(const Plan& plan, const Transformer& model = llama()) {
    GraphBuilder builder(graph_);
    passes_ = add_stage_passes(builder, model, plan, StageContent{.layers = 1}, PassChoice{});
    RoleOps role;
    for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
      Item item;
      item.pass = pass_of(passes_, kind, false, false);
      item.has_action = true;
      item.action = {kind, 0, 0};
      role.items.push_back(item);
    }
    graph_.roles.push_back(role);
    check_graph(graph_);
    const RoleMemory memory = trace_memory(graph_).front();
    kept_ = memory.curve.front().allocated.value;
    EXPECT_EQ(memory.end, memory.start);
  }
  // After the forward, for the backward.
  int64_t kept() const { return kept_; }
  // That a kernel of a pass reads and writes.
  int64_t moved(ActionKind kind, Kernel kernel) const {
    int64_t bytes = 0;
    for (const Op& op :
         graph_.passes[static_cast<size_t>(pass_of(passes_, kind, false, false))].ops) {
      const Work& work = graph_.works[static_cast<size_t>(op.work)];
      if (work.kind == WorkKind::memory_bound && work.kernel == kernel) bytes += work.bytes.value;
    }
    return bytes;
  }
  size_t ops(ActionKind kind) const {
    return graph_.passes[static_cast<size_t>(pass_of(passes_, kind, false, false))].ops.size();
  }

 private:
  OpGraph graph_;
  StagePasses passes_;
  int64_t kept_ = 0;
};

int64_t kept_more(Plan plan, bool Kernels::*option, bool value) {
  plan.kernels.*option = !value;
  const int64_t before = Layer(plan).kept();
  plan.kernels.*option = value;
  return Layer(plan).kept() - before;
}

// Two norms, each of which keeps its input in fp32 and the normed input in 16 bits.  The inverse
// root of each row is there in either case.
TEST(NormByOperators, KeepsItsInputInFp32AndWhatTheWeightsMultiply) {
  EXPECT_EQ(kept_more(plan_of(), &Kernels::fused_norm, false),
            2 * kTokens * kHidden * (kFloat + kHalf));
}

TEST(NormByOperators, OfAModelInFp32ConvertsNothing) {
  Plan plan = plan_of();
  plan.precision.params = DType::fp32;
  EXPECT_EQ(kept_more(plan, &Kernels::fused_norm, false), 2 * kTokens * kHidden * kFloat);
}

// kernels.gate_views: both gradients are read and written once more.
TEST(ActivationByOperators, PutsGradientsOfViewsSideBySide) {
  Plan plan = plan_of();
  plan.kernels.fused_activation = false;
  const size_t apart = Layer(plan).ops(ActionKind::backward);
  plan.kernels.gate_views = true;
  EXPECT_EQ(Layer(plan).ops(ActionKind::backward), apart + 1);
}

// Rotated queries and keys are tensors of their own, and so are the cosines and sines of each.
TEST(RotaryByOperators, KeepsTheProjectionAndWhatWasRotated) {
  const int64_t dim = kHidden / kHeads, rotated = (kHeads + kKvHeads) * dim + 4 * dim;
  EXPECT_EQ(kept_more(plan_of(), &Kernels::fused_rotary, false), kTokens * rotated * kHalf);
}

TEST(RotaryByOperators, IsOfRotaryPositions) {
  Plan plan = plan_of();
  const Transformer gpt = sample::gpt(1, kHidden, kHeads, 1000, kSeq);
  const int64_t fused = Layer(plan, gpt).kept();
  plan.kernels.fused_rotary = false;
  EXPECT_EQ(Layer(plan, gpt).kept(), fused);
}

TEST(ContextCopies, StayBesideTheContextOfSeveralSequences) {
  EXPECT_EQ(kept_more(plan_of(2), &Kernels::context_copies, true), kTokens * kHidden * kHalf);
  EXPECT_EQ(kept_more(plan_of(1), &Kernels::context_copies, true), 0);
}

TEST(ContextCopies, AreRecomputedWithTheLayer) {
  Plan plan = plan_of();
  plan.recompute = Recompute::full;
  EXPECT_EQ(kept_more(plan, &Kernels::context_copies, true), 0);
  plan.kernels.context_copies = false;
  const size_t without = Layer(plan).ops(ActionKind::backward);
  plan.kernels.context_copies = true;
  EXPECT_EQ(Layer(plan).ops(ActionKind::backward), without + 2 + 2);
}

// A query sees half of all keys; the other half is written as zeros, both ways.
TEST(FusedSoftmax, OfACausalMaskReadsHalf) {
  Plan plan = plan_of();
  plan.kernels.flash_attention = false;
  plan.kernels.fused_softmax = true;
  const int64_t scores = kMicro * kHeads * kSeq * kSeq * kHalf;
  EXPECT_EQ(Layer(plan).moved(ActionKind::forward, Kernel::softmax), scores / 2 + scores);
  EXPECT_EQ(Layer(plan).moved(ActionKind::backward, Kernel::softmax_backward),
            2 * scores / 2 + scores);
  plan.kernels.fused_softmax = false;
  EXPECT_EQ(Layer(plan).moved(ActionKind::forward, Kernel::softmax), 2 * scores);
  EXPECT_EQ(Layer(plan).moved(ActionKind::backward, Kernel::softmax_backward), 3 * scores);
}

// Probabilities in fp32 for the softmax's backward, and in 16 bits for the product with the values.
TEST(SoftmaxInFp32, KeepsProbabilitiesTwice) {
  Plan plan = plan_of();
  plan.kernels.flash_attention = plan.kernels.fused_softmax = false;
  const int64_t scores = kMicro * kHeads * kSeq * kSeq;
  EXPECT_EQ(kept_more(plan, &Kernels::softmax_fp32, true), scores * kFloat);
  plan.kernels.fused_softmax = true;
  EXPECT_EQ(kept_more(plan, &Kernels::softmax_fp32, true), 0);
}

TEST(SoftmaxInFp32, DropsTheSecondCopyWhereDropoutWritesAnother) {
  Plan plan = plan_of();
  plan.kernels.flash_attention = plan.kernels.fused_softmax = false;
  Transformer model = llama();
  model.attention_dropout = 0.1;
  const int64_t narrow = Layer(plan, model).kept();
  plan.kernels.softmax_fp32 = true;
  EXPECT_EQ(Layer(plan, model).kept() - narrow, kMicro * kHeads * kSeq * kSeq * (kFloat - kHalf));
}

}  // namespace
}  // namespace stepcast::torch_operators_test
