// SPDX-License-Identifier: Apache-2.0
// Attention of a decoder's layer to the output of the encoder, with its norm and residual, between
// its own attention and its MLP (Vaswani et al. 2017; Megatron-LM's T5): queries come from the
// layer's residual stream, keys and values are projected from the encoder's output.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

// The layer's own tokens are the queries, all of the encoder's the keys.
Shard StageWriter::cross_shard() const {
  Shard cross = s_;
  cross.keys = encoder_->shard.seq;
  cross.qkv = cross.q;
  return cross;
}

TensorIndex StageWriter::encoded_keys_and_values(LayerTensors& c) {
  const Shard& e = encoder_->shard;
  StageWriter source(*this, e);
  const std::string label = "cross keys and values";
  const int64_t width = e.key + e.value;
  TensorIndex now =
      source.quantize_input(label, encoder_->tensor, e.own_tokens, e.hidden, &c.encoded_low);
  TensorIndex gathered = kNoTensor;
  if (e.sequence_split()) gathered = source.gather(label + " all-gather", e.hidden);
  source.product(p_, label, e.forward_gemm(e.tokens, width, e.hidden));
  const TensorIndex out = p_.allocate(label, e.bytes(e.tokens, width), saved());
  p_.free(gathered);
  p_.free(now);
  if (e.model.attention_bias && !e.plan.kernels.fused_bias) {
    p_.compute(label + " bias", e.memory_bound(Kernel::bias_add, e.bytes(e.tokens, width) * 2));
  }
  return out;
}

void StageWriter::cross_attention_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  t.cross.resize(1);
  LayerTensors& c = t.cross.front();
  c.input = std::exchange(t.residual, kNoTensor);
  norm_forward("cross norm", c.norm1_statistics, c.norm1_output, s.own_tokens, s.hidden, true);
  done_with(c.norm1_statistics);
  c.qkv = column_parallel_forward("cross queries", "cross queries", c.norm1_output, s.q);
  done_with(c.norm1_output);
  if (s.model.attention_bias && !s.plan.kernels.fused_bias) {
    p_.compute("cross queries bias", s.memory_bound(Kernel::bias_add, s.bytes(s.tokens, s.q) * 2));
  }
  c.encoded_kv = encoded_keys_and_values(c);
  done_with(c.encoded_low);

  const Shard shape = cross_shard();
  StageWriter core(*this, shape);
  core.kind_ = {.bidirectional = true};
  const bool keep_core = keep && !recomputes(&RecomputeModules::core_attention);
  core.core_attention_forward(c, keep_core);
  done_with(c.qkv);
  done_with(c.encoded_kv);
  const bool read_twice = s.plan.kernels.flash_attention && keep_core;
  TensorIndex branch = row_parallel_forward("cross projection", c.context, s.context,
                                            read_twice ? &c.context_low : nullptr);
  done_with(c.context);
  branch = reduce("cross projection", branch, s.hidden);
  t.residual = add_residual("cross attention", branch, &c.mask1, s.model.attention_output_bias);
  done_with(c.mask1);
  done_with(c.input);
}

// Its gradient of the encoder's output is added to those of the layers after it.
void StageWriter::encoded_keys_and_values_backward(LayerTensors& c) {
  const Shard& e = encoder_->shard;
  const int64_t width = e.key + e.value;
  const std::string label = "cross keys and values";
  TensorIndex d =
      p_.allocate(label + " gradient", e.bytes(e.tokens, width), MemoryCategory::workspace);
  p_.free(c.encoded_kv);
  StageWriter source(*this, e);
  if (e.model.attention_bias) source.bias_gradient(label, e.tokens, width);
  TensorIndex part = source.column_parallel_backward(label, d, c.encoded_low, width);
  buckets_ = source.buckets_;
  if (encoder_->gradient == kNoTensor) {
    encoder_->gradient = part;
    return;
  }
  p_.compute("encoder output gradient",
             e.memory_bound(Kernel::add, e.bytes(e.own_tokens, e.hidden) * 3));
  p_.free(part);
}

void StageWriter::cross_attention_backward(LayerTensors& t, TensorIndex& gradient,
                                           bool recompute_core_first) {
  const Shard& s = s_;
  LayerTensors& c = t.cross.front();
  const InputGather input = gather_input_early("cross queries");
  const BranchGradient branch =
      branch_gradient("cross attention", gradient, c.mask1, s.model.attention_output_bias);
  const bool recomputed = recompute_core_first || c.context_again != kNoTensor;
  const bool context_in_use = s.plan.kernels.flash_attention && !recomputed && !split_;
  TensorIndex none = kNoTensor;
  TensorIndex& projected = c.context_low != kNoTensor ? c.context_low
                           : context_in_use           ? none
                                                      : c.context;
  TensorIndex d = row_parallel_backward("cross projection", branch, projected, s.context);
  if (recompute_core_first) {
    p_.set_phase(Phase::recompute);
    recompute_cross_core(t);
    p_.set_phase(Phase::backward_input);
  }
  TensorIndex d_queries = kNoTensor;
  const Shard shape = cross_shard();
  StageWriter core(*this, shape);
  core.kind_ = {.bidirectional = true};
  core.core_attention_backward(c, d, d_queries);
  encoded_keys_and_values_backward(c);
  if (s.model.attention_bias) bias_gradient("cross queries", s.tokens, s.q);
  d = column_parallel_backward("cross queries", d_queries, c.norm1_output, s.q, input);
  norm_backward("cross norm", s.own_tokens, s.hidden);
  p_.free(c.norm1_statistics);
  p_.free(c.input);
  add_residual_gradient("cross attention", d, gradient);
}

void StageWriter::recompute_cross_core(LayerTensors& t) {
  if (!kind_.cross) return;
  const Shard shape = cross_shard();
  StageWriter core(*this, shape);
  core.kind_ = {.bidirectional = true};
  core.recompute_core(t.cross.front());
}

}  // namespace stepcast
