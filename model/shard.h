// SPDX-License-Identifier: Apache-2.0
// The shapes one rank works on: the model divided by tensor (and sequence) parallelism.
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

  int64_t cp;      // ranks that a sequence is split over
  int64_t seq;     // tokens of a sequence, or of the plan's piece of it, on this rank
  int64_t keys;    // of a sequence that the last of them sees, on all ranks
  int64_t tokens;  // of a microbatch (or a piece of one), seq * micro_batch
  int64_t
      own_tokens;  // where activations are split by sequence parallelism: tokens / tp, else tokens
  int64_t hidden;
  int64_t heads, kv_heads;  // of this rank
  int64_t q, key, value;    // widths of queries, keys and values
  int64_t qkv;              // of all three
  int64_t context;          // width of what attention makes of them
  int64_t ffn;              // input width of the second MLP product
  int64_t up;               // output width of the first: ffn, or 2 ffn when gated
  int64_t vocab;
  double element;  // bytes of one activation

  Shard(const Transformer& model, const Plan& plan);

  Bytes bytes(int64_t rows, int64_t width) const;  // activations
  Bytes bytes(int64_t rows, int64_t width, DType dtype) const;
  bool split() const { return plan.tp > 1; }  // there is tensor-parallel communication
  bool sequence_split() const { return plan.tp > 1 && plan.sp; }

  // C[rows, out] = X[rows, in] W[in, out] and its two gradients.
  Work forward_gemm(int64_t rows, int64_t out, int64_t in) const;
  Work input_gemm(int64_t rows, int64_t out, int64_t in) const;
  Work weight_gemm(int64_t rows, int64_t out, int64_t in) const;
  // One of the s x s products of unfused attention, for all heads of the microbatch.
  Work head_gemm(int64_t m, int64_t n, int64_t k, GemmLayout layout) const;
  // The launches of fused attention over what a rank of the context-parallel group computes, one
  // after the other (context_parallel.cc): one; or one a chunk of the rank's tokens, or one a step
  // of the ring.
  std::vector<Work> fused_attention(bool backward, const LayerKind& kind) const;
  Work cached_attention(const LayerKind& kind) const;  // inference.cc
  // Ranks that exchange heads for tokens, neighbours in cp, and those that pass keys and values
  // around after that.  1: does not happen.
  int64_t exchange_ranks() const;
  int64_t ring_ranks() const;
  bool gathers_keys() const { return cp > 1 && plan.cp_comm == CpComm::all_gather; }
  Work memory_bound(Kernel kernel, Bytes moved) const;
  // A tensor-parallel collective over [tokens, width] activations.
  Work collective(WorkKind kind, int64_t width) const;
};

}  // namespace stepcast
