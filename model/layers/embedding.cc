// SPDX-License-Identifier: Apache-2.0
// What comes before the first layer: rows of the word embedding, positions, token types, a norm and
// dropout; and their gradients, all of them but dropout's and the norm's gradients of weights.
//
// With Plan::vocabulary every rank of the pipeline holds rows of the word embedding (Yeung et al.
// 2025, arXiv 2411.05288): E looks them up before the first stage's forward, and G sums their
// gradients after its backward.
#include <string>
#include <utility>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

// Whether nothing is added to the rows before the first layer reads them.
bool ends_with_rows(const Transformer& model) {
  return model.positions != Positions::learned && model.hidden_dropout == 0 &&
         model.token_types == 0 && !model.embedding_norm;
}

TensorIndex gather_embedding_gradient(const LayerContext& c) {
  const Shard& s = c.shard;
  if (!s.sequence_split()) return kNoTensor;
  const std::string label = "embedding gradient all-gather";
  c.weights.join(start_gather(c, c.weights, label, s.hidden));
  return c.weights.allocate(label, s.bytes(s.tokens, s.hidden), MemoryCategory::communication);
}

// Of the rows.  `full`: the gathered gradient; frees it and `gradient`.
void embedding_rows_backward(const LayerContext& c, TensorIndex full, TensorIndex& gradient) {
  const Shard& s = c.shard;
  // A dense gradient of the whole shard is zeroed, scattered into, and added to the main gradient.
  const Bytes shard = s.bytes(s.vocab, s.hidden);
  c.weights.compute("embedding gradient zero", s.memory_bound(Kernel::fill, shard));
  const bool buffered = c.buckets.layers.buffered;
  TensorIndex dense = c.weights.allocate("embedding gradient",
                                         buffered ? shard : unadded_gradient(c, s.vocab, s.hidden),
                                         MemoryCategory::workspace);
  c.weights.compute("embedding gradient scatter",
                    s.memory_bound(Kernel::embedding_backward, s.bytes(s.tokens, s.hidden) * 3));
  if (!buffered) {
    c.weights.compute(
        "embedding gradient accumulation",
        s.memory_bound(Kernel::add,
                       shard + s.bytes(s.vocab, s.hidden, s.plan.precision.gradients) * 2));
  }
  if (buffered) {
    c.weights.free(dense);
  } else {
    hand_over_gradient(c, dense);
  }
  c.weights.free(full);
  c.weights.free(gradient);
}

}  // namespace

TensorIndex embedding_rows(const LayerContext& c) {
  const Shard& s = c.shard;
  const Bytes full = s.bytes(s.tokens, s.hidden);
  c.pass.compute("embedding", s.memory_bound(Kernel::embedding, full * 2));
  const MemoryCategory category =
      ends_with_rows(s.model) ? MemoryCategory::activations : MemoryCategory::workspace;
  const TensorIndex out = c.pass.allocate("embedding output", full, category);
  if (s.split() || s.plan.splits_vocabulary()) {
    // Rows of words that other ranks hold are set to zero before the sum over the vocabulary
    // shards.
    c.pass.compute("embedding mask", s.memory_bound(Kernel::fill, full));
  }
  return s.split() ? reduce(c, "embedding", {out}, s.hidden, category) : out;
}

Forward<SavedEmbedding> embedding_forward(const LayerContext& c, TensorIndex rows) {
  const Shard& s = c.shard;
  const Transformer& model = s.model;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  TensorIndex out = s.plan.splits_vocabulary() ? rows : embedding_rows(c);
  SavedEmbedding t;
  if (ends_with_rows(model)) return {out, t};
  if (model.positions == Positions::learned) {
    c.pass.compute("position embedding", s.memory_bound(Kernel::add, own * 3));
  } else if (s.plan.splits_vocabulary()) {
    c.pass.compute("pass through", s.memory_bound(Kernel::none, {}));  // an op to free the rows
  }
  if (model.token_types > 0) {
    c.pass.compute("token type embedding", s.memory_bound(Kernel::add, own * 3));
  }
  TensorIndex stream = c.pass.allocate("residual stream", own, MemoryCategory::activations);
  c.pass.free(out);
  if (model.embedding_norm) {
    t.normed = stream;
    const NormOutput norm =
        norm_forward(c, ForwardMode::keep, "embedding norm", s.own_tokens, s.hidden);
    stream = norm.output;
    t.norm_statistics = norm.statistics;
  }
  if (model.hidden_dropout > 0) {
    const Bytes mask = s.bytes(s.own_tokens, s.hidden, DType::uint8);
    c.pass.compute("embedding dropout", s.memory_bound(Kernel::dropout, own * 2 + mask));
    t.mask = c.pass.allocate("embedding dropout mask", mask, MemoryCategory::activations);
  }
  return {stream, t};
}

void embedding_backward(const LayerContext& c, SavedEmbedding& t, TensorIndex& gradient) {
  const Shard& s = c.shard;
  const Transformer& model = s.model;
  const DType main = s.plan.precision.gradients;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  c.pass.set_phase(Phase::backward_input);
  if (model.hidden_dropout > 0) {
    c.pass.compute("embedding dropout backward",
                   s.memory_bound(Kernel::dropout_backward,
                                  own * 2 + s.bytes(s.own_tokens, s.hidden, DType::uint8)));
    c.pass.free(t.mask);
  }
  if (model.embedding_norm) {
    norm_backward(c, "embedding norm", s.own_tokens, s.hidden);
    c.pass.free(t.norm_statistics);
    c.pass.free(t.normed);
  }
  // All that follows is the gradient of weights.
  const Phase phase = c.weights.phase();
  c.weights.set_phase(Phase::backward_weight);
  const TensorIndex full = s.plan.splits_vocabulary() ? kNoTensor : gather_embedding_gradient(c);
  if (model.positions == Positions::learned) {
    const Bytes rows = s.bytes(s.seq, s.hidden);
    c.weights.compute("position embedding gradient",
                      s.memory_bound(Kernel::embedding_backward,
                                     own + rows + s.bytes(s.seq, s.hidden, main) * 2));
    reduce_after(c, model.max_positions * s.hidden);
  }
  if (model.token_types > 0) {
    c.weights.compute("token type embedding gradient",
                      s.memory_bound(Kernel::embedding_backward,
                                     own + s.bytes(model.token_types, s.hidden, main) * 2));
    reduce_after(c, model.token_types * s.hidden);
  }
  if (s.plan.splits_vocabulary()) {  // the rest is for G
    // A stage without layers has nothing before: an op to free the gradient.
    if (c.weights.empty()) c.weights.compute("pass through", s.memory_bound(Kernel::none, {}));
    c.weights.free(gradient);
    c.weights.set_phase(phase);
    return;
  }
  embedding_rows_backward(c, full, gradient);
  c.weights.set_phase(phase);
  if (!c.buckets.tied_counted) reduce_after(c, s.vocab * s.hidden);
}

// The gradient of the first stage's input has come.
void vocabulary_embedding_backward(const LayerContext& c) {
  const Shard& s = c.shard;
  TensorIndex gradient = c.pass.allocate(
      "embedding output gradient", s.bytes(s.own_tokens, s.hidden), MemoryCategory::workspace);
  c.pass.set_phase(Phase::backward_weight);
  const TensorIndex full = gather_embedding_gradient(c);
  embedding_rows_backward(c, full, gradient);
}

}  // namespace stepcast
