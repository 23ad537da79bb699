// SPDX-License-Identifier: Apache-2.0
// Writes the passes of one stage: what it receives or embeds, its layers (layers/layers.h), what
// comes between an encoder and a decoder, prediction modules, heads and losses, what it hands on.
//
// The passes of a stage share a table of tensors.  A forward leaves in StageTensors what the
// backward needs; every version of the backward (whole, split, the last one, after a
// recomputation) is written from a copy of them.  For a stage of two layers under full
// recomputation of one layer at a time, for example:
//
//   forward    layer 0 and layer 1 in ForwardMode::discard: only their inputs stay
//   backward   layer 1 in ForwardMode::recompute, its backward; the same of layer 0
//
// Around the layers parameters are gathered (sharding.h) and activations go to the host and come
// back (activation_offload.h).
#include "model/passes/stage_passes.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "model/layers/layers.h"
#include "model/passes/activation_offload.h"
#include "model/passes/forward_only.h"
#include "model/passes/sharding.h"
#include "sim/check.h"

namespace stepcast {
namespace {

// Tensors that the forward pass of a stage hands to its backward pass.
struct StageTensors {
  std::vector<SavedLayer> layers;
  TensorIndex embedded_rows = kNoTensor;  // with Plan::vocabulary, before the forward begins
  SavedEmbedding embedding, decoder_embedding;
  SavedFinalNorm encoder_end;       // the norm after the encoder
  TensorIndex encoded = kNoTensor;  // the encoder's output
  SavedFinalNorm final_norm;
  SavedHead head;  // of the main stream
  std::vector<SavedPrediction> predictions;
  std::vector<SavedHead> prediction_heads;
  HeldUnits held;
  OffloadedLayers offloaded;
  TensorIndex teacher = kNoTensor;           // its logits
  TensorIndex received_streams = kNoTensor;  // that a module of this stage reads the last of
  TensorIndex streams = kNoTensor;  // the main stream and those of the modules, one after the other
  TensorIndex choice = kNoTensor;   // received_choice()
  SavedStreams end_streams;         // several residual streams, and their sum before the last norm
  TensorIndex end_row = kNoTensor;

  TensorIndex& input_of(int64_t layer) {
    return layers[static_cast<size_t>(layer)].attention.input;
  }
};

// The shapes of a stage's layers, those of an encoder apart.
struct StageShards {
  StageShards(const Transformer& model, const Plan& plan)
      : layers(model, plan), own(layers.own()), encoder(model, plan, encoder_tokens(model, plan)) {}
  StageShards(const StageShards&) = delete;
  StageShards& operator=(const StageShards&) = delete;

  const LayerShards layers;
  const Shard& own;  // outside the layers
  const Shard encoder;

 private:
  static int64_t encoder_tokens(const Transformer& model, const Plan& plan) {
    return model.encoder_layers > 0 && plan.encoder_seq > 0 ? plan.encoder_seq : plan.seq;
  }
};

// What is handed on of a microbatch: its residual stream, or several of them, as many times.
Bytes stream_bytes(const Shard& shard, int64_t times) {
  return shard.bytes(times * shard.own_tokens, shard.model.streams * shard.hidden);
}

// The layer of the stage with which the decoder begins or goes on; the number of layers if the
// stage has none of the decoder.
int64_t first_decoder_layer(const StageContent& content) {
  const auto it = std::find_if(content.kinds.begin(), content.kinds.end(),
                               [](const LayerKind& kind) { return kind.cross; });
  return it == content.kinds.end() ? content.layers : it - content.kinds.begin();
}

// What is left of the gradients of a unit of layers is reduced (ZeRO-3).
void end_unit(const LayerContext& c) {
  reduce_pending(c.buckets.layers, c.shard, c.weights);
  reduce_pending(c.buckets.experts, c.shard, c.weights);
}

// ... of the last buckets, at the end of a pass, which adds what has waited for it to the main
// gradients.
void flush(const LayerContext& c) {
  for (TensorIndex& gradient : c.buckets.unadded) c.weights.free(gradient);
  c.buckets.unadded.clear();
  reduce_rest(c.buckets.layers, c.shard, c.weights);
  reduce_rest(c.buckets.experts, c.shard, c.weights);
  if (c.buckets.ends_apart) reduce_rest(c.buckets.ends, c.shard, c.weights);
}

// ------------------------------------------------------------------------------- stream of a pass

// The residual stream through one pass of a stage, or its gradient back: what happens before,
// between and after the layers.
class StageFlow {
 public:
  // A forward or R.
  StageFlow(const StageShards& shards, const StageContent& content, StageTensors& tensors,
            PassWriter& pass)
      : StageFlow(shards, content, tensors, pass, pass, {}) {}
  // A backward; weight gradients go to `weights`, which may be `pass`.
  StageFlow(const StageShards& shards, const StageContent& content, StageTensors& tensors,
            PassWriter& pass, PassWriter& weights, const StageBuckets& buckets)
      : shards_(shards),
        content_(content),
        t_(tensors),
        pass_(pass),
        weights_(weights),
        own_buckets_(buckets),
        encoder_buckets_(buckets),
        encoded_{.shard = shards.encoder, .tensor = tensors.encoded},
        own_{shards.own, pass, weights, own_buckets_, &encoded_},
        encoder_{shards.encoder, pass, weights, encoder_buckets_} {}
  StageFlow(const StageFlow&) = delete;
  StageFlow& operator=(const StageFlow&) = delete;

  // Begins layer `i`, prediction module `i` (whose layer comes after the stage's own), or what
  // belongs to no layer.
  LayerContext layer(int64_t i) const;
  LayerContext prediction(int64_t i) const;
  LayerContext outside_layers() const { return own_.outside_layers(); }

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
  TensorIndex final_norm(TensorIndex stream);
  TensorIndex predict(TensorIndex stream);
  void heads_forward(TensorIndex stream);
  TensorIndex heads_backward();
  TensorIndex predictions_backward(TensorIndex& joined, bool recompute);

  const StageShards& shards_;
  const StageContent& content_;
  StageTensors& t_;
  PassWriter& pass_;
  PassWriter& weights_;
  StageBuckets own_buckets_, encoder_buckets_;
  EncoderOutput encoded_;
  const LayerContext own_, encoder_;  // outside the layers
};

LayerContext StageFlow::layer(int64_t i) const {
  const LayerKind kind = content_.kinds.empty() ? layer_kind(shards_.own.model, 0)
                                                : content_.kinds[static_cast<size_t>(i)];
  const bool encodes = content_.encodes && i < first_decoder_layer(content_);
  if (encodes) return encoder_.layer(static_cast<int>(i), kind);
  return own_.with(shards_.layers.of(kind)).layer(static_cast<int>(i), kind);
}

LayerContext StageFlow::prediction(int64_t i) const {
  const LayerKind kind = prediction_kind(shards_.own.model);
  return own_.with(shards_.layers.of(kind)).layer(static_cast<int>(content_.layers + i), kind);
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
    const LayerContext& c = content_.encodes ? encoder_ : own_;
    const Forward<SavedEmbedding> embedding = embedding_forward(c, t_.embedded_rows);
    t_.embedding = embedding.saved;
    return has_streams(c) ? spread_streams(c, embedding.output) : embedding.output;
  }
  const Shard& shard = content_.encodes ? shards_.encoder : shards_.own;
  const TensorIndex stream = pass_.allocate(
      "residual stream", stream_bytes(shard, 1 + content_.predicted), MemoryCategory::activations);
  if (const Bytes choice = received_choice(shard.model, shard.plan, content_); choice.value > 0)
    t_.choice = pass_.allocate("chosen keys", choice, MemoryCategory::activations);
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
  const Forward<SavedEmbedding> embedding = embedding_forward(outside_layers());
  t_.decoder_embedding = embedding.saved;
  return embedding.output;
}

TensorIndex StageFlow::after_layer(int64_t i, TensorIndex stream) {
  if (!content_.encoder_ends || i + 1 != first_decoder_layer(content_)) return stream;
  const Forward<SavedFinalNorm> norm =
      final_norm_forward(encoder_.outside_layers(), "encoder norm", stream);
  t_.encoder_end = norm.saved;
  return norm.output;
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
    last = final_norm(stream);
  }
  const ForwardMode mode =
      recomputes_predictions(shards_.own.plan) ? ForwardMode::discard : ForwardMode::keep;
  for (int64_t i = 0; i < content_.predictions; ++i) {
    const Forward<SavedPrediction> module = prediction_forward(prediction(i), mode, last);
    t_.predictions.push_back(module.saved);
    last = module.output;
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
    for (int64_t i = 1; i < streams(); ++i)
      t_.prediction_heads.push_back(loss_forward(own_, kNoTensor));
    t_.head = loss_forward(own_, kNoTensor);
    return;
  }
  t_.head = loss_forward(own_, shards_.own.model.embedding_norm ? stream : final_norm(stream));
}

TensorIndex StageFlow::final_norm(TensorIndex stream) {
  if (has_streams(own_)) {
    t_.end_row = std::exchange(stream, kNoTensor);
    join_streams(own_, t_.end_streams);
  }
  const Forward<SavedFinalNorm> norm = final_norm_forward(own_, "final norm", stream);
  t_.final_norm = norm.saved;
  return norm.output;
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
    TensorIndex gradient = loss_backward(own_, t_.head, shares);
    if (!model.embedding_norm) final_norm_backward(own_, "final norm", t_.final_norm);
    if (has_streams(own_)) join_streams_backward(own_, gradient, t_.end_streams, t_.end_row);
    return gradient;
  }
  std::vector<TensorIndex> parts{loss_backward(own_, t_.head, true)};
  for (SavedHead& head : t_.prediction_heads) {
    const bool last = &head == &t_.prediction_heads.back();
    parts.push_back(loss_backward(own_, head, shares || !last));
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
    later = prediction_backward(
        prediction(static_cast<int64_t>(i)), t_.predictions[i], gradient,
        {.recompute = what == Recompute::full && recomputes_predictions(s.plan),
         .recompute_cores = what == Recompute::selective && s.plan.recompute_modules.core_attention,
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
  final_norm_backward(own_, "final norm", t_.final_norm);
  return gradient;
}

void StageFlow::before_backward(int64_t i) {
  if (!content_.encoder_ends || i + 1 != first_decoder_layer(content_)) return;
  final_norm_backward(encoder_.outside_layers(), "encoder norm", t_.encoder_end);
}

void StageFlow::after_backward(int64_t i, TensorIndex& gradient) {
  if (!content_.decoder_begins || i != first_decoder_layer(content_)) return;
  embedding_backward(outside_layers(), t_.decoder_embedding, gradient);
  flush(own_);
  weights_.free(t_.encoded);
  gradient = std::exchange(encoded_.gradient, kNoTensor);
}

void StageFlow::embed_backward(TensorIndex& gradient) {
  outside_layers();
  if (content_.embedding && has_streams(own_)) spread_streams_backward(own_, gradient);
  if (content_.embedding)
    embedding_backward(content_.encodes ? encoder_ : own_, t_.embedding, gradient);
}

void StageFlow::end_backward(TensorIndex& gradient) {
  pass_.free(gradient);
  pass_.free(t_.choice);
  pass_.free(t_.head.logits);
  for (SavedHead& head : t_.prediction_heads) pass_.free(head.logits);
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
  flush(own_);
  if (content_.encodes) flush(encoder_);
}

// ------------------------------------------------------------------------------------------ passes

// Layers that are checkpointed together: [begin, end); `recomputed` false = an ordinary layer.
struct Unit {
  int64_t begin = 0, end = 0;
  bool recomputed = false;
};

// An encoder and a decoder are checkpointed apart.
std::vector<Unit> units_of(const Plan& plan, const StageContent& content) {
  std::vector<Unit> units;
  const int64_t layers = content.layers, decoder = first_decoder_layer(content);
  const bool per_op = plan.recompute == Recompute::per_op;  // each layer is wrapped
  const bool full = plan.recompute == Recompute::full;
  const bool block = plan.recompute_method == RecomputeMethod::block;
  const int64_t size = full && !block ? std::max<int64_t>(1, plan.recompute_layers) : 1;
  for (int64_t begin = 0; begin < layers; begin = units.back().end) {
    const int64_t end = std::min(begin < decoder ? decoder : layers, begin + size);
    units.push_back({begin, end, per_op || (full && (!block || begin < plan.recompute_layers))});
  }
  return units;
}

std::string title(const char* what, const StageContent& content) {
  std::string text(what);
  if (content.embedding) text += ", embedding";
  text += fmt::format(", {} {}", content.layers, content.layers == 1 ? "layer" : "layers");
  if (content.predictions > 0) text += fmt::format(", {} mtp", content.predictions);
  if (content.head) text += ", head";
  return text;
}

// An op that moves nothing, for stages without work (a stage may hold the embedding of another
// stage only).
void write_nothing(const Shard& shard, PassWriter& pass) {
  pass.compute("pass through", shard.memory_bound(Kernel::none, {}));
}

// What the passes of one stage have in common.
struct Stage {
  GraphBuilder& builder;
  const StageShards& shards;
  const StageContent& content;
  TensorTableId table;

  PassWriter pass(const char* what) const { return {builder, title(what, content), table}; }
  const Plan& plan() const { return shards.own.plan; }
};

PassId write_forward(const Stage& s, StageTensors& t) {
  PassWriter pass = s.pass("forward");
  StageFlow flow(s.shards, s.content, t, pass);
  pass.set_phase(Phase::forward);
  UnitGathers gathers(s.shards.own, s.content, pass, t.held, UnitGathers::Direction::forward);
  ActivationOffload offload(s.plan(), pass, t.offloaded);
  gathers.need_ends();
  t.teacher = write_teacher(s.plan(), pass);
  TensorIndex stream = flow.begin_forward();
  t.layers.resize(static_cast<size_t>(s.content.layers));
  for (const Unit& unit : units_of(s.plan(), s.content)) {
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      stream = flow.before_layer(i, stream);
      const LayerContext c = flow.layer(i);
      gathers.need_layer(i);
      const ForwardMode mode = unit.recomputed ? ForwardMode::discard : ForwardMode::keep;
      offload.begin_layer();
      const Forward<SavedLayer> layer = layer_forward(c, mode, stream);
      t.layers[static_cast<size_t>(i)] = layer.saved;
      stream = layer.output;
      TensorIndex& input = t.layers[static_cast<size_t>(i)].attention.input;
      if (unit.recomputed && i > unit.begin) pass.free(input);
      gathers.end_layer(i);  // before the copy: what an op of Stream::copy frees, it frees later
      offload.end_layer(i, input, stream);
      stream = flow.after_layer(i, stream);
    }
    if (unit.recomputed) split_checkpoint(flow.layer(unit.begin), t.input_of(unit.begin));
  }
  // Input, weight and output of four linear layers.
  update_scales(flow.outside_layers(), s.content.layers, 3 * 4);
  if (pass.empty() && !s.content.head) write_nothing(s.shards.own, pass);
  flow.end_forward(stream);
  write_distillation_loss(s.shards.own, t.teacher, pass);
  offload.end_forward();
  gathers.finish();
  return pass.finish();
}

// The forward of a checkpointed unit once more.
void recompute_unit(StageFlow& flow, PassWriter& pass, UnitGathers& gathers, const Unit& unit,
                    StageTensors& t) {
  pass.set_phase(Phase::recompute);
  gather_checkpoint(flow.layer(unit.begin), t.input_of(unit.begin));
  for (int64_t i = unit.begin; i < unit.end; ++i) {
    const LayerContext c = flow.layer(i);
    gathers.need_layer(i);
    SavedLayer& kept = t.layers[static_cast<size_t>(i)];
    const Forward<SavedLayer> layer =
        layer_forward(c, ForwardMode::recompute, kept.attention.input, kept);
    kept = layer.saved;
    TensorIndex out = layer.output;
    if (i + 1 < unit.end) {
      t.input_of(i + 1) = out;
    } else {
      pass.free(out);
    }
  }
  for (int64_t i = unit.begin; i < unit.end; ++i) gathers.end_recompute(i);
}

// R of prediction modules.
void recompute_predictions(const Stage& s, StageFlow& flow, StageTensors& t) {
  for (size_t i = 0; i < t.predictions.size(); ++i) {
    const LayerContext c = flow.prediction(static_cast<int64_t>(i));
    if (StageFlow::recomputes_predictions(s.plan())) recompute_prediction(c, t.predictions[i]);
    if (s.plan().recompute == Recompute::selective) recompute_selected(c, t.predictions[i].layer);
  }
}

// R.  Afterwards `t` is what a backward finds that has nothing to recompute.
PassId write_recompute(const Stage& s, StageTensors& t) {
  PassWriter pass = s.pass("recompute");
  StageFlow flow(s.shards, s.content, t, pass);
  pass.set_phase(Phase::recompute);
  UnitGathers gathers(s.shards.own, s.content, pass, t.held, UnitGathers::Direction::recompute);
  ActivationOffload offload(s.plan(), pass, t.offloaded);
  for (int64_t i = s.content.layers; i-- > 0;) offload.need(i);
  t.offloaded.clear();
  for (const Unit& unit : units_of(s.plan(), s.content)) {
    if (unit.recomputed) recompute_unit(flow, pass, gathers, unit, t);
    if (unit.recomputed)
      for (int64_t i = unit.begin; i < unit.end; ++i) gathers.end_layer(i);
    if (s.plan().recompute != Recompute::selective) continue;
    for (int64_t i = unit.begin; i < unit.end; ++i) {
      recompute_selected(flow.layer(i), t.layers[static_cast<size_t>(i)]);
    }
  }
  recompute_predictions(s, flow, t);
  flow.outside_layers();
  if (pass.empty()) write_nothing(s.shards.own, pass);
  return pass.finish();
}

// The whole backward: into `pass` alone, or its weight gradients into `weights`.
void write_backward_ops(const Stage& s, PassWriter& pass, PassWriter& weights, StageTensors t,
                        bool recompute, const StageBuckets& buckets) {
  StageFlow flow(s.shards, s.content, t, pass, weights, buckets);
  pass.set_phase(Phase::backward_input);
  UnitGathers gathers(s.shards.own, s.content, pass, t.held, UnitGathers::Direction::backward);
  ActivationOffload offload(s.plan(), pass, t.offloaded);
  offload.fetch(s.content.layers - 1);
  gathers.start();
  gathers.need_ends();
  write_distillation_gradient(s.shards.own, t.teacher, pass);
  TensorIndex gradient = flow.begin_backward(recompute);
  const bool recompute_cores = recompute && s.plan().recompute == Recompute::selective &&
                               s.plan().recompute_modules.core_attention;
  const std::vector<Unit> units = units_of(s.plan(), s.content);
  for (auto unit = units.rbegin(); unit != units.rend(); ++unit) {
    for (int64_t i = unit->end; i-- > unit->begin;) offload.need(i);
    if (recompute && unit->recomputed) recompute_unit(flow, pass, gathers, *unit, t);
    for (int64_t i = unit->end; i-- > unit->begin;) {
      flow.before_backward(i);
      const LayerContext c = flow.layer(i);
      gathers.need_layer(i);
      layer_backward(c, t.layers[static_cast<size_t>(i)], gradient, recompute_cores);
      if (gathers.end_layer(i)) end_unit(c);
      flow.after_backward(i, gradient);
    }
  }
  // Gradients of output and input.
  update_scales(flow.outside_layers(), s.content.layers, 2 * 4);
  flow.embed_backward(gradient);
  if (pass.empty()) write_nothing(s.shards.own, pass);
  flow.end_backward(gradient);
  gathers.finish();
  flow.flush_gradients();
  if (weights.empty()) write_nothing(s.shards.own, weights);
}

struct Backward {
  PassId whole = kNoPass, last_whole = kNoPass;
  PassId input = kNoPass, weight = kNoPass, last_weight = kNoPass;
};

// `recompute`: what the forward left out is recomputed here; else R has done it.
Backward write_backward(const Stage& s, const StageTensors& t, bool recompute, bool split) {
  Backward out;
  const StageBuckets usual = stage_buckets(s.shards.own.model, s.plan(), false);
  const StageBuckets buckets = stage_buckets(s.shards.own.model, s.plan(), true);
  const auto whole = [&](const StageBuckets& reduced) {
    PassWriter pass = s.pass("backward");
    write_backward_ops(s, pass, pass, t, recompute, reduced);
    return pass.finish();
  };
  const bool last_differs = !usual.same_as(buckets);
  out.whole = whole(usual);
  out.last_whole = last_differs ? whole(buckets) : out.whole;
  if (!split) return out;

  const auto tables = [&]() -> const auto& {
    return s.builder.graph().tensor_tables;
  };
  auto first = static_cast<TensorIndex>(tables()[static_cast<size_t>(s.table)].size());
  PassWriter input = s.pass("input gradient");
  PassWriter weight = s.pass("weight gradient");
  write_backward_ops(s, input, weight, t, recompute, usual);
  out.input = input.finish();
  out.weight = out.last_weight = weight.finish();
  if (last_differs) {
    // The last W frees what I left, so it is written against the tensors of that I.
    PassWriter same_input = s.pass("input gradient");
    PassWriter last = s.pass("weight gradient");
    same_input.reuse_tensors(first);
    last.reuse_tensors(first);
    write_backward_ops(s, same_input, last, t, recompute, buckets);
    out.last_weight = last.finish();
  }
  return out;
}

// O and L of what a forward pass leaves behind.
void write_offload(const Stage& s, StagePasses& out) {
  const OpGraph& graph = s.builder.graph();
  const std::vector<Tensor>& tensors = graph.tensor_tables[static_cast<size_t>(s.table)];
  std::set<TensorIndex> kept;
  for (const MemoryEvent& e : graph.passes[static_cast<size_t>(out.forward)].memory) {
    if (e.allocate) {
      kept.insert(e.tensor);
    } else {
      kept.erase(e.tensor);
    }
  }
  Work copy;
  copy.kind = WorkKind::host_copy;
  std::erase_if(kept, [&](TensorIndex tensor) {  // they stay where they are
    return tensors[tensor].category == MemoryCategory::parameters;
  });
  for (TensorIndex tensor : kept) copy.bytes += tensors[tensor].bytes;
  PassWriter offload = s.pass("offload");
  offload.set_phase(Phase::forward);
  offload.communicate(Stream::copy, "offload", copy);
  PassWriter reload = s.pass("reload");
  reload.set_phase(Phase::backward_input);
  reload.communicate(Stream::copy, "reload", copy);
  for (TensorIndex tensor : kept) {
    TensorIndex freed = tensor;
    offload.free(freed);
    reload.allocate_again(tensor);
  }
  out.offload = offload.finish();
  out.reload = reload.finish();
}

// ------------------------------------------------------------------------------- shared vocabulary
// With Plan::vocabulary each rank holds a share of the words, and has passes for it in every
// microbatch (Yeung et al. 2025, arXiv 2411.05288, sections 4 and 5).

// One of these passes: `write` appends its ops.
PassId write_vocabulary_pass(const Stage& s, const char* name, Phase phase,
                             const std::function<void(const LayerContext&)>& write) {
  PassWriter pass(s.builder, name, s.table);
  StageBuckets buckets;
  pass.set_phase(phase);
  const LayerContext c{s.shards.own, pass, pass, buckets};
  write(c);
  flush(c);
  return pass.finish();
}

// E, which comes before the stage's forward.
PassId write_embedding_rows(const Stage& s, StageTensors& t) {
  return write_vocabulary_pass(s, "embedding", Phase::forward, [&](const LayerContext& c) {
    TensorIndex rows = embedding_rows(c);
    if (s.content.embedding) {
      t.embedded_rows = rows;
    } else {
      c.pass.free(rows);
    }
  });
}

// S, T and G, between the stage's forward and its backward: in the last stage S reads what the
// forward leaves, and the backward begins with the gradient that S or T made.
void write_vocabulary_passes(const Stage& s, StageTensors& t, StagePasses& passes) {
  const bool last = s.content.head;
  passes.vocabulary_forward =
      write_vocabulary_pass(s, "head", Phase::forward,
                            [&](const LayerContext& c) { vocabulary_forward(c, t.head, !last); });
  passes.vocabulary_backward =
      write_vocabulary_pass(s, "head gradients", Phase::backward_input, [&](const LayerContext& c) {
        vocabulary_backward(c, t.head);
        // Where the last stage is not, the gradient has gone into the sum.
        if (!last) c.pass.free(t.head.gradient);
      });
  passes.embedding_backward = write_vocabulary_pass(s, "embedding gradient", Phase::backward_weight,
                                                    vocabulary_embedding_backward);
}

}  // namespace

StagePasses add_stage_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                             const StageContent& content, const PassChoice& choice) {
  if (!plan.trains()) return add_inference_passes(builder, model, plan, content);
  const StageShards shards(model, plan);
  OpGraph& graph = builder.graph();
  const Stage stage{builder, shards, content,
                    static_cast<TensorTableId>(graph.tensor_tables.size())};
  graph.tensor_tables.emplace_back();
  StageTensors tensors;
  StagePasses out;
  if (plan.splits_vocabulary()) out.embedding_forward = write_embedding_rows(stage, tensors);
  out.forward = write_forward(stage, tensors);
  if (plan.splits_vocabulary()) write_vocabulary_passes(stage, tensors, out);
  const Backward plain = write_backward(stage, tensors, true, choice.split);
  out.backward = plain.whole;
  out.last_backward = plain.last_whole;
  out.input_gradient = plain.input;
  out.weight_gradient = plain.weight;
  out.last_weight_gradient = plain.last_weight;
  if (choice.recompute) {
    out.recompute = write_recompute(stage, tensors);
    const Backward after = write_backward(stage, tensors, false, choice.split);
    out.backward_after_recompute = after.whole;
    out.last_backward_after_recompute = after.last_whole;
    out.input_gradient_after_recompute = after.input;
    out.weight_gradient_after_recompute = after.weight;
    out.last_weight_gradient_after_recompute = after.last_weight;
  }
  if (choice.offload) write_offload(stage, out);
  return out;
}

PassId pass_of(const StagePasses& p, ActionKind kind, bool last, bool recomputed) {
  const auto either = [&](PassId plain, PassId after) { return recomputed ? after : plain; };
  PassId pass = kNoPass;
  switch (kind) {
    case ActionKind::forward: pass = p.forward; break;
    case ActionKind::backward:
      pass = last ? either(p.last_backward, p.last_backward_after_recompute)
                  : either(p.backward, p.backward_after_recompute);
      break;
    case ActionKind::backward_input:
      pass = either(p.input_gradient, p.input_gradient_after_recompute);
      break;
    case ActionKind::backward_weight:
      pass = last ? either(p.last_weight_gradient, p.last_weight_gradient_after_recompute)
                  : either(p.weight_gradient, p.weight_gradient_after_recompute);
      break;
    case ActionKind::recompute: pass = p.recompute; break;
    case ActionKind::offload: pass = p.offload; break;
    case ActionKind::reload: pass = p.reload; break;
    case ActionKind::vocabulary_forward: pass = p.vocabulary_forward; break;
    case ActionKind::vocabulary_backward: pass = p.vocabulary_backward; break;
    case ActionKind::embedding_forward: pass = p.embedding_forward; break;
    case ActionKind::embedding_backward: pass = p.embedding_backward; break;
  }
  STEPCAST_CHECK(pass != kNoPass, "the pass of this action was not asked for");
  return pass;
}

Bytes received_bytes(const Transformer& model, const Plan& plan, const StageContent& content) {
  const StageShards shards(model, plan);
  if (content.encodes) return stream_bytes(shards.encoder, 1);
  Bytes bytes = stream_bytes(shards.own, 1 + content.predicted);
  if (content.encoded) bytes += stream_bytes(shards.encoder, 1);
  return bytes;
}

Bytes received_choice(const Transformer& model, const Plan& plan, const StageContent& content) {
  const bool takes = chooses_latents(model) && !content.kinds.empty() &&
                     content.kinds.front().attends() && !content.kinds.front().indexes;
  if (!takes || content.embedding) return {};
  const Shard s(model, plan);
  return s.bytes(s.tokens, std::min(model.index_topk, s.keys), DType::fp32);  // int32
}

// ----------------------------------------------------------------------------------- paired passes
namespace {

// One of the two passes, while its ops are handed out.
struct Side {
  const Pass& pass;
  bool second = false;
  std::vector<uint32_t> place{};  // op -> its index in the merged pass

  bool done() const { return place.size() == pass.ops.size(); }
};

bool exchanges_tokens(const Pass& pass) {
  return std::ranges::any_of(pass.ops, [](const Op& op) { return op.stream == Stream::ep; });
}

// Appends ops of `side` to `merged` up to and including the next ones on Stream::ep.
void take_turn(Side& side, Pass& merged) {
  bool exchanged = false;
  while (!side.done()) {
    const Op& op = side.pass.ops[side.place.size()];
    if (exchanged && op.stream != Stream::ep) return;
    exchanged = op.stream == Stream::ep;
    side.place.push_back(static_cast<uint32_t>(merged.ops.size()));
    merged.ops.push_back(op);
  }
}

// The same work; of a product or attention, with what exchanges leave of the GPU.
WorkId on_fewer_sms(GraphBuilder& builder, WorkId id, int comm_sms) {
  Work work = builder.graph().works[static_cast<size_t>(id)];
  if (work.kind > WorkKind::attention_backward) return id;
  work.comm_sms = static_cast<uint16_t>(comm_sms);
  return builder.work(work);
}

}  // namespace

PassId add_pair_pass(GraphBuilder& builder, PassId forward, PassId backward, int comm_sms) {
  OpGraph& graph = builder.graph();
  STEPCAST_CHECK(static_cast<size_t>(forward) < graph.passes.size() &&
                     static_cast<size_t>(backward) < graph.passes.size(),
                 "a pair of passes that exist");
  Side first{.pass = graph.passes[static_cast<size_t>(forward)]};
  Side second{.pass = graph.passes[static_cast<size_t>(backward)], .second = true};
  Pass merged = builder.pass(first.pass.name + " | " + second.pass.name);
  merged.tensors = first.pass.tensors;
  merged.second_tensors = second.pass.tensors;
  merged.ops.reserve(first.pass.ops.size() + second.pass.ops.size());
  const bool turns = exchanges_tokens(first.pass) || exchanges_tokens(second.pass);
  Side* side = turns ? &second : &first;
  while (!first.done() || !second.done()) {
    take_turn(*side, merged);
    side = side == &first ? &second : &first;
  }
  if (turns && comm_sms > 0) {
    for (Op& op : merged.ops) op.work = on_fewer_sms(builder, op.work, comm_sms);
  }
  std::vector<Wait> waits;
  for (const Side* s : {&first, &second}) {
    for (Wait w : s->pass.waits.all()) {
      w.op = s->place[w.op];
      w.on = s->place[w.on];
      waits.push_back(w);
    }
    for (MemoryEvent e : s->pass.memory) {
      e.op = s->place[e.op];
      e.second = s->second;
      merged.memory.push_back(e);
    }
  }
  std::ranges::stable_sort(merged.memory, [](const MemoryEvent& a, const MemoryEvent& b) {
    return a.op != b.op ? a.op < b.op : a.allocate && !b.allocate;
  });
  merged.waits = WaitGraph(static_cast<uint32_t>(merged.ops.size()), std::move(waits));
  graph.passes.push_back(std::move(merged));
  return static_cast<PassId>(graph.passes.size() - 1);
}

}  // namespace stepcast
