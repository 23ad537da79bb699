// SPDX-License-Identifier: Apache-2.0
// Attention with its norm and residual, forward and backward.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

// Scores, softmax, dropout and context, or the fused kernel; fills `t.context`.
void StageWriter::core_attention_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  if (!s.plan.trains()) append_to_cache();
  if (s.plan.kernels.flash_attention) return fused_core_forward(t, keep);
  const Bytes context_bytes = s.bytes(s.tokens, s.context);
  const int64_t seq = s.seq, keys = s.keys;
  const int64_t dim = query_dim(s.model), value = value_dim(s.model);
  const int64_t rows = s.plan.micro_batch * s.heads * seq;
  const Bytes square = s.bytes(rows, keys);
  p_.compute("attention scores", s.head_gemm(seq, keys, dim, GemmLayout::tn));
  TensorIndex scores = p_.allocate("attention scores", square, MemoryCategory::workspace);
  if (!s.plan.kernels.fused_softmax) {
    p_.compute("scale and mask", s.memory_bound(Kernel::scale, square * 2));
  }
  p_.compute("softmax", s.memory_bound(Kernel::softmax, square * 2));
  t.probabilities = p_.allocate("attention softmax", square, saved());
  p_.free(scores);
  const bool dropout = s.model.attention_dropout > 0;
  if (dropout) {
    const Bytes mask = s.bytes(rows, keys, DType::uint8);
    p_.compute("attention dropout", s.memory_bound(Kernel::dropout, square * 2 + mask));
    t.dropped = p_.allocate("attention dropout output", square, saved());
    t.dropout_mask = p_.allocate("attention dropout mask", mask, saved());
  }
  p_.compute("attention context", s.head_gemm(seq, value, keys, GemmLayout::nn));
  TensorIndex product = p_.allocate("attention product", context_bytes, MemoryCategory::workspace);
  if (!keep) {
    p_.free(t.probabilities);
    p_.free(t.dropped);
    p_.free(t.dropout_mask);
  }
  // [b, heads, s, d] -> [s, b, heads * d], the layout the projection reads.
  p_.compute("attention transpose", s.memory_bound(Kernel::transpose, context_bytes * 2));
  t.context = p_.allocate("attention context", context_bytes, saved());
  p_.free(product);
}

void StageWriter::attention_forward(LayerTensors& t, bool keep) {
  TensorIndex branch = attention_branch_forward(t, keep);
  if (!computes_others()) branch = reduce("projection", branch, s_.hidden);
  t.residual = add_residual("attention", branch, &t.mask1, s_.model.attention_output_bias);
  if (!keep) p_.free(t.mask1);
}

TensorIndex StageWriter::attention_branch_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  const bool latent = s.model.kv_rank > 0;
  const bool one_reader = !latent && !s.model.shared_norm;
  norm_forward("norm 1", t.norm1_statistics, t.norm1_output, s.own_tokens, s.hidden, one_reader);
  done_with(t.norm1_statistics);
  if (latent) {
    latent_forward(t, keep);
  } else {
    projected_forward(t, keep);
  }
  // In low precision a latent keeps quantized copies instead.
  if (drops(&RecomputeModules::norms) && !s.model.parallel_block && !(latent && low()))
    p_.free(t.norm1_output);
  // Selective recomputation keeps only what goes into the core and what comes out of it.
  const bool keep_core = keeps_some() || (keep && !recomputes(&RecomputeModules::core_attention));
  if (!computes_others()) core_attention_forward(t, keep_core);
  done_with(t.qkv);
  done_with(t.qk_normed);
  if (s.model.kv_rank > 0 && drops(&RecomputeModules::mla_up_projection)) p_.free(t.qkv);

  // Fused attention's backward reads its output as well.
  const bool read_twice = s.plan.kernels.flash_attention && keep_core;
  const TensorIndex branch = row_parallel_forward("projection", t.context, s.context,
                                                  read_twice ? &t.context_low : nullptr);
  if (!keeps_some()) done_with(t.context);
  return branch;
}

// Queries, keys and values of ordinary attention.
void StageWriter::projected_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const Kernels& kernels = s.plan.kernels;
  // Of three products those of queries and values are the first and the third.
  const int64_t others = computes_others() ? s.q + s.value : 0;
  t.qkv = column_parallel_forward("qkv", "queries, keys, values", t.norm1_output, s.qkv - others);
  if (keeps_some())
    t.kept_qkv = p_.allocate("queries and values", s.bytes(s.tokens, s.q + s.value), saved());
  if (!keep && !model.shared_norm) p_.free(t.norm1_output);
  if (model.attention_bias && !kernels.fused_bias) {
    p_.compute("qkv bias", s.memory_bound(Kernel::bias_add, s.bytes(s.tokens, s.qkv) * 2));
  }
  if (model.qk_norm) {
    const Bytes qk = s.bytes(s.tokens, s.q + s.key);
    p_.compute("query and key norm", s.memory_bound(Kernel::rms_norm, qk * 2));
    t.qk_normed = p_.allocate("query and key norm output", qk, saved());
  }
  if (model.positions == Positions::rotary) {
    p_.compute("rotary", s.memory_bound(Kernel::rotary, s.bytes(s.tokens, s.q + s.key) * 2));
  }
}

void StageWriter::core_attention_backward(LayerTensors& t, TensorIndex& gradient,
                                          TensorIndex& gradient_qkv) {
  const Shard& s = s_;
  if (s.plan.kernels.flash_attention) {
    fused_core_backward(t, gradient_qkv);
  } else {
    const int64_t seq = s.seq, keys = s.keys;
    const int64_t dim = query_dim(s.model), value = value_dim(s.model);
    const int64_t rows = s.plan.micro_batch * s.heads * seq;
    const Bytes square = s.bytes(rows, keys);
    p_.compute("attention transpose backward",
               s.memory_bound(Kernel::transpose, s.bytes(s.tokens, s.context) * 2));
    p_.compute("probability gradient", s.head_gemm(seq, keys, value, GemmLayout::tn));
    TensorIndex scores =
        p_.allocate("attention probability gradient", square, MemoryCategory::workspace);
    p_.compute("value gradient", s.head_gemm(keys, value, seq, GemmLayout::nt));
    gradient_qkv = p_.allocate("qkv gradient", s.bytes(s.tokens, s.qkv), MemoryCategory::workspace);
    p_.free(t.dropped);
    if (s.model.attention_dropout > 0) {
      p_.compute(
          "attention dropout backward",
          s.memory_bound(Kernel::dropout_backward, square * 2 + s.bytes(rows, keys, DType::uint8)));
      p_.free(t.dropout_mask);
    }
    p_.compute("softmax backward", s.memory_bound(Kernel::softmax_backward, square * 3));
    p_.free(t.probabilities);
    if (!s.plan.kernels.fused_softmax) {
      p_.compute("scale and mask backward", s.memory_bound(Kernel::scale, square * 2));
    }
    p_.compute("query gradient", s.head_gemm(seq, dim, keys, GemmLayout::nn));
    p_.compute("key gradient", s.head_gemm(keys, dim, seq, GemmLayout::nt));
    p_.free(scores);
  }
  p_.free(gradient);
  p_.free(t.context);
  p_.free(t.context_again);
  p_.free(t.qkv);
  p_.free(t.kept_qkv);
}

void StageWriter::attention_backward(LayerTensors& t, TensorIndex& gradient,
                                     bool recompute_core_first) {
  const bool latent = s_.model.kv_rank > 0;
  if (!(latent && low())) need_norm("norm 1", t.norm1_output, !latent);
  const InputGather input = gather_qkv_input_early();
  const BranchGradient branch =
      branch_gradient("attention", gradient, t.mask1, s_.model.attention_output_bias);
  TensorIndex d = attention_branch_backward(t, branch, input, recompute_core_first);
  norm_backward("norm 1", s_.own_tokens, s_.hidden);
  p_.free(t.norm1_statistics);
  p_.free(t.input);
  add_residual_gradient("attention", d, gradient);
}

InputGather StageWriter::gather_qkv_input_early() {
  return s_.model.kv_rank > 0 ? InputGather{} : gather_input_early("qkv");
}

TensorIndex StageWriter::attention_branch_backward(LayerTensors& t, BranchGradient branch,
                                                   InputGather input, bool recompute_core_first) {
  const Shard& s = s_;
  // Fused attention needs its own output again; the one that is recomputed is another tensor.
  const bool recomputed = recompute_core_first || t.context_again != kNoTensor;
  const bool context_in_use = s.plan.kernels.flash_attention && !recomputed && !split_;
  TensorIndex none = kNoTensor;
  TensorIndex& projected = t.context_low != kNoTensor ? t.context_low
                           : context_in_use           ? none
                                                      : t.context;
  TensorIndex d = row_parallel_backward("projection", branch, projected, s.context);
  p_.set_phase(Phase::recompute);
  need_queries(t);
  if (recompute_core_first) recompute_core(t);
  p_.set_phase(Phase::backward_input);
  TensorIndex d_qkv = kNoTensor;
  core_attention_backward(t, d, d_qkv);
  return s.model.kv_rank > 0 ? latent_backward(t, d_qkv) : projected_backward(t, d_qkv, input);
}

TensorIndex StageWriter::projected_backward(LayerTensors& t, TensorIndex& gradient_qkv,
                                            InputGather input) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const Bytes qk = s.bytes(s.tokens, s.q + s.key);
  if (model.positions == Positions::rotary) {
    p_.compute("rotary backward", s.memory_bound(Kernel::rotary_backward, qk * 2));
  }
  if (model.qk_norm) {
    p_.compute("query and key norm backward", s.memory_bound(Kernel::rms_norm_backward, qk * 3));
    p_.free(t.qk_normed);
    reduce_after(2 * model.head_dim);
  }
  if (model.attention_bias) bias_gradient("qkv", s.tokens, s.qkv);
  return column_parallel_backward("qkv", gradient_qkv, t.norm1_output, s.qkv, input);
}

void StageWriter::recompute_core(LayerTensors& t) {
  need_queries(t);
  const TensorIndex saved = std::exchange(t.context, kNoTensor);
  const ForwardMode mode = std::exchange(mode_, ForwardMode::recompute);
  core_attention_forward(t, true);
  mode_ = mode;
  t.context_again = std::exchange(t.context, saved);
}

}  // namespace stepcast
