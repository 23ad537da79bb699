// SPDX-License-Identifier: Apache-2.0
// Attention to a window and to compressed keys: the hybrid attention of DeepSeek-V4 (its technical
// report, section 2.3), as transformers' modeling_deepseek_v4.py defines it and Megatron-Core
// trains it (core/transformer/experimental_attention_variant/deepseek_v4_hybrid_attention.py,
// csa.py).
//
// All heads share one vector a token, which is key and value at once.  Queries have a low rank and
// a norm without weights; so has the projection of the output, whose first half multiplies groups
// of heads apart.  Each query attends to the vectors of a window, and in layers with
// LayerKind::compression = r to one vector for each r tokens before it: their mean by weights that
// are projected from the same input and passed through a softmax.  Vectors of kChosenCompression
// tokens overlap, being made of twice as many, and an indexer chooses among them
// (sparse_attention.cc), which has compressed keys of its own; all others are attended to.
//
// For example, of 8,192 tokens with r = 128 the last query sees a window of 128 vectors and 64
// compressed ones.
//
// Every rank holds all of it: tp = 1, as in Megatron-Core.
#include <string>
#include <utility>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

// Width of one of the two projections of a compressor.
int64_t compressor_width(const LayerContext& c) {
  return vectors_per_token(c.kind.compression) * c.shard.query_dim;
}

int64_t compressed_tokens(const LayerContext& c) {
  return c.shard.tokens / c.kind.compression;
}

int64_t group_input(const Shard& s) {
  return s.context / s.model.out_groups;
}

// The shapes of the core: one key-value head, whose values are its keys.
Shard core_shard(const LayerContext& c) {
  Shard x = c.shard;
  const int64_t compression = c.kind.compression;
  x.kv_heads = 1;
  // As many numbers a token as the compressed ones take, rounded up.
  const int64_t share =
      compression > 0 ? (x.query_dim + compression - 1) / compression : int64_t{0};
  x.key = x.query_dim + share;
  x.value = 0;  // the same
  x.qkv = x.q + x.key;
  return x;
}

Work rotation(const LayerContext& c, Kernel kernel, int64_t heads) {
  const Shard& s = c.shard;
  return s.memory_bound(kernel, s.bytes(s.tokens, heads * s.model.qk_rope_dim) * 2);
}

constexpr const char* kCompressorLayers[] = {"compressor", "compressor gate"};

void compress_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const int64_t width = compressor_width(c), rows = compressed_tokens(c);
  SavedCompressor& k = t.compressor;
  for (const char* label : kCompressorLayers)
    c.pass.compute(label, s.forward_gemm(s.tokens, width, s.hidden));
  k.projected = c.pass.allocate("compressor output", s.bytes(s.tokens, 2 * width), saved(mode));
  c.pass.compute("compression", s.memory_bound(Kernel::softmax, s.bytes(s.tokens, 2 * width) +
                                                                    s.bytes(rows, s.query_dim)));
  k.compressed = c.pass.allocate("compressed keys", s.bytes(rows, s.query_dim), saved(mode));
  NormOutput norm = norm_forward(c, mode, "compressed key norm", rows, s.query_dim);
  k.statistics = norm.statistics;
  c.pass.compute("compressed key rotary",
                 s.memory_bound(Kernel::rotary, s.bytes(rows, s.model.qk_rope_dim) * 2));
  c.pass.compute("keys side by side",
                 s.memory_bound(Kernel::copy, s.bytes(s.tokens + rows, s.query_dim) * 2));
  c.pass.free(norm.output);
  if (mode != ForwardMode::discard) return;
  for (TensorIndex* tensor : {&k.projected, &k.compressed, &k.statistics}) c.pass.free(*tensor);
}

// The gradient of what is compressed, [tokens, hidden].
TensorIndex compress_backward(const LayerContext& c, SavedAttention& t) {
  const Shard& s = c.shard;
  const int64_t width = compressor_width(c), rows = compressed_tokens(c);
  SavedCompressor& k = t.compressor;
  c.pass.compute("compressed key rotary backward",
                 s.memory_bound(Kernel::rotary_backward, s.bytes(rows, s.model.qk_rope_dim) * 2));
  norm_backward(c, "compressed key norm", rows, s.query_dim);
  c.pass.free(k.statistics);
  c.pass.free(k.compressed);
  c.pass.compute("compression backward",
                 s.memory_bound(Kernel::softmax_backward,
                                s.bytes(s.tokens, 4 * width) + s.bytes(rows, s.query_dim)));
  TensorIndex d = c.pass.allocate("compressor output gradient", s.bytes(s.tokens, 2 * width),
                                  MemoryCategory::workspace);
  c.pass.free(k.projected);
  const TensorIndex out = c.pass.allocate("compressor input gradient", s.bytes(s.tokens, s.hidden),
                                          MemoryCategory::workspace);
  for (const char* label : kCompressorLayers) {
    c.pass.compute(std::string(label) + " input gradient", s.input_gemm(s.tokens, width, s.hidden));
    weight_gradient(c, label, s.weight_gemm(s.tokens, width, s.hidden), {.wide = true});
  }
  reduce_after(c, c.kind.compression * width);  // of the positions in a compressed key
  c.weights.free(d);
  return out;
}

}  // namespace

bool attends_compressed(const LayerContext& c) {
  return !c.shard.model.compressions.empty();
}

void compressed_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  SavedLatent& l = t.latent;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  l.q_down = duplicated_forward(c, mode, "query down", t.norm_output, m.q_rank, &l.input_low);
  const NormOutput q_norm = norm_forward(c, mode, "query norm", s.own_tokens, m.q_rank);
  l.q_normed = q_norm.output;
  l.q_statistics = q_norm.statistics;
  done_with(l.q_statistics);
  done_with(l.q_down);
  l.kv_down = duplicated_forward(c, mode, "key", t.norm_output, s.query_dim, &t.compressor.key_low);
  const NormOutput key_norm = norm_forward(c, mode, "key norm", s.own_tokens, s.query_dim);
  l.kv_statistics = key_norm.statistics;
  TensorIndex key = key_norm.output;
  done_with(l.kv_statistics);
  done_with(l.kv_down);
  if (c.kind.compression > 0) compress_forward(c, mode, t);
  if (c.kind.indexes) index_forward(c, mode, t);
  done_with(t.norm_output);
  done_with(l.input_low);
  done_with(t.compressor.key_low);
  const Shard up = from_latent(s, m.q_rank);
  t.queries_before =
      column_parallel_forward(c.with(up), mode, "query up", "queries", l.q_normed, s.q);
  done_with(l.q_normed);
  c.pass.compute("query head norm", s.memory_bound(Kernel::rms_norm, s.bytes(s.tokens, s.q) * 2));
  const int64_t compressed = c.kind.compression > 0 ? compressed_tokens(c) : 0;
  t.qkv = c.pass.allocate("queries and keys",
                          s.bytes(s.tokens, s.q + s.query_dim) + s.bytes(compressed, s.query_dim),
                          saved(mode));
  c.pass.free(key);
  done_with(t.queries_before);
  c.pass.compute("rotary", rotation(c, Kernel::rotary, s.heads + 1));
}

void compressed_core_forward(const LayerContext& c, ForwardMode mode, bool keep,
                             SavedAttention& t) {
  const Shard& s = c.shard;
  TensorIndex none = kNoTensor;
  t.core = core_forward(c.with(core_shard(c)), mode, keep, none);
  // Values have the positions of keys, which are taken out again.
  c.pass.compute("context rotary", rotation(c, Kernel::rotary, s.heads));
  c.pass.compute(
      "group projection",
      products(s.forward_gemm(s.tokens, s.model.out_rank, group_input(s)), s.model.out_groups));
  t.context_copy = c.pass.allocate("group projection output",
                                   s.bytes(s.tokens, compressed_context(s)), saved(mode));
  if (!c.kind.indexes) return;
  if (mode == ForwardMode::discard) {
    c.pass.free(t.indexer.chosen);
  } else {
    index_loss(c, mode, t);
  }
}

void recompute_compressed_core(const LayerContext& c, SavedAttention& t) {
  TensorIndex none = kNoTensor;
  recompute_core(c.with(core_shard(c)), t.core, none);
}

int64_t compressed_context(const Shard& s) {
  return s.model.out_groups * s.model.out_rank;
}

TensorIndex compressed_core_backward(const LayerContext& c, SavedAttention& t,
                                     TensorIndex& gradient) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  c.pass.compute("group projection input gradient",
                 products(s.input_gemm(s.tokens, m.out_rank, group_input(s)), m.out_groups));
  TensorIndex d = c.pass.allocate("attention context gradient", s.bytes(s.tokens, s.context),
                                  MemoryCategory::workspace);
  weight_gradient(c, "group projection",
                  s.weight_gemm(s.tokens, compressed_context(s), group_input(s)), {.wide = true});
  c.weights.free(gradient);
  c.pass.compute("context rotary backward", rotation(c, Kernel::rotary_backward, s.heads));
  TensorIndex context = std::exchange(t.core.context, kNoTensor);
  const TensorIndex d_qkv = core_backward(c.with(core_shard(c)), t.core, d, t.qkv);
  c.weights.free(context);
  if (c.kind.indexes) index_backward(c, t);
  c.pass.free(t.indexer.chosen);
  return d_qkv;
}

void need_compressed_input(const LayerContext& c, SavedAttention& t) {
  if (t.norm_output != kNoTensor || !recomputes(c, &RecomputeModules::norms)) return;
  need_norm(c, kInputNorm, t.norm_output);
  const Shard& s = c.shard;
  const Phase phase = c.pass.phase();
  c.pass.set_phase(Phase::recompute);
  for (const auto& [label, copy] :
       {std::pair{"query down", &t.latent.input_low}, std::pair{"key", &t.compressor.key_low}}) {
    TensorIndex now = quantize_input(c, ForwardMode::recompute, label, t.norm_output, s.own_tokens,
                                     s.hidden, copy);
    c.pass.free(now);
  }
  c.pass.set_phase(phase);
}

TensorIndex compressed_backward(const LayerContext& c, SavedAttention& t,
                                TensorIndex& gradient_qkv) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  SavedLatent& l = t.latent;
  c.pass.compute("rotary backward", rotation(c, Kernel::rotary_backward, s.heads + 1));
  TensorIndex d_compressed = c.kind.compression > 0 ? compress_backward(c, t) : kNoTensor;
  norm_backward(c, "key norm", s.own_tokens, s.query_dim);
  TensorIndex d_key = c.pass.allocate("key gradient", s.bytes(s.own_tokens, s.query_dim),
                                      MemoryCategory::workspace);
  c.pass.free(l.kv_statistics);
  c.pass.free(l.kv_down);
  c.pass.compute("query head norm backward",
                 s.memory_bound(Kernel::rms_norm_backward, s.bytes(s.tokens, s.q) * 3));
  TensorIndex d_q =
      c.pass.allocate("query gradient", s.bytes(s.tokens, s.q), MemoryCategory::workspace);
  c.pass.free(t.queries_before);
  c.pass.free(gradient_qkv);
  TensorIndex d_input = duplicated_backward(c, "key", d_key, t.compressor.key_low, s.query_dim);
  const Shard up = from_latent(s, m.q_rank);
  TensorIndex d_down = column_parallel_backward(c.with(up), "query up", d_q, l.q_normed, s.q);
  norm_backward(c, "query norm", s.own_tokens, m.q_rank);
  c.pass.free(l.q_statistics);
  c.pass.free(l.q_down);
  TensorIndex d = duplicated_backward(c, "query down", d_down, l.input_low, m.q_rank);
  c.pass.compute("attention input gradient",
                 s.memory_bound(Kernel::add, s.bytes(s.own_tokens, s.hidden) *
                                                 (d_compressed != kNoTensor ? 4 : 3)));
  c.pass.free(d);
  c.pass.free(d_compressed);
  c.weights.free(t.norm_output);
  return d_input;
}

}  // namespace stepcast
