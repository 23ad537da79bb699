// SPDX-License-Identifier: Apache-2.0
// Forward of one layer, kernel by kernel.
#include <string>

#include "model/stage_writer.h"

namespace stepcast {

uint32_t StageWriter::tp(PassWriter& pass, const std::string& label, WorkKind kind, int64_t width) {
  return pass.communicate(Stream::tp, label, s_.collective(kind, width));
}

TensorIndex StageWriter::gather(const std::string& label, int64_t width) {
  const uint32_t op = tp(label, WorkKind::all_gather, width);
  p_.join(op);
  return p_.allocate(label, s_.bytes(s_.tokens, width), MemoryCategory::communication);
}

TensorIndex StageWriter::reduce(const std::string& label, TensorIndex partial, int64_t width,
                                MemoryCategory category) {
  if (!s_.split()) return partial;
  if (!s_.sequence_split()) {
    p_.join(tp(label + " all-reduce", WorkKind::all_reduce, width));
    return partial;
  }
  p_.join(tp(label + " reduce-scatter", WorkKind::reduce_scatter, width));
  const TensorIndex own = p_.allocate(label + " reduced", s_.bytes(s_.own_tokens, width), category);
  p_.free(partial);
  return own;
}

// One kernel: reads the input, writes the output and, for the backward, fp32 statistics of each row
// (mean and inverse deviation; the inverse root mean square alone for RMSNorm).
void StageWriter::norm_forward(const std::string& label, TensorIndex& statistics,
                               TensorIndex& output, int64_t rows, int64_t width) {
  const bool rms = s_.model.norm == Norm::rms_norm;
  const Bytes row_bytes = s_.bytes(rows, width);
  p_.compute(label, s_.memory_bound(rms ? Kernel::rms_norm : Kernel::layer_norm, row_bytes * 2));
  output = p_.allocate(label + " output", row_bytes, saved());
  statistics = p_.allocate("norm statistics", s_.bytes(rows, rms ? 1 : 2, DType::fp32), saved());
}

// Scores, softmax, dropout and context, or the fused kernel; fills `t.context`.
void StageWriter::core_attention_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const Bytes context_bytes = s.bytes(s.tokens, s.q);
  if (s.plan.kernels.flash_attention) {
    p_.compute("attention", s.fused_attention(false));
    t.context = p_.allocate("attention context", context_bytes, saved());
    t.log_sum_exp =
        p_.allocate("attention log-sum-exp", s.bytes(s.tokens, s.heads, DType::fp32), saved());
    if (!keep) p_.free(t.log_sum_exp);
  } else {
    const int64_t seq = s.seq, keys = s.keys;
    const int64_t dim = s.model.head_dim;
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
    p_.compute("attention context", s.head_gemm(seq, dim, keys, GemmLayout::nn));
    TensorIndex product =
        p_.allocate("attention product", context_bytes, MemoryCategory::workspace);
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
}

// bias + dropout + residual.  Frees the branch; returns the new residual stream.
TensorIndex StageWriter::add_residual(const std::string& label, TensorIndex& branch,
                                      TensorIndex* mask, bool bias) {
  const Bytes stream = s_.bytes(s_.own_tokens, s_.hidden);
  const Bytes mask_bytes = s_.bytes(s_.own_tokens, s_.hidden, DType::uint8);
  const bool dropout = s_.model.hidden_dropout > 0;
  const std::string name = label + " residual";
  if (dropout && s_.plan.kernels.fused_bias_dropout_add) {
    p_.compute(name, s_.memory_bound(Kernel::bias_dropout_add, stream * 3 + mask_bytes));
  } else {
    if (bias && !s_.plan.kernels.fused_bias_dropout_add) {
      p_.compute(label + " bias", s_.memory_bound(Kernel::bias_add, stream * 2));
    }
    if (dropout) {
      p_.compute(label + " dropout", s_.memory_bound(Kernel::dropout, stream * 2 + mask_bytes));
    }
    p_.compute(name, s_.memory_bound(Kernel::add, stream * 3));
  }
  const TensorIndex out = p_.allocate("residual stream", stream, saved());
  if (dropout) {
    *mask = p_.allocate(label + " dropout mask", mask_bytes, saved());
  }
  p_.free(branch);
  return out;
}

TensorIndex StageWriter::layer_forward(LayerTensors& t, ForwardMode mode) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const Kernels& kernels = s.plan.kernels;
  mode_ = mode;
  const bool keep = mode != ForwardMode::discard;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };

  norm_forward("norm 1", t.norm1_statistics, t.norm1_output, s.own_tokens, s.hidden);
  done_with(t.norm1_statistics);
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) gathered = gather("qkv all-gather", s.hidden);
  p_.compute("qkv", s.forward_gemm(s.tokens, s.qkv, s.hidden));
  t.qkv = p_.allocate("queries, keys, values", s.bytes(s.tokens, s.qkv), saved());
  p_.free(gathered);
  done_with(t.norm1_output);
  if (model.attention_bias && !kernels.fused_bias) {
    p_.compute("qkv bias", s.memory_bound(Kernel::bias_add, s.bytes(s.tokens, s.qkv) * 2));
  }
  if (model.qk_norm) {
    const Bytes qk = s.bytes(s.tokens, s.q + s.kv);
    p_.compute("query and key norm", s.memory_bound(Kernel::rms_norm, qk * 2));
    t.qk_normed = p_.allocate("query and key norm output", qk, saved());
  }
  if (model.positions == Positions::rotary) {
    p_.compute("rotary", s.memory_bound(Kernel::rotary, s.bytes(s.tokens, s.q + s.kv) * 2));
  }
  // Selective recomputation keeps only what goes into the core and what comes out of it.
  const bool keep_core = keep && !(s.plan.recompute == Recompute::selective);
  core_attention_forward(t, keep_core);
  done_with(t.qkv);
  done_with(t.qk_normed);

  p_.compute("projection", s.forward_gemm(s.tokens, s.hidden, s.q));
  TensorIndex branch =
      p_.allocate("projection output", s.bytes(s.tokens, s.hidden), MemoryCategory::workspace);
  done_with(t.context);
  branch = reduce("projection", branch, s.hidden);
  t.residual = add_residual("attention", branch, &t.mask1, model.attention_output_bias);
  done_with(t.mask1);

  norm_forward("norm 2", t.norm2_statistics, t.norm2_output, s.own_tokens, s.hidden);
  done_with(t.norm2_statistics);
  if (s.sequence_split()) gathered = gather("fc1 all-gather", s.hidden);
  p_.compute("fc1", s.forward_gemm(s.tokens, s.up, s.hidden));
  t.up = p_.allocate("fc1 output", s.bytes(s.tokens, s.up), saved());
  p_.free(gathered);
  done_with(t.norm2_output);
  const Bytes up = s.bytes(s.tokens, s.up);
  const Bytes act = s.bytes(s.tokens, s.ffn);
  if (model.mlp_bias && !kernels.fused_activation) {
    p_.compute("fc1 bias", s.memory_bound(Kernel::bias_add, up * 2));
  }
  p_.compute("activation", s.memory_bound(Kernel::activation, up + act));
  t.activated = p_.allocate("activation output", act, saved());
  done_with(t.up);
  p_.compute("fc2", s.forward_gemm(s.tokens, s.hidden, s.ffn));
  branch = p_.allocate("fc2 output", s.bytes(s.tokens, s.hidden), MemoryCategory::workspace);
  done_with(t.activated);
  branch = reduce("fc2", branch, s.hidden);
  const TensorIndex out = add_residual("mlp", branch, &t.mask2, model.mlp_bias);
  done_with(t.mask2);
  done_with(t.residual);
  return out;
}

}  // namespace stepcast
