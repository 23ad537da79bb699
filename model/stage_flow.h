// SPDX-License-Identifier: Apache-2.0
// What happens in a stage before, between and after its layers: what it receives or embeds, where
// the encoder ends and the decoder begins, prediction modules, heads and losses, what it hands on.
#pragma once

#include <vector>

#include "model/activation_offload.h"
#include "model/stage_writer.h"
#include "model/unit_gathers.h"

namespace stepcast {

// Tensors that the forward pass of a stage hands to its backward pass.
struct StageTensors {
  std::vector<LayerTensors> layers;
  EmbeddingTensors embedding, decoder_embedding;
  HeadTensors encoder_end;          // the norm after the encoder
  TensorIndex encoded = kNoTensor;  // the encoder's output
  HeadTensors head;                 // of the main stream, with the final norm
  std::vector<PredictionTensors> predictions;
  std::vector<HeadTensors> prediction_heads;
  HeldUnits held;
  OffloadedLayers offloaded;
  TensorIndex teacher = kNoTensor;           // its logits
  TensorIndex received_streams = kNoTensor;  // that a module of this stage reads the last of
  TensorIndex streams = kNoTensor;  // the main stream and those of the modules, one after the other
};

// The shapes of a stage's layers, those of an encoder apart.
struct StageShards {
  StageShards(const Transformer& model, const Plan& plan);

  const Plan encoder_plan;
  const Shard own, encoder;
};

// What comes into a stage from the one before; its gradient is as large.
Bytes received_bytes(const StageShards& shards, const StageContent& content);

// A layer of the stage of which the decoder begins (or goes on) with; the number of layers, if it
// has none.
int64_t first_decoder_layer(const StageContent& content);

class StageFlow {
 public:
  // A forward or R.
  StageFlow(const StageShards& shards, const StageContent& content, StageTensors& tensors,
            PassWriter& pass);
  // A backward; weight gradients go to `weights`, which may be `pass`.
  StageFlow(const StageShards& shards, const StageContent& content, StageTensors& tensors,
            PassWriter& pass, PassWriter& weights, const StageBuckets& buckets);
  StageFlow(const StageFlow&) = delete;
  StageFlow& operator=(const StageFlow&) = delete;

  // Who writes layer `i`, told so.
  StageWriter& begin_layer(int64_t i);
  // ... prediction module `i`, whose layer comes after the stage's own.
  StageWriter& begin_prediction(int64_t i);
  // ... what belongs to no layer.
  StageWriter& outside_layers();

  // Forward: the residual stream before the first layer, what layer `i` reads, what the next one
  // reads after it, and all that follows the layers.
  TensorIndex begin_forward();
  TensorIndex before_layer(int64_t i, TensorIndex stream);
  TensorIndex after_layer(int64_t i, TensorIndex stream);
  void end_forward(TensorIndex stream);

  // Backward: the gradient of the last layer's output, what precedes and follows the backward of
  // layer `i`, the embedding's, and what is left when the pass has an op.  `recompute`: what the
  // forward left out.
  TensorIndex begin_backward(bool recompute);
  void before_backward(int64_t i);
  void after_backward(int64_t i, TensorIndex& gradient);
  void embed_backward(TensorIndex& gradient);
  void end_backward(TensorIndex& gradient);
  // Whatever is left of the last buckets.
  void flush_gradients();

  // Whether full recomputation leaves prediction modules out of the forward.
  static bool recomputes_predictions(const Plan& plan);

 private:
  int64_t streams() const { return 1 + content_.predicted + content_.predictions; }
  bool hands_on_encoded() const {
    return (content_.encoded || content_.decoder_begins) && !content_.head;
  }
  Bytes handed_on() const;
  TensorIndex predict(TensorIndex stream);
  void heads_forward(TensorIndex stream);
  TensorIndex heads_backward();
  TensorIndex predictions_backward(TensorIndex& joined, bool recompute);

  const StageShards& shards_;
  const StageContent& content_;
  StageTensors& t_;
  PassWriter& pass_;
  PassWriter& weights_;
  StageWriter own_, encoder_;
  EncoderOutput encoded_;
};

}  // namespace stepcast
