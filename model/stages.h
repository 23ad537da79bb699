// SPDX-License-Identifier: Apache-2.0
// Which layers lie on which pipeline stage: read from Megatron's layout string, or spread as a
// framework does it that is given no layout.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "model/transformer.h"

namespace stepcast {

struct Precision;  // model/plan.h

// What one global pipeline stage holds, in order.  Megatron's layout string "E|(t|)*3,m|m||L" in
// words.
struct StageContent {
  int64_t layers = 0;
  bool embedding = false;
  bool head = false;               // final norm, head and loss
  std::vector<LayerKind> kinds{};  // of each layer; empty: all are like the model's first
  int64_t predictions = 0;         // multi-token-prediction modules, after the layers
  // The rest is filled in by assign_layers().
  int64_t predicted = 0;        // streams of prediction modules of earlier stages, which come in
                                // beside the residual stream
  bool encodes = false;         // what comes in (or is embedded) is the encoder's
  bool encoder_ends = false;    // holds the encoder's last layer: norm after it
  bool decoder_begins = false;  // holds the first layer that attends to the encoder's output: the
                                // decoder's tokens are embedded before it
  bool encoded = false;         // the encoder's output comes in beside the residual stream
  auto operator<=>(const StageContent&) const = default;
};

// Fills in what kinds of layers the stages hold, in the order of the model, and what comes into
// them.  Prediction modules that no stage holds are put before the head.  REQUIRES: they hold all
// layers.
void assign_layers(std::vector<StageContent>& stages, const Transformer& model);

// Marks the layers at either end that stay out of low precision (Precision::wide_first_layers,
// wide_last_layers).
void assign_wide_layers(std::vector<StageContent>& stages, const Transformer& model,
                        const Precision& precision);

// Layers spread evenly; embedding on the first, head on the last stage.  REQUIRES: layers divisible
// by pp * vpp.
std::vector<StageContent> even_stages(int64_t layers, int64_t pp, int64_t vpp);

// Multiplications of a token with weights of a layer, as nanotron counts them: projections as wide
// as the heads, and the MLP or a token's experts.
int64_t layer_products(const Transformer& model, int64_t layer);

// Layers by the products with weights of a token, the head's among them: a stage ends with the
// layer that takes it past its share of them (huggingface/nanotron, src/nanotron/models/base.py,
// build_model).  Embedding on the first, head on the last stage.  REQUIRES: stages > 0.
std::vector<StageContent> stages_by_products(const Transformer& model, int64_t stages);

// As many layers on each stage, and one of those that are left on each of the last stages
// (InternLM/InternEvo internlm/solver/pipeline_utils.py @7776693, partition_uniform).  Embedding on
// the first, head on the last stage.  REQUIRES: stages > 0.
std::vector<StageContent> last_stages_fullest(int64_t layers, int64_t stages);

// As many modules on each stage, the embedding, every layer, the final norm and the head being one
// each; the first stages have one more where they do not divide (Aleph-Alpha/scaling @01b9d21d,
// src/scaling/core/nn/parallel_module/pipeline_partitioning.py, pipe_partition_uniform).
// REQUIRES: 0 < stages <= layers + 3.
std::vector<StageContent> stages_by_modules(int64_t layers, int64_t stages);

// Megatron's --pipeline-model-parallel-layout: '|' separates stages, E embedding, t layer, L loss,
// m MTP, "(...)*n" and "x*n" repeat, ',' is decoration.  Refuses (sim/diagnostic.h) what Megatron
// would, and more than 1,000,000 layers and stages.
std::vector<StageContent> parse_stage_layout(const std::string& text);

}  // namespace stepcast
