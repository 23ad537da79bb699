// SPDX-License-Identifier: Apache-2.0
// What the forward of one part of the model leaves to its backward: tensors of the stage's passes
// (pass_writer.h).  kNoTensor: the part has none of it, or it has been freed.
#pragma once

#include <vector>

#include "model/pass_writer.h"

namespace stepcast {

// Of a layer with experts.
struct ExpertTensors {
  TensorIndex scores = kNoTensor, map = kNoTensor;    // of the router; where copies went
  TensorIndex input = kNoTensor;                      // tokens in the order of their experts
  TensorIndex up = kNoTensor, activated = kNoTensor;  // of the experts
  TensorIndex shared_low = kNoTensor;                 // quantized input of the shared experts
  TensorIndex shared_up = kNoTensor, shared_activated = kNoTensor;
  TensorIndex gate = kNoTensor, shared_output = kNoTensor;  // of a gated shared expert
};

// Of latent attention: both latents and their norms; the part of the keys that has positions, of
// all tokens; the quantized input of a projection, if another one reads it too.
struct LatentTensors {
  TensorIndex q_down = kNoTensor, q_statistics = kNoTensor, q_normed = kNoTensor;
  TensorIndex kv_down = kNoTensor, kv_statistics = kNoTensor, kv_normed = kNoTensor;
  TensorIndex position_key = kNoTensor;
  TensorIndex input_low = kNoTensor;
};

// Of one layer.
struct LayerTensors {
  TensorIndex input = kNoTensor;  // owned by the layer: freed by its backward
  TensorIndex norm1_statistics = kNoTensor, norm1_output = kNoTensor;
  LatentTensors latent;
  TensorIndex qkv = kNoTensor;
  TensorIndex qk_normed = kNoTensor;
  TensorIndex probabilities = kNoTensor, dropout_mask = kNoTensor, dropped = kNoTensor;  // unfused
  TensorIndex log_sum_exp = kNoTensor;                                                   // fused
  TensorIndex exchanged = kNoTensor;  // for some heads of more tokens: what the core works on
  TensorIndex context = kNoTensor;
  TensorIndex context_low = kNoTensor;    // quantized for the projection, if both are needed
  TensorIndex context_again = kNoTensor;  // of a recomputed core; the projection reads the first
  TensorIndex mask1 = kNoTensor;
  TensorIndex residual = kNoTensor;  // after attention
  TensorIndex norm2_statistics = kNoTensor, norm2_output = kNoTensor;
  TensorIndex up = kNoTensor, activated = kNoTensor;
  TensorIndex gated = kNoTensor;  // the gate's activation, where the product is apart
  TensorIndex mask2 = kNoTensor;
  // Outputs of matrix products that per-op recomputation keeps: of queries and values, of the gate
  // (or the whole) of fc1, of fc2.
  TensorIndex kept_qkv = kNoTensor, kept_up = kNoTensor, kept_down = kNoTensor;
  ExpertTensors experts;
  // Attention to the encoder's output, none or one: `input` is the residual stream before it, `qkv`
  // its queries, `encoded_kv` keys and values, `encoded_low` what they were projected from if that
  // is quantized.
  std::vector<LayerTensors> cross{};
  TensorIndex encoded_kv = kNoTensor, encoded_low = kNoTensor;
};

// Of what comes before the first layer.
struct EmbeddingTensors {
  TensorIndex rows = kNoTensor;  // of a shared vocabulary, looked up before
  TensorIndex mask = kNoTensor;
  TensorIndex normed = kNoTensor, norm_statistics = kNoTensor;  // input of a norm
};

// Of what follows the last layer: final norm, head, loss.
struct HeadTensors {
  TensorIndex input = kNoTensor;  // of the final norm
  TensorIndex norm_statistics = kNoTensor, norm_output = kNoTensor;
  TensorIndex transformed = kNoTensor, activated = kNoTensor;  // of a masked head
  TensorIndex softmax = kNoTensor;
  TensorIndex gradient = kNoTensor;  // of a shared vocabulary's input, made before the backward
};

// A multi-token-prediction module.
struct PredictionTensors {
  EmbeddingTensors embedding;
  TensorIndex embedded = kNoTensor, previous = kNoTensor;  // inputs of its two first norms
  TensorIndex embedded_statistics = kNoTensor, previous_statistics = kNoTensor;
  TensorIndex joined = kNoTensor;  // both side by side
  LayerTensors layer;
  HeadTensors end;  // its last norm
};

}  // namespace stepcast
