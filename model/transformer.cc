// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <algorithm>
#include <string>

#include "sim/check.h"

namespace stepcast {
namespace {

// Parameters of a part of the model: those that are multiplied with, and biases, norms and the
// like.
struct Count {
  int64_t matrices = 0;
  int64_t vectors = 0;

  Count& operator+=(const Count& o) {
    matrices += o.matrices;
    vectors += o.vectors;
    return *this;
  }
  int64_t total() const { return matrices + vectors; }
};

int64_t norm_parameters(const Transformer& t, int64_t width) {
  return t.norm == Norm::layer_norm && t.norm_bias ? 2 * width : width;
}

Count ordinary_attention(const Transformer& t) {
  const int64_t q = t.heads * t.head_dim;
  const int64_t qkv = q + 2 * t.kv_heads * t.head_dim;
  Count c{t.hidden * qkv + q * t.hidden, 0};
  if (t.attention_bias) c.vectors += qkv;
  if (t.qk_norm) c.vectors += 2 * t.head_dim;
  return c;
}

// Multi-head latent attention, DeepSeek-V2 (arXiv 2405.04434) section 2.1: down and up projections
// with an RMS norm between them.  Only the down projections can have biases.
Count latent_attention(const Transformer& t) {
  const int64_t q = t.heads * (t.qk_nope_dim + t.qk_rope_dim);
  const int64_t kv_down = t.kv_rank + t.qk_rope_dim;
  Count c{t.hidden * kv_down + t.kv_rank * t.heads * (t.qk_nope_dim + t.v_dim) +
              t.heads * t.v_dim * t.hidden,
          t.kv_rank};
  if (t.attention_bias) c.vectors += kv_down;
  if (t.q_rank == 0) {
    c.matrices += t.hidden * q;
  } else {
    c += {t.hidden * t.q_rank + t.q_rank * q, t.q_rank};
    if (t.attention_bias) c.vectors += t.q_rank;
  }
  return c;
}

Count attention(const Transformer& t) {
  Count c = t.kv_rank > 0 ? latent_attention(t) : ordinary_attention(t);
  if (t.attention_output_bias) c.vectors += t.hidden;
  if (t.attention_sinks) c.vectors += t.heads;
  return c;
}

Count mlp(const Transformer& t, int64_t width) {
  const int64_t up = t.gated ? 2 * width : width;
  Count c{t.hidden * up + width * t.hidden, 0};
  if (t.mlp_bias) c.vectors += up + t.hidden;
  return c;
}

// `met` experts of each layer are counted: all of them, or those that one token meets.
Count mixture(const Transformer& t, int64_t met) {
  const Count expert = mlp(t, t.moe_ffn);
  Count c{t.hidden * t.experts + met * expert.matrices, met * expert.vectors};
  if (t.router_bias) c.vectors += t.experts;
  if (t.shared_ffn > 0) c += mlp(t, t.shared_ffn);
  if (t.shared_gate) c.matrices += t.hidden;
  return c;
}

bool has_experts(const Transformer& t, int64_t layer) {
  if (t.experts == 0) return false;
  if (!t.expert_layers.empty()) return t.expert_layers[static_cast<size_t>(layer)] != 0;
  return layer >= t.dense_layers;
}

Count layer_count(const Transformer& t, int64_t layer, int64_t met) {
  Count c = attention(t);
  c += has_experts(t, layer) ? mixture(t, met) : mlp(t, t.ffn);
  c.vectors += 2 * norm_parameters(t, t.hidden);
  return c;
}

// All layers; alike but for the leading dense ones.
Count layers_count(const Transformer& t, int64_t met) {
  const int64_t dense = t.experts > 0 ? std::min(t.dense_layers, t.layers) : t.layers;
  Count c;
  if (dense > 0) {
    const Count one = layer_count(t, 0, met);
    c += {dense * one.matrices, dense * one.vectors};
  }
  if (dense < t.layers) {
    const Count one = layer_count(t, dense, met);
    c += {(t.layers - dense) * one.matrices, (t.layers - dense) * one.vectors};
  }
  return c;
}

// Embeddings, head and final norm.
int64_t outer_parameters(const Transformer& t) {
  int64_t n = t.vocab * t.hidden;
  if (!t.tied) n *= 2;
  if (t.positions == Positions::learned) n += t.max_positions * t.hidden;
  return n + norm_parameters(t, t.hidden);
}

// Pairs of query and key that attention multiplies, in one sequence.  A causal query sees half of
// the keys on average; with a window, at most that many.
double attention_pairs(const Transformer& t, double seq, bool causal) {
  if (!causal) return seq * seq;
  const auto limit = static_cast<double>(t.sliding_window);
  const double window = limit > 0 ? std::min(seq, limit) : seq;
  return seq * window - window * window / 2;
}

}  // namespace

LayerKind layer_kind(const Transformer& t, int64_t layer) {
  STEPCAST_CHECK(layer >= 0 && layer < t.layers, "no such layer: " + std::to_string(layer));
  LayerKind kind;
  kind.experts = has_experts(t, layer);
  kind.window = t.windows.empty() ? t.sliding_window : t.windows[static_cast<size_t>(layer)];
  kind.bidirectional = t.bidirectional || layer < t.encoder_layers;
  kind.cross = t.encoder_layers > 0 && layer >= t.encoder_layers;
  return kind;
}

int64_t parameters(const Transformer& t) {
  return outer_parameters(t) + layers_count(t, t.experts).total();
}

int64_t active_parameters(const Transformer& t) {
  return outer_parameters(t) + layers_count(t, t.experts_per_token).total();
}

int64_t layer_parameters(const Transformer& t, int64_t layer) {
  STEPCAST_CHECK(layer >= 0 && layer < t.layers, "no such layer: " + std::to_string(layer));
  return layer_count(t, layer, t.experts).total();
}

double forward_matmul_flops(const Transformer& t, double sequences, double seq, bool causal) {
  const auto weights = static_cast<double>(layers_count(t, t.experts_per_token).matrices);
  const bool latent = t.kv_rank > 0;
  const int64_t score_dim = latent ? t.qk_nope_dim + t.qk_rope_dim : t.head_dim;
  const int64_t value_dim = latent ? t.v_dim : t.head_dim;
  const auto pair = static_cast<double>(2 * t.layers * t.heads * (score_dim + value_dim));
  return sequences * (2 * seq * weights + pair * attention_pairs(t, seq, causal)) +
         head_matmul_flops(t, sequences, seq);
}

double head_matmul_flops(const Transformer& t, double sequences, double seq) {
  return 2 * sequences * seq * static_cast<double>(t.hidden) * static_cast<double>(t.vocab);
}

}  // namespace stepcast
