// SPDX-License-Identifier: Apache-2.0
// The op inventory: which kernels a framework launches for one pipeline stage, forward and
// backward.
//
// Each entry is one kernel with its shape after sharding, what it keeps for the backward pass and
// what it frees. Backward ops come in two phases, input gradient and weight gradient, so that B = I
// + W op by op.
#pragma once

#include <cstdint>

#include "model/passes/pass_writer.h"
#include "model/plan.h"
#include "model/transformer.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// Passes that only some schedules run; those not asked for are not built.
struct PassChoice {
  bool split = false;      // I and W
  bool recompute = false;  // R, and the backward passes that find everything recomputed
  bool offload = false;    // O and L
  bool operator==(const PassChoice&) const = default;
};

constexpr PassId kNoPass{UINT32_MAX};

// The passes of one kind of stage; kNoPass where PassChoice left one out.  Passes are appended to a
// graph that is being built.
//
// What a weight gradient needs (the inputs of the linear layers and their output gradients) is kept
// from I to W.  A W belongs to the I that ran before it: "after R" or not, never mixed.
struct StagePasses {
  PassId forward = kNoPass;
  PassId backward = kNoPass;         // B
  PassId last_backward = kNoPass;    // B that completes the stage's gradients: with the overlapped
                                     // gradient reduction, if there is one
  PassId input_gradient = kNoPass;   // I
  PassId weight_gradient = kNoPass;  // W
  PassId last_weight_gradient = kNoPass;  // W that completes the gradients

  // R: what the plan's recomputation left out of the forward, all layers; B, I, W that follow it.
  PassId recompute = kNoPass;
  PassId backward_after_recompute = kNoPass;
  PassId last_backward_after_recompute = kNoPass;
  PassId input_gradient_after_recompute = kNoPass;
  PassId weight_gradient_after_recompute = kNoPass;
  PassId last_weight_gradient_after_recompute = kNoPass;

  // O and L: one op each on Stream::copy.  O frees what the forward left, and L allocates it again.
  // The schedule makes O wait for the compute before it, and R, B or I for the L.
  PassId offload = kNoPass;
  PassId reload = kNoPass;

  // S, T, E and G of the rank that holds the stage, with Plan::vocabulary.
  PassId vocabulary_forward = kNoPass;
  PassId vocabulary_backward = kNoPass;
  PassId embedding_forward = kNoPass;
  PassId embedding_backward = kNoPass;
};

// The pass that runs an action of this kind.  `last`: no B or W of the stage comes after it on its
// rank.  `recomputed`: R of the same stage and microbatch ran before.  REQUIRES: it was built.
PassId pass_of(const StagePasses& passes, ActionKind kind, bool last, bool recomputed);

// Appends the passes of a stage with this content.  Stages of equal content share their passes:
// call once for each distinct content.
StagePasses add_stage_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                             const StageContent& content, const PassChoice& choice = {});

// What comes into a stage with this content from the one before it: the residual stream, with those
// of prediction modules and the encoder's output where they come too.  Its gradient is as large.
Bytes received_bytes(const Transformer& model, const Plan& plan, const StageContent& content);
// Beside it, forward alone: the keys that an indexer of a stage before has chosen, where the first
// layer of this one takes its choice.
Bytes received_choice(const Transformer& model, const Plan& plan, const StageContent& content);

// Appends the pass of an overlapped pair: a forward and a backward (B or I) of different
// microbatches, whose ops take turns so that the all-to-all (Stream::ep) of one runs beside the
// compute of the other.  The backward begins; each side goes on up to and including its next op on
// Stream::ep, then it is the other's turn.  Without such ops: the forward, then the backward.
// The forward is the first action of its item, the backward the second (Item::second).
// Pairs of equal passes share one: call once for each.  Products and attention of a pair that
// exchanges tokens do without `comm_sms` SMs, which the exchanges keep to themselves throughout
// (DeepSeek-V3, arXiv 2412.19437, section 3.2.2: 20 of 132).
PassId add_pair_pass(GraphBuilder& builder, PassId forward, PassId backward, int comm_sms = 0);

}  // namespace stepcast
