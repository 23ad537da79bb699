// SPDX-License-Identifier: Apache-2.0
// Fused attention of a rank that holds a part of each sequence (context parallelism), as
// Transformer Engine runs it.
//
// Rank r of n has the chunks r and 2n-1-r of 2n, so that all ranks see as many pairs of query and
// key under the causal mask: in a step of the ring, the whole of its queries and the first half of
// the keys that have come, or the second half of its queries and all of them (Transformer Engine,
// context_parallel.py; Liu et al. 2023, "Ring Attention", arXiv 2310.01889).  Both are the same
// work; the first stands for both here.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "model/stage_writer.h"

namespace stepcast {
namespace {

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

}  // namespace

int64_t Shard::exchange_ranks() const {
  if (plan.cp_comm == CpComm::all_to_all) return cp;
  return plan.cp_comm == CpComm::hierarchical ? plan.cp_inner : 1;
}

int64_t Shard::ring_ranks() const {
  if (plan.cp_comm == CpComm::p2p) return cp;
  return plan.cp_comm == CpComm::hierarchical ? cp / plan.cp_inner : 1;
}

std::vector<Work> Shard::fused_attention(bool backward, const LayerKind& kind) const {
  if (plan.mode == StepMode::decode) return {cached_attention(kind)};
  const int64_t split = exchange_ranks(), ring = ring_ranks();
  const int64_t query_width = query_dim(model), value_width = value_dim(model);
  Work w;
  w.kind = backward ? WorkKind::attention_backward : WorkKind::attention_forward;
  w.dtype = plan.precision.params;
  w.causal = !kind.bidirectional;
  w.attention = plan.kernels.fused_attention;
  w.m = seq * split;
  w.n = keys;
  w.k = query_width;
  if (value_width != query_width) w.value_dim = value_width;
  w.batch = plan.micro_batch;
  w.heads = heads / split;
  w.kv_heads = std::max<int64_t>(1, kv_heads / split);
  const double all = pairs_of(kind, seq * cp, keys);  // of a head, on all ranks
  // Forward two products, backward five (it recomputes the scores); scores and the gradients of
  // queries and keys are as wide as queries, the others as values.
  const int64_t width = backward ? 3 * query_width + 2 * value_width : query_width + value_width;
  const auto flops = [&](double pairs) {
    return Flops{2 * pairs * static_cast<double>(width * w.heads * w.batch)};
  };
  if (gathers_keys() && !kind.bidirectional) {
    // One launch a chunk; its keys end where it ends, in the mean at (2n + 1)/2 of 2n chunks.
    w.m = seq / 2;
    w.n = std::min(keys, (2 * cp + 1) * seq / 4);
    w.flops = flops(all / static_cast<double>(2 * cp));
    return {w, w};
  }
  w.flops =
      flops(all * static_cast<double>(split) / static_cast<double>(cp) / static_cast<double>(ring));
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

// ------------------------------------------------------------------------------------------------
// Each tensor [tokens, width] of all heads becomes one of 1/n of the heads and n times the tokens,
// or back: packed by rank, exchanged, put in the order of the tokens.
void StageWriter::exchange_heads(std::initializer_list<HeadExchange> tensors) {
  const Axis axis = s_.plan.cp_comm == CpComm::all_to_all ? Axis::cp : Axis::cp_inner;
  std::vector<uint32_t> exchanges;
  for (const HeadExchange& t : tensors) {
    const Bytes bytes = s_.bytes(s_.tokens, t.width);
    p_.compute(t.label + " pack", s_.memory_bound(Kernel::copy, bytes * 2));
    Work w = s_.collective(WorkKind::all_to_all, t.width);
    w.axis = axis;
    exchanges.push_back(p_.communicate(Stream::cp, t.label + " all-to-all", w));
  }
  auto exchange = exchanges.begin();
  for (const HeadExchange& t : tensors) {
    p_.join(*exchange++);
    p_.compute(t.label + " unpack",
               s_.memory_bound(Kernel::copy, s_.bytes(s_.tokens, t.width) * 2));
  }
}

uint32_t StageWriter::pass_on(const std::string& label, Bytes bytes) {
  Work w;
  w.kind = WorkKind::shift;
  w.dtype = s_.plan.precision.params;
  w.axis = s_.plan.cp_comm == CpComm::p2p ? Axis::cp : Axis::cp_outer;
  w.bytes = bytes;
  return p_.communicate(Stream::cp, label, w);
}

// Of a step of the ring after the first: the mean over the ranks, of which some compute for all of
// their queries, the others for half of them.
Bytes StageWriter::of_ring_step(Bytes bytes) const {
  return kind_.bidirectional ? bytes : Bytes{bytes.value * 3 / 4};
}

void StageWriter::ring_forward() {
  const Shard& s = s_;
  const Bytes kv = s.bytes(s.tokens, s.key + s.value), context = s.bytes(s.tokens, s.context);
  const Bytes lse = s.bytes(s.tokens, s.heads, DType::fp32);
  const std::vector<Work> steps = s.fused_attention(false, kind_);
  // Transformer Engine holds all that it received, and what each step made of it, to the end.
  std::vector<TensorIndex> held;
  p_.compute("keys and values pack", s.memory_bound(Kernel::copy, kv * 2));
  held.push_back(p_.allocate("keys and values", kv, MemoryCategory::communication));
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool passes_on = i + 1 < steps.size();
    const uint32_t transfer = passes_on ? pass_on("keys and values transfer", kv) : 0;
    if (passes_on) {
      held.push_back(p_.allocate("keys and values received", kv, MemoryCategory::communication));
    }
    p_.compute("attention", steps[i]);
    held.push_back(p_.allocate("attention of a step", context, MemoryCategory::workspace));
    if (i > 0) {
      p_.compute("log-sum-exp correction", s.memory_bound(Kernel::add, of_ring_step(lse * 3)));
    }
    if (passes_on) p_.join(transfer);
  }
  for (size_t i = 1; i < steps.size(); ++i) {
    p_.compute("attention correction", s.memory_bound(Kernel::add, of_ring_step(context * 3)));
  }
  for (TensorIndex& tensor : held) p_.free(tensor);
}

// Keys and values go around once more, and their gradients with them, a step behind; in the end
// each rank has the sum of its own.
void StageWriter::ring_backward() {
  const Shard& s = s_;
  const Bytes kv = s.bytes(s.tokens, s.key + s.value), q = s.bytes(s.tokens, s.q);
  const std::vector<Work> steps = s.fused_attention(true, kind_);
  p_.compute("keys and values pack", s.memory_bound(Kernel::copy, kv * 2));
  // Two buffers for keys, values and their gradients, and the query gradient of a step.
  TensorIndex buffers =
      p_.allocate("keys, values and gradients", kv * 4, MemoryCategory::communication);
  for (size_t i = 0; i < steps.size(); ++i) {
    const bool first = i == 0, last = i + 1 == steps.size();
    const uint32_t transfer = pass_on(first  ? "keys and values transfer"
                                      : last ? "key and value gradients transfer"
                                             : "keys, values and gradients transfer",
                                      first || last ? kv : kv * 2);
    p_.compute("attention backward", steps[i]);
    TensorIndex part = p_.allocate("gradients of a step", q + kv, MemoryCategory::workspace);
    if (!first) p_.compute("query gradient sum", s.memory_bound(Kernel::add, of_ring_step(q * 3)));
    p_.join(transfer);
    p_.compute("key and value gradient sum", s.memory_bound(Kernel::add, of_ring_step(kv * 3)));
    p_.free(part);
  }
  p_.free(buffers);
}

TensorIndex StageWriter::gather_keys() {
  const Shard& s = s_;
  Work w = s.collective(WorkKind::all_gather, s.key);
  w.axis = Axis::cp;
  w.bytes = w.bytes * s.cp;
  p_.join(p_.communicate(Stream::cp, "keys all-gather", w));
  w.bytes = s.bytes(s.tokens, s.value) * s.cp;
  p_.join(p_.communicate(Stream::cp, "values all-gather", w));
  const Bytes all = s.bytes(s.tokens, s.key + s.value) * s.cp;
  p_.compute("keys and values in order", s.memory_bound(Kernel::copy, all * 2));
  return p_.allocate("keys and values gathered", all, MemoryCategory::communication);
}

void StageWriter::gathered_forward() {
  TensorIndex gathered = gather_keys();
  for (const Work& w : s_.fused_attention(false, kind_)) p_.compute("attention", w);
  p_.free(gathered);
}

void StageWriter::gathered_backward() {
  const Shard& s = s_;
  TensorIndex gathered = gather_keys();
  const Bytes all = s.bytes(s.tokens, s.key + s.value) * s.cp;
  TensorIndex gradients = kNoTensor;
  for (const Work& w : s.fused_attention(true, kind_)) {
    p_.compute("attention backward", w);
    if (gradients != kNoTensor) {
      p_.compute("key and value gradient sum", s.memory_bound(Kernel::add, all * 3));
    } else {
      gradients = p_.allocate("key and value gradients", all, MemoryCategory::workspace);
    }
  }
  p_.free(gathered);
  p_.compute("key and value gradients in order", s.memory_bound(Kernel::copy, all * 2));
  Work w = s.collective(WorkKind::reduce_scatter, s.key);
  w.axis = Axis::cp;
  w.bytes = w.bytes * s.cp;
  p_.join(p_.communicate(Stream::cp, "key gradients reduce-scatter", w));
  w.bytes = s.bytes(s.tokens, s.value) * s.cp;
  p_.join(p_.communicate(Stream::cp, "value gradients reduce-scatter", w));
  p_.free(gradients);
}

// ------------------------------------------------------------------------------------------------
void StageWriter::fused_core_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const Bytes context = s.bytes(s.tokens, s.context);
  const bool exchanges = s.exchange_ranks() > 1;
  if (exchanges) {
    exchange_heads({{"queries", s.q}, {"keys", s.key}, {"values", s.value}});
    t.exchanged = p_.allocate("exchanged queries, keys, values", s.bytes(s.tokens, s.qkv), saved());
    // The exchanged ones are kept instead, unless they are only made again.
    if (keep && !recomputes(&RecomputeModules::core_attention))
      p_.free(s.model.qk_norm ? t.qk_normed : t.qkv);
  }
  if (s.ring_ranks() > 1) {
    ring_forward();
  } else if (s.gathers_keys()) {
    gathered_forward();
  } else {
    for (const Work& w : s.fused_attention(false, kind_)) p_.compute("attention", w);
  }
  // Only what comes back of an exchange is kept.
  const MemoryCategory category = exchanges ? MemoryCategory::workspace : saved();
  TensorIndex own = p_.allocate("attention context", context, category);
  t.log_sum_exp =
      p_.allocate("attention log-sum-exp", s.bytes(s.tokens, s.heads, DType::fp32), saved());
  if (!keep) p_.free(t.log_sum_exp);
  if (!exchanges) {
    t.context = own;
    return;
  }
  if (!keep) p_.free(t.exchanged);
  exchange_heads({{"context", s.context}});
  t.context = p_.allocate("attention context", context, saved());
  p_.free(own);
}

void StageWriter::fused_core_backward(LayerTensors& t, TensorIndex& gradient_qkv) {
  const Shard& s = s_;
  const bool exchanges = s.exchange_ranks() > 1;
  TensorIndex own = kNoTensor;
  if (exchanges) {
    exchange_heads({{"context", s.context}, {"context gradient", s.context}});
    own = p_.allocate("context and gradient of some heads", s.bytes(s.tokens, s.context) * 2,
                      MemoryCategory::workspace);
  }
  if (s.ring_ranks() > 1) {
    ring_backward();
  } else if (s.gathers_keys()) {
    gathered_backward();
  } else {
    for (const Work& w : s.fused_attention(true, kind_)) p_.compute("attention backward", w);
  }
  gradient_qkv = p_.allocate("qkv gradient", s.bytes(s.tokens, s.qkv), MemoryCategory::workspace);
  p_.free(t.log_sum_exp);
  p_.free(t.exchanged);
  p_.free(own);
  if (exchanges) {
    exchange_heads({{"query gradient", s.q}, {"key gradient", s.key}, {"value gradient", s.value}});
  }
}

}  // namespace stepcast
