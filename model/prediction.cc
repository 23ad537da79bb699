// SPDX-License-Identifier: Apache-2.0
// Multi-token prediction (DeepSeek-V3, arXiv 2412.19437, section 2.2; Megatron-LM's
// MultiTokenPredictionLayer): the stream that the module before predicted from and the embedding of
// the tokens that follow are normed, laid side by side, projected to one stream, and go through a
// layer and a norm; embedding and head are the model's.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

// Norms, concatenation and projection: fills `t.layer.input`.
void StageWriter::project_streams(PredictionTensors& t, bool keep) {
  const Shard& s = s_;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  const Bytes both = s.bytes(s.own_tokens, 2 * s.hidden);
  TensorIndex embedded = kNoTensor, previous = kNoTensor;
  norm_forward("mtp embedding norm", t.embedded_statistics, embedded, s.own_tokens, s.hidden);
  done_with(t.embedded_statistics);
  norm_forward("mtp stream norm", t.previous_statistics, previous, s.own_tokens, s.hidden);
  done_with(t.previous_statistics);
  p_.compute("mtp concatenation", s.memory_bound(Kernel::copy, both * 2));
  t.joined = p_.allocate("mtp streams", both, saved());
  p_.free(embedded);
  p_.free(previous);

  const std::string label = "mtp projection";
  TensorIndex now = quantize_input(label, t.joined, s.own_tokens, 2 * s.hidden);
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) gathered = gather(label + " all-gather", 2 * s.hidden);
  const int64_t out = s.hidden / s.plan.tp;
  product(p_, label, s.forward_gemm(s.tokens, out, 2 * s.hidden));
  const bool last = !s.split();
  t.layer.input = p_.allocate(label + " output", s.bytes(s.tokens, out),
                              last ? saved() : MemoryCategory::workspace);
  p_.free(gathered);
  p_.free(now);
  done_with(t.joined);
  if (last) return;
  // Columns of all ranks; with sequence parallelism each keeps its tokens of them.
  TensorIndex full = gather("mtp columns all-gather", s.hidden);
  p_.free(t.layer.input);
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  p_.compute("mtp columns copy", s.memory_bound(Kernel::copy, own * 2));
  t.layer.input = p_.allocate("residual stream", own, saved());
  p_.free(full);
}

TensorIndex StageWriter::prediction_forward(PredictionTensors& t, ForwardMode mode) {
  t.embedded = embedding_forward(t.embedding);
  mode_ = mode;
  const bool keep = mode != ForwardMode::discard;
  project_streams(t, keep);
  t.end.input = layer_forward(t.layer, mode);
  if (!keep) p_.free(t.layer.input);
  final_norm_forward("mtp final norm", t.end);
  return std::exchange(t.end.norm_output, kNoTensor);
}

void StageWriter::recompute_prediction(PredictionTensors& t) {
  mode_ = ForwardMode::recompute;
  project_streams(t, true);
  TensorIndex again = layer_forward(t.layer, ForwardMode::recompute);
  p_.free(again);
}

// Of both streams, [own_tokens, 2 hidden].  Frees `gradient`.
TensorIndex StageWriter::project_streams_backward(PredictionTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  const std::string label = "mtp projection";
  const int64_t out = s.hidden / s.plan.tp, in = 2 * s.hidden;
  if (s.sequence_split()) {
    TensorIndex full = gather(label + " gradient all-gather", s.hidden);
    p_.free(gradient);
    gradient = full;
  }
  if (s.split()) {
    const Bytes columns = s.bytes(s.tokens, out);
    p_.compute("mtp columns gradient copy", s.memory_bound(Kernel::copy, columns * 2));
    const TensorIndex own = p_.allocate("mtp columns gradient", columns, MemoryCategory::workspace);
    p_.free(gradient);
    gradient = own;
  }
  TensorIndex now = quantize_gradient(label, gradient, true, s.tokens, out);
  product(p_, label + " input gradient", s.input_gemm(s.tokens, out, in));
  TensorIndex partial =
      p_.allocate(label + " input gradient", s.bytes(s.tokens, in), MemoryCategory::workspace);
  p_.free(now);
  const TensorIndex result = reduce(label + " input gradient", partial, in);
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) {
    w_.join(tp(w_, label + " input all-gather", WorkKind::all_gather, in));
    gathered = w_.allocate(label + " input gathered", s.bytes(s.tokens, in),
                           MemoryCategory::communication);
  }
  w_.set_phase(phase);
  weight_gradient(label, s.weight_gemm(s.tokens, out, in));
  w_.free(gathered);
  w_.free(gradient);
  w_.free(t.joined);
  return result;
}

TensorIndex StageWriter::prediction_backward(PredictionTensors& t, TensorIndex& gradient,
                                             const PredictionBackward& how) {
  const Shard& s = s_;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  final_norm_backward("mtp final norm", t.end);
  if (how.recompute) {
    p_.set_phase(Phase::recompute);
    recompute_prediction(t);
    p_.set_phase(Phase::backward_input);
  }
  layer_backward(t.layer, gradient, how.recompute_core);
  TensorIndex both = project_streams_backward(t, gradient);
  norm_backward("mtp stream norm", s.own_tokens, s.hidden);
  const TensorIndex previous = p_.allocate("mtp stream gradient", own, MemoryCategory::workspace);
  p_.free(t.previous_statistics);
  p_.free(t.previous);
  norm_backward("mtp embedding norm", s.own_tokens, s.hidden);
  TensorIndex embedded = p_.allocate("mtp embedding gradient", own, MemoryCategory::workspace);
  p_.free(both);
  p_.free(t.embedded_statistics);
  p_.free(t.embedded);
  incomplete_ = how.more;
  embedding_backward(t.embedding, embedded);
  incomplete_ = false;
  return previous;
}

}  // namespace stepcast
