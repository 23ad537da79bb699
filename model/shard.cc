// SPDX-License-Identifier: Apache-2.0
#include "model/shard.h"

#include <algorithm>

namespace stepcast {

Shard::Shard(const Transformer& t, const Plan& p)
    : model(t),
      plan(p),
      seq(p.seq / p.seq_pieces),
      keys(seq * (p.piece + 1)),
      tokens(seq * p.micro_batch),
      own_tokens(p.sp ? tokens / p.tp : tokens),
      hidden(t.hidden),
      heads(t.heads / p.tp),
      kv_heads(std::max<int64_t>(1, t.kv_heads / p.tp)),
      q(heads * t.head_dim),
      kv(kv_heads * t.head_dim),
      qkv(q + 2 * kv),
      ffn(t.ffn / p.tp),
      up(t.gated ? 2 * ffn : ffn),
      vocab(t.vocab / p.tp),
      element(bytes_per_element(p.precision.params)) {}

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
  return w;
}

Work Shard::head_gemm(int64_t m, int64_t n, int64_t k, GemmLayout layout) const {
  Work w = gemm(plan.precision.params, layout, m, n, k);
  w.batch = plan.micro_batch * heads;
  w.heads = heads;
  w.flops = w.flops * static_cast<double>(w.batch);
  return w;
}

Work Shard::fused_attention(bool backward) const {
  Work w;
  w.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward;
  w.dtype = plan.precision.params;
  w.causal = true;
  w.m = seq;
  w.n = keys;
  w.k = model.head_dim;
  w.batch = plan.micro_batch;
  w.heads = heads;
  w.kv_heads = kv_heads;
  // Pairs of query and key that are computed: half of all under the causal mask, a band with a
  // window.
  const auto pairs_below = [&](int64_t count) {
    const auto s = static_cast<double>(count);
    const double window =
        model.sliding_window > 0 ? std::min(s, static_cast<double>(model.sliding_window)) : s;
    return s * window - window * window / 2;
  };
  const double pairs = pairs_below(keys) - pairs_below(keys - seq);
  // Forward two products, backward five (it recomputes the scores).
  const double products = backward ? 5 : 2;
  w.flops = {products * 2 * pairs * static_cast<double>(model.head_dim * heads * w.batch)};
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

Work Shard::collective(WorkKind kind, int64_t width) const {
  Work w;
  w.kind = kind;
  w.dtype = plan.precision.params;
  w.axis = Axis::tp;
  w.bytes = bytes(tokens, width);
  return w;
}

}  // namespace stepcast
