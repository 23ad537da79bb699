// SPDX-License-Identifier: Apache-2.0
// The core of attention: from queries, keys and values to the context that the projection reads.
//
// Unfused, it is a chain of kernels (scores, softmax, dropout, context) whose s x s matrices are
// kept for the backward.  Fused (FlashAttention), it is one kernel each way, which keeps the
// log-sum-exp of each row instead.  Where sequences are split over the ranks of a context-parallel
// group it is several, between which keys and values travel, as Transformer Engine runs it.
//
// Rank r of n has the chunks r and 2n-1-r of 2n, so that all ranks see as many pairs of query and
// key under the causal mask: in a step of the ring, the whole of its queries and the first half of
// the keys that have come, or the second half of its queries and all of them (Transformer Engine,
// context_parallel.py; Liu et al. 2023, "Ring Attention", arXiv 2310.01889).  Both are the same
// work; the first stands for both here.
//
// For example, with n = 4 and 64 tokens in a sequence, a rank has two chunks of 8 tokens.  Its
// first step is causal attention of its 16 queries to its 16 keys; each of the three others is 16
// queries to 8 keys, and the transfer of the next keys and values runs beside it.
#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "model/layers/layers.h"
#include "model/passes/forward_only.h"

namespace stepcast {
namespace {

// ------------------------------------------------------------------------------ work of the kernel

// Ranks that exchange heads for tokens, neighbours in cp, and those that pass keys and values
// around a ring after that.  1: does not happen.
int64_t exchange_ranks(const Shard& s) {
  if (s.plan.cp_comm == CpComm::all_to_all) return s.cp;
  return s.plan.cp_comm == CpComm::hierarchical ? s.plan.cp_inner : 1;
}

int64_t ring_ranks(const Shard& s) {
  if (s.plan.cp_comm == CpComm::p2p) return s.cp;
  return s.plan.cp_comm == CpComm::hierarchical ? s.cp / s.plan.cp_inner : 1;
}

bool gathers_keys(const Shard& s) {
  return s.cp > 1 && s.plan.cp_comm == CpComm::all_gather;
}

// Pairs of query and key in one sequence that `queries` queries need, the last of which sees `keys`
// keys: half of all under the causal mask, a band with a window.
double pairs_of(const LayerKind& kind, int64_t queries, int64_t keys) {
  const auto width = [&](double s) {
    return kind.window > 0 ? std::min(s, static_cast<double>(kind.window)) : s;
  };
  if (kind.bidirectional) return static_cast<double>(queries) * width(static_cast<double>(keys));
  const auto pairs_below = [&](int64_t count) {
    const auto s = static_cast<double>(count);
    const double window = width(s);
    return s * window - window * window / 2;
  };
  return pairs_below(keys) - pairs_below(keys - queries);
}

// Compressed keys that the last query attends to.
int64_t visible_compressed(const Shard& s, const LayerKind& kind) {
  if (kind.compression == 0) return 0;
  const int64_t all = s.keys / kind.compression;
  return kind.indexes ? left_keys(s, kind) : all;
}

// Attention of the new token of each sequence to what is in the cache: limited by reading it.
// Latent attention is absorbed: all heads attend to the compressed keys, whose first part are the
// values (arXiv 2405.04434, section 2.1.2).  The products with the up projections that it takes,
// of each query before and of each context after, are as large as those of the new token's keys and
// values, which latent_forward writes.
Work cached_attention(const Shard& s, const LayerKind& kind) {
  const int64_t seen = kind.window > 0 ? std::min(s.keys, kind.window) : s.keys;
  const bool latent = s.model.kv_rank > 0;
  const int64_t query_width = latent ? s.model.kv_rank + s.model.qk_rope_dim : s.query_dim;
  const int64_t value_width = latent ? s.model.kv_rank : s.value_dim;
  Work w;
  w.kind = WorkKind::attention_forward;
  w.dtype = s.plan.precision.params;
  w.m = 1;
  w.n = seen;
  w.k = query_width;
  if (value_width != query_width) w.value_dim = value_width;
  w.batch = s.plan.micro_batch;
  w.heads = s.heads;
  w.kv_heads = latent ? 1 : s.kv_heads;
  const int64_t width = query_width + value_width;
  w.flops = {2.0 * static_cast<double>(seen * width) * static_cast<double>(s.heads * w.batch)};
  const DType stored = s.plan.precision.kv_cache.value_or(s.plan.precision.params);
  w.bytes = s.bytes(w.batch * s.heads, width) +
            s.bytes(w.batch * seen, latent ? query_width : s.key + s.value, stored);
  return w;
}

// The launches of fused attention over what a rank of the context-parallel group computes, one
// after the other: one; or one for each chunk of the rank's tokens, or for each step of the ring.
std::vector<Work> fused_attention(const Shard& s, bool backward, const LayerKind& kind) {
  if (s.plan.mode == StepMode::decode) return {cached_attention(s, kind)};
  const int64_t split = exchange_ranks(s), ring = ring_ranks(s);
  const bool chosen = chooses_latents(s.model);  // (sparse_attention.cc)
  const int64_t query_width = chosen ? s.model.kv_rank + s.model.qk_rope_dim : s.query_dim;
  const int64_t value_width = chosen ? s.model.kv_rank : s.value_dim;
  Work w;
  w.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward;
  w.dtype = s.plan.precision.params;
  w.causal = !kind.bidirectional;
  w.attention = s.plan.kernels.fused_attention;
  w.m = s.seq * split;
  w.n = s.keys;
  w.k = query_width;
  if (value_width != query_width) w.value_dim = value_width;
  w.batch = s.plan.micro_batch;
  w.heads = s.heads / split;
  w.kv_heads = std::max<int64_t>(1, s.kv_heads / split);
  LayerKind sees = kind;
  if (chosen) {  // rows of keys picked for each query
    sees.window = s.model.index_topk;
    w.n = std::min(s.keys, s.model.index_topk);
    w.causal = w.causal && w.n == s.keys;
  }
  double all = pairs_of(sees, s.seq * s.cp, s.keys);  // of a head, on all ranks
  if (!s.model.compressions.empty()) {                // rows of a window and compressed ones
    w.n = std::min(s.keys, kind.window) + visible_compressed(s, kind);
    w.causal = false;
    all = compressed_pairs(s.model, kind, static_cast<double>(s.keys), true);
  }
  // Forward two products, backward five (it recomputes the scores); scores and the gradients of
  // queries and keys are as wide as queries, the others as values.
  const int64_t width = backward ? 3 * query_width + 2 * value_width : query_width + value_width;
  const auto flops = [&](double pairs) {
    return Flops{2 * pairs * static_cast<double>(width * w.heads * w.batch)};
  };
  if (gathers_keys(s) && !kind.bidirectional) {
    // One launch a chunk; its keys end where it ends, in the mean at (2n + 1)/2 of 2n chunks.
    w.m = s.seq / 2;
    w.n = std::min(s.keys, (2 * s.cp + 1) * s.seq / 4);
    w.flops = flops(all / static_cast<double>(2 * s.cp));
    return {w, w};
  }
  w.flops = flops(all * static_cast<double>(split) / static_cast<double>(s.cp) /
                  static_cast<double>(ring));
  if (ring == 1) return {w};
  w.n = w.m;
  std::vector<Work> steps{w};
  if (!kind.bidirectional) {
    w.causal = false;
    w.n = w.m / 2;
  }
  steps.resize(static_cast<size_t>(ring), w);
  return steps;
}

// ------------------------------------------------------------------ between context-parallel ranks

// A tensor [tokens, width] of all heads.
struct HeadExchange {
  std::string label;
  int64_t width = 0;
};

// Each tensor [tokens, width] of all heads becomes one of 1/n of the heads and n times the tokens,
// or back: packed by rank, exchanged, put in the order of the tokens.
void exchange_heads(const LayerContext& c, std::initializer_list<HeadExchange> tensors) {
  const Axis axis = c.shard.plan.cp_comm == CpComm::all_to_all ? Axis::cp : Axis::cp_inner;
  std::vector<uint32_t> exchanges;
  for (const HeadExchange& t : tensors) {
    const Bytes bytes = c.shard.bytes(c.shard.tokens, t.width);
    c.pass.compute(t.label + " pack", c.shard.memory_bound(Kernel::copy, bytes * 2));
    Work w = c.shard.collective(WorkKind::all_to_all, t.width);
    w.axis = axis;
    exchanges.push_back(c.pass.communicate(Stream::cp, t.label + " all-to-all", w));
  }
  auto exchange = exchanges.begin();
  for (const HeadExchange& t : tensors) {
    c.pass.join(*exchange++);
    c.pass.compute(t.label + " unpack",
                   c.shard.memory_bound(Kernel::copy, c.shard.bytes(c.shard.tokens, t.width) * 2));
  }
}

// To the next rank of the ring.
uint32_t pass_on(const LayerContext& c, const std::string& label, Bytes bytes) {
  Work w;
  w.kind = WorkKind::shift;
  w.dtype = c.shard.plan.precision.params;
  w.axis = c.shard.plan.cp_comm == CpComm::p2p ? Axis::cp : Axis::cp_outer;
  w.bytes = bytes;
  return c.pass.communicate(Stream::cp, label, w);
}

// Of a step of the ring after the first: the mean over the ranks, of which some compute for all of
// their queries, the others for half of them.
Bytes of_ring_step(const LayerContext& c, Bytes bytes) {
  return c.kind.bidirectional ? bytes : Bytes{bytes.value * 3 / 4};
}

void ring_forward(const LayerContext& c) {
  const Shard& s = c.shard;
  const Bytes kv = s.bytes(s.tokens, s.key + s.value), context = s.bytes(s.tokens, s.context);
  const Bytes lse = s.bytes(s.tokens, s.heads, DType::fp32);
  const std::vector<Work> steps = fused_attention(s, false, c.kind);
  // Transformer Engine holds all that it received, and what each step made of it, to the end.
  std::vector<TensorIndex> held;
  c.pass.compute("keys and values pack", s.memory_bound(Kernel::copy, kv * 2));
  held.push_back(c.pass.allocate("keys and values", kv, MemoryCategory::communication));
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool passes_on = i + 1 < steps.size();
    const uint32_t transfer = passes_on ? pass_on(c, "keys and values transfer", kv) : 0;
    if (passes_on) {
      held.push_back(
          c.pass.allocate("keys and values received", kv, MemoryCategory::communication));
    }
    c.pass.compute("attention", steps[i]);
    held.push_back(c.pass.allocate("attention of a step", context, MemoryCategory::workspace));
    if (i > 0) {
      c.pass.compute("log-sum-exp correction",
                     s.memory_bound(Kernel::add, of_ring_step(c, lse * 3)));
    }
    if (passes_on) c.pass.join(transfer);
  }
  for (size_t i = 1; i < steps.size(); ++i) {
    c.pass.compute("attention correction",
                   s.memory_bound(Kernel::add, of_ring_step(c, context * 3)));
  }
  for (TensorIndex& tensor : held) c.pass.free(tensor);
}

// Keys and values go around once more, and their gradients with them, a step behind; in the end
// each rank has the sum of its own.
void ring_backward(const LayerContext& c) {
  const Shard& s = c.shard;
  const Bytes kv = s.bytes(s.tokens, s.key + s.value), q = s.bytes(s.tokens, s.q);
  const std::vector<Work> steps = fused_attention(s, true, c.kind);
  c.pass.compute("keys and values pack", s.memory_bound(Kernel::copy, kv * 2));
  // Two buffers for keys, values and their gradients, and the query gradient of a step.
  TensorIndex buffers =
      c.pass.allocate("keys, values and gradients", kv * 4, MemoryCategory::communication);
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool first = i == 0, last = i + 1 == steps.size();
    const uint32_t transfer = pass_on(c,
                                      first  ? "keys and values transfer"
                                      : last ? "key and value gradients transfer"
                                             : "keys, values and gradients transfer",
                                      first || last ? kv : kv * 2);
    c.pass.compute("attention backward", steps[i]);
    TensorIndex part = c.pass.allocate("gradients of a step", q + kv, MemoryCategory::workspace);
    if (!first)
      c.pass.compute("query gradient sum", s.memory_bound(Kernel::add, of_ring_step(c, q * 3)));
    c.pass.join(transfer);
    c.pass.compute("key and value gradient sum",
                   s.memory_bound(Kernel::add, of_ring_step(c, kv * 3)));
    c.pass.free(part);
  }
  c.pass.free(buffers);
}

TensorIndex gather_keys(const LayerContext& c) {
  const Shard& s = c.shard;
  Work w = s.collective(WorkKind::all_gather, s.key);
  w.axis = Axis::cp;
  w.bytes = w.bytes * s.cp;
  c.pass.join(c.pass.communicate(Stream::cp, "keys all-gather", w));
  w.bytes = s.bytes(s.tokens, s.value) * s.cp;
  c.pass.join(c.pass.communicate(Stream::cp, "values all-gather", w));
  const Bytes all = s.bytes(s.tokens, s.key + s.value) * s.cp;
  c.pass.compute("keys and values in order", s.memory_bound(Kernel::copy, all * 2));
  return c.pass.allocate("keys and values gathered", all, MemoryCategory::communication);
}

void gathered_forward(const LayerContext& c) {
  TensorIndex gathered = gather_keys(c);
  for (const Work& w : fused_attention(c.shard, false, c.kind)) c.pass.compute("attention", w);
  c.pass.free(gathered);
}

void gathered_backward(const LayerContext& c) {
  const Shard& s = c.shard;
  TensorIndex gathered = gather_keys(c);
  const Bytes all = s.bytes(s.tokens, s.key + s.value) * s.cp;
  TensorIndex gradients = kNoTensor;
  for (const Work& w : fused_attention(s, true, c.kind)) {
    c.pass.compute("attention backward", w);
    if (gradients != kNoTensor) {
      c.pass.compute("key and value gradient sum", s.memory_bound(Kernel::add, all * 3));
    } else {
      gradients = c.pass.allocate("key and value gradients", all, MemoryCategory::workspace);
    }
  }
  c.pass.free(gathered);
  c.pass.compute("key and value gradients in order", s.memory_bound(Kernel::copy, all * 2));
  Work w = s.collective(WorkKind::reduce_scatter, s.key);
  w.axis = Axis::cp;
  w.bytes = w.bytes * s.cp;
  c.pass.join(c.pass.communicate(Stream::cp, "key gradients reduce-scatter", w));
  w.bytes = s.bytes(s.tokens, s.value) * s.cp;
  c.pass.join(c.pass.communicate(Stream::cp, "value gradients reduce-scatter", w));
  c.pass.free(gradients);
}

// ----------------------------------------------------------------------------------- fused kernels

SavedCore fused_core_forward(const LayerContext& c, ForwardMode mode, bool keep,
                             TensorIndex& replaced) {
  const Shard& s = c.shard;
  const Bytes context = s.bytes(s.tokens, s.context);
  const bool exchanges = exchange_ranks(s) > 1;
  SavedCore t;
  if (exchanges) {
    exchange_heads(c, {{"queries", s.q}, {"keys", s.key}, {"values", s.value}});
    t.exchanged =
        c.pass.allocate("exchanged queries, keys, values", s.bytes(s.tokens, s.qkv), saved(mode));
    // The exchanged ones are kept instead, unless they are only made again.
    if (keep && !recomputes(c, &RecomputeModules::core_attention)) c.pass.free(replaced);
  }
  if (ring_ranks(s) > 1) {
    ring_forward(c);
  } else if (gathers_keys(s)) {
    gathered_forward(c);
  } else {
    for (const Work& w : fused_attention(s, false, c.kind)) c.pass.compute("attention", w);
  }
  // Only what comes back of an exchange is kept.
  const MemoryCategory category = exchanges ? MemoryCategory::workspace : saved(mode);
  TensorIndex own = c.pass.allocate("attention context", context, category);
  t.log_sum_exp = c.pass.allocate("attention log-sum-exp", s.bytes(s.tokens, s.heads, DType::fp32),
                                  saved(mode));
  if (!keep) c.pass.free(t.log_sum_exp);
  if (!exchanges) {
    t.context = own;
    return t;
  }
  if (!keep) c.pass.free(t.exchanged);
  exchange_heads(c, {{"context", s.context}});
  t.context = c.pass.allocate("attention context", context, saved(mode));
  c.pass.free(own);
  return t;
}

TensorIndex fused_core_backward(const LayerContext& c, SavedCore& t) {
  const Shard& s = c.shard;
  const bool exchanges = exchange_ranks(s) > 1;
  TensorIndex own = kNoTensor;
  if (exchanges) {
    exchange_heads(c, {{"context", s.context}, {"context gradient", s.context}});
    own = c.pass.allocate("context and gradient of some heads", s.bytes(s.tokens, s.context) * 2,
                          MemoryCategory::workspace);
  }
  if (ring_ranks(s) > 1) {
    ring_backward(c);
  } else if (gathers_keys(s)) {
    gathered_backward(c);
  } else {
    for (const Work& w : fused_attention(s, true, c.kind)) c.pass.compute("attention backward", w);
  }
  const TensorIndex gradient_qkv =
      c.pass.allocate("qkv gradient", s.bytes(s.tokens, s.qkv), MemoryCategory::workspace);
  c.pass.free(t.log_sum_exp);
  c.pass.free(t.exchanged);
  c.pass.free(own);
  if (exchanges) {
    exchange_heads(c,
                   {{"query gradient", s.q}, {"key gradient", s.key}, {"value gradient", s.value}});
  }
  return gradient_qkv;
}

// --------------------------------------------------------------------------------- unfused kernels

// Of the scores of all heads where the softmax is computed (Kernels::softmax_fp32).
Bytes softmax_bytes(const Shard& s, int64_t rows, int64_t keys) {
  const Kernels& kernels = s.plan.kernels;
  const Bytes own = s.bytes(rows, keys);
  if (kernels.fused_softmax || !kernels.softmax_fp32) return own;
  return std::max(own, s.bytes(rows, keys, DType::fp32));
}

// Of a tensor of scores, what a softmax reads.  Fused kernels for causal masks read what a query
// sees, half of it, and write zeros for the rest (Megatron-LM megatron/fused_kernels/
// scaled_upper_triang_masked_softmax.h, which Transformer Engine took over).
Bytes read_by_softmax(const LayerContext& c, Bytes scores) {
  const Shard& s = c.shard;
  const bool half = s.plan.kernels.fused_softmax && !c.kind.bidirectional && s.seq == s.keys;
  return half ? Bytes{scores.value / 2} : scores;
}

SavedCore unfused_core_forward(const LayerContext& c, ForwardMode mode, bool keep) {
  const Shard& s = c.shard;
  PassWriter& p = c.pass;
  const Bytes context_bytes = s.bytes(s.tokens, s.context);
  const int64_t seq = s.seq, keys = s.keys;
  const int64_t dim = s.query_dim, value = s.value_dim;
  const int64_t rows = s.plan.micro_batch * s.heads * seq;
  const Bytes square = s.bytes(rows, keys);
  SavedCore t;
  p.compute("attention scores", s.head_gemm(seq, keys, dim, GemmLayout::tn));
  TensorIndex scores = p.allocate("attention scores", square, MemoryCategory::workspace);
  const Bytes wide = softmax_bytes(s, rows, keys);
  TensorIndex converted = kNoTensor;
  if (wide > square) {
    p.compute("scores to fp32", s.memory_bound(Kernel::cast, square + wide));
    converted = p.allocate("scores in fp32", wide, MemoryCategory::workspace);
  }
  if (!s.plan.kernels.fused_softmax) {
    p.compute("scale and mask", s.memory_bound(Kernel::scale, wide * 2));
  }
  p.compute("softmax", s.memory_bound(Kernel::softmax, read_by_softmax(c, wide) + wide));
  t.probabilities = p.allocate("attention softmax", wide, saved(mode));
  if (wide > square) {
    p.free(converted);
    p.compute("probabilities from fp32", s.memory_bound(Kernel::cast, wide + square));
    t.converted = p.allocate("attention probabilities", square, saved(mode));
  }
  if (s.model.attention_dropout > 0) {
    const Bytes mask = s.bytes(rows, keys, DType::uint8);
    p.compute("attention dropout", s.memory_bound(Kernel::dropout, square * 2 + mask));
    t.dropped = p.allocate("attention dropout output", square, saved(mode));
    t.dropout_mask = p.allocate("attention dropout mask", mask, saved(mode));
    p.free(t.converted);
    if (!keep) {
      p.free(t.probabilities);
      p.free(t.dropout_mask);
    }
  }
  p.compute("attention context", s.head_gemm(seq, value, keys, GemmLayout::nn));
  TensorIndex product = p.allocate("attention product", context_bytes, MemoryCategory::workspace);
  if (!keep) {
    p.free(t.probabilities);
    p.free(t.converted);
    p.free(t.dropped);
    p.free(t.dropout_mask);
  }
  // [b, heads, s, d] -> [s, b, heads * d], the layout the projection reads.
  p.compute("attention transpose", s.memory_bound(Kernel::transpose, context_bytes * 2));
  t.context = p.allocate("attention context", context_bytes, saved(mode));
  p.free(product);
  // Nobody reads them any more, but they are a variable of the function that ends here
  // (Megatron-LM, megatron/model/transformer.py: attention_scores).
  p.free(scores);
  return t;
}

TensorIndex unfused_core_backward(const LayerContext& c, SavedCore& t) {
  const Shard& s = c.shard;
  PassWriter& p = c.pass;
  const int64_t seq = s.seq, keys = s.keys;
  const int64_t dim = s.query_dim, value = s.value_dim;
  const int64_t rows = s.plan.micro_batch * s.heads * seq;
  const Bytes square = s.bytes(rows, keys);
  p.compute("attention transpose backward",
            s.memory_bound(Kernel::transpose, s.bytes(s.tokens, s.context) * 2));
  p.compute("probability gradient", s.head_gemm(seq, keys, value, GemmLayout::tn));
  TensorIndex scores =
      p.allocate("attention probability gradient", square, MemoryCategory::workspace);
  p.compute("value gradient", s.head_gemm(keys, value, seq, GemmLayout::nt));
  const TensorIndex gradient_qkv =
      p.allocate("qkv gradient", s.bytes(s.tokens, s.qkv), MemoryCategory::workspace);
  p.free(t.dropped);
  p.free(t.converted);
  if (s.model.attention_dropout > 0) {
    p.compute(
        "attention dropout backward",
        s.memory_bound(Kernel::dropout_backward, square * 2 + s.bytes(rows, keys, DType::uint8)));
    p.free(t.dropout_mask);
  }
  const Bytes wide = softmax_bytes(s, rows, keys);
  if (wide > square) {
    p.compute("probability gradient to fp32", s.memory_bound(Kernel::cast, square + wide));
    TensorIndex converted =
        p.allocate("probability gradient in fp32", wide, MemoryCategory::workspace);
    p.free(scores);
    scores = converted;
  }
  p.compute("softmax backward",
            s.memory_bound(Kernel::softmax_backward, read_by_softmax(c, wide) * 2 + wide));
  p.free(t.probabilities);
  if (!s.plan.kernels.fused_softmax) {
    p.compute("scale and mask backward", s.memory_bound(Kernel::scale, wide * 2));
  }
  if (wide > square) {
    p.compute("score gradient from fp32", s.memory_bound(Kernel::cast, wide + square));
    TensorIndex converted = p.allocate("score gradient", square, MemoryCategory::workspace);
    p.free(scores);
    scores = converted;
  }
  p.compute("query gradient", s.head_gemm(seq, dim, keys, GemmLayout::nn));
  p.compute("key gradient", s.head_gemm(keys, dim, seq, GemmLayout::nt));
  p.free(scores);
  return gradient_qkv;
}

// A forward alone writes the new keys and values behind those in the cache.
void append_to_cache(const LayerContext& c) {
  const Shard& s = c.shard;
  if (c.kind.bidirectional) return;
  StageContent one{.layers = 1};
  one.kinds = {c.kind};
  const Bytes written = cache_bytes(s.model, s.plan, one, s.tokens);
  const int64_t width =
      s.model.kv_rank > 0 ? s.model.kv_rank + s.model.qk_rope_dim : s.key + s.value;
  c.pass.compute("append to cache",
                 s.memory_bound(Kernel::copy, s.bytes(s.tokens, width) + written));
}

}  // namespace

SavedCore core_forward(const LayerContext& c, ForwardMode mode, bool keep, TensorIndex& replaced) {
  if (!c.shard.plan.trains()) append_to_cache(c);
  return c.shard.plan.kernels.flash_attention ? fused_core_forward(c, mode, keep, replaced)
                                              : unfused_core_forward(c, mode, keep);
}

TensorIndex core_backward(const LayerContext& c, SavedCore& t, TensorIndex& gradient,
                          TensorIndex& qkv) {
  const TensorIndex gradient_qkv = c.shard.plan.kernels.flash_attention
                                       ? fused_core_backward(c, t)
                                       : unfused_core_backward(c, t);
  if (c.shard.sinks) reduce_after(c, c.shard.heads);
  c.pass.free(gradient);
  c.pass.free(t.context);
  c.pass.free(t.context_again);
  c.pass.free(qkv);
  return gradient_qkv;
}

void recompute_core(const LayerContext& c, SavedCore& t, TensorIndex& replaced) {
  const SavedCore again = core_forward(c, ForwardMode::recompute, true, replaced);
  const TensorIndex first = t.context;
  t = again;
  t.context_again = std::exchange(t.context, first);
}

}  // namespace stepcast
