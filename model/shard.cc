// SPDX-License-Identifier: Apache-2.0
#include "model/shard.h"

#include <algorithm>

#include "sim/graph/work.h"

namespace stepcast {

namespace {

// Of the largest share.
int64_t vocabulary_rows(const Transformer& t, const Plan& p) {
  const int64_t pipeline = p.vocabulary == VocabularySplit::none ? 1 : p.pp;
  return (t.vocab / p.tp + pipeline - 1) / pipeline;
}

}  // namespace

Shard::Shard(const Transformer& t, const Plan& p, int64_t sequence_tokens, const LayerShape& shape)
    : model(t),
      plan(p),
      cp(p.cp),
      seq(p.mode == StepMode::decode ? 1 : sequence_tokens / p.seq_pieces / p.cp),
      keys(sequence_tokens / p.seq_pieces * (p.piece + 1)),
      tokens(seq * p.micro_batch),
      own_tokens(p.sp ? tokens / p.tp : tokens),
      hidden(t.hidden),
      query_dim(shape.head_dim),
      value_dim(shape.value_dim),
      sinks(shape.sinks),
      shared_values(shape.shared_values),
      heads(shape.heads / p.tp),
      // Latent attention gives every head its own keys and values.
      kv_heads(t.kv_rank > 0 ? heads : std::max<int64_t>(1, shape.kv_heads / p.tp)),
      q(heads * query_dim),
      key(kv_heads * query_dim),
      value(kv_heads * value_dim),
      qkv(q + key + value),
      projected(shared_values ? q + key : qkv),
      context(heads * value_dim),
      ffn(shape.ffn / p.tp),
      up(t.gated ? 2 * ffn : ffn),
      vocab(vocabulary_rows(t, p)),
      element(bytes_per_element(p.precision.params)) {}

LayerShards::LayerShards(const Transformer& t, const Plan& p, int64_t sequence_tokens)
    : own_(t, p, sequence_tokens, own_shape(t)) {
  others_.reserve(t.shapes.size());
  for (const LayerShape& shape : t.shapes) others_.emplace_back(t, p, sequence_tokens, shape);
}

Bytes Shard::bytes(int64_t rows, int64_t width) const {
  return bytes(rows, width, plan.precision.params);
}

Bytes Shard::bytes(int64_t rows, int64_t width, DType dtype) const {
  return {static_cast<int64_t>(static_cast<double>(rows) * static_cast<double>(width) *
                               bytes_per_element(dtype))};
}

namespace {

Work gemm(DType dtype, GemmLayout layout, int64_t m, int64_t n, int64_t k) {
  Work w;
  w.kind = WorkKind::gemm;
  w.dtype = dtype;
  w.layout = layout;
  w.m = m;
  w.n = n;
  w.k = k;
  w.flops = {2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k)};
  return w;
}

}  // namespace

Work Shard::forward_gemm(int64_t rows, int64_t out, int64_t in) const {
  return gemm(plan.precision.params, GemmLayout::tn, rows, out, in);
}

Work Shard::input_gemm(int64_t rows, int64_t out, int64_t in) const {
  return gemm(plan.precision.params, GemmLayout::nn, rows, in, out);
}

Work Shard::weight_gemm(int64_t rows, int64_t out, int64_t in) const {
  Work w = gemm(plan.precision.params, GemmLayout::nt, out, in, rows);
  w.accumulate = plan.kernels.gradient_accumulation_fusion;
  if (w.accumulate) w.sum = plan.precision.gradients;
  return w;
}

Work Shard::head_gemm(int64_t m, int64_t n, int64_t k, GemmLayout layout) const {
  Work w = gemm(plan.precision.params, layout, m, n, k);
  w.batch = plan.micro_batch * heads;
  w.heads = heads;
  w.flops = w.flops * static_cast<double>(w.batch);
  return w;
}

Work Shard::memory_bound(Kernel kernel, Bytes moved) const {
  Work w;
  w.kind = WorkKind::memory_bound;
  w.kernel = kernel;
  w.dtype = plan.precision.params;
  w.bytes = moved;
  return w;
}

bool Shard::gathers_logits() const {
  return split() && !plan.splits_vocabulary() && plan.kernels.loss == Loss::torch_gathered;
}

Work Shard::collective(WorkKind kind, int64_t width) const {
  Work w;
  w.kind = kind;
  w.dtype = plan.precision.params;
  w.axis = Axis::tp;
  w.bytes = bytes(tokens, width);
  return w;
}

}  // namespace stepcast
