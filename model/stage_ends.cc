// SPDX-License-Identifier: Apache-2.0
// What the first stage does before its layers (embedding) and the last one after them (final norm,
// head).
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

// --------------------------------------------------------------------------------------- embedding
// Whether nothing is added to the rows before the first layer reads them.
bool StageWriter::ends_with_rows() const {
  const Transformer& model = s_.model;
  return model.positions != Positions::learned && model.hidden_dropout == 0 &&
         model.token_types == 0 && !model.embedding_norm;
}

TensorIndex StageWriter::embedding_rows() {
  const Shard& s = s_;
  const Bytes full = s.bytes(s.tokens, s.hidden);
  p_.compute("embedding", s.memory_bound(Kernel::embedding, full * 2));
  const MemoryCategory category =
      ends_with_rows() ? MemoryCategory::activations : MemoryCategory::workspace;
  TensorIndex out = p_.allocate("embedding output", full, category);
  if (s.split() || shares_vocabulary()) {
    // Rows of words that other ranks hold are set to zero before the sum over the vocabulary
    // shards.
    p_.compute("embedding mask", s.memory_bound(Kernel::fill, full));
  }
  return s.split() ? reduce("embedding", out, s.hidden, category) : out;
}

TensorIndex StageWriter::embedding_forward(EmbeddingTensors& t) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  TensorIndex out = shares_vocabulary() ? t.rows : embedding_rows();
  if (ends_with_rows()) return out;
  if (s.model.positions == Positions::learned) {
    p_.compute("position embedding", s.memory_bound(Kernel::add, own * 3));
  } else if (shares_vocabulary()) {
    p_.compute("pass through", s.memory_bound(Kernel::none, {}));  // an op to free the rows
  }
  if (model.token_types > 0) {
    p_.compute("token type embedding", s.memory_bound(Kernel::add, own * 3));
  }
  TensorIndex stream = p_.allocate("residual stream", own, MemoryCategory::activations);
  p_.free(out);
  if (model.embedding_norm) {
    mode_ = ForwardMode::keep;
    t.normed = std::exchange(stream, kNoTensor);
    norm_forward("embedding norm", t.norm_statistics, stream, s.own_tokens, s.hidden);
  }
  if (s.model.hidden_dropout > 0) {
    const Bytes mask = s.bytes(s.own_tokens, s.hidden, DType::uint8);
    p_.compute("embedding dropout", s.memory_bound(Kernel::dropout, own * 2 + mask));
    t.mask = p_.allocate("embedding dropout mask", mask, MemoryCategory::activations);
  }
  return stream;
}

void StageWriter::embedding_backward(EmbeddingTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  const DType main = s.plan.precision.gradients;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  p_.set_phase(Phase::backward_input);
  if (s.model.hidden_dropout > 0) {
    p_.compute("embedding dropout backward",
               s.memory_bound(Kernel::dropout_backward,
                              own * 2 + s.bytes(s.own_tokens, s.hidden, DType::uint8)));
    p_.free(t.mask);
  }
  if (s.model.embedding_norm) {
    norm_backward("embedding norm", s.own_tokens, s.hidden);
    p_.free(t.norm_statistics);
    p_.free(t.normed);
  }
  // All that follows is the gradient of weights.
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  const TensorIndex full = shares_vocabulary() ? kNoTensor : gather_embedding_gradient();
  if (s.model.positions == Positions::learned) {
    const Bytes rows = s.bytes(s.seq, s.hidden);
    w_.compute("position embedding gradient",
               s.memory_bound(Kernel::embedding_backward,
                              own + rows + s.bytes(s.seq, s.hidden, main) * 2));
    reduce_after(s.model.max_positions * s.hidden);
  }
  if (s.model.token_types > 0) {
    w_.compute("token type embedding gradient",
               s.memory_bound(Kernel::embedding_backward,
                              own + s.bytes(s.model.token_types, s.hidden, main) * 2));
    reduce_after(s.model.token_types * s.hidden);
  }
  if (shares_vocabulary()) {  // the rest is for G
    // A stage without layers has nothing before: an op to free the gradient.
    if (w_.empty()) w_.compute("pass through", s.memory_bound(Kernel::none, {}));
    w_.free(gradient);
    w_.set_phase(phase);
    return;
  }
  embedding_rows_backward(full, gradient);
  w_.set_phase(phase);
  if (!buckets_.tied_counted) reduce_after(s.vocab * s.hidden);
}

TensorIndex StageWriter::gather_embedding_gradient() {
  if (!s_.sequence_split()) return kNoTensor;
  w_.join(tp(w_, "embedding gradient all-gather", WorkKind::all_gather, s_.hidden));
  return w_.allocate("embedding gradient all-gather", s_.bytes(s_.tokens, s_.hidden),
                     MemoryCategory::communication);
}

void StageWriter::embedding_rows_backward(TensorIndex full, TensorIndex& gradient) {
  const Shard& s = s_;
  // A dense gradient of the whole shard is zeroed, scattered into, and added to the main gradient.
  const Bytes shard = s.bytes(s.vocab, s.hidden);
  w_.compute("embedding gradient zero", s.memory_bound(Kernel::fill, shard));
  TensorIndex dense = w_.allocate("embedding gradient", shard, MemoryCategory::workspace);
  w_.compute("embedding gradient scatter",
             s.memory_bound(Kernel::embedding_backward, s.bytes(s.tokens, s.hidden) * 3));
  if (!buckets_.layers.buffered) {
    w_.compute("embedding gradient accumulation",
               s.memory_bound(Kernel::add,
                              shard + s.bytes(s.vocab, s.hidden, s.plan.precision.gradients) * 2));
  }
  w_.free(dense);
  w_.free(full);
  w_.free(gradient);
}

// -------------------------------------------------------------------------------------------- head
void StageWriter::final_norm_forward(const std::string& label, HeadTensors& t) {
  mode_ = ForwardMode::keep;
  norm_forward(label, t.norm_statistics, t.norm_output, s_.own_tokens, s_.hidden);
}

void StageWriter::final_norm_backward(const std::string& label, HeadTensors& t) {
  p_.set_phase(Phase::backward_input);
  norm_backward(label, s_.own_tokens, s_.hidden);
  p_.free(t.norm_statistics);
  p_.free(t.input);
}

void StageWriter::loss_forward(HeadTensors& t) {
  mode_ = ForwardMode::keep;
  if (shares_vocabulary()) return;
  if (s_.model.masked_head) masked_head_forward(t);
  head_product(t);
}

void StageWriter::head_product(HeadTensors& t) {
  const Shard& s = s_;
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) gathered = gather("head all-gather", s.hidden);
  p_.compute("head", s.forward_gemm(s.tokens, s.vocab, s.hidden));
  TensorIndex low = p_.allocate("logits", s.bytes(s.tokens, s.vocab), MemoryCategory::logits);
  p_.free(gathered);
  cross_entropy_forward(t, low);
}

TensorIndex StageWriter::loss_backward(HeadTensors& t, bool more) {
  const Shard& s = s_;
  p_.set_phase(Phase::backward_input);
  if (shares_vocabulary()) return t.gradient;
  TensorIndex d = logit_gradient(t);
  incomplete_ = more;
  TensorIndex gradient = column_parallel_backward("head", d, t.norm_output, s.vocab);
  incomplete_ = false;
  if (s.model.masked_head) gradient = masked_head_backward(t, gradient);
  return gradient;
}

}  // namespace stepcast
