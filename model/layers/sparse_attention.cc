// SPDX-License-Identifier: Apache-2.0
// Attention of each query to the keys that an indexer has chosen for it: DeepSeek Sparse Attention
// (DeepSeek-V3.2, section 2.1), as Megatron-Core trains it
// (core/transformer/experimental_attention_variant/dsa.py).
//
// Latent attention in its multi-query mode: queries are absorbed into the latent space, in which
// all heads share the keys, whose first part are the values; an up projection of each head follows.
// That is as many FLOPs in projections as keys and values of every head would take, and more in the
// core: kv_lora_rank + qk_rope_head_dim numbers of a key instead of a head's own.
//
// The indexer scores every key that a query sees (eq. 1) with products of its own heads; the
// index_topk best are attended to.  Every tensor-parallel rank has all of it and scores all tokens.
// It learns from a loss of its own that compares its scores of the chosen keys with what attention
// gave them, summed over the heads of all ranks (section 2.1.1, eq. 4); no gradient goes back from
// it into the model.  Scores are written and read once; they pass in blocks of queries, and take no
// memory here.
#include <algorithm>
#include <string>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

double whole_number(int64_t n) {
  return static_cast<double>(n);
}

Bytes whole_bytes(double bytes) {
  return {static_cast<int64_t>(bytes)};
}

// Tokens in one of the keys that an indexer scores.
int64_t tokens_of_key(const LayerContext& c) {
  return std::max<int64_t>(1, c.kind.compression);
}

int64_t left_keys(const LayerContext& c) {
  return left_keys(c.shard, c.kind);
}

// Pairs of a query and a key that it sees, at most `most` of each query; in a microbatch.
double seen_pairs(const LayerContext& c, int64_t most) {
  const Shard& s = c.shard;
  const double keys = whole_number(s.keys), before = whole_number(s.keys - s.seq);
  const double of_key = whole_number(tokens_of_key(c));
  const auto below = [&](double tokens) {
    const double count = tokens / of_key;
    const double window = most > 0 ? std::min(count, whole_number(most)) : count;
    return of_key * (count * window - window * window / 2);
  };
  return (below(keys) - below(before)) * whole_number(s.plan.micro_batch);
}

// The products of an indexer's heads with keys, of which `pairs` are computed; reads both and moves
// one fp32 number a pair.
Work score_work(const LayerContext& c, double pairs) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  const int64_t of_key = tokens_of_key(c);
  Work w = s.forward_gemm(s.seq, s.keys / of_key, m.index_heads * m.index_dim);
  w.batch = s.plan.micro_batch;
  w.flops = {2 * pairs * whole_number(m.index_heads * m.index_dim)};
  w.bytes = s.bytes(s.tokens, m.index_heads * m.index_dim + m.index_heads) +
            s.bytes(s.tokens / of_key, m.index_dim) + whole_bytes(4 * pairs);
  return w;
}

// The projections of an indexer; compressed keys are sums by weights that are projected, too.
struct IndexerLayer {
  const char* label;
  int64_t out, in;
};

std::vector<IndexerLayer> indexer_layers(const Transformer& m) {
  if (!m.compressions.empty())
    return {{"indexer query", m.index_heads * m.index_dim, m.q_rank},
            {"indexer key", 2 * m.index_dim, m.hidden},
            {"indexer weights", m.index_heads, m.hidden},
            {"indexer key gate", 2 * m.index_dim, m.hidden}};
  return {{"indexer query", m.index_heads * m.index_dim, m.q_rank},
          {"indexer key", m.index_dim, m.hidden},
          {"indexer weights", m.index_heads, m.hidden}};
}

// Sums of the keys of so many tokens, in which those of the tokens before have a part.
void compress_keys(const LayerContext& c, ForwardMode mode, SavedIndexer& i) {
  const Shard& s = c.shard;
  const int64_t dim = s.model.index_dim, rows = s.tokens / tokens_of_key(c);
  c.pass.compute("indexer compression",
                 s.memory_bound(Kernel::softmax, s.bytes(s.tokens, 4 * dim) + s.bytes(rows, dim)));
  i.compressed = c.pass.allocate("indexer compressed keys", s.bytes(rows, 2 * dim), saved(mode));
  c.pass.compute("indexer key norm", s.memory_bound(Kernel::rms_norm, s.bytes(rows, dim) * 2));
  i.statistics = c.pass.allocate("norm statistics", s.bytes(rows, 1, DType::fp32), saved(mode));
}

void compress_keys_backward(const LayerContext& c) {
  const Shard& s = c.shard;
  const int64_t dim = s.model.index_dim, rows = s.tokens / tokens_of_key(c);
  c.pass.compute("indexer key norm backward",
                 s.memory_bound(Kernel::rms_norm_backward, s.bytes(rows, dim) * 3));
  c.pass.compute(
      "indexer compression backward",
      s.memory_bound(Kernel::softmax_backward, s.bytes(s.tokens, 8 * dim) + s.bytes(rows, dim)));
  reduce_after(c, dim + tokens_of_key(c) * 2 * dim);  // the norm; positions in a key
}

}  // namespace

int64_t left_keys(const Shard& s, const LayerKind& kind) {
  return std::min(s.model.index_topk, s.keys / std::max<int64_t>(1, kind.compression));
}

Work products(Work gemm, int64_t count) {
  gemm.batch = count;
  gemm.flops = gemm.flops * whole_number(count);
  return gemm;
}

void index_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  SavedIndexer& i = t.indexer;
  const bool compressed = attends_compressed(c);
  if (s.sequence_split()) {
    for (const int64_t width : {m.hidden, m.q_rank})
      c.pass.join(c.pass.communicate(Stream::tp, "indexer input all-gather",
                                     s.collective(WorkKind::all_gather, width)));
    i.gathered =
        c.pass.allocate("indexer input", s.bytes(s.tokens, m.hidden + m.q_rank), saved(mode));
  }
  TensorIndex* made[] = {&i.queries, &i.keys, &i.weights, &i.gates};
  auto output = std::begin(made);
  for (const IndexerLayer& l : indexer_layers(m)) {
    c.pass.compute(l.label, s.forward_gemm(s.tokens, l.out, l.in));
    **output++ = c.pass.allocate(l.label, s.bytes(s.tokens, l.out), saved(mode));
  }
  const Bytes keys = s.bytes(s.tokens, m.index_dim);
  if (compressed) {
    compress_keys(c, mode, i);
  } else {
    c.pass.compute("indexer key norm", s.memory_bound(Kernel::layer_norm, keys * 2));
    i.statistics =
        c.pass.allocate("norm statistics", s.bytes(s.tokens, 2, DType::fp32), saved(mode));
  }
  c.pass.compute(
      "indexer rotary",
      s.memory_bound(Kernel::rotary, s.bytes(s.tokens, (m.index_heads + 1) * m.qk_rope_dim) * 2));
  const double pairs = seen_pairs(c, 0);
  c.pass.compute("indexer scores", score_work(c, pairs));
  const Bytes chosen = s.bytes(s.tokens, left_keys(c), DType::fp32);  // int32
  c.pass.compute("choice of keys", s.memory_bound(Kernel::router, whole_bytes(4 * pairs) + chosen));
  i.chosen = c.pass.allocate("chosen keys", chosen, saved(mode));
  if (mode != ForwardMode::discard) return;
  for (TensorIndex* tensor :
       {&i.gathered, &i.queries, &i.keys, &i.weights, &i.gates, &i.compressed, &i.statistics})
    c.pass.free(*tensor);
}

// What attention gave the chosen keys, the sum over all heads: its loss.
void index_loss(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const int64_t key = attends_compressed(c) ? s.query_dim : latent_shard(s).key;
  const double pairs = seen_pairs(c, s.model.index_topk);
  const Bytes target = s.bytes(s.tokens, left_keys(c), DType::fp32);
  Work w = s.forward_gemm(s.heads, left_keys(c), key);
  w.batch = s.tokens;
  w.flops = {2 * pairs * whole_number(s.heads * key)};
  w.bytes = s.bytes(s.tokens, s.heads * key) + s.bytes(s.tokens / tokens_of_key(c), key) + target;
  c.pass.compute("indexer target", w);
  t.indexer.target = c.pass.allocate("indexer target", target, saved(mode));
  if (s.split()) {
    Work sum = s.collective(WorkKind::all_reduce, 1);
    sum.dtype = DType::fp32;
    sum.bytes = target;
    c.pass.join(c.pass.communicate(Stream::tp, "indexer target all-reduce", sum));
  }
  c.pass.compute("indexer loss", s.memory_bound(Kernel::cross_entropy, target * 3));
}

void index_backward(const LayerContext& c, SavedAttention& t) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  SavedIndexer& i = t.indexer;
  const double pairs = seen_pairs(c, m.index_topk);
  c.pass.compute("indexer scores again", score_work(c, pairs));
  const Bytes target = s.bytes(s.tokens, left_keys(c), DType::fp32);
  c.pass.compute("indexer loss backward",
                 s.memory_bound(Kernel::cross_entropy_backward, target * 3));
  for (const char* label : {"indexer query gradient", "indexer key gradient"})
    c.pass.compute(label, score_work(c, pairs));
  int64_t width = 0;
  for (const IndexerLayer& l : indexer_layers(m)) width += l.out;
  TensorIndex d =
      c.pass.allocate("indexer gradients", s.bytes(s.tokens, width), MemoryCategory::workspace);
  c.pass.compute("indexer rotary backward",
                 s.memory_bound(Kernel::rotary_backward,
                                s.bytes(s.tokens, (m.index_heads + 1) * m.qk_rope_dim) * 2));
  if (attends_compressed(c)) {
    compress_keys_backward(c);
  } else {
    c.pass.compute("indexer key norm backward",
                   s.memory_bound(Kernel::layer_norm_backward, s.bytes(s.tokens, m.index_dim) * 3));
    reduce_after(c, 2 * m.index_dim);
  }
  for (TensorIndex* tensor :
       {&i.target, &i.queries, &i.keys, &i.weights, &i.gates, &i.compressed, &i.statistics})
    c.pass.free(*tensor);
  for (const IndexerLayer& l : indexer_layers(m))
    weight_gradient(c, l.label, s.weight_gemm(s.tokens, l.out, l.in), {.wide = true});
  c.weights.free(d);
  c.weights.free(i.gathered);
}

bool attends_to_chosen(const LayerContext& c) {
  return chooses_latents(c.shard.model);
}

Shard latent_shard(const Shard& s) {
  Shard x = s;
  x.kv_heads = 1;
  x.key = s.model.kv_rank + s.model.qk_rope_dim;
  x.value = 0;  // a part of the key
  x.q = s.heads * x.key;
  x.qkv = x.q + x.key;
  x.context = s.heads * s.model.kv_rank;
  return x;
}

void absorb_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t,
                    TensorIndex& query_input) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  const Shard x = latent_shard(s);
  const Shard up = from_latent(s, m.q_rank);
  if (c.kind.indexes) index_forward(c, mode, t);
  t.queries_before =
      column_parallel_forward(c.with(up), mode, "query up", "queries", query_input, s.q);
  if (s.sequence_split())
    c.pass.join(c.pass.communicate(Stream::tp, "latent all-gather",
                                   s.collective(WorkKind::all_gather, m.kv_rank)));
  c.pass.compute("query absorption",
                 products(s.forward_gemm(s.tokens, m.kv_rank, m.qk_nope_dim), s.heads));
  t.qkv = c.pass.allocate("absorbed queries and latents", s.bytes(s.tokens, x.qkv), saved(mode));
  c.pass.free(t.latent.kv_normed);
  c.pass.compute("rotary", s.memory_bound(Kernel::rotary,
                                          s.bytes(s.tokens, (s.heads + 1) * m.qk_rope_dim) * 2));
  if (mode == ForwardMode::discard) c.pass.free(t.queries_before);
}

AbsorbedGradients absorb_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  const Shard x = latent_shard(s);
  AbsorbedGradients out;
  c.pass.compute("rotary backward",
                 s.memory_bound(Kernel::rotary_backward,
                                s.bytes(s.tokens, (s.heads + 1) * m.qk_rope_dim) * 2));
  if (s.split()) {
    // The heads of all ranks share the latents.
    const WorkKind kind = s.sequence_split() ? WorkKind::reduce_scatter : WorkKind::all_reduce;
    c.pass.join(c.pass.communicate(Stream::tp, "latent gradient sum", s.collective(kind, x.key)));
  }
  c.pass.compute("query absorption input gradient",
                 products(s.input_gemm(s.tokens, m.kv_rank, m.qk_nope_dim), s.heads));
  out.queries =
      c.pass.allocate("query gradient", s.bytes(s.tokens, s.q), MemoryCategory::workspace);
  out.latents =
      c.pass.allocate("latent gradient", s.bytes(s.own_tokens, x.key), MemoryCategory::workspace);
  weight_gradient(c, "query absorption",
                  s.weight_gemm(s.tokens, s.heads * m.qk_nope_dim, m.kv_rank), {.wide = true});
  c.weights.free(gradient);
  c.weights.free(t.queries_before);
  return out;
}

void chosen_core_forward(const LayerContext& c, ForwardMode mode, bool keep, SavedAttention& t) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  const Shard x = latent_shard(s);
  TensorIndex none = kNoTensor;
  t.core = core_forward(c.with(x), mode, keep, none);
  c.pass.compute("value up", products(s.forward_gemm(s.tokens, m.v_dim, m.kv_rank), s.heads));
  t.context_copy =
      c.pass.allocate("attention context of heads", s.bytes(s.tokens, s.context), saved(mode));
  if (!c.kind.indexes) return;
  if (mode == ForwardMode::discard) {
    // A layer that takes this choice reads it in the same forward; what is small is not followed.
    c.pass.free(t.indexer.chosen);
  } else {
    index_loss(c, mode, t);
  }
}

void recompute_chosen_core(const LayerContext& c, SavedAttention& t) {
  const Shard x = latent_shard(c.shard);
  TensorIndex none = kNoTensor;
  recompute_core(c.with(x), t.core, none);
}

TensorIndex chosen_core_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient) {
  const Shard& s = c.shard;
  const Transformer& m = s.model;
  const Shard x = latent_shard(s);
  c.pass.compute("value up input gradient",
                 products(s.input_gemm(s.tokens, m.v_dim, m.kv_rank), s.heads));
  TensorIndex d = c.pass.allocate("latent context gradient", s.bytes(s.tokens, x.context),
                                  MemoryCategory::workspace);
  weight_gradient(c, "value up", s.weight_gemm(s.tokens, s.heads * m.v_dim, m.kv_rank),
                  {.wide = true});
  c.weights.free(gradient);
  const TensorIndex d_qkv = core_backward(c.with(x), t.core, d, t.qkv);
  if (c.kind.indexes) index_backward(c, t);
  c.pass.free(t.indexer.chosen);
  return d_qkv;
}

}  // namespace stepcast
