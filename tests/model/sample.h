// SPDX-License-Identifier: Apache-2.0
// Small models and plans for tests, with everything spelled out.
#pragma once

#include "model/plan.h"
#include "model/transformer.h"

namespace stepcast::sample {

// A GPT of Megatron-LM 2022: learned positions, LayerNorm, GELU, all biases, tied head, dropout.
inline Transformer gpt(int64_t layers, int64_t hidden, int64_t heads, int64_t vocab, int64_t seq) {
  Transformer t;
  t.name = "gpt";
  t.layers = layers;
  t.hidden = hidden;
  t.heads = t.kv_heads = heads;
  t.head_dim = hidden / heads;
  t.ffn = 4 * hidden;
  t.vocab = vocab;
  t.max_positions = seq;
  t.tied = true;
  t.attention_bias = t.attention_output_bias = t.mlp_bias = true;
  t.attention_dropout = t.hidden_dropout = 0.1;
  return t;
}

inline Transformer llama(int64_t layers, int64_t hidden, int64_t heads, int64_t kv_heads,
                         int64_t ffn, int64_t vocab) {
  Transformer t = gpt(layers, hidden, heads, vocab, 0);
  t.name = "llama";
  t.kv_heads = kv_heads;
  t.ffn = ffn;
  t.gated = true;
  t.tied = false;
  t.norm = Norm::rms_norm;
  t.activation = Activation::silu;
  t.positions = Positions::rotary;
  t.attention_bias = t.attention_output_bias = t.mlp_bias = false;
  t.attention_dropout = t.hidden_dropout = 0;
  return t;
}

inline Plan plan(int64_t tp, int64_t pp, int64_t dp, int64_t microbatches, int64_t micro,
                 int64_t seq) {
  Plan p;
  p.tp = tp;
  p.pp = pp;
  p.dp = dp;
  p.sp = tp > 1;
  p.grid = {.tp = tp, .cp = 1, .dp = dp, .pp = pp};
  p.global_batch = microbatches * micro * dp;
  p.micro_batch = micro;
  p.seq = seq;
  p.kernels.flash_attention = false;
  return p;
}

}  // namespace stepcast::sample
