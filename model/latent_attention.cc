// SPDX-License-Identifier: Apache-2.0
// Queries, keys and values of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section
// 2.1), not absorbed, as Megatron-LM trains it (multi_latent_attention.py): a down projection to
// the latent and its norm, held whole by every tensor-parallel rank; an up projection to the rank's
// heads; rotary positions on a part of each query, and on one part of the keys that all heads
// share.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {
namespace {

// Shapes of the up projection from a latent of this width.
Shard from_latent(const Shard& s, int64_t width) {
  Shard up = s;
  up.hidden = width;
  return up;
}

// What the keys' and values' up projection makes: the keys without their shared part.
int64_t up_width(const Shard& s) {
  return s.heads * (s.model.qk_nope_dim + s.model.v_dim);
}

}  // namespace

TensorIndex StageWriter::duplicated_forward(const std::string& label, TensorIndex& input,
                                            int64_t out, TensorIndex* copy) {
  const Shard& s = s_;
  TensorIndex now = quantize_input(label, input, s.own_tokens, s.hidden, copy);
  product(p_, label, s.forward_gemm(s.own_tokens, out, s.hidden));
  const Bytes bytes = s.bytes(s.own_tokens, out);
  const TensorIndex output = p_.allocate(label + " output", bytes, saved());
  p_.free(now);
  if (s.model.attention_bias && !s.plan.kernels.fused_bias) {
    p_.compute(label + " bias", s.memory_bound(Kernel::bias_add, bytes * 2));
  }
  return output;
}

TensorIndex StageWriter::duplicated_backward(const std::string& label, TensorIndex& gradient,
                                             TensorIndex& input, int64_t out) {
  const Shard& s = s_;
  if (s.model.attention_bias) bias_gradient(label, s.own_tokens, out);
  TensorIndex now = quantize_gradient(label, gradient, true, s.own_tokens, out);
  product(p_, label + " input gradient", s.input_gemm(s.own_tokens, out, s.hidden));
  const TensorIndex result = p_.allocate(label + " input gradient", s.bytes(s.own_tokens, s.hidden),
                                         MemoryCategory::workspace);
  p_.free(now);
  weight_gradient(label, s.weight_gemm(s.own_tokens, out, s.hidden));
  w_.free(gradient);
  w_.free(input);
  return result;
}

// Up projections and rotary positions; fills `t.qkv`.
void StageWriter::latent_up(LayerTensors& t, TensorIndex& query_input, TensorIndex& kv_input) {
  const Shard& s = s_;
  const Transformer& m = s.model;
  const Bytes up_bytes = s.bytes(s.tokens, up_width(s));
  // Queries are rotated in place, so theirs is a part of the tensor that attention reads.
  const auto queries = [&](StageWriter writer, const std::string& label) {
    TensorIndex q = writer.column_parallel_forward(label, "queries", query_input, s.q);
    t.qkv = p_.allocate("queries, keys, values", s.bytes(s.tokens, s.qkv), saved());
    p_.free(q);
  };
  if (m.q_rank > 0) {
    const Shard up = from_latent(s, m.q_rank);
    queries(StageWriter(*this, up), "query up");
  } else {
    queries(StageWriter(*this, s), "query");
  }
  const Shard up = from_latent(s, m.kv_rank);
  TensorIndex kv = StageWriter(*this, up).column_parallel_forward(
      "key and value up", "keys and values up", kv_input, up_width(s));
  const Bytes rotated = s.bytes(s.tokens, s.heads * m.qk_rope_dim) * 2;
  p_.compute("rotary", s.memory_bound(Kernel::rotary,
                                      rotated + up_bytes +
                                          s.bytes(s.tokens, m.qk_rope_dim + s.key + s.value)));
  p_.free(kv);
}

void StageWriter::latent_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const Transformer& m = s.model;
  LatentTensors& l = t.latent;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  const int64_t kv_width = m.kv_rank + m.qk_rope_dim;
  if (m.q_rank > 0) {
    l.q_down = duplicated_forward("query down", t.norm1_output, m.q_rank, &l.input_low);
    l.kv_down = duplicated_forward("key and value down", t.norm1_output, kv_width, nullptr);
    done_with(t.norm1_output);
  } else {
    l.kv_down = duplicated_forward("key and value down", t.norm1_output, kv_width, &l.input_low);
  }
  done_with(l.input_low);
  if (s.sequence_split()) {
    // The part of the keys that has positions, of all tokens.
    p_.join(p_.communicate(Stream::tp, "position key all-gather",
                           s.collective(WorkKind::all_gather, m.qk_rope_dim)));
    l.position_key = p_.allocate("position keys", s.bytes(s.tokens, m.qk_rope_dim), saved());
  }
  if (m.q_rank > 0) {
    norm_forward("query norm", l.q_statistics, l.q_normed, s.own_tokens, m.q_rank, true);
    done_with(l.q_statistics);
    done_with(l.q_down);
  }
  norm_forward("key and value norm", l.kv_statistics, l.kv_normed, s.own_tokens, m.kv_rank, true);
  done_with(l.kv_statistics);
  latent_up(t, m.q_rank > 0 ? l.q_normed : t.norm1_output, l.kv_normed);
  done_with(m.q_rank > 0 ? l.q_normed : t.norm1_output);
  done_with(l.kv_normed);
  done_with(l.position_key);
  done_with(l.kv_down);
}

void StageWriter::need_queries(LayerTensors& t) {
  const bool dropped = s_.model.kv_rank > 0 && recomputes(&RecomputeModules::mla_up_projection);
  if (!dropped || t.qkv != kNoTensor) return;
  const ForwardMode mode = std::exchange(mode_, ForwardMode::recompute);
  // The weight gradients read what the first forward kept; a copy in low precision is made again.
  TensorIndex query_input = kNoTensor, kv_input = kNoTensor;
  latent_up(t, query_input, kv_input);
  p_.free(query_input);
  p_.free(kv_input);
  mode_ = mode;
}

TensorIndex StageWriter::latent_backward(LayerTensors& t, TensorIndex& gradient_qkv) {
  const Shard& s = s_;
  const Transformer& m = s.model;
  LatentTensors& l = t.latent;
  const Bytes up_bytes = s.bytes(s.tokens, up_width(s));
  const Bytes shared = s.bytes(s.tokens, m.qk_rope_dim);
  const Bytes rotated = s.bytes(s.tokens, s.heads * m.qk_rope_dim) * 2;
  p_.compute("rotary backward",
             s.memory_bound(Kernel::rotary_backward,
                            rotated + s.bytes(s.tokens, s.key + s.value) + up_bytes + shared));
  TensorIndex d_up =
      p_.allocate("keys and values up gradient", up_bytes, MemoryCategory::workspace);
  TensorIndex d_position = p_.allocate("position key gradient", shared, MemoryCategory::workspace);
  p_.free(l.position_key);
  if (s.sequence_split()) {
    p_.join(p_.communicate(Stream::tp, "position key gradient reduce-scatter",
                           s.collective(WorkKind::reduce_scatter, m.qk_rope_dim)));
  }

  const auto from = [&](const std::string& label, int64_t width, TensorIndex& gradient,
                        TensorIndex& input, int64_t out) {
    const Shard up = from_latent(s, width);
    StageWriter writer(*this, up);
    const TensorIndex d = writer.column_parallel_backward(label, gradient, input, out);
    buckets_ = writer.buckets_;
    return d;
  };
  const int64_t kv_width = m.kv_rank + m.qk_rope_dim;
  TensorIndex d_kv = from("key and value up", m.kv_rank, d_up, l.kv_normed, up_width(s));
  norm_backward("key and value norm", s.own_tokens, m.kv_rank);
  p_.free(l.kv_statistics);
  p_.free(l.kv_down);
  // The gradients of the latent and of the shared part of the keys side by side.
  p_.compute("key and value down gradient",
             s.memory_bound(Kernel::copy, s.bytes(s.own_tokens, kv_width) * 2));
  TensorIndex d_down = p_.allocate("key and value down gradient", s.bytes(s.own_tokens, kv_width),
                                   MemoryCategory::workspace);
  p_.free(d_kv);
  p_.free(d_position);
  TensorIndex d_input = kNoTensor;
  TensorIndex& other_input = m.q_rank > 0 ? t.norm1_output : l.input_low;
  if (m.q_rank > 0) {
    TensorIndex d_q = from("query up", m.q_rank, gradient_qkv, l.q_normed, s.q);
    norm_backward("query norm", s.own_tokens, m.q_rank);
    p_.free(l.q_statistics);
    p_.free(l.q_down);
    d_input = duplicated_backward("query down", d_q, l.input_low, m.q_rank);
  }
  TensorIndex d = duplicated_backward("key and value down", d_down, other_input, kv_width);
  if (m.q_rank == 0) d_input = column_parallel_backward("query", gradient_qkv, t.norm1_output, s.q);
  p_.compute("latent input gradient",
             s.memory_bound(Kernel::add, s.bytes(s.own_tokens, s.hidden) * 3));
  p_.free(d);
  return d_input;
}

}  // namespace stepcast
