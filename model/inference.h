// SPDX-License-Identifier: Apache-2.0
// Steps that only run forward: prefill, which reads whole prompts and leaves their keys and values
// in a cache, and decode, which makes one token a sequence from what is in the cache.
//
// As inference engines run them: nothing is kept for a backward, the head is multiplied with the
// last token of each sequence alone, whose logits are gathered over the tensor-parallel group and
// sampled from.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan.h"
#include "model/stage_passes.h"
#include "model/transformer.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// What add_stage_passes does for a plan that does not train: a forward and nothing else.
// REQUIRES: no encoder.
StagePasses add_inference_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                                 const StageContent& content);

// Weights of linear layers among the parameters that a rank holds of a stage: what
// Precision::weights is the format of.  Embedding, head, norms and biases are none.
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

// A product with weights that are stored in `stored`: what it reads and writes.
Bytes bytes_with_stored_weights(const Work& gemm, DType stored);

// Model FLOPs of a step that only runs forward, over all ranks.
double inference_flops(const Transformer& model, const Plan& plan, bool causal);

}  // namespace stepcast
