// SPDX-License-Identifier: Apache-2.0
// What one rank works on: the shapes of the model divided by tensor (and sequence) parallelism, and
// the experts of a layer that lie on it, with the tokens they get.
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
  int64_t heads, kv_heads;  // on this rank, as all widths below
  int64_t q, key, value;    // widths of queries, keys and values
  int64_t qkv;              // the sum of the three
  int64_t context;          // width of attention's output, before its projection
  int64_t ffn;              // input width of the second MLP product
  int64_t up;               // output width of the first MLP product: ffn, or 2 ffn when gated
  int64_t vocab;
  double element;  // bytes of one activation

  Shard(const Transformer& t, const Plan& p) : Shard(t, p, p.seq) {}
  // ... of a stack of layers that sees sequences of other lengths: an encoder.
  Shard(const Transformer& t, const Plan& p, int64_t sequence_tokens);

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

// ----------------------------------------------------------------------------------------- experts
// Each token goes to `experts_per_token` experts: that many copies of it are made.  Experts lie on
// the ep ranks in blocks, each split over etp.  Copies are counted in rows of the matrix that an
// expert multiplies.

struct ExpertShard {
  int64_t local = 1;    // experts that this rank holds
  int64_t ffn = 0;      // width of each: 1 / etp of the expert
  int64_t up = 0;       // output width of an expert's first product: ffn, or 2 ffn when gated
  int64_t tokens = 0;   // that this rank's router sees
  int64_t copies = 0;   // of these tokens that reach an expert (or pad its input)
  int64_t sent = 0;     // rows that this rank sends: all copies, or with DeepEP one for each rank
                        // that a token goes to
  int64_t rows = 0;     // that the experts of a rank multiply, in the mean over the ranks
  int64_t busiest = 0;  // ... on the rank that gets most
  // Experts of a rank whose weights are read because some token chose them, in the mean over the
  // ranks.  In training these are all.  A forward alone may have few tokens; each goes to an expert
  // with a probability of experts_per_token times the expert's share, independently of the rest.
  int64_t met = 1;
};
ExpertShard expert_shard(const Shard& shard);

// The share of all copies that each expert gets; the shares sum to 1.  No expert gets more than one
// copy of a token: what a share has above 1 / experts_per_token is spread over the other experts.
// Routing::zipf deals the experts out in the order of their popularity, one to each rank in turn;
// Routing::shares lists them as they lie on the ranks.
std::vector<double> expert_shares(const Transformer& model, const Plan& plan);

}  // namespace stepcast
