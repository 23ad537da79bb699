// SPDX-License-Identifier: Apache-2.0
#include "model/distillation.h"

#include "model/inference.h"
#include "model/stage_parameters.h"
#include "model/stage_writer.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// The logits of all tokens.
TensorIndex write_teacher_head(const Shard& s, PassWriter& pass, TensorIndex& stream) {
  const Kernel norm = s.model.norm == Norm::layer_norm ? Kernel::layer_norm : Kernel::rms_norm;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  pass.compute("teacher final norm", s.memory_bound(norm, own * 2));
  TensorIndex normed = pass.allocate("teacher final norm output", own, MemoryCategory::workspace);
  pass.free(stream);
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) {
    pass.join(pass.communicate(Stream::tp, "teacher head all-gather",
                               s.collective(WorkKind::all_gather, s.hidden)));
    gathered = pass.allocate("teacher head all-gather", s.bytes(s.tokens, s.hidden),
                             MemoryCategory::communication);
  }
  pass.compute("teacher head", s.forward_gemm(s.tokens, s.vocab, s.hidden));
  const TensorIndex logits =
      pass.allocate("teacher logits", s.bytes(s.tokens, s.vocab), MemoryCategory::logits);
  pass.free(gathered);
  pass.free(normed);
  return logits;
}

}  // namespace

Plan with_teacher_of(Plan plan, size_t stage) {
  if (!plan.teacher) return plan;
  STEPCAST_CHECK(plan.teacher_stages.size() == plan.stages.size(), "a teacher's stage for each");
  plan.teacher_stages = {plan.teacher_stages[stage]};
  return plan;
}

TensorIndex write_teacher(const Plan& plan, PassWriter& pass) {
  if (!plan.teacher) return kNoTensor;
  STEPCAST_CHECK(plan.teacher_stages.size() == 1, "whose stage?");
  Plan alone = plan;
  alone.recompute = Recompute::none;  // no backward, for which some of it would be kept
  const Shard s(*alone.teacher, alone);
  const StageContent& own = alone.teacher_stages.front();
  StageWriter stage(s, pass);
  TensorIndex received = kNoTensor;
  if (!own.embedding)
    received =
        pass.allocate("teacher residual stream", teacher_stream(plan), MemoryCategory::activations);
  TensorIndex stream = stage.forward_alone(own, received);
  if (own.head) return write_teacher_head(s, pass, stream);
  pass.free(stream);  // leaves with the student's
  return kNoTensor;
}

void write_distillation_loss(const Shard& s, TensorIndex logits, PassWriter& pass) {
  if (logits == kNoTensor) return;
  // Log-softmax of both, and the sum of their difference by the teacher's probabilities; over the
  // shards of the vocabulary, maximum and sum of each.
  const Bytes narrow = s.bytes(s.tokens, s.vocab);
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  pass.compute("teacher softmax", s.memory_bound(Kernel::cross_entropy, narrow + wide));
  TensorIndex probabilities = pass.allocate("teacher probabilities", wide, MemoryCategory::logits);
  if (s.split()) {
    Work w = s.collective(WorkKind::all_reduce, 1);
    w.dtype = DType::fp32;
    w.bytes = s.bytes(s.tokens, 2, DType::fp32);
    pass.join(pass.communicate(Stream::tp, "teacher softmax all-reduce", w));
  }
  pass.compute("distillation loss", s.memory_bound(Kernel::cross_entropy, wide * 2));
  pass.free(probabilities);
}

void write_distillation_gradient(const Shard& s, TensorIndex& logits, PassWriter& pass) {
  if (logits == kNoTensor) return;
  // Student's and teacher's probabilities once more, their difference added to the gradient.
  const Bytes narrow = s.bytes(s.tokens, s.vocab);
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  pass.compute("distillation gradient",
               s.memory_bound(Kernel::cross_entropy_backward, narrow + wide * 3));
  pass.free(logits);
}

Bytes teacher_parameters(const Plan& plan, const StageContent& own) {
  return stored_parameters(*plan.teacher, plan, own, stage_parameters(*plan.teacher, plan, own));
}

Bytes teacher_stream(const Plan& plan) {
  if (!plan.teacher) return {};
  const Shard s(*plan.teacher, plan);
  return s.bytes(s.own_tokens, s.hidden);
}

double teacher_flops(const Plan& plan, bool causal) {
  if (!plan.teacher) return 0;
  return forward_matmul_flops(*plan.teacher, static_cast<double>(plan.global_batch),
                              static_cast<double>(plan.seq), causal);
}

}  // namespace stepcast
