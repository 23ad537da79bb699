// SPDX-License-Identifier: Apache-2.0
// One layer, kernel by kernel: attention, then MLP, each with the norm before it and the sum with
// the residual stream after it; or both side by side.
//
// The backward is the forward in reverse.  For a dense layer it is, from the last op to the first
// of the forward (linear.cc has what each linear layer launches):
//
//   mlp_backward        dropout and bias (branch_gradient), fc2, activation, fc1, norm, sum with
//                       the gradient of the residual stream (add_residual_gradient)
//   attention_backward  dropout and bias, projection, core (attention.cc), rotary positions, norms
//                       of queries and keys, qkv, norm, sum
//
// Input gradients (Phase::backward_input) and weight gradients (Phase::backward_weight) are ops of
// their own.  Where the two are split into passes, a tensor that a weight gradient reads is freed
// by `c.weights`, every other by `c.pass`.
#include <string>
#include <utility>

#include "model/layers/layers.h"
#include "model/low_precision.h"

namespace stepcast {

LayerContext LayerContext::layer(int number, const LayerKind& of) const {
  pass.set_layer(number);
  weights.set_layer(number);
  return {shard, pass, weights, buckets, encoder, of, true, adds_to_gradients};
}

LayerContext LayerContext::outside_layers() const {
  pass.set_layer(-1);
  weights.set_layer(-1);
  return {shard, pass, weights, buckets, encoder, {}, false, adds_to_gradients};
}

// ----------------------------------------------------------------------------------- recomputation
bool recomputes(const LayerContext& c, bool RecomputeModules::*module) {
  const Plan& plan = c.shard.plan;
  return plan.recompute == Recompute::selective && plan.recompute_modules.*module;
}

bool drops(const LayerContext& c, ForwardMode mode, bool RecomputeModules::*module) {
  return mode == ForwardMode::keep && recomputes(c, module);
}

bool keeps_alternate_products(const LayerContext& c, ForwardMode mode) {
  return c.shard.plan.recompute == Recompute::per_op && mode == ForwardMode::discard;
}

bool repeats_alternate_products(const LayerContext& c, ForwardMode mode) {
  return c.shard.plan.recompute == Recompute::per_op && mode == ForwardMode::recompute;
}

// Megatron-LM's layer is one Python function, whose variables hold what they name to its end or to
// their next assignment, also where nobody reads it any more (megatron/model/transformer.py,
// ParallelTransformerLayer.forward): layernorm_output to the second norm, attention_output to the
// end.  That decides which blocks are free when the next tensors are allocated.
bool holds_variables(const LayerContext& c) {
  return c.shard.plan.kernels.modules == Modules::megatron;
}

MemoryCategory saved(ForwardMode mode) {
  return mode == ForwardMode::recompute ? MemoryCategory::recompute_workspace
                                        : MemoryCategory::activations;
}

// ------------------------------------------------------------------------------------------- norms
namespace {

// RMSNorm by PyTorch's operators, in fp32: norm(x.float()).type_as(x) * weight with
// norm(x) = x * rsqrt(mean(x^2) + eps) (facebookresearch/llama llama/model.py; so do
// transformers' LlamaRMSNorm and, before it had a kernel, torch.nn.RMSNorm).
class SplitNorm {
 public:
  SplitNorm(PassWriter& pass, const Shard& s, const std::string& label, int64_t count,
            int64_t width)
      : p_(pass),
        s_(s),
        label_(label),
        x(s.bytes(count, width)),
        wide(s.bytes(count, width, DType::fp32)),
        rows(s.bytes(count, 1, DType::fp32)) {}

  // Returns what stays: the input in fp32, which square and product have read, the factor of each
  // row, and the product in 16 bits, which the weights multiply.
  Bytes forward() const {
    op(" to fp32", Kernel::cast, x + wide);
    op(" square", Kernel::scale, wide * 2);
    TensorIndex square = temporary(" square");
    op(" mean", Kernel::scale, wide + rows);
    p_.free(square);
    op(" epsilon", Kernel::scale, rows * 2);
    op(" inverse root", Kernel::scale, rows * 2);
    op(" product", Kernel::scale, wide * 2 + rows);
    TensorIndex product = temporary(" product");
    op(" from fp32", Kernel::cast, wide + x);
    p_.free(product);
    op(" weight", Kernel::scale, x * 2);
    return (converts() ? wide : Bytes{}) + x + rows;
  }

  // Operator by operator from the last to the first.
  void backward() const {
    op(" weight backward", Kernel::scale, x * 2);
    op(" weight gradient", Kernel::add, x * 3);
    op(" weight gradient sum", Kernel::bias_backward, x);
    op(" from fp32 backward", Kernel::cast, x + wide);
    TensorIndex gradient = temporary(" gradient in fp32");
    op(" product backward", Kernel::scale, wide * 2 + rows);
    TensorIndex sum = temporary(" input gradient in fp32");
    op(" factor gradient", Kernel::add, wide * 3);
    op(" factor gradient sum", Kernel::scale, wide + rows);
    p_.free(gradient);
    op(" inverse root backward", Kernel::scale, rows * 3);
    op(" mean backward", Kernel::scale, rows + wide);
    TensorIndex mean = temporary(" mean gradient");
    op(" square backward power", Kernel::copy, wide * 2);
    op(" square backward twice", Kernel::scale, wide * 2);
    TensorIndex twice = temporary(" square backward twice");
    op(" square backward", Kernel::add, wide * 3);
    TensorIndex square = temporary(" square gradient");
    p_.free(mean);
    p_.free(twice);
    op(" gradient sum", Kernel::add, wide * 3);
    p_.free(square);
    op(" to fp32 backward", Kernel::cast, wide + x);
    p_.free(sum);
  }

 private:
  bool converts() const { return s_.plan.precision.params != DType::fp32; }
  void op(const char* what, Kernel kernel, Bytes moved) const {
    if (kernel == Kernel::cast && !converts()) return;
    p_.compute(label_ + what, s_.memory_bound(kernel, moved));
  }
  TensorIndex temporary(const char* what) const {
    return p_.allocate(label_ + what, wide, MemoryCategory::workspace);
  }

  PassWriter& p_;
  const Shard& s_;
  const std::string& label_;
  const Bytes x, wide, rows;
};

bool by_operators(const Kernels& kernels, Norm norm, const std::string& label) {
  if (norm != Norm::rms_norm) return false;
  return !kernels.fused_norm || (!kernels.fused_input_norm && label == kInputNorm);
}

// LayerNorm of PyTorch before 1.11: kernels of moments and of the output, then of sums, of the
// input's gradient and of the weights', each of which reads the same inputs.
// RowwiseMomentsCUDAKernel, LayerNormForwardCUDAKernel; ComputeInternalGradientsCUDAKernel,
// LayerNormBackwardCUDAKernel, GammaBetaBackwardCUDAKernel of pytorch/pytorch v1.8
// aten/src/ATen/native/cuda/layer_norm_kernel.cu.
bool by_several_kernels(const Kernels& kernels, Norm norm) {
  return norm == Norm::layer_norm && kernels.layer_norm == LayerNormKernel::torch_2021;
}

}  // namespace

// One kernel: reads the input, writes the output and, for the backward, fp32 statistics of each row
// (mean and inverse deviation; the inverse root mean square alone for RMSNorm).
NormOutput norm_forward(const LayerContext& c, ForwardMode mode, const std::string& label,
                        int64_t rows, int64_t width, bool into_linear) {
  const Shard& s = c.shard;
  const bool rms = s.model.norm == Norm::rms_norm;
  const Bytes row_bytes = s.bytes(rows, width);
  Bytes out = row_bytes;
  if (into_linear && norm_quantizes(c)) out = low_format(s.plan.precision).bytes(rows * width);
  Bytes kept = s.bytes(rows, rms ? 1 : 2, DType::fp32);
  if (by_operators(s.plan.kernels, s.model.norm, label)) {
    kept = SplitNorm(c.pass, s, label, rows, width).forward();
  } else {
    const Work kernel =
        s.memory_bound(rms ? Kernel::rms_norm : Kernel::layer_norm, row_bytes + out);
    const bool several = by_several_kernels(s.plan.kernels, s.model.norm);
    if (several) c.pass.compute(label + " moments", s.memory_bound(kernel.kernel, row_bytes));
    c.pass.compute(label, kernel, several ? OpRole::later_kernel : OpRole::ordinary);
  }
  NormOutput norm;
  norm.output = c.pass.allocate(label + " output", out, saved(mode));
  norm.statistics = c.pass.allocate("norm statistics", kept, saved(mode));
  return norm;
}

void need_norm(const LayerContext& c, const std::string& label, TensorIndex& output,
               bool into_linear) {
  if (output != kNoTensor || !recomputes(c, &RecomputeModules::norms)) return;
  const Shard& s = c.shard;
  const ForwardMode mode = ForwardMode::recompute;
  const Phase phase = c.pass.phase();
  c.pass.set_phase(Phase::recompute);
  NormOutput norm = norm_forward(c, mode, label, s.own_tokens, s.hidden, into_linear);
  output = norm.output;
  c.pass.free(norm.statistics);  // they were kept
  if (into_linear) {
    TensorIndex now =
        quantize_input(c, mode, label, output, s.own_tokens, s.hidden, nullptr,
                       {.gathered = s.sequence_split(), .converted = norm_quantizes(c)});
    c.pass.free(now);
  }
  c.pass.set_phase(phase);
}

void norm_backward(const LayerContext& c, const std::string& label, int64_t rows, int64_t width) {
  const Shard& s = c.shard;
  const bool rms = s.model.norm == Norm::rms_norm;
  if (by_operators(s.plan.kernels, s.model.norm, label)) {
    SplitNorm(c.pass, s, label, rows, width).backward();
  } else {
    const bool several = by_several_kernels(s.plan.kernels, s.model.norm);
    const Bytes row_bytes = s.bytes(rows, width);
    const Work kernel = s.memory_bound(
        rms ? Kernel::rms_norm_backward : Kernel::layer_norm_backward, row_bytes * 3);
    const Work reading = s.memory_bound(kernel.kernel, row_bytes * 2);
    if (several) c.pass.compute(label + " backward sums", reading);
    c.pass.compute(label + " backward", kernel, several ? OpRole::later_kernel : OpRole::ordinary);
    if (several) c.pass.compute(label + " weight gradient", reading, OpRole::later_kernel);
  }
  reduce_after(c, rms || !s.model.norm_bias ? width : 2 * width);
}

// --------------------------------------------------------------------------------- residual stream
TensorIndex add_residual(const LayerContext& c, ForwardMode mode, const std::string& label,
                         TensorIndex& branch, TensorIndex& mask, bool bias) {
  const Shard& s = c.shard;
  const Bytes stream = s.bytes(s.own_tokens, s.hidden);
  const Bytes mask_bytes = s.bytes(s.own_tokens, s.hidden, DType::uint8);
  const bool dropout = s.model.hidden_dropout > 0;
  const std::string name = label + " residual";
  const bool normed = c.shard.model.branch_norms;
  if (normed)
    c.pass.compute(
        label + " output norm",
        s.memory_bound(s.model.norm == Norm::rms_norm ? Kernel::rms_norm : Kernel::layer_norm,
                       stream * 2));
  if (dropout && s.plan.kernels.fused_bias_dropout_add) {
    c.pass.compute(name, s.memory_bound(Kernel::bias_dropout_add, stream * 3 + mask_bytes));
  } else {
    if (bias && !s.plan.kernels.fused_bias_dropout_add) {
      c.pass.compute(label + " bias", s.memory_bound(Kernel::bias_add, stream * 2));
    }
    if (dropout) {
      c.pass.compute(label + " dropout", s.memory_bound(Kernel::dropout, stream * 2 + mask_bytes));
    }
    c.pass.compute(name, s.memory_bound(Kernel::add, stream * 3));
  }
  const TensorIndex out = c.pass.allocate("residual stream", stream, saved(mode));
  // The norm keeps its input; one tensor stands for all that the end of a branch keeps.
  if (dropout || normed)
    mask = c.pass.allocate(normed ? label + " end" : label + " dropout mask",
                           (dropout ? mask_bytes : Bytes{}) + (normed ? stream : Bytes{}),
                           saved(mode));
  c.pass.free(branch);
  return out;
}

BranchGradient branch_gradient(const LayerContext& c, const std::string& label,
                               TensorIndex& gradient, TensorIndex& mask, bool bias) {
  const Shard& s = c.shard;
  const Bytes stream = s.bytes(s.own_tokens, s.hidden);
  BranchGradient branch{.tensor = gradient, .bias = bias};
  if (s.model.hidden_dropout > 0) {
    c.pass.compute(label + " dropout backward",
                   s.memory_bound(Kernel::bias_dropout_add_backward,
                                  stream * 2 + s.bytes(s.own_tokens, s.hidden, DType::uint8)));
    branch.tensor = c.pass.allocate(label + " branch gradient", stream, MemoryCategory::workspace);
    branch.own = true;
    if (!s.model.branch_norms) c.pass.free(mask);
  } else if (c.split() && (bias || !(s.sequence_split() || is_low(c)))) {
    // With a split sequence the weight gradient reads the gathered copy instead, in low precision
    // the quantized one.
    branch.own = true;
    gradient = kNoTensor;
  }
  if (s.model.branch_norms) {
    norm_backward(c, label + " output norm", s.own_tokens, s.hidden);
    c.pass.free(mask);
  }
  if (bias) bias_gradient(c, label, s.own_tokens, s.hidden);
  return branch;
}

void add_residual_gradient(const LayerContext& c, const std::string& label, TensorIndex& branch,
                           TensorIndex& gradient) {
  const Bytes stream = c.shard.bytes(c.shard.own_tokens, c.shard.hidden);
  c.pass.compute(label + " residual gradient", c.shard.memory_bound(Kernel::add, stream * 3));
  if (gradient == kNoTensor) {
    gradient = c.pass.allocate("residual gradient", stream, MemoryCategory::workspace);
  }
  c.pass.free(branch);
}

// --------------------------------------------------------------------------------------- attention
namespace {

// Positions of queries and keys by PyTorch's operators, x cos + half-turned(x) sin, into tensors of
// their own: fills `t.rotated`.  Queries, keys and values were views of one projection's output,
// which therefore stays for the values (Aleph-Alpha/scaling @01b9d21d,
// src/scaling/core/nn/rotary.py, apply_rotary_pos_emb; core/nn/attention/attention.py).
void rotate_by_operators(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  PassWriter& p = c.pass;
  std::vector<TensorIndex> temporaries;
  const auto temporary = [&](const std::string& what, Bytes bytes) {
    temporaries.push_back(p.allocate(what, bytes, MemoryCategory::workspace));
  };
  for (const auto& [what, width] : {std::pair{"query", s.q}, {"key", s.key}}) {
    const std::string name = std::string("rotary ") + what;
    const Bytes x = s.bytes(s.tokens, width);
    p.compute(name + " cosine product", s.memory_bound(Kernel::scale, x * 2));
    temporary(name + " cosine product", x);
    p.compute(name + " half negated", s.memory_bound(Kernel::scale, x));
    p.compute(name + " halves side by side", s.memory_bound(Kernel::copy, x * 2));
    temporary(name + " half turned", x);
    p.compute(name + " sine product", s.memory_bound(Kernel::scale, x * 2));
    temporary(name + " sine product", x);
    p.compute(name + " sum", s.memory_bound(Kernel::add, x * 3));
  }
  // The products keep the cosines and sines that were looked up for each token, for queries and for
  // keys; all heads share them.
  t.rotated = p.allocate("rotated queries and keys",
                         s.bytes(s.tokens, s.q + s.key + 4 * s.query_dim), saved(mode));
  for (TensorIndex& tensor : temporaries) p.free(tensor);
}

void rotate_back_by_operators(const LayerContext& c) {
  const Shard& s = c.shard;
  PassWriter& p = c.pass;
  for (const auto& [what, width] : {std::pair{"query", s.q}, {"key", s.key}}) {
    const std::string name = std::string("rotary ") + what;
    const Bytes x = s.bytes(s.tokens, width);
    p.compute(name + " sine backward", s.memory_bound(Kernel::scale, x * 2));
    TensorIndex sine = p.allocate(name + " sine gradient", x, MemoryCategory::workspace);
    p.compute(name + " half negated backward", s.memory_bound(Kernel::scale, x));
    // Each half's gradient goes into a tensor of zeros.
    TensorIndex halves = p.allocate(name + " half gradients", x * 2, MemoryCategory::workspace);
    p.compute(name + " half backward", s.memory_bound(Kernel::copy, x * 2));
    p.compute(name + " other half backward", s.memory_bound(Kernel::copy, x * 2));
    p.compute(name + " sum of halves", s.memory_bound(Kernel::add, x * 3));
    p.free(sine);
    p.compute(name + " cosine backward", s.memory_bound(Kernel::scale, x * 2));
    p.compute(name + " gradient sum", s.memory_bound(Kernel::add, x * 3));
    p.free(halves);
  }
  const Bytes all = s.bytes(s.tokens, s.qkv);
  p.compute("qkv gradients side by side", s.memory_bound(Kernel::copy, all * 2));
}

void rotate(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  if (!s.plan.kernels.fused_rotary) return rotate_by_operators(c, mode, t);
  c.pass.compute("rotary", s.memory_bound(Kernel::rotary, s.bytes(s.tokens, s.q + s.key) * 2));
}

// Of the gate that is projected with queries, keys and values.
int64_t gate_width(const LayerContext& c) {
  return c.shard.model.attention_gate ? c.shard.q : 0;
}

// Of what has a norm before attention.
int64_t normed_width(const LayerContext& c) {
  const Shard& s = c.shard;
  return s.q + s.key + (s.model.value_norm ? s.value : 0);
}

// Queries, keys and values of ordinary attention: fills `t.qkv`.
void projected_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const Transformer& model = s.model;
  const Kernels& kernels = s.plan.kernels;
  // Of three products those of queries and values are the first and the third.
  const int64_t values = s.projected - s.q - s.key;
  const int64_t others = repeats_alternate_products(c, mode) ? s.q + values : 0;
  const bool converted = norm_quantizes(c) && !model.shared_norm;
  t.qkv = column_parallel_forward(c, mode, "qkv", "queries, keys, values", t.norm_output,
                                  s.projected + gate_width(c) - others, {.converted = converted});
  if (keeps_alternate_products(c, mode))
    t.kept_qkv =
        c.pass.allocate("queries and values", s.bytes(s.tokens, s.q + s.value), saved(mode));
  if (mode == ForwardMode::discard && !model.shared_norm && !holds_variables(c))
    c.pass.free(t.norm_output);
  if (model.attention_bias && !kernels.fused_bias) {
    c.pass.compute("qkv bias",
                   s.memory_bound(Kernel::bias_add, s.bytes(s.tokens, s.projected) * 2));
  }
  if (model.qk_norm) {
    const Bytes normed = s.bytes(s.tokens, normed_width(c));
    c.pass.compute("query and key norm", s.memory_bound(Kernel::rms_norm, normed * 2));
    t.qk_normed = c.pass.allocate("query and key norm output", normed, saved(mode));
  }
  if (model.positions == Positions::rotary) rotate(c, mode, t);
}

// The gradient of what queries, keys and values were projected from.
TensorIndex projected_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient_qkv,
                               InputGather input) {
  const Shard& s = c.shard;
  const Transformer& model = s.model;
  const Bytes qk = s.bytes(s.tokens, s.q + s.key);
  if (model.positions == Positions::rotary && s.plan.kernels.fused_rotary) {
    c.pass.compute("rotary backward", s.memory_bound(Kernel::rotary_backward, qk * 2));
  } else if (model.positions == Positions::rotary) {
    rotate_back_by_operators(c);
  }
  if (model.qk_norm) {
    c.pass.compute(
        "query and key norm backward",
        s.memory_bound(Kernel::rms_norm_backward, s.bytes(s.tokens, normed_width(c)) * 3));
    c.pass.free(t.qk_normed);
    if (model.qk_norm_weights == QkNormWeights::of_head) reduce_after(c, 2 * s.query_dim);
  }
  if (s.shared_values)
    c.pass.compute("key and value gradient sum",
                   s.memory_bound(Kernel::add, s.bytes(s.tokens, s.key) * 3));
  if (model.attention_bias) bias_gradient(c, "qkv", s.tokens, s.projected);
  return column_parallel_backward(c, "qkv", gradient_qkv, t.norm_output,
                                  s.projected + gate_width(c), input);
}

bool is_latent(const LayerContext& c) {
  return c.shard.model.kv_rank > 0;
}

// What the core works on, as far as exchanged heads take its place (core_forward).
TensorIndex& replaced_by_exchange(const LayerContext& c, SavedAttention& t) {
  return c.shard.model.qk_norm ? t.qk_normed : t.qkv;
}

// Kernels::context_copies.  Of one sequence both transpositions are views.  What the projection
// reads of chosen or compressed keys is made by products that follow the core.
bool copies_context(const LayerContext& c) {
  if (attends_to_chosen(c) || attends_compressed(c)) return false;
  const Kernels& kernels = c.shard.plan.kernels;
  return kernels.context_copies && kernels.flash_attention && c.shard.plan.micro_batch > 1;
}

// [b s, heads, d] -> [b heads, s, d] -> [b, s, heads d]: the first copy goes at once.
void copy_context(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const Bytes context = s.bytes(s.tokens, s.context);
  c.pass.compute("context by head", s.memory_bound(Kernel::transpose, context * 2));
  TensorIndex by_head = c.pass.allocate("context by head", context, MemoryCategory::workspace);
  c.pass.compute("context by token", s.memory_bound(Kernel::transpose, context * 2));
  t.context_copy = c.pass.allocate("attention context copy", context, saved(mode));
  c.pass.free(by_head);
}

void copy_context_backward(const LayerContext& c) {
  const Shard& s = c.shard;
  const Work copy = s.memory_bound(Kernel::transpose, s.bytes(s.tokens, s.context) * 2);
  c.pass.compute("context by token backward", copy);
  c.pass.compute("context by head backward", copy);
}

// transformers' Qwen3NextAttention: the context times the sigmoid of a gate of its width.
void gate_context(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const Bytes context = s.bytes(s.tokens, s.context);
  c.pass.compute("attention gate", s.memory_bound(Kernel::activation, context * 3));
  const TensorIndex gated = c.pass.allocate("gated attention context", context, saved(mode));
  c.pass.free(t.context_copy);
  t.context_copy = gated;
}

// Frees the gradient of the gated context; makes those of context and gate, which is returned
// apart.
TensorIndex gate_backward(const LayerContext& c, TensorIndex& gradient) {
  const Shard& s = c.shard;
  const Bytes context = s.bytes(s.tokens, s.context);
  c.pass.compute("attention gate backward",
                 s.memory_bound(Kernel::activation_backward, context * 5));
  const TensorIndex of_context =
      c.pass.allocate("attention context gradient", context, MemoryCategory::workspace);
  const TensorIndex of_gate =
      c.pass.allocate("attention gate gradient", context, MemoryCategory::workspace);
  c.pass.free(gradient);
  gradient = of_context;
  return of_gate;
}

// DeepSeek-V3 keeps the output of attention once, in a format of its own (arXiv 2412.19437, section
// 3.3.3); Megatron-Core as attention wrote it (core/transformer/attention.py:
// set_save_original_input(self.linear_proj)).
void keep_context(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const KeptFormat format = *s.plan.precision.attention_output;
  if (format == KeptFormat::params) return;
  const Bytes kept = kept_bytes(format, s.tokens * s.context, s.plan.precision.params);
  c.pass.compute("attention context compression",
                 s.memory_bound(Kernel::quantize, s.bytes(s.tokens, s.context) + kept));
  t.context_kept = c.pass.allocate("attention context, compressed", kept, saved(mode));
  c.pass.free(t.core.context);
}

// What the backwards of attention and of the projection read.
void restore_context(const LayerContext& c, SavedAttention& t) {
  if (!t.context_alone) return;
  const Shard& s = c.shard;
  if (t.context_kept != kNoTensor) {
    const Bytes wide = s.bytes(s.tokens, s.context), kept = c.pass.bytes_of(t.context_kept);
    c.pass.compute("attention context decompression",
                   s.memory_bound(Kernel::quantize, kept + wide));
    t.core.context = c.pass.allocate("attention context", wide, MemoryCategory::workspace);
    c.pass.free(t.context_kept);
  }
  TensorIndex now = quantize_input(c, ForwardMode::recompute, "projection", t.core.context,
                                   s.tokens, s.context, &t.context_low);
  c.pass.free(now);
}

// Width of what the projection reads.
int64_t projection_input(const LayerContext& c) {
  return attends_compressed(c) ? compressed_context(c.shard) : c.shard.context;
}

// From the norm to the projection's partial output.
PartialSum attention_branch_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t) {
  const Shard& s = c.shard;
  const bool keep = mode != ForwardMode::discard;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) c.pass.free(tensor);
  };
  const bool latent = is_latent(c), compressed = attends_compressed(c);
  const bool one_reader = !latent && !compressed && !s.model.shared_norm;
  const NormOutput norm = norm_forward(c, mode, kInputNorm, s.own_tokens, s.hidden, one_reader);
  t.norm_output = norm.output;
  t.norm_statistics = norm.statistics;
  done_with(t.norm_statistics);
  if (latent) {
    latent_forward(c, mode, t);
  } else if (compressed) {
    compressed_forward(c, mode, t);
  } else {
    projected_forward(c, mode, t);
  }
  if (drops(c, mode, &RecomputeModules::norms) && !s.model.parallel_block) {
    c.pass.free(t.norm_output);
    c.pass.free(t.latent.input_low);
    c.pass.free(t.compressor.key_low);
  }
  // Selective recomputation keeps only what goes into the core and what comes out of it.
  const bool keep_core = keeps_alternate_products(c, mode) ||
                         (keep && !recomputes(c, &RecomputeModules::core_attention));
  if (attends_to_chosen(c)) {
    chosen_core_forward(c, mode, keep_core, t);
  } else if (compressed) {
    compressed_core_forward(c, mode, keep_core, t);
  } else if (!repeats_alternate_products(c, mode)) {
    t.core = core_forward(c, mode, keep_core, replaced_by_exchange(c, t));
  }
  done_with(t.qkv);
  done_with(t.qk_normed);
  done_with(t.rotated);
  if (latent && drops(c, mode, &RecomputeModules::mla_up_projection)) c.pass.free(t.qkv);

  // Fused attention's backward reads its output as well, which is not what the projection reads if
  // a gate or an up projection lies between.
  const bool read_twice = s.plan.kernels.flash_attention && keep_core && !s.model.attention_gate &&
                          !attends_to_chosen(c) && !compressed;
  t.context_alone = read_twice && is_low(c) && s.plan.precision.attention_output.has_value();
  if (copies_context(c)) copy_context(c, mode, t);
  if (s.model.attention_gate) gate_context(c, mode, t);
  TensorIndex& projected = t.context_copy != kNoTensor ? t.context_copy : t.core.context;
  const PartialSum branch =
      row_parallel_forward(c, t.context_alone ? ForwardMode::discard : mode, "projection",
                           projected, projection_input(c), read_twice ? &t.context_low : nullptr);
  if (t.context_alone) keep_context(c, mode, t);
  done_with(t.context_copy);
  if (!keeps_alternate_products(c, mode)) done_with(t.core.context);
  return branch;
}

Forward<SavedAttention> attention_forward(const LayerContext& c, ForwardMode mode,
                                          SavedAttention t) {
  if (has_streams(c)) read_streams(c, mode, t.streams);
  const PartialSum partial = attention_branch_forward(c, mode, t);
  TensorIndex branch = repeats_alternate_products(c, mode)
                           ? partial.tensor
                           : reduce(c, "projection", partial, c.shard.hidden);
  if (has_streams(c)) return {write_streams(c, mode, "attention", branch, t.streams), t};
  if (holds_variables(c)) t.output = std::exchange(branch, kNoTensor);
  const TensorIndex out =
      add_residual(c, mode, "attention", branch, t.mask, c.shard.model.attention_output_bias);
  if (mode == ForwardMode::discard) c.pass.free(t.mask);
  return {out, t};
}

InputGather gather_qkv_input_early(const LayerContext& c) {
  return is_latent(c) || attends_compressed(c) ? InputGather{} : gather_input_early(c, "qkv");
}

void recompute_self_core(const LayerContext& c, SavedAttention& t) {
  if (attends_to_chosen(c)) return recompute_chosen_core(c, t);
  if (attends_compressed(c)) return recompute_compressed_core(c, t);
  need_queries(c, t);
  recompute_core(c, t.core, replaced_by_exchange(c, t));
}

// From the gradient of the branch to that of the norm's output.
TensorIndex attention_branch_backward(const LayerContext& c, SavedAttention& t,
                                      BranchGradient branch, InputGather input,
                                      bool recompute_core_first) {
  const Shard& s = c.shard;
  restore_context(c, t);
  // Fused attention needs its own output again; the one that is recomputed is another tensor.
  const bool recomputed = recompute_core_first || t.core.context_again != kNoTensor;
  const bool context_in_use = s.plan.kernels.flash_attention && !recomputed && !c.split();
  TensorIndex none = kNoTensor;
  TensorIndex& projected = t.context_low != kNoTensor    ? t.context_low
                           : t.context_copy != kNoTensor ? t.context_copy
                           : context_in_use              ? none
                                                         : t.core.context;
  TensorIndex d = row_parallel_backward(c, "projection", branch, projected, projection_input(c));
  c.pass.free(t.context_copy);  // in low precision
  TensorIndex d_gate = s.model.attention_gate ? gate_backward(c, d) : kNoTensor;
  if (copies_context(c)) copy_context_backward(c);
  c.pass.set_phase(Phase::recompute);
  need_queries(c, t);
  if (recompute_core_first) recompute_self_core(c, t);
  c.pass.set_phase(Phase::backward_input);
  const bool compressed = attends_compressed(c);
  TensorIndex d_qkv = attends_to_chosen(c) ? chosen_core_backward(c, t, d)
                      : compressed         ? compressed_core_backward(c, t, d)
                                           : core_backward(c, t.core, d, t.qkv);
  c.pass.free(t.kept_qkv);
  c.pass.free(t.rotated);
  const TensorIndex d_input = is_latent(c) ? latent_backward(c, t, d_qkv)
                              : compressed ? compressed_backward(c, t, d_qkv)
                                           : projected_backward(c, t, d_qkv, input);
  c.pass.free(d_gate);
  return d_input;
}

void attention_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient,
                        bool recompute_core_first) {
  const Shard& s = c.shard;
  const bool latent = is_latent(c);
  if (latent) {
    need_latent_input(c, t);
  } else if (attends_compressed(c)) {
    need_compressed_input(c, t);
  } else {
    need_norm(c, kInputNorm, t.norm_output, true);
  }
  const InputGather input = gather_qkv_input_early(c);
  const bool bias = s.model.attention_output_bias;
  const BranchGradient branch =
      has_streams(c) ? write_streams_backward(c, "attention", gradient, t.streams, bias)
                     : branch_gradient(c, "attention", gradient, t.mask, bias);
  TensorIndex d = attention_branch_backward(c, t, branch, input, recompute_core_first);
  norm_backward(c, kInputNorm, s.own_tokens, s.hidden);
  c.pass.free(t.norm_statistics);
  if (has_streams(c)) return read_streams_backward(c, d, gradient, t.streams, t.input);
  c.pass.free(t.input);
  add_residual_gradient(c, "attention", d, gradient);
}

// --------------------------------------------------------------------------------------------- MLP

// From fc1 to fc2's partial output.  `converted`: the norm before it has quantized `input`.
PartialSum mlp_products_forward(const LayerContext& c, ForwardMode mode, SavedMlp& t,
                                TensorIndex& input, bool converted) {
  const Shard& s = c.shard;
  const Transformer& model = s.model;
  const auto done_with = [&](TensorIndex& tensor) {
    if (mode == ForwardMode::discard) c.pass.free(tensor);
  };
  const int64_t gate = s.ffn;  // without one, the whole of it
  const int64_t others = repeats_alternate_products(c, mode) ? gate : 0;
  t.up = column_parallel_forward(c, mode, "fc1", "fc1 output", input, s.up - others,
                                 {.converted = converted});
  if (keeps_alternate_products(c, mode))
    t.kept_up = c.pass.allocate("fc1 kept output", s.bytes(s.tokens, gate), saved(mode));
  if (!holds_variables(c) || model.parallel_block) done_with(input);
  const Bytes up = s.bytes(s.tokens, s.up);
  const Bytes act = s.bytes(s.tokens, s.ffn);
  if (model.mlp_bias && !s.plan.kernels.fused_activation) {
    c.pass.compute("fc1 bias", s.memory_bound(Kernel::bias_add, up * 2));
  }
  if (model.gated && !s.plan.kernels.fused_activation) {
    // The product keeps both its factors.
    c.pass.compute("gate activation", s.memory_bound(Kernel::activation, act * 2));
    t.gated = c.pass.allocate("gate activation output", act, saved(mode));
    c.pass.compute("activation", s.memory_bound(Kernel::scale, act * 3));
  } else {
    c.pass.compute("activation", s.memory_bound(Kernel::activation, up + act));
  }
  t.activated = c.pass.allocate("activation output", act, saved(mode));
  done_with(t.up);
  done_with(t.gated);
  if (repeats_alternate_products(c, mode) && model.gated)
    return {std::exchange(t.kept_down, kNoTensor)};
  const PartialSum branch = row_parallel_forward(c, mode, "fc2", t.activated, s.ffn);
  done_with(t.activated);
  return branch;
}

// Norm, products and their sum over the ranks, without the residual.  `first_norm`: the output of
// the norm before attention, which the one of this norm takes the place of.
TensorIndex mlp_branch(const LayerContext& c, ForwardMode mode, SavedMlp& t,
                       TensorIndex& first_norm) {
  const Shard& s = c.shard;
  const NormOutput norm = norm_forward(c, mode, "norm 2", s.own_tokens, s.hidden, true);
  t.norm_output = norm.output;
  t.norm_statistics = norm.statistics;
  if (mode == ForwardMode::discard) c.pass.free(t.norm_statistics);
  c.pass.free(first_norm);
  const PartialSum partial = mlp_products_forward(c, mode, t, t.norm_output, norm_quantizes(c));
  if (drops(c, mode, &RecomputeModules::norms)) c.pass.free(t.norm_output);
  if (repeats_alternate_products(c, mode)) return partial.tensor;
  const TensorIndex branch = reduce(c, "fc2", partial, s.hidden);
  if (keeps_alternate_products(c, mode) &&
      s.model.gated)  // the last of seven products; of four without a gate
    t.kept_down = c.pass.allocate("fc2 kept output", s.bytes(s.own_tokens, s.hidden), saved(mode));
  return branch;
}

// `before`: the attention of the same layer, of which what only its variables hold is freed.
Forward<SavedMlp> mlp_forward(const LayerContext& c, ForwardMode mode, SavedMlp t,
                              SavedAttention& before) {
  const bool again = drops(c, mode, &RecomputeModules::mlp);
  if (has_streams(c)) read_streams(c, mode, t.streams);
  TensorIndex none = kNoTensor;
  TensorIndex& first_norm = mode == ForwardMode::discard ? before.norm_output : none;
  TensorIndex branch = mlp_branch(c, again ? ForwardMode::discard : mode, t, first_norm);
  const TensorIndex out =
      has_streams(c) ? write_streams(c, mode, "mlp", branch, t.streams)
                     : add_residual(c, mode, "mlp", branch, t.mask, c.shard.model.mlp_bias);
  if (again || mode == ForwardMode::discard) c.pass.free(t.norm_output);
  if (mode == ForwardMode::discard) {
    c.pass.free(t.mask);
    c.pass.free(t.input);
  }
  c.pass.free(before.output);
  return {out, t};
}

// What a forward did not keep, once more: as Megatron-LM's checkpoint around the MLP does, all of
// it, the last sum too.
void need_mlp(const LayerContext& c, SavedMlp& t) {
  if (t.activated != kNoTensor || !recomputes(c, &RecomputeModules::mlp)) return;
  const Phase phase = c.pass.phase();
  c.pass.set_phase(Phase::recompute);
  TensorIndex none = kNoTensor;
  TensorIndex branch = mlp_branch(c, ForwardMode::recompute, t, none);
  c.pass.free(branch);
  c.pass.set_phase(phase);
}

// Frees the gradient of the activation's output; returns that of fc1's output.
TensorIndex activation_backward(const LayerContext& c, SavedMlp& t, TensorIndex& gradient) {
  const Shard& s = c.shard;
  const Bytes up = s.bytes(s.tokens, s.up), act = s.bytes(s.tokens, s.ffn);
  TensorIndex d_gate = kNoTensor;
  if (t.gated != kNoTensor) {
    c.pass.compute("activation product backward", s.memory_bound(Kernel::scale, act * 5));
    d_gate = c.pass.allocate("gate gradient", act, MemoryCategory::workspace);
    c.pass.free(t.gated);
    c.pass.compute("activation backward", s.memory_bound(Kernel::activation_backward, act * 3));
    if (s.plan.kernels.gate_views)
      c.pass.compute("gate and up gradients side by side", s.memory_bound(Kernel::copy, up * 2));
  } else {
    c.pass.compute("activation backward",
                   s.memory_bound(Kernel::activation_backward, up * 2 + act));
  }
  const TensorIndex d_up = c.pass.allocate("fc1 output gradient", up, MemoryCategory::workspace);
  c.pass.free(gradient);
  c.pass.free(d_gate);
  return d_up;
}

// Back to the gradient of fc1's input.
TensorIndex mlp_products_backward(const LayerContext& c, SavedMlp& t, BranchGradient branch,
                                  TensorIndex& input, InputGather gathered) {
  const Shard& s = c.shard;
  TensorIndex d = row_parallel_backward(c, "fc2", branch, t.activated, s.ffn);
  TensorIndex d_up = activation_backward(c, t, d);
  c.pass.free(t.up);
  c.pass.free(t.kept_up);
  if (s.model.mlp_bias) bias_gradient(c, "fc1", s.tokens, s.up);
  return column_parallel_backward(c, "fc1", d_up, input, s.up, gathered);
}

void mlp_backward(const LayerContext& c, SavedMlp& t, TensorIndex& gradient) {
  const Shard& s = c.shard;
  need_mlp(c, t);
  need_norm(c, "norm 2", t.norm_output, true);
  const InputGather input = gather_input_early(c, "fc1");
  const BranchGradient branch =
      has_streams(c) ? write_streams_backward(c, "mlp", gradient, t.streams, s.model.mlp_bias)
                     : branch_gradient(c, "mlp", gradient, t.mask, s.model.mlp_bias);
  TensorIndex d = mlp_products_backward(c, t, branch, t.norm_output, input);
  norm_backward(c, "norm 2", s.own_tokens, s.hidden);
  c.pass.free(t.norm_statistics);
  if (has_streams(c)) return read_streams_backward(c, d, gradient, t.streams, t.input);
  c.pass.free(t.input);
  add_residual_gradient(c, "mlp", d, gradient);
}

// ------------------------------------------------------------------- attention and MLP in parallel

// Each branch adds its own by a kernel of its own (EleutherAI/gpt-neox v1.0
// megatron/model/transformer.py, ParallelTransformerLayer.forward: bias_dropout_fn twice); else the
// sum of both is added to the sum of the branches.
bool adds_two_biases(const Shard& s) {
  return s.model.mlp_bias && s.model.attention_output_bias &&
         !s.plan.kernels.fused_bias_dropout_add;
}

// Layers in which both read the same residual stream and are added to it together (GPT-J,
// GPT-NeoX, PaLM: Chowdhery et al. 2022, arXiv 2204.02311, section 2): one sum of both branches,
// and one tensor-parallel reduction, where other layers have two.
Forward<SavedLayer> parallel_forward(const LayerContext& c, ForwardMode mode, SavedLayer t) {
  const Shard& s = c.shard;
  const PartialSum attention = attention_branch_forward(c, mode, t.attention);
  const bool shared = s.model.shared_norm;
  if (!shared) {
    const NormOutput norm = norm_forward(c, mode, "norm 2", s.own_tokens, s.hidden, true);
    t.mlp.norm_output = norm.output;
    t.mlp.norm_statistics = norm.statistics;
    if (mode == ForwardMode::discard) {
      c.pass.free(t.mlp.norm_statistics);
      c.pass.free(t.attention.norm_output);
    }
  }
  TensorIndex& input = shared ? t.attention.norm_output : t.mlp.norm_output;
  PartialSum mlp = mlp_products_forward(c, mode, t.mlp, input, !shared && norm_quantizes(c));
  c.pass.compute("branch sum", s.memory_bound(Kernel::add, s.bytes(s.tokens, s.hidden) * 3));
  c.pass.free(mlp.tensor);
  TensorIndex branch = reduce(c, "layer", attention, s.hidden);
  const bool bias = s.model.mlp_bias || s.model.attention_output_bias;
  if (adds_two_biases(s))
    c.pass.compute("attention bias",
                   s.memory_bound(Kernel::bias_add, s.bytes(s.own_tokens, s.hidden) * 2));
  const TensorIndex out = add_residual(c, mode, "layer", branch, t.mlp.mask, bias);
  if (mode == ForwardMode::discard) c.pass.free(t.mlp.mask);
  return {out, t};
}

void parallel_backward(const LayerContext& c, SavedLayer& t, TensorIndex& gradient,
                       bool recompute_core_first) {
  const Shard& s = c.shard;
  const bool shared = s.model.shared_norm;
  const InputGather fc1_input = gather_input_early(c, "fc1");
  const InputGather qkv_input = gather_qkv_input_early(c);
  const bool bias = s.model.mlp_bias || s.model.attention_output_bias;
  const BranchGradient branch = branch_gradient(c, "layer", gradient, t.mlp.mask, bias);
  if (adds_two_biases(s)) bias_gradient(c, "attention", s.own_tokens, s.hidden);
  BranchGradient borrowed = branch;  // attention's backward is the last to read it
  borrowed.own = false;
  // The weight gradient of qkv is the last to read the output of a shared norm.
  TensorIndex none = kNoTensor;
  TensorIndex d_mlp =
      mlp_products_backward(c, t.mlp, borrowed, shared ? none : t.mlp.norm_output, fc1_input);
  if (!shared) {
    norm_backward(c, "norm 2", s.own_tokens, s.hidden);
    c.pass.free(t.mlp.norm_statistics);
  }
  TensorIndex d =
      attention_branch_backward(c, t.attention, branch, qkv_input, recompute_core_first);
  c.pass.compute("branch gradient sum",
                 s.memory_bound(Kernel::add, s.bytes(s.own_tokens, s.hidden) * 3));
  c.pass.free(d_mlp);
  norm_backward(c, kInputNorm, s.own_tokens, s.hidden);
  c.pass.free(t.attention.norm_statistics);
  c.pass.free(t.attention.input);
  add_residual_gradient(c, "layer", d, gradient);
}

bool is_parallel(const LayerContext& c) {
  return c.shard.model.parallel_block && c.kind.attends() && c.kind.mlp && !c.kind.experts;
}

}  // namespace

// ------------------------------------------------------------------------------------------- layer
Forward<SavedLayer> layer_forward(const LayerContext& c, ForwardMode mode, TensorIndex input,
                                  SavedLayer before) {
  SavedLayer t = before;
  t.attention.input = input;
  if (is_parallel(c)) return parallel_forward(c, mode, t);
  TensorIndex stream = input;
  if (c.kind.attends()) {
    const Forward<SavedAttention> attention = attention_forward(c, mode, t.attention);
    t.attention = attention.saved;
    stream = attention.output;
  } else if (c.kind.recurs()) {
    const Forward<SavedRecurrence> mixed = recurrence_forward(c, mode);
    t.recurrence = mixed.saved;
    stream = mixed.output;
  }
  if (c.kind.cross) {
    const Forward<SavedCrossAttention> cross = cross_attention_forward(c, mode, stream);
    t.cross = cross.saved;
    stream = cross.output;
  }
  if (c.kind.experts || !c.kind.mlp) {
    if (mode == ForwardMode::discard) c.pass.free(t.attention.norm_output);
    c.pass.free(t.attention.output);
  }
  if (!c.kind.mlp) return {stream, t};
  // An input that is the layer's own stays with it.
  const TensorIndex own = c.kind.mixer == Mixer::none ? kNoTensor : stream;
  if (c.kind.experts) {
    const Forward<SavedExperts> experts = experts_forward(c, mode, own);
    t.experts = experts.saved;
    return {experts.output, t};
  }
  t.mlp.input = own;
  const Forward<SavedMlp> mlp = mlp_forward(c, mode, t.mlp, t.attention);
  t.mlp = mlp.saved;
  return {mlp.output, t};
}

void layer_backward(const LayerContext& c, SavedLayer& t, TensorIndex& gradient,
                    bool recompute_cores) {
  c.pass.set_phase(Phase::backward_input);
  if (is_parallel(c)) return parallel_backward(c, t, gradient, recompute_cores);
  if (c.kind.experts) {
    experts_backward(c, t.experts, gradient);
  } else if (c.kind.mlp) {
    mlp_backward(c, t.mlp, gradient);
  }
  if (c.kind.cross) cross_attention_backward(c, t.cross, gradient, recompute_cores);
  if (c.kind.attends()) {
    attention_backward(c, t.attention, gradient, recompute_cores);
  } else if (c.kind.recurs()) {
    recurrence_backward(c, t.recurrence, t.attention.input, gradient);
  } else {
    c.pass.free(t.attention.input);
  }
}

// Megatron-LM's tensor_parallel/random.py: split_tensor_into_1d_equal_chunks into a new buffer, and
// gather_split_1d_tensor.
void split_checkpoint(const LayerContext& c, TensorIndex& input) {
  const Shard& s = c.shard;
  if (!s.plan.recompute_distribute) return;
  const Bytes share = s.bytes(s.tokens / s.plan.tp, s.hidden);
  c.pass.compute("checkpoint split", s.memory_bound(Kernel::copy, share * 2));
  const TensorIndex kept = c.pass.allocate("checkpoint share", share, MemoryCategory::activations);
  c.pass.free(input);
  input = kept;
}

void gather_checkpoint(const LayerContext& c, TensorIndex& input) {
  if (!c.shard.plan.recompute_distribute) return;
  const Work all = c.shard.collective(WorkKind::all_gather, c.shard.hidden);
  c.pass.join(c.pass.communicate(Stream::tp, "checkpoint all-gather", all));
  const TensorIndex whole =
      c.pass.allocate("checkpoint gathered", all.bytes, MemoryCategory::recompute_workspace);
  c.pass.free(input);
  input = whole;
}

void recompute_selected(const LayerContext& c, SavedLayer& t) {
  if (c.kind.attends() && recomputes(c, &RecomputeModules::core_attention)) {
    recompute_self_core(c, t.attention);
    if (c.kind.cross) recompute_cross_core(c, t.cross);
  }
  if (c.kind.experts || !c.kind.mlp) return;  // theirs where they are needed
  need_mlp(c, t.mlp);
  need_norm(c, "norm 2", t.mlp.norm_output, true);
}

}  // namespace stepcast
