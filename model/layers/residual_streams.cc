// SPDX-License-Identifier: Apache-2.0
// Several residual streams in place of one: manifold-constrained hyper-connections (Xie et al.
// 2025, arXiv 2512.24880), as Megatron-Core trains them (core/transformer/hyper_connection.py).
//
// Of n streams, a row of n x hidden numbers a token, each branch reads one weighted sum, and adds
// its output to all of them, which a doubly stochastic matrix mixes with each other:
//
//   x' = H_res x + H_post F(H_pre x)
//
// The weights, n + n + n x n numbers a token, are one product with the row, divided by its root
// mean square; n x n of them go through Sinkhorn's iterations, which the backward makes again.  A
// branch keeps the sum, which its norm has read, and what it has made; the row stays with the layer
// as a single stream would.  After the last layer the streams are summed by weights that are found
// in the same way, n of them.
//
// For example, with n = 4 the forward of a layer with two branches reads the row three times for
// each of them (weights, sum, new streams) and writes it once: 16 times the width of a stream,
// where a single stream's sum moves 3.
#include <string>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

int64_t row_width(const Shard& s) {
  return s.model.streams * s.hidden;
}

Bytes row_bytes(const Shard& s) {
  return s.bytes(s.own_tokens, row_width(s));
}

Bytes branch_bytes(const Shard& s) {
  return s.bytes(s.own_tokens, s.hidden);
}

// The weights as the product makes them and as they are applied, in fp32.
Bytes weights_bytes(const Shard& s, int64_t weights) {
  return s.bytes(s.own_tokens, 2 * weights, DType::fp32);
}

void sum_streams(const LayerContext& c, ForwardMode mode, int64_t weights, SavedStreams& t) {
  const Shard& s = c.shard;
  const Bytes made = weights_bytes(s, weights);
  c.pass.compute("stream weights", s.forward_gemm(s.own_tokens, weights, row_width(s)));
  t.weights = c.pass.allocate("stream weights", made, saved(mode));
  c.pass.compute("stream weights scaling", s.memory_bound(Kernel::scale, made));
  c.pass.compute("stream sum", s.memory_bound(Kernel::add, row_bytes(s) + branch_bytes(s)));
  t.sum = c.pass.allocate("sum of streams", branch_bytes(s), saved(mode));
}

// Frees `d`, the gradient of the sum, and the row, which gradients of weights read last; adds to
// `gradient` of the row or, where there is none, makes it.
void sum_streams_backward(const LayerContext& c, int64_t weights, TensorIndex& d,
                          TensorIndex& gradient, SavedStreams& t, TensorIndex& row) {
  const Shard& s = c.shard;
  const Bytes all = row_bytes(s);
  c.pass.compute("stream sum backward", s.memory_bound(Kernel::add, branch_bytes(s) + all * 2));
  TensorIndex by_sum = c.pass.allocate("stream sum gradient", all, MemoryCategory::workspace);
  c.pass.free(d);
  c.pass.free(t.sum);
  c.pass.compute("stream weights scaling backward",
                 s.memory_bound(Kernel::scale, weights_bytes(s, weights) * 2));
  c.pass.compute("stream weights input gradient",
                 s.input_gemm(s.own_tokens, weights, row_width(s)));
  TensorIndex by_weights =
      c.pass.allocate("stream weights gradient", all, MemoryCategory::workspace);
  weight_gradient(c, "stream weights", s.weight_gemm(s.own_tokens, weights, row_width(s)),
                  {.wide = true});
  const bool others = gradient != kNoTensor;
  c.pass.compute("stream gradient sum", s.memory_bound(Kernel::add, all * (others ? 4 : 3)));
  if (!others) gradient = c.pass.allocate("residual gradient", all, MemoryCategory::workspace);
  c.pass.free(by_sum);
  c.pass.free(by_weights);
  c.weights.free(t.weights);
  c.weights.free(row);
}

}  // namespace

bool has_streams(const LayerContext& c) {
  return c.shard.model.streams > 1;
}

TensorIndex spread_streams(const LayerContext& c, TensorIndex rows) {
  const Shard& s = c.shard;
  c.pass.compute("streams", s.memory_bound(Kernel::copy, branch_bytes(s) + row_bytes(s)));
  const TensorIndex out =
      c.pass.allocate("residual stream", row_bytes(s), MemoryCategory::activations);
  c.pass.free(rows);
  return out;
}

void spread_streams_backward(const LayerContext& c, TensorIndex& gradient) {
  const Shard& s = c.shard;
  c.pass.compute("streams backward", s.memory_bound(Kernel::add, branch_bytes(s) + row_bytes(s)));
  const TensorIndex out =
      c.pass.allocate("embedding output gradient", branch_bytes(s), MemoryCategory::workspace);
  c.pass.free(gradient);
  gradient = out;
}

void read_streams(const LayerContext& c, ForwardMode mode, SavedStreams& t) {
  sum_streams(c, mode, stream_weights(c.shard.model), t);
}

TensorIndex write_streams(const LayerContext& c, ForwardMode mode, const std::string& label,
                          TensorIndex& branch, SavedStreams& t) {
  const Shard& s = c.shard;
  c.pass.compute(label + " residual",
                 s.memory_bound(Kernel::add, row_bytes(s) * 2 + branch_bytes(s)));
  const TensorIndex out = c.pass.allocate("residual stream", row_bytes(s), saved(mode));
  if (mode != ForwardMode::discard) {
    t.branch = c.pass.allocate(label + " branch", branch_bytes(s), saved(mode));
  } else {
    c.pass.free(t.weights);
    c.pass.free(t.sum);
  }
  c.pass.free(branch);
  return out;
}

BranchGradient write_streams_backward(const LayerContext& c, const std::string& label,
                                      TensorIndex& gradient, SavedStreams& t, bool bias) {
  const Shard& s = c.shard;
  // Reads the gradient, the streams and what the branch has made; writes two gradients.
  c.pass.compute(label + " residual backward",
                 s.memory_bound(Kernel::add, row_bytes(s) * 3 + branch_bytes(s) * 2));
  BranchGradient branch{.own = true, .bias = bias};
  branch.tensor =
      c.pass.allocate(label + " branch gradient", branch_bytes(s), MemoryCategory::workspace);
  const TensorIndex mixed =
      c.pass.allocate("residual gradient", row_bytes(s), MemoryCategory::workspace);
  c.pass.free(gradient);
  gradient = mixed;
  c.pass.free(t.branch);
  if (bias) bias_gradient(c, label, s.own_tokens, s.hidden);
  return branch;
}

void read_streams_backward(const LayerContext& c, TensorIndex& d, TensorIndex& gradient,
                           SavedStreams& t, TensorIndex& row) {
  const int64_t weights = stream_weights(c.shard.model);
  sum_streams_backward(c, weights, d, gradient, t, row);
  reduce_after(c, weights + 3);  // what is added to the weights, and a factor of each kind
}

void join_streams(const LayerContext& c, SavedStreams& t) {
  sum_streams(c, ForwardMode::keep, c.shard.model.streams, t);
}

void join_streams_backward(const LayerContext& c, TensorIndex& gradient, SavedStreams& t,
                           TensorIndex& row) {
  const int64_t weights = c.shard.model.streams;
  TensorIndex of_row = kNoTensor;
  sum_streams_backward(c, weights, gradient, of_row, t, row);
  gradient = of_row;
  reduce_after(c, weights + 1);
}

}  // namespace stepcast
