// SPDX-License-Identifier: Apache-2.0
// Attention of a decoder's layer to the output of the encoder, with its norm and residual, between
// its own attention and its MLP (Vaswani et al. 2017; Megatron-LM's T5): queries come from the
// layer's residual stream, keys and values are projected from the encoder's output.
#include <string>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

constexpr LayerKind kCross{.bidirectional = true};

// The layer's own tokens are the queries, all of the encoder's the keys.
Shard cross_shard(const LayerContext& c) {
  Shard cross = c.shard;
  cross.keys = c.encoder->shard.seq;
  cross.qkv = cross.q;
  return cross;
}

// What exchanged heads take the place of (core_forward): queries that are not normed.
TensorIndex& replaced_by_exchange(const LayerContext& c, SavedCrossAttention& t,
                                  TensorIndex& none) {
  return c.shard.model.qk_norm ? none : t.queries;
}

void encoded_keys_and_values(const LayerContext& c, ForwardMode mode, SavedCrossAttention& t) {
  const Shard& e = c.encoder->shard;
  const LayerContext source = c.with(e);
  const std::string label = "cross keys and values";
  const int64_t width = e.key + e.value;
  TensorIndex now = quantize_input(source, mode, label, c.encoder->tensor, e.own_tokens, e.hidden,
                                   &t.encoded_low);
  TensorIndex gathered = kNoTensor;
  if (e.sequence_split()) gathered = gather(source, label + " all-gather", e.hidden);
  product(source, c.pass, label, e.forward_gemm(e.tokens, width, e.hidden));
  t.encoded_kv = c.pass.allocate(label, e.bytes(e.tokens, width), saved(mode));
  c.pass.free(gathered);
  c.pass.free(now);
  if (e.model.attention_bias && !e.plan.kernels.fused_bias) {
    c.pass.compute(label + " bias", e.memory_bound(Kernel::bias_add, e.bytes(e.tokens, width) * 2));
  }
}

// The gradient of the encoder's output is added to those of the layers after it.
void encoded_keys_and_values_backward(const LayerContext& c, SavedCrossAttention& t) {
  EncoderOutput& encoder = *c.encoder;
  const Shard& e = encoder.shard;
  const int64_t width = e.key + e.value;
  const std::string label = "cross keys and values";
  TensorIndex d =
      c.pass.allocate(label + " gradient", e.bytes(e.tokens, width), MemoryCategory::workspace);
  c.pass.free(t.encoded_kv);
  const LayerContext source = c.with(e);
  if (e.model.attention_bias) bias_gradient(source, label, e.tokens, width);
  TensorIndex part = column_parallel_backward(source, label, d, t.encoded_low, width);
  if (encoder.gradient == kNoTensor) {
    encoder.gradient = part;
    return;
  }
  c.pass.compute("encoder output gradient",
                 e.memory_bound(Kernel::add, e.bytes(e.own_tokens, e.hidden) * 3));
  c.pass.free(part);
}

}  // namespace

Forward<SavedCrossAttention> cross_attention_forward(const LayerContext& c, ForwardMode mode,
                                                     TensorIndex input) {
  const Shard& s = c.shard;
  const bool keep = mode != ForwardMode::discard;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) c.pass.free(tensor);
  };
  SavedCrossAttention t{.input = input};
  const NormOutput norm = norm_forward(c, mode, "cross norm", s.own_tokens, s.hidden, true);
  t.norm_output = norm.output;
  t.norm_statistics = norm.statistics;
  done_with(t.norm_statistics);
  t.queries = column_parallel_forward(c, mode, "cross queries", "cross queries", t.norm_output, s.q,
                                      {.converted = norm_quantizes(c)});
  done_with(t.norm_output);
  if (s.model.attention_bias && !s.plan.kernels.fused_bias) {
    c.pass.compute("cross queries bias",
                   s.memory_bound(Kernel::bias_add, s.bytes(s.tokens, s.q) * 2));
  }
  encoded_keys_and_values(c, mode, t);
  done_with(t.encoded_low);

  const Shard shape = cross_shard(c);
  const bool keep_core = keep && !recomputes(c, &RecomputeModules::core_attention);
  TensorIndex none = kNoTensor;
  t.core =
      core_forward(c.with(shape).with(kCross), mode, keep_core, replaced_by_exchange(c, t, none));
  done_with(t.queries);
  done_with(t.encoded_kv);
  const bool read_twice = s.plan.kernels.flash_attention && keep_core;
  const PartialSum partial = row_parallel_forward(c, mode, "cross projection", t.core.context,
                                                  s.context, read_twice ? &t.context_low : nullptr);
  done_with(t.core.context);
  TensorIndex branch = reduce(c, "cross projection", partial, s.hidden);
  const TensorIndex out =
      add_residual(c, mode, "cross attention", branch, t.mask, s.model.attention_output_bias);
  done_with(t.mask);
  done_with(t.input);
  return {out, t};
}

void cross_attention_backward(const LayerContext& c, SavedCrossAttention& t, TensorIndex& gradient,
                              bool recompute_core_first) {
  const Shard& s = c.shard;
  const InputGather input = gather_input_early(c, "cross queries");
  const BranchGradient branch =
      branch_gradient(c, "cross attention", gradient, t.mask, s.model.attention_output_bias);
  const bool recomputed = recompute_core_first || t.core.context_again != kNoTensor;
  const bool context_in_use = s.plan.kernels.flash_attention && !recomputed && !c.split();
  TensorIndex none = kNoTensor;
  TensorIndex& projected = t.context_low != kNoTensor ? t.context_low
                           : context_in_use           ? none
                                                      : t.core.context;
  TensorIndex d = row_parallel_backward(c, "cross projection", branch, projected, s.context);
  if (recompute_core_first) {
    c.pass.set_phase(Phase::recompute);
    recompute_cross_core(c, t);
    c.pass.set_phase(Phase::backward_input);
  }
  const Shard shape = cross_shard(c);
  TensorIndex d_queries = core_backward(c.with(shape).with(kCross), t.core, d, t.queries);
  encoded_keys_and_values_backward(c, t);
  if (s.model.attention_bias) bias_gradient(c, "cross queries", s.tokens, s.q);
  d = column_parallel_backward(c, "cross queries", d_queries, t.norm_output, s.q, input);
  norm_backward(c, "cross norm", s.own_tokens, s.hidden);
  c.pass.free(t.norm_statistics);
  c.pass.free(t.input);
  add_residual_gradient(c, "cross attention", d, gradient);
}

void recompute_cross_core(const LayerContext& c, SavedCrossAttention& t) {
  const Shard shape = cross_shard(c);
  TensorIndex none = kNoTensor;
  recompute_core(c.with(shape).with(kCross), t.core, replaced_by_exchange(c, t, none));
}

}  // namespace stepcast
