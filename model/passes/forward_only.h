// SPDX-License-Identifier: Apache-2.0
// Forwards that no backward follows: steps of inference, and the teacher of a distillation.
#pragma once

#include <cstdint>
#include <vector>

#include "model/passes/pass_writer.h"
#include "model/passes/stage_passes.h"
#include "model/plan.h"
#include "model/shard.h"
#include "model/transformer.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// --------------------------------------------------------------------------------------- inference
// Steps that only run forward: prefill, which reads whole prompts and leaves their keys and values
// in a cache, and decode, which makes one token a sequence from what is in the cache.
//
// As inference engines run them: nothing is kept for a backward, the head is multiplied with the
// last token of each sequence alone, whose logits are gathered over the tensor-parallel group and
// sampled from.

// What add_stage_passes does for a plan that does not train: a forward and nothing else.
// REQUIRES: no encoder.
StagePasses add_inference_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                                 const StageContent& content);

// How many of the parameters that a rank holds of a stage are weights of linear layers, whose
// format Precision::weights is.  Embedding, head, norms and biases do not count.
int64_t linear_parameters(const Transformer& model, const Plan& plan, const StageContent& content);

// Bytes of `parameters` of a stage as they are stored.
Bytes stored_parameters(const Transformer& model, const Plan& plan, const StageContent& content,
                        int64_t parameters);

// Keys and values that one token leaves in the caches of the layers of a stage, on one rank.  With
// latent attention: the compressed ones, whole on every tensor-parallel rank (DeepSeek-V2, arXiv
// 2405.04434, section 2.1.2).
Bytes cache_bytes(const Transformer& model, const Plan& plan, const StageContent& content,
                  int64_t tokens);

// Tokens of a step that the ranks of all pipelines compute.
int64_t step_tokens(const Plan& plan);

// Bytes that a product reads and writes if its weights are stored in the format `stored`.
Bytes bytes_with_stored_weights(const Work& gemm, DType stored);

// Model FLOPs of a step that only runs forward, over all ranks.
double inference_flops(const Transformer& model, const Plan& plan, bool causal);

// ------------------------------------------------------------------------------------ distillation
// Distillation: a teacher runs forward beside the student, stage by stage on the same ranks, and
// the loss compares what both make of every token (Hinton et al. 2015, arXiv 1503.02531).
//
// The teacher's layers are spread evenly over the student's stages; it keeps nothing but its
// logits, has neither gradients nor optimizer states, and is not sharded over replicas.

// The plan by which the passes of a stage are written: of the teacher's stages it has that one's
// alone.  REQUIRES: plan.teacher_stages has as many stages as the student, or there is no teacher.
Plan with_teacher_of(Plan plan, size_t stage);

// Appends the teacher's forward to the student's pass, before its own; returns the logits, which
// the loss needs forward and backward; kNoTensor without a head or a teacher.
// REQUIRES: a plan from with_teacher_of().
TensorIndex write_teacher(const Plan& plan, PassWriter& pass);
// The part of the loss that compares: after the student's head, and before its backward, which
// frees the logits.  Nothing for kNoTensor.
void write_distillation_loss(const Shard& student, TensorIndex logits, PassWriter& pass);
void write_distillation_gradient(const Shard& student, TensorIndex& logits, PassWriter& pass);

// Bytes of the parameters that a rank holds of a stage of the teacher, and of the residual stream
// that comes in from the stage before it.
Bytes teacher_parameters(const Plan& plan, const StageContent& own);
Bytes teacher_stream(const Plan& plan);
// Bytes of what the teacher's part of a stage gets from the one before: the stream, and a choice of
// keys where its first layer shares one.  None without a teacher.
Bytes received_by_teacher(const Plan& plan, size_t stage);

// Model FLOPs of the teacher in a step, over all ranks.
double teacher_flops(const Plan& plan, bool causal);

}  // namespace stepcast
