// SPDX-License-Identifier: Apache-2.0
// Distillation: a teacher runs forward beside the student, stage by stage on the same ranks, and
// the loss compares what both make of every token (Hinton et al. 2015, arXiv 1503.02531).
//
// The teacher's layers are spread evenly over the student's stages; it keeps nothing but its
// logits, has neither gradients nor optimizer states, and is not sharded over replicas.
#pragma once

#include "model/pass_writer.h"
#include "model/plan.h"
#include "model/shard.h"

namespace stepcast {

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

// What a rank holds for a stage of the teacher; what comes in from the stage before.
Bytes teacher_parameters(const Plan& plan, const StageContent& own);
Bytes teacher_stream(const Plan& plan);

// Model FLOPs of the teacher in a step, over all ranks.
double teacher_flops(const Plan& plan, bool causal);

}  // namespace stepcast
