// SPDX-License-Identifier: Apache-2.0
// What one rank works on: the shapes of the model divided by tensor (and sequence) parallelism.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "sim/graph/work.h"

namespace stepcast {

struct Shard {
  const Transformer& model;
  const Plan& plan;

  int64_t cp;          // ranks that one sequence is split over
  int64_t seq;         // tokens of a sequence (or of the plan's piece of it) on this rank
  int64_t keys;        // keys, on all ranks, that the last query of the sequence or piece sees
  int64_t tokens;      // of a microbatch (or a piece of one): seq * micro_batch
  int64_t own_tokens;  // tokens / tp where sequence parallelism splits activations, else tokens
  int64_t hidden;
  int64_t query_dim, value_dim;  // of a head
  bool sinks, shared_values;     // of the layers, as LayerShape has them
  int64_t heads, kv_heads;       // on this rank, as all widths below
  int64_t q, key, value;         // widths of queries, keys and values
  int64_t qkv;                   // the sum of the three
  int64_t projected;             // ... that are projected from the layer's input
  int64_t context;               // width of attention's output, before its projection
  int64_t ffn;                   // input width of the second MLP product
  int64_t up;                    // output width of the first MLP product: ffn, or 2 ffn when gated
  int64_t vocab;
  double element;  // bytes of one activation

  Shard(const Transformer& t, const Plan& p) : Shard(t, p, p.seq) {}
  // ... of a stack of layers that sees sequences of other lengths: an encoder.
  Shard(const Transformer& t, const Plan& p, int64_t sequence_tokens)
      : Shard(t, p, sequence_tokens, own_shape(t)) {}
  // ... of layers of this shape.
  Shard(const Transformer& t, const Plan& p, int64_t sequence_tokens, const LayerShape& shape);

  Bytes bytes(int64_t rows, int64_t width) const;  // activations
  Bytes bytes(int64_t rows, int64_t width, DType dtype) const;
  bool split() const { return plan.tp > 1; }  // there is tensor-parallel communication
  bool sequence_split() const { return plan.tp > 1 && plan.sp; }
  // The loss is made of the logits of all tensor-parallel ranks (Loss::torch_gathered).
  bool gathers_logits() const;
  int64_t logits() const { return gathers_logits() ? vocab * plan.tp : vocab; }  // of a token

  // C[rows, out] = X[rows, in] W[in, out] and its two gradients.
  Work forward_gemm(int64_t rows, int64_t out, int64_t in) const;
  Work input_gemm(int64_t rows, int64_t out, int64_t in) const;
  Work weight_gemm(int64_t rows, int64_t out, int64_t in) const;
  // One of the s x s products of unfused attention, for all heads of the microbatch.
  Work head_gemm(int64_t m, int64_t n, int64_t k, GemmLayout layout) const;
  Work memory_bound(Kernel kernel, Bytes moved) const;
  // A tensor-parallel collective over [tokens, width] activations.
  Work collective(WorkKind kind, int64_t width) const;
};

// The shares of all shapes that layers of the model have.
class LayerShards {
 public:
  LayerShards(const Transformer& t, const Plan& p, int64_t sequence_tokens);
  LayerShards(const Transformer& t, const Plan& p) : LayerShards(t, p, p.seq) {}

  const Shard& own() const { return own_; }
  // As LayerKind::shape counts them: the model's own is the first.
  const Shard& of(const LayerKind& kind) const {
    return kind.shape == 0 ? own_ : others_[kind.shape - 1U];
  }

 private:
  Shard own_;
  std::vector<Shard> others_;  // most models have none, and then making one allocates nothing
};

}  // namespace stepcast
