// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section
// 2.1), not absorbed, as Megatron-LM trains it (multi_latent_attention.py): a down projection to
// the latent and its norm, held whole by every tensor-parallel rank; an up projection to the rank's
// heads; rotary positions on a part of each query, and on one part of the keys that all heads
// share.
#include <string>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

// What the keys' and values' up projection makes: the keys without their shared part.
int64_t up_width(const Shard& s) {
  return s.heads * (s.model.qk_nope_dim + s.model.v_dim);
}

// Up projections and rotary positions; returns queries, keys and values.  Of the two latents the
// norm of keys and values hands a quantized one on; that of queries is converted by itself.
TensorIndex latent_up(const LayerContext& c, ForwardMode mode, TensorIndex& query_input,
                      TensorIndex& kv_input) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  const Bytes up_bytes = s.bytes(s.tokens, up_width(s));
  const bool low_rank = m.q_rank > 0;
  const Shard q_up = low_rank ? from_latent(s, m.q_rank) : s;
  TensorIndex q = column_parallel_forward(c.with(q_up), mode, low_rank ? "query up" : "query",
                                          "queries", query_input, s.q);
  // Queries are rotated in place, so theirs is a part of the tensor that attention reads.
  const TensorIndex qkv =
      c.pass.allocate("queries, keys, values", s.bytes(s.tokens, s.qkv), saved(mode));
  c.pass.free(q);
  const Shard kv_up = from_latent(s, m.kv_rank);
  TensorIndex kv =
      column_parallel_forward(c.with(kv_up), mode, "key and value up", "keys and values up",
                              kv_input, up_width(s), {.converted = norm_quantizes(c)});
  const Bytes rotated = s.bytes(s.tokens, s.heads * m.qk_rope_dim) * 2;
  c.pass.compute("rotary", s.memory_bound(Kernel::rotary,
                                          rotated + up_bytes +
                                              s.bytes(s.tokens, m.qk_rope_dim + s.key + s.value)));
  c.pass.free(kv);
  return qkv;
}

// The gradient of the keys' and values' latent from that of what attention read, and that of the
// keys' shared part.
TensorIndex latent_up_backward(const LayerContext& c, SavedLatent& l, TensorIndex& d_position) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  const Bytes up_bytes = s.bytes(s.tokens, up_width(s));
  const Bytes shared = s.bytes(s.tokens, m.qk_rope_dim);
  const Bytes rotated = s.bytes(s.tokens, s.heads * m.qk_rope_dim) * 2;
  c.pass.compute("rotary backward",
                 s.memory_bound(Kernel::rotary_backward,
                                rotated + s.bytes(s.tokens, s.key + s.value) + up_bytes + shared));
  TensorIndex d_up =
      c.pass.allocate("keys and values up gradient", up_bytes, MemoryCategory::workspace);
  d_position = c.pass.allocate("position key gradient", shared, MemoryCategory::workspace);
  c.pass.free(l.position_key);
  if (s.sequence_split()) {
    c.pass.join(c.pass.communicate(Stream::tp, "position key gradient reduce-scatter",
                                   s.collective(WorkKind::reduce_scatter, m.qk_rope_dim)));
  }

  const Shard kv_up = from_latent(s, m.kv_rank);
  return column_parallel_backward(c.with(kv_up), "key and value up", d_up, l.kv_normed,
                                  up_width(s));
}

}  // namespace

TensorIndex duplicated_forward(const LayerContext& c, ForwardMode mode, const std::string& label,
                               TensorIndex& input, int64_t out, TensorIndex* copy) {
  const Shard& s = c.shard;
  TensorIndex now = quantize_input(c, mode, label, input, s.own_tokens, s.hidden, copy);
  product(c, c.pass, label, s.forward_gemm(s.own_tokens, out, s.hidden));
  const Bytes bytes = s.bytes(s.own_tokens, out);
  const TensorIndex output = c.pass.allocate(label + " output", bytes, saved(mode));
  c.pass.free(now);
  if (s.model.attention_bias && !s.plan.kernels.fused_bias) {
    c.pass.compute(label + " bias", s.memory_bound(Kernel::bias_add, bytes * 2));
  }
  return output;
}

TensorIndex duplicated_backward(const LayerContext& c, const std::string& label,
                                TensorIndex& gradient, TensorIndex& input, int64_t out) {
  const Shard& s = c.shard;
  if (s.model.attention_bias) bias_gradient(c, label, s.own_tokens, out);
  TensorIndex now = quantize_gradient(c, label, gradient, true, s.own_tokens, out);
  product(c, c.pass, label + " input gradient", s.input_gemm(s.own_tokens, out, s.hidden));
  const TensorIndex result = c.pass.allocate(
      label + " input gradient", s.bytes(s.own_tokens, s.hidden), MemoryCategory::workspace);
  c.pass.free(now);
  weight_gradient(c, label, s.weight_gemm(s.own_tokens, out, s.hidden));
  c.weights.free(gradient);
  c.weights.free(input);
  return result;
}

Shard from_latent(const Shard& s, int64_t width) {
  Shard up = s;
  up.hidden = width;
  return up;
}

void latent_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  SavedLatent& l = t.latent;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  const int64_t kv_width = m.kv_rank + m.qk_rope_dim;
  if (m.q_rank > 0) {
    l.q_down = duplicated_forward(c, mode, "query down", t.norm_output, m.q_rank, &l.input_low);
    l.kv_down = duplicated_forward(c, mode, "key and value down", t.norm_output, kv_width, nullptr);
    done_with(t.norm_output);
  } else {
    l.kv_down =
        duplicated_forward(c, mode, "key and value down", t.norm_output, kv_width, &l.input_low);
  }
  done_with(l.input_low);
  if (s.sequence_split()) {
    // The part of the keys that has positions, of all tokens.
    c.pass.join(c.pass.communicate(Stream::tp, "position key all-gather",
                                   s.collective(WorkKind::all_gather, m.qk_rope_dim)));
    l.position_key =
        c.pass.allocate("position keys", s.bytes(s.tokens, m.qk_rope_dim), saved(mode));
  }
  const bool chosen = attends_to_chosen(c);
  if (m.q_rank > 0) {
    // An indexer reads it, too.
    const NormOutput norm = norm_forward(c, mode, "query norm", s.own_tokens, m.q_rank, !chosen);
    l.q_normed = norm.output;
    l.q_statistics = norm.statistics;
    done_with(l.q_statistics);
    done_with(l.q_down);
  }
  const NormOutput norm =
      norm_forward(c, mode, "key and value norm", s.own_tokens, m.kv_rank, !chosen);
  l.kv_normed = norm.output;
  l.kv_statistics = norm.statistics;
  done_with(l.kv_statistics);
  TensorIndex& query_input = m.q_rank > 0 ? l.q_normed : t.norm_output;
  if (chosen) {
    absorb_forward(c, mode, t, query_input);
  } else {
    t.qkv = latent_up(c, mode, query_input, l.kv_normed);
  }
  // The norms of the latents are a part of the up projections (Megatron-Core's gpt_layer_specs.py:
  // column_parallel_layer_norm_linear), and made again with them.
  const bool again = drops(c, mode, &RecomputeModules::mla_up_projection);
  if (again && m.q_rank > 0) c.pass.free(l.q_normed);
  if (again) c.pass.free(l.kv_normed);
  done_with(query_input);
  done_with(l.kv_normed);
  done_with(l.position_key);
  done_with(l.kv_down);
}

void need_queries(const LayerContext& c, SavedAttention& t) {
  const bool dropped =
      c.shard.model.kv_rank > 0 && recomputes(c, &RecomputeModules::mla_up_projection);
  if (!dropped || t.qkv != kNoTensor) return;
  const Shard& s = c.shard;
  const ForwardMode mode = ForwardMode::recompute;
  SavedLatent& l = t.latent;
  const auto norm = [&](const char* label, int64_t width, TensorIndex& output) {
    NormOutput again = norm_forward(c, mode, label, s.own_tokens, width, true);
    output = again.output;
    c.pass.free(again.statistics);  // they were kept
  };
  if (s.model.q_rank > 0) norm("query norm", s.model.q_rank, l.q_normed);
  norm("key and value norm", s.model.kv_rank, l.kv_normed);
  // Without a latent the weight gradient of queries reads what is kept of the layer's norm; a copy
  // in low precision is made again.
  TensorIndex of_layer = kNoTensor;
  t.qkv = latent_up(c, mode, s.model.q_rank > 0 ? l.q_normed : of_layer, l.kv_normed);
  c.pass.free(of_layer);
}

// Megatron-Core, multi_latent_attention.py: with a norm that is recomputed the down projections
// save their input as it was instead of a quantized copy (set_for_recompute_input_layernorm), and
// convert it again.
void need_latent_input(const LayerContext& c, SavedAttention& t) {
  if (t.norm_output != kNoTensor || !recomputes(c, &RecomputeModules::norms)) return;
  need_norm(c, kInputNorm, t.norm_output);
  if (!is_low(c)) return;
  const Shard& s = c.shard;
  const bool low_rank = s.model.q_rank > 0;
  const Phase phase = c.pass.phase();
  c.pass.set_phase(Phase::recompute);
  const auto convert = [&](const char* label, TensorIndex* copy) {
    TensorIndex now = quantize_input(c, ForwardMode::recompute, label, t.norm_output, s.own_tokens,
                                     s.hidden, copy);
    c.pass.free(now);
  };
  convert(low_rank ? "query down" : "key and value down", &t.latent.input_low);
  convert(low_rank ? "key and value down" : "query", nullptr);
  c.pass.set_phase(phase);
}

TensorIndex latent_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient_qkv) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  SavedLatent& l = t.latent;
  const int64_t kv_width = m.kv_rank + m.qk_rope_dim;
  TensorIndex d_kv = kNoTensor, d_position = kNoTensor;
  if (attends_to_chosen(c)) {
    const AbsorbedGradients d = absorb_backward(c, t, gradient_qkv);
    gradient_qkv = d.queries;
    d_kv = d.latents;
    c.pass.free(l.position_key);
  } else {
    d_kv = latent_up_backward(c, l, d_position);
  }
  norm_backward(c, "key and value norm", s.own_tokens, m.kv_rank);
  c.pass.free(l.kv_statistics);
  c.pass.free(l.kv_down);
  // The gradients of the latent and of the shared part of the keys side by side.
  c.pass.compute("key and value down gradient",
                 s.memory_bound(Kernel::copy, s.bytes(s.own_tokens, kv_width) * 2));
  TensorIndex d_down = c.pass.allocate("key and value down gradient",
                                       s.bytes(s.own_tokens, kv_width), MemoryCategory::workspace);
  c.pass.free(d_kv);
  c.pass.free(d_position);
  TensorIndex d_input = kNoTensor;
  TensorIndex& other_input = m.q_rank > 0 ? t.norm_output : l.input_low;
  if (m.q_rank > 0) {
    const Shard q_up = from_latent(s, m.q_rank);
    TensorIndex d_q =
        column_parallel_backward(c.with(q_up), "query up", gradient_qkv, l.q_normed, s.q);
    norm_backward(c, "query norm", s.own_tokens, m.q_rank);
    c.pass.free(l.q_statistics);
    c.pass.free(l.q_down);
    d_input = duplicated_backward(c, "query down", d_q, l.input_low, m.q_rank);
  }
  TensorIndex d = duplicated_backward(c, "key and value down", d_down, other_input, kv_width);
  if (m.q_rank == 0)
    d_input = column_parallel_backward(c, "query", gradient_qkv, t.norm_output, s.q);
  c.pass.compute("latent input gradient",
                 s.memory_bound(Kernel::add, s.bytes(s.own_tokens, s.hidden) * 3));
  c.pass.free(d);
  return d_input;
}

}  // namespace stepcast
