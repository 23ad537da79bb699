// SPDX-License-Identifier: Apache-2.0
// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2; Megatron-LM's
// MultiTokenPredictionLayer): the stream that the module before predicted from and the embedding of
// the tokens that follow are normed, laid side by side, projected to one stream, and go through a
// layer and a norm; embedding and head are the model's.
#include <string>
#include <utility>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

// Norms, concatenation and projection; returns the input of the module's layer.
TensorIndex project_streams(const LayerContext& c, ForwardMode mode, SavedPrediction& t) {
  const Shard& s = c.shard;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  const Bytes both = s.bytes(s.own_tokens, 2 * s.hidden);
  NormOutput embedded = norm_forward(c, mode, "mtp embedding norm", s.own_tokens, s.hidden);
  t.embedded_statistics = embedded.statistics;
  done_with(t.embedded_statistics);
  NormOutput previous = norm_forward(c, mode, "mtp stream norm", s.own_tokens, s.hidden);
  t.previous_statistics = previous.statistics;
  done_with(t.previous_statistics);
  c.pass.compute("mtp concatenation", s.memory_bound(Kernel::copy, both * 2));
  t.joined = c.pass.allocate("mtp streams", both, saved(mode));
  c.pass.free(embedded.output);
  c.pass.free(previous.output);

  const std::string label = "mtp projection";
  TensorIndex now = quantize_input(c, mode, label, t.joined, s.own_tokens, 2 * s.hidden);
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) gathered = gather(c, label + " all-gather", 2 * s.hidden);
  const int64_t out = s.hidden / s.plan.tp;
  product(c, c.pass, label, s.forward_gemm(s.tokens, out, 2 * s.hidden));
  const bool last = !s.split();
  TensorIndex columns = c.pass.allocate(label + " output", s.bytes(s.tokens, out),
                                        last ? saved(mode) : MemoryCategory::workspace);
  c.pass.free(gathered);
  c.pass.free(now);
  done_with(t.joined);
  if (last) return columns;
  // Columns of all ranks; with sequence parallelism each keeps its tokens of them.
  TensorIndex full = gather(c, "mtp columns all-gather", s.hidden);
  c.pass.free(columns);
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  c.pass.compute("mtp columns copy", s.memory_bound(Kernel::copy, own * 2));
  const TensorIndex stream = c.pass.allocate("residual stream", own, saved(mode));
  c.pass.free(full);
  return stream;
}

// Of both streams, [own_tokens, 2 hidden].  Frees `gradient`.
TensorIndex project_streams_backward(const LayerContext& c, SavedPrediction& t,
                                     TensorIndex& gradient) {
  const Shard& s = c.shard;
  const std::string label = "mtp projection";
  const int64_t out = s.hidden / s.plan.tp, in = 2 * s.hidden;
  if (s.sequence_split()) {
    TensorIndex full = gather(c, label + " gradient all-gather", s.hidden);
    c.pass.free(gradient);
    gradient = full;
  }
  if (s.split()) {
    const Bytes columns = s.bytes(s.tokens, out);
    c.pass.compute("mtp columns gradient copy", s.memory_bound(Kernel::copy, columns * 2));
    const TensorIndex own =
        c.pass.allocate("mtp columns gradient", columns, MemoryCategory::workspace);
    c.pass.free(gradient);
    gradient = own;
  }
  TensorIndex now = quantize_gradient(c, label, gradient, true, s.tokens, out);
  product(c, c.pass, label + " input gradient", s.input_gemm(s.tokens, out, in));
  const TensorIndex partial =
      c.pass.allocate(label + " input gradient", s.bytes(s.tokens, in), MemoryCategory::workspace);
  c.pass.free(now);
  const TensorIndex result = reduce(c, label + " input gradient", {partial}, in);
  const Phase phase = c.weights.phase();
  c.weights.set_phase(Phase::backward_weight);
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) {
    c.weights.join(start_gather(c, c.weights, label + " input all-gather", in));
    gathered = c.weights.allocate(label + " input gathered", s.bytes(s.tokens, in),
                                  MemoryCategory::communication);
  }
  c.weights.set_phase(phase);
  weight_gradient(c, label, s.weight_gemm(s.tokens, out, in));
  c.weights.free(gathered);
  c.weights.free(gradient);
  c.weights.free(t.joined);
  return result;
}

}  // namespace

Forward<SavedPrediction> prediction_forward(const LayerContext& c, ForwardMode mode,
                                            TensorIndex previous) {
  SavedPrediction t;
  t.previous = previous;
  const Forward<SavedEmbedding> embedding = embedding_forward(c);
  t.embedding = embedding.saved;
  t.embedded = embedding.output;
  const TensorIndex input = project_streams(c, mode, t);
  const Forward<SavedLayer> layer = layer_forward(c, mode, input);
  t.layer = layer.saved;
  if (mode == ForwardMode::discard) c.pass.free(t.layer.attention.input);
  const Forward<SavedFinalNorm> end = final_norm_forward(c, "mtp final norm", layer.output);
  t.end = end.saved;
  return {end.output, t};
}

void recompute_prediction(const LayerContext& c, SavedPrediction& t) {
  const ForwardMode mode = ForwardMode::recompute;
  const TensorIndex input = project_streams(c, mode, t);
  Forward<SavedLayer> layer = layer_forward(c, mode, input, t.layer);
  t.layer = layer.saved;
  c.pass.free(layer.output);
}

TensorIndex prediction_backward(const LayerContext& c, SavedPrediction& t, TensorIndex& gradient,
                                const PredictionBackward& how) {
  const Shard& s = c.shard;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  final_norm_backward(c, "mtp final norm", t.end);
  if (how.recompute) {
    c.pass.set_phase(Phase::recompute);
    recompute_prediction(c, t);
    c.pass.set_phase(Phase::backward_input);
  }
  layer_backward(c, t.layer, gradient, how.recompute_cores);
  TensorIndex both = project_streams_backward(c, t, gradient);
  norm_backward(c, "mtp stream norm", s.own_tokens, s.hidden);
  const TensorIndex previous =
      c.pass.allocate("mtp stream gradient", own, MemoryCategory::workspace);
  c.pass.free(t.previous_statistics);
  c.pass.free(t.previous);
  norm_backward(c, "mtp embedding norm", s.own_tokens, s.hidden);
  TensorIndex embedded = c.pass.allocate("mtp embedding gradient", own, MemoryCategory::workspace);
  c.pass.free(both);
  c.pass.free(t.embedded_statistics);
  c.pass.free(t.embedded);
  embedding_backward(c.with_more_gradients(how.more), t.embedding, embedded);
  return previous;
}

}  // namespace stepcast
