// SPDX-License-Identifier: Apache-2.0
#include "model/stage_flow.h"

#include <algorithm>
#include <utility>

namespace stepcast {
namespace {

Plan plan_of_encoder(const Transformer& model, const Plan& plan) {
  Plan own = plan;
  if (model.encoder_layers > 0 && plan.encoder_seq > 0) own.seq = plan.encoder_seq;
  return own;
}

// Residual streams of so many tokens.
Bytes stream_bytes(const Shard& shard, int64_t streams) {
  return shard.bytes(streams * shard.own_tokens, shard.hidden);
}

}  // namespace

StageShards::StageShards(const Transformer& model, const Plan& plan)
    : encoder_plan(plan_of_encoder(model, plan)), own(model, plan), encoder(model, encoder_plan) {}

Bytes received_bytes(const StageShards& shards, const StageContent& content) {
  if (content.encodes) return stream_bytes(shards.encoder, 1);
  Bytes bytes = stream_bytes(shards.own, 1 + content.predicted);
  if (content.encoded) bytes += stream_bytes(shards.encoder, 1);
  return bytes;
}

int64_t first_decoder_layer(const StageContent& content) {
  const auto it = std::find_if(content.kinds.begin(), content.kinds.end(),
                               [](const LayerKind& kind) { return kind.cross; });
  return it == content.kinds.end() ? content.layers : it - content.kinds.begin();
}

StageFlow::StageFlow(const StageShards& shards, const StageContent& content, StageTensors& tensors,
                     PassWriter& pass, PassWriter& weights, const StageBuckets& buckets)
    : shards_(shards),
      content_(content),
      t_(tensors),
      pass_(pass),
      weights_(weights),
      own_(shards.own, pass, weights, buckets),
      encoder_(shards.encoder, pass, weights, buckets),
      encoded_{.shard = shards.encoder} {
  encoded_.tensor = t_.encoded;
  own_.attend_to(&encoded_);
}

StageFlow::StageFlow(const StageShards& shards, const StageContent& content, StageTensors& tensors,
                     PassWriter& pass)
    : StageFlow(shards, content, tensors, pass, pass, {}) {}

StageWriter& StageFlow::begin_layer(int64_t i) {
  const LayerKind kind = content_.kinds.empty() ? layer_kind(shards_.own.model, 0)
                                                : content_.kinds[static_cast<size_t>(i)];
  const bool encodes = content_.encodes && i < first_decoder_layer(content_);
  StageWriter& writer = encodes ? encoder_ : own_;
  writer.set_layer(static_cast<int>(i), kind);
  return writer;
}

StageWriter& StageFlow::begin_prediction(int64_t i) {
  own_.set_layer(static_cast<int>(content_.layers + i), prediction_kind(shards_.own.model));
  return own_;
}

StageWriter& StageFlow::outside_layers() {
  own_.set_layer(-1);
  return own_;
}

bool StageFlow::recomputes_predictions(const Plan& plan) {
  // Megatron-LM leaves them alone with the method "block".
  return plan.recompute == Recompute::full && plan.recompute_method == RecomputeMethod::uniform;
}

Bytes StageFlow::handed_on() const {
  const bool encodes = content_.encodes && !content_.decoder_begins;
  return stream_bytes(encodes ? shards_.encoder : shards_.own, encodes ? 1 : streams());
}

// ----------------------------------------------------------------------------------------- forward
TensorIndex StageFlow::begin_forward() {
  if (content_.embedding) {
    return (content_.encodes ? encoder_ : own_).embedding_forward(t_.embedding);
  }
  const Shard& shard = content_.encodes ? shards_.encoder : shards_.own;
  const TensorIndex stream = pass_.allocate(
      "residual stream", stream_bytes(shard, 1 + content_.predicted), MemoryCategory::activations);
  if (content_.encoded) {
    t_.encoded = pass_.allocate("encoder output", stream_bytes(shards_.encoder, 1),
                                MemoryCategory::activations);
    encoded_.tensor = t_.encoded;
  }
  return stream;
}

TensorIndex StageFlow::before_layer(int64_t i, TensorIndex stream) {
  if (!content_.decoder_begins || i != first_decoder_layer(content_)) return stream;
  encoded_.tensor = t_.encoded = stream;
  return outside_layers().embedding_forward(t_.decoder_embedding);
}

TensorIndex StageFlow::after_layer(int64_t i, TensorIndex stream) {
  if (!content_.encoder_ends || i + 1 != first_decoder_layer(content_)) return stream;
  t_.encoder_end.input = stream;
  encoder_.set_layer(-1);
  encoder_.final_norm_forward("encoder norm", t_.encoder_end);
  return std::exchange(t_.encoder_end.norm_output, kNoTensor);
}

void StageFlow::end_forward(TensorIndex stream) {
  outside_layers();
  if (content_.predictions > 0) stream = predict(stream);
  if (content_.head) return heads_forward(stream);
  // The output leaves with the transfer and is freed here (Megatron's
  // deallocate_pipeline_outputs).
  pass_.free(stream);
}

// The modules, the first of the model's after the final norm; returns all streams as one tensor.
TensorIndex StageFlow::predict(TensorIndex stream) {
  TensorIndex last = kNoTensor;
  if (content_.predicted > 0) {
    t_.received_streams = stream;
  } else {
    t_.head.input = stream;
    own_.final_norm_forward("final norm", t_.head);
    last = std::exchange(t_.head.norm_output, kNoTensor);
  }
  const ForwardMode mode =
      recomputes_predictions(shards_.own.plan) ? ForwardMode::discard : ForwardMode::keep;
  for (int64_t i = 0; i < content_.predictions; ++i) {
    PredictionTensors& module = t_.predictions.emplace_back();
    module.previous = last;
    last = begin_prediction(i).prediction_forward(module, mode);
  }
  outside_layers();
  const Bytes all = stream_bytes(shards_.own, streams());
  pass_.compute("mtp streams concatenation", shards_.own.memory_bound(Kernel::copy, all * 2));
  const TensorIndex joined =
      pass_.allocate("streams of all predictions", all, MemoryCategory::activations);
  pass_.free(last);
  return joined;
}

void StageFlow::heads_forward(TensorIndex stream) {
  if (streams() > 1) {
    t_.streams = stream;
    t_.prediction_heads.resize(static_cast<size_t>(streams() - 1));
    for (HeadTensors& head : t_.prediction_heads) own_.loss_forward(head);
  } else if (shards_.own.model.embedding_norm) {
    t_.head.norm_output = stream;
  } else {
    t_.head.input = stream;
    own_.final_norm_forward("final norm", t_.head);
  }
  own_.loss_forward(t_.head);
}

// ---------------------------------------------------------------------------------------- backward
TensorIndex StageFlow::begin_backward(bool recompute) {
  outside_layers();
  if (hands_on_encoded()) {
    encoded_.gradient = pass_.allocate("encoder output gradient", stream_bytes(shards_.encoder, 1),
                                       MemoryCategory::workspace);  // received
  }
  TensorIndex gradient =
      content_.head ? heads_backward()
                    : pass_.allocate("output gradient", handed_on(), MemoryCategory::workspace);
  if (content_.predictions > 0) gradient = predictions_backward(gradient, recompute);
  return gradient;
}

TensorIndex StageFlow::heads_backward() {
  const Transformer& model = shards_.own.model;
  const bool shares =
      model.tied && (content_.embedding || content_.predictions > 0 || content_.decoder_begins);
  if (streams() == 1) {
    const TensorIndex gradient = own_.loss_backward(t_.head, shares);
    if (!model.embedding_norm) own_.final_norm_backward("final norm", t_.head);
    return gradient;
  }
  std::vector<TensorIndex> parts{own_.loss_backward(t_.head, true)};
  for (HeadTensors& head : t_.prediction_heads) {
    const bool last = &head == &t_.prediction_heads.back();
    parts.push_back(own_.loss_backward(head, shares || !last));
  }
  const Bytes all = stream_bytes(shards_.own, streams());
  pass_.compute("mtp stream gradients concatenation",
                shards_.own.memory_bound(Kernel::copy, all * 2));
  const TensorIndex joined =
      pass_.allocate("gradients of all predictions", all, MemoryCategory::workspace);
  for (TensorIndex& part : parts) pass_.free(part);
  weights_.free(t_.streams);
  return joined;
}

TensorIndex StageFlow::predictions_backward(TensorIndex& joined, bool recompute) {
  const Shard& s = shards_.own;
  const Bytes own = stream_bytes(s, 1);
  const Recompute what = recompute ? s.plan.recompute : Recompute::none;
  TensorIndex later = kNoTensor;  // gradient of a stream by the module after it
  // What a module gets: its part of the joined gradients, and what the next one adds.
  const auto own_gradient = [&](const char* label) {
    pass_.compute(label, s.memory_bound(later == kNoTensor ? Kernel::copy : Kernel::add,
                                        own * (later == kNoTensor ? 2 : 3)));
    const TensorIndex gradient = pass_.allocate(label, own, MemoryCategory::workspace);
    pass_.free(later);
    return gradient;
  };
  for (auto i = static_cast<size_t>(content_.predictions); i-- > 0;) {
    TensorIndex gradient = own_gradient("mtp gradient");
    StageWriter& writer = begin_prediction(static_cast<int64_t>(i));
    later = writer.prediction_backward(
        t_.predictions[i], gradient,
        {.recompute = what == Recompute::full && recomputes_predictions(s.plan),
         .recompute_core = what == Recompute::selective && s.plan.recompute_modules.core_attention,
         .more = i > 0 || content_.embedding});
    outside_layers();
  }
  if (content_.predicted > 0) {  // the last of the received streams has a gradient from here too
    const Bytes received = stream_bytes(s, 1 + content_.predicted);
    pass_.compute("gradients of received streams", s.memory_bound(Kernel::add, received * 2 + own));
    const TensorIndex gradient =
        pass_.allocate("gradients of received streams", received, MemoryCategory::workspace);
    pass_.free(joined);
    pass_.free(later);
    pass_.free(t_.received_streams);
    return gradient;
  }
  const TensorIndex gradient = own_gradient("residual gradient");
  pass_.free(joined);
  own_.final_norm_backward("final norm", t_.head);
  return gradient;
}

void StageFlow::before_backward(int64_t i) {
  if (!content_.encoder_ends || i + 1 != first_decoder_layer(content_)) return;
  encoder_.set_layer(-1);
  encoder_.final_norm_backward("encoder norm", t_.encoder_end);
}

void StageFlow::after_backward(int64_t i, TensorIndex& gradient) {
  if (!content_.decoder_begins || i != first_decoder_layer(content_)) return;
  outside_layers().embedding_backward(t_.decoder_embedding, gradient);
  own_.flush_gradients();
  weights_.free(t_.encoded);
  gradient = std::exchange(encoded_.gradient, kNoTensor);
}

void StageFlow::embed_backward(TensorIndex& gradient) {
  outside_layers();
  encoder_.set_layer(-1);
  if (content_.embedding) {
    (content_.encodes ? encoder_ : own_).embedding_backward(t_.embedding, gradient);
  }
}

void StageFlow::end_backward(TensorIndex& gradient) {
  pass_.free(gradient);
  if (content_.encoded) {
    if (encoded_.gradient == kNoTensor) {  // no layer of this stage read it
      encoded_.gradient = pass_.allocate(
          "encoder output gradient", stream_bytes(shards_.encoder, 1), MemoryCategory::workspace);
    }
    pass_.free(encoded_.gradient);
    weights_.free(t_.encoded);
  }
}

void StageFlow::flush_gradients() {
  own_.flush_gradients();
  if (content_.encodes) encoder_.flush_gradients();
}

}  // namespace stepcast
