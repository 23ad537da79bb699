// SPDX-License-Identifier: Apache-2.0
// How many parameters one rank holds of a pipeline stage, and in which tensors they come.
#pragma once

#include <cstdint>

#include "model/plan.h"
#include "model/transformer.h"

namespace stepcast {

// Parameters that one rank holds of a stage (tensor-parallel shard; norms and unsharded biases
// whole).
int64_t stage_parameters(const Transformer& model, const Plan& plan, const StageContent& content);

// Whether the stage holds a copy of the word embedding although an earlier stage embeds the tokens:
// for a tied head, for prediction modules, or because a decoder begins in it.
bool copies_embedding(const Transformer& model, const StageContent& content);

// How many tensors the parameters are, as frameworks hold them: one for each weight or bias of a
// linear layer or norm.  Queries, keys and values are one tensor, gate and up projection of a gated
// MLP two; each expert has its own.
struct ParameterTensors {
  int64_t count = 0;
  int64_t largest = 0;  // parameters of the largest one
};
// Of the parameters that are not experts', and of the experts'.
ParameterTensors parameter_tensors(const Transformer& model, const Plan& plan,
                                   const StageContent& content);
ParameterTensors expert_tensors(const Transformer& model, const Plan& plan,
                                const StageContent& content);

// How many of stage_parameters() are experts'.  These are spread over ep * etp ranks instead of tp,
// so that their gradients are summed over Axis::edp.
int64_t expert_parameters(const Transformer& model, const Plan& plan, const StageContent& content);

// How many are a rank's share of word embedding and head with Plan::vocabulary; 0 without it.
int64_t shared_vocabulary_parameters(const Transformer& model, const Plan& plan);

// How many every tensor-parallel rank holds whole although, with sequence parallelism, it sees only
// its share of the tokens: norms, biases added after the reduction, routers.  Their gradients have
// to be summed over the tensor-parallel group.
int64_t shared_parameters(const Transformer& model, const StageContent& content);

}  // namespace stepcast
