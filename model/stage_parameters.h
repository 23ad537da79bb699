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
