// SPDX-License-Identifier: Apache-2.0
// Backward of one layer, kernel by kernel: input gradients (Phase::backward_input) and weight
// gradients (Phase::backward_weight) as separate ops.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

// ---------------------------------------------------------------------------- gradients of weights
void StageWriter::weight_gradient(const std::string& label, const Work& gemm) {
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  w_.compute(label + " weight gradient", gemm);
  const int64_t weights = gemm.m * gemm.n;
  if (!s_.plan.kernels.gradient_accumulation_fusion) {
    // The GEMM wrote a gradient of its own, which is then added to the main gradient.
    const Bytes own = s_.bytes(gemm.m, gemm.n);
    TensorIndex gradient = w_.allocate(label + " weight gradient", own, MemoryCategory::workspace);
    w_.compute(label + " gradient accumulation",
               s_.memory_bound(Kernel::add,
                               own + s_.bytes(gemm.m, gemm.n, s_.plan.precision.gradients) * 2));
    w_.free(gradient);
  }
  w_.set_phase(phase);
  reduce_after(weights);
}

void StageWriter::bias_gradient(const std::string& label, int64_t rows, int64_t width) {
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  w_.compute(label + " bias gradient",
             s_.memory_bound(Kernel::bias_backward, s_.bytes(rows, width)));
  w_.set_phase(phase);
  reduce_after(width);
}

void StageWriter::reduce_after(int64_t parameters) {
  if (buckets_.bucket_parameters == 0 || incomplete_) return;
  buckets_.pending += parameters;
  if (buckets_.pending >= buckets_.bucket_parameters) reduce_bucket();
}

void StageWriter::reduce_bucket() {
  Work w;
  w.kind = buckets_.collective;
  w.dtype = buckets_.dtype;
  w.axis = Axis::dp;
  w.bytes = s_.bytes(std::exchange(buckets_.pending, 0), 1, buckets_.dtype);
  const Phase phase = w_.phase();
  w_.set_phase(Phase::gradient_sync);
  w_.communicate(Stream::dp, "gradient reduction", w);
  w_.set_phase(phase);
}

void StageWriter::flush_gradients() {
  if (buckets_.pending > 0) reduce_bucket();
}

// ----------------------------------------------------------------------------------- linear layers
TensorIndex StageWriter::row_parallel_backward(const std::string& label, BranchGradient branch,
                                               TensorIndex& input, int64_t in) {
  const Shard& s = s_;
  TensorIndex full = kNoTensor;
  if (s.sequence_split()) {
    full = gather(label + " gradient all-gather", s.hidden);
    if (branch.own) (branch.bias ? w_ : p_).free(branch.tensor);
    branch.own = false;
  }
  p_.compute(label + " input gradient", s.input_gemm(s.tokens, s.hidden, in));
  const TensorIndex gradient =
      p_.allocate(label + " input gradient", s.bytes(s.tokens, in), MemoryCategory::workspace);
  weight_gradient(label, s.weight_gemm(s.tokens, s.hidden, in));
  w_.free(input);
  w_.free(full);
  if (branch.own) w_.free(branch.tensor);
  return gradient;
}

InputGather StageWriter::gather_input(const std::string& label) {
  const Phase phase = w_.phase();
  w_.set_phase(Phase::backward_weight);
  InputGather out;
  out.op = tp(w_, label + " input all-gather", WorkKind::all_gather, s_.hidden);
  out.tensor = w_.allocate(label + " input gathered", s_.bytes(s_.tokens, s_.hidden),
                           MemoryCategory::communication);
  w_.set_phase(phase);
  return out;
}

InputGather StageWriter::gather_input_early(const std::string& label) {
  const bool beside = s_.plan.overlap.tp == TpOverlap::backward;
  if (!split_ || !beside || !s_.sequence_split()) return {};
  return gather_input(label);
}

// Megatron's LinearWithGradAccumulationAndAsyncCommunication: the gather of the saved input runs
// beside the input-gradient GEMM, the reduction of the input gradient beside the weight-gradient
// GEMM.  Split, the reduction has nothing to run beside, and the gather is made by the weight pass.
TensorIndex StageWriter::column_parallel_backward(const std::string& label, TensorIndex& gradient,
                                                  TensorIndex& input, int64_t out,
                                                  InputGather gathered) {
  const Shard& s = s_;
  const bool beside = s.plan.overlap.tp == TpOverlap::backward && !split_;
  if (s.sequence_split() && !split_) {
    gathered = gather_input(label);
    if (!beside) p_.join(gathered.op);
  }
  p_.compute(label + " input gradient", s.input_gemm(s.tokens, out, s.hidden));
  TensorIndex partial = p_.allocate(label + " input gradient", s.bytes(s.tokens, s.hidden),
                                    MemoryCategory::workspace);
  TensorIndex result = partial;
  uint32_t reduce_op = 0;
  if (s.split()) {
    const WorkKind kind = s.sequence_split() ? WorkKind::reduce_scatter : WorkKind::all_reduce;
    reduce_op =
        tp(label + " input gradient " + (s.sequence_split() ? "reduce-scatter" : "all-reduce"),
           kind, s.hidden);
    if (s.sequence_split()) {
      result = p_.allocate(label + " input gradient reduced", s.bytes(s.own_tokens, s.hidden),
                           MemoryCategory::workspace);
    }
    if (!beside) p_.join(reduce_op);
  }
  if (s.sequence_split() && split_ && gathered.tensor == kNoTensor) gathered = gather_input(label);
  if (s.sequence_split() && (beside || split_)) w_.join(gathered.op);
  weight_gradient(label, s.weight_gemm(s.tokens, out, s.hidden));
  w_.free(gathered.tensor);
  w_.free(gradient);
  w_.free(input);
  if (result != partial) p_.free(partial);
  if (s.split() && beside) p_.join(reduce_op);
  return result;
}

// ------------------------------------------------------------------------------------- small parts
void StageWriter::norm_backward(const std::string& label, int64_t rows, int64_t width) {
  const bool rms = s_.model.norm == Norm::rms_norm;
  // Reads the output gradient and the input, writes the input gradient.
  p_.compute(label + " backward",
             s_.memory_bound(rms ? Kernel::rms_norm_backward : Kernel::layer_norm_backward,
                             s_.bytes(rows, width) * 3));
  reduce_after(rms || !s_.model.norm_bias ? width : 2 * width);
}

BranchGradient StageWriter::branch_gradient(const std::string& label, TensorIndex& gradient,
                                            TensorIndex& mask, bool bias) {
  const Bytes stream = s_.bytes(s_.own_tokens, s_.hidden);
  BranchGradient branch{.tensor = gradient, .bias = bias};
  if (s_.model.hidden_dropout > 0) {
    p_.compute(label + " dropout backward",
               s_.memory_bound(Kernel::bias_dropout_add_backward,
                               stream * 2 + s_.bytes(s_.own_tokens, s_.hidden, DType::uint8)));
    branch.tensor = p_.allocate(label + " branch gradient", stream, MemoryCategory::workspace);
    branch.own = true;
    p_.free(mask);
  } else if (split_ && (bias || !s_.sequence_split())) {
    // With a split sequence the weight gradient reads the gathered copy instead.
    branch.own = true;
    gradient = kNoTensor;
  }
  if (bias) bias_gradient(label, s_.own_tokens, s_.hidden);
  return branch;
}

void StageWriter::add_residual_gradient(const std::string& label, TensorIndex& branch,
                                        TensorIndex& gradient) {
  const Bytes stream = s_.bytes(s_.own_tokens, s_.hidden);
  p_.compute(label + " residual gradient", s_.memory_bound(Kernel::add, stream * 3));
  if (gradient == kNoTensor) {
    gradient = p_.allocate("residual gradient", stream, MemoryCategory::workspace);
  }
  p_.free(branch);
}

void StageWriter::core_attention_backward(LayerTensors& t, TensorIndex& gradient,
                                          TensorIndex& gradient_qkv) {
  const Shard& s = s_;
  const Bytes qkv = s.bytes(s.tokens, s.qkv);
  if (s.plan.kernels.flash_attention) {
    p_.compute("attention backward", s.fused_attention(true));
    gradient_qkv = p_.allocate("qkv gradient", qkv, MemoryCategory::workspace);
    p_.free(t.log_sum_exp);
  } else {
    const int64_t seq = s.seq, keys = s.keys;
    const int64_t dim = s.model.head_dim;
    const int64_t rows = s.plan.micro_batch * s.heads * seq;
    const Bytes square = s.bytes(rows, keys);
    p_.compute("attention transpose backward",
               s.memory_bound(Kernel::transpose, s.bytes(s.tokens, s.q) * 2));
    p_.compute("probability gradient", s.head_gemm(seq, keys, dim, GemmLayout::tn));
    TensorIndex scores =
        p_.allocate("attention probability gradient", square, MemoryCategory::workspace);
    p_.compute("value gradient", s.head_gemm(keys, dim, seq, GemmLayout::nt));
    gradient_qkv = p_.allocate("qkv gradient", qkv, MemoryCategory::workspace);
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
}

// ------------------------------------------------------------------------------------------- layer
void StageWriter::layer_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_attention) {
  p_.set_phase(Phase::backward_input);
  mlp_backward(t, gradient);
  attention_backward(t, gradient, recompute_attention);
}

void StageWriter::mlp_backward(LayerTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const InputGather input = gather_input_early("fc1");
  const BranchGradient branch = branch_gradient("mlp", gradient, t.mask2, model.mlp_bias);
  TensorIndex d = row_parallel_backward("fc2", branch, t.activated, s.ffn);
  const Bytes up = s.bytes(s.tokens, s.up);
  p_.compute("activation backward",
             s.memory_bound(Kernel::activation_backward, up * 2 + s.bytes(s.tokens, s.ffn)));
  TensorIndex d_up = p_.allocate("fc1 output gradient", up, MemoryCategory::workspace);
  p_.free(d);
  p_.free(t.up);
  if (model.mlp_bias) bias_gradient("fc1", s.tokens, s.up);
  d = column_parallel_backward("fc1", d_up, t.norm2_output, s.up, input);
  norm_backward("norm 2", s.own_tokens, s.hidden);
  p_.free(t.norm2_statistics);
  p_.free(t.residual);
  add_residual_gradient("mlp", d, gradient);
}

void StageWriter::attention_backward(LayerTensors& t, TensorIndex& gradient,
                                     bool recompute_core_first) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const InputGather input = gather_input_early("qkv");
  const BranchGradient branch =
      branch_gradient("attention", gradient, t.mask1, model.attention_output_bias);
  // Fused attention needs its own output again; the one that is recomputed is another tensor.
  const bool recomputed = recompute_core_first || t.context_again != kNoTensor;
  const bool context_in_use = s.plan.kernels.flash_attention && !recomputed && !split_;
  TensorIndex none = kNoTensor;
  TensorIndex d =
      row_parallel_backward("projection", branch, context_in_use ? none : t.context, s.q);
  if (recompute_core_first) {
    p_.set_phase(Phase::recompute);
    recompute_core(t);
    p_.set_phase(Phase::backward_input);
  }
  TensorIndex d_qkv = kNoTensor;
  core_attention_backward(t, d, d_qkv);
  const Bytes qk = s.bytes(s.tokens, s.q + s.kv);
  if (model.positions == Positions::rotary) {
    p_.compute("rotary backward", s.memory_bound(Kernel::rotary_backward, qk * 2));
  }
  if (model.qk_norm) {
    p_.compute("query and key norm backward", s.memory_bound(Kernel::rms_norm_backward, qk * 3));
    p_.free(t.qk_normed);
    reduce_after(2 * model.head_dim);
  }
  if (model.attention_bias) bias_gradient("qkv", s.tokens, s.qkv);
  d = column_parallel_backward("qkv", d_qkv, t.norm1_output, s.qkv, input);
  norm_backward("norm 1", s.own_tokens, s.hidden);
  p_.free(t.norm1_statistics);
  p_.free(t.input);
  add_residual_gradient("attention", d, gradient);
}

void StageWriter::recompute_core(LayerTensors& t) {
  const TensorIndex saved = std::exchange(t.context, kNoTensor);
  const ForwardMode mode = std::exchange(mode_, ForwardMode::recompute);
  core_attention_forward(t, true);
  mode_ = mode;
  t.context_again = std::exchange(t.context, saved);
}

void StageWriter::set_layer(int layer) {
  p_.set_layer(layer);
  w_.set_layer(layer);
}

}  // namespace stepcast
