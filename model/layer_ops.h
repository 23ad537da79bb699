// SPDX-License-Identifier: Apache-2.0
// The op inventory: which kernels a framework launches for one pipeline stage, forward and
// backward.
//
// Each entry is one kernel with its shape after sharding, what it keeps for the backward pass and
// what it frees. Backward ops come in two phases, input gradient and weight gradient, so that B = I
// + W op by op.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "sim/op_graph.h"

namespace stepcast {

// Passes that only some schedules run; those not asked for are not built.
struct PassChoice {
  bool split = false;      // I and W
  bool recompute = false;  // R, and the backward passes that find everything recomputed
  bool offload = false;    // O and L
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

  // O and L: one op each on Stream::copy.  O frees what the forward left, L allocates it again.
  // O has to wait for the compute before it, and R, B or I for the L.
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

// Interns works and labels while an OpGraph is built: equal works get equal ids.
class GraphBuilder {
 public:
  explicit GraphBuilder(OpGraph& graph) : graph_(graph) {}
  WorkId work(const Work& w);
  LabelId label(const std::string& text);
  OpGraph& graph() { return graph_; }

 private:
  OpGraph& graph_;
  std::map<Work, WorkId> works_;
  std::map<std::string, LabelId> labels_;
};

// Appends the passes of a stage with this content.  Stages of equal content share their passes:
// call once for each distinct content.
StagePasses add_stage_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                             const StageContent& content, const PassChoice& choice = {});

// Appends the pass of an overlapped pair: a forward and a backward (B or I) of different
// microbatches, whose ops take turns so that the all-to-all (Stream::ep) of one runs beside the
// compute of the other.  The backward begins; each side goes on up to and including its next op on
// Stream::ep, then it is the other's turn.  Without such ops: the forward, then the backward.
// The forward is the first action of its item, the backward the second (Item::second).
// Pairs of equal passes share one: call once for each.  Products and attention of a pair that
// exchanges tokens do without `comm_sms` SMs, which the exchanges keep to themselves throughout
// (DeepSeek-V3, arXiv 2412.19437, section 3.2.2: 20 of 132).
PassId add_pair_pass(GraphBuilder& builder, PassId forward, PassId backward, int comm_sms = 0);

// Parameters that one rank holds of a stage (tensor-parallel shard; norms and unsharded biases
// whole).
int64_t stage_parameters(const Transformer& model, const Plan& plan, const StageContent& content);

// Whether these are with a copy of the word embedding, because a stage before is the one that
// embeds the tokens first: for a tied head, for prediction modules, where a decoder begins.
bool copies_embedding(const Transformer& model, const StageContent& content);

// The tensors that they come in, as frameworks have them: a weight or bias of a linear layer or
// norm (queries, keys and values together; gate and up projection of a gated MLP apart; each
// expert).
struct ParameterTensors {
  int64_t count = 0;
  int64_t largest = 0;  // parameters of the largest one
};
// All but the experts', and theirs.
ParameterTensors parameter_tensors(const Transformer& model, const Plan& plan,
                                   const StageContent& content);
ParameterTensors expert_tensors(const Transformer& model, const Plan& plan,
                                const StageContent& content);

// Those of them that are experts': spread over ep * etp ranks instead of tp, so that their
// gradients are summed over Axis::edp.
int64_t expert_parameters(const Transformer& model, const Plan& plan, const StageContent& content);

// Those of them that are a rank's share of word embedding and head: 0 without Plan::vocabulary.
int64_t shared_vocabulary_parameters(const Transformer& model, const Plan& plan);

// Those of them that every tensor-parallel rank holds whole although, with sequence parallelism,
// each sees only its share of the tokens: norms, biases added after the reduction, routers.
int64_t shared_parameters(const Transformer& model, const StageContent& content);

}  // namespace stepcast
