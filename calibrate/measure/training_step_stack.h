// SPDX-License-Identifier: Apache-2.0
// One training step of the stack, kernel by kernel, in the order and with the tensors that
// frameworks have (model/layer.cc, model/stage_ends.cc: what the forecast prices).
//
// Written once for three backends: the GPU (training_step_device.h), the account of what is
// launched (training_step_works.h), and the tests' reference in double precision.  A backend has
// the kernels that are called here as members; each names what it reads and writes.  Tensors are
// rows of tokens, sequence by sequence, the last dimension contiguous.
#pragma once

#include <vector>

#include "calibrate/measure/training_step_shape.h"
#include "sim/graph/work.h"

namespace stepcast::measure {

// Memory of a backend, which knows what `data` points to.
struct Tensor {
  void* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::bf16;  // of the GPU's; the reference keeps all of them in double
  int64_t place = 0;          // in an Arena (training_step_memory.h)
};

// Equally spaced matrices within a tensor, row-major.
struct Matrices {
  Tensor tensor;
  int64_t offset = 0;  // elements
  int64_t ld = 0;      // from row to row
  int64_t stride = 0;  // from one to the next of a batch
};

// C[m,n] = A B, `batch` times, where the operands stand as cuBLAS's words say of them:
//   tn  A[m,k], B[n,k]     forward
//   nn  A[m,k], B[k,n]     input gradient
//   nt  A[k,m], B[k,n]     weight gradient
struct ProductShape {
  GemmLayout layout = GemmLayout::tn;
  int64_t m = 0, n = 0, k = 0, batch = 1;
  bool accumulate = false;  // C += A B
};

// What the forward of a layer leaves for its backward.
struct KeptLayer {
  Tensor input, norm1, rstd1, qkv;
  Tensor probabilities;  // unfused attention
  Tensor log_sum_exp;    // fused attention
  Tensor context, residual, norm2, rstd2, up, activated;
};

struct KeptEnds {
  Tensor final_input, final_norm, final_rstd, softmax;
};

// ----------------------------------------------------------------------------------- linear layers
template <class B>
Tensor linear(B& b, const Tensor& x, int64_t rows, const Parameter& w) {
  Tensor y = b.allocate(rows * w.rows, DType::bf16);
  b.product({GemmLayout::tn, rows, w.rows, w.width, 1, false}, {x, 0, w.width, 0}, b.weight(w),
            {y, 0, w.rows, 0});
  return y;
}

// The gradient of x, and the weight's added to the main gradient.
template <class B>
Tensor linear_backward(B& b, const Tensor& dy, const Tensor& x, int64_t rows, const Parameter& w) {
  Tensor dx = b.allocate(rows * w.width, DType::bf16);
  b.product({GemmLayout::nn, rows, w.width, w.rows, 1, false}, {dy, 0, w.rows, 0}, b.weight(w),
            {dx, 0, w.width, 0});
  b.product({GemmLayout::nt, w.rows, w.width, rows, 1, true}, {dy, 0, w.rows, 0},
            {x, 0, w.width, 0}, b.main_gradient(w));
  return dx;
}

// --------------------------------------------------------------------------------------- attention
// Products over the heads of one sequence.  With grouped queries the i-th query head of every group
// is one strided batch, group() calls together.
template <class Each>
void for_each_batch(const TrainingStep& s, const Each& each) {
  for (int64_t q = 0; q < s.micro; ++q)
    for (int64_t i = 0; i < s.group(); ++i) each(q, i);
}

// Where the heads of that batch begin in the matrix of queries, keys and values; rows x width of
// one head, kv_heads of them.
struct HeadPlaces {
  const TrainingStep& s;
  int64_t sequence = 0, member = 0;

  Matrices query(const Tensor& qkv) const {
    return {qkv, row() + member * s.head_dim(), s.qkv_width(), s.group() * s.head_dim()};
  }
  Matrices key(const Tensor& qkv) const {
    return {qkv, row() + s.heads * s.head_dim(), s.qkv_width(), s.head_dim()};
  }
  Matrices value(const Tensor& qkv) const {
    return {qkv, row() + (s.heads + s.kv_heads) * s.head_dim(), s.qkv_width(), s.head_dim()};
  }
  // [sequence][head][query][width]
  Matrices by_head(const Tensor& t, int64_t width) const {
    return {t, (sequence * s.heads + member) * s.seq * width, width, s.group() * s.seq * width};
  }

 private:
  int64_t row() const { return sequence * s.seq * s.qkv_width(); }
};

template <class B>
void unfused_attention(B& b, const TrainingStep& s, KeptLayer& k) {
  const int64_t square = s.micro * s.heads * s.seq * s.seq;
  const int64_t dim = s.head_dim();
  Tensor scores = b.allocate(square, DType::bf16);
  for_each_batch(s, [&](int64_t q, int64_t i) {
    const HeadPlaces at{s, q, i};
    b.product({GemmLayout::tn, s.seq, s.seq, dim, s.kv_heads, false}, at.query(k.qkv),
              at.key(k.qkv), at.by_head(scores, s.seq));
  });
  k.probabilities = b.allocate(square, DType::bf16);
  b.softmax(scores, k.probabilities);
  b.free(scores);
  Tensor product = b.allocate(s.tokens() * s.heads * dim, DType::bf16);
  for_each_batch(s, [&](int64_t q, int64_t i) {
    const HeadPlaces at{s, q, i};
    b.product({GemmLayout::nn, s.seq, dim, s.seq, s.kv_heads, false},
              at.by_head(k.probabilities, s.seq), at.value(k.qkv), at.by_head(product, dim));
  });
  k.context = b.allocate(s.tokens() * s.heads * dim, DType::bf16);
  b.merge_heads(product, k.context);
  b.free(product);
}

// Gradient of queries, keys and values from that of the context.
template <class B>
Tensor unfused_attention_backward(B& b, const TrainingStep& s, KeptLayer& k,
                                  const Tensor& d_context) {
  const int64_t dim = s.head_dim();
  Tensor d = b.allocate(s.tokens() * s.heads * dim, DType::bf16);
  b.split_heads(d_context, d);
  Tensor scores = b.allocate(s.micro * s.heads * s.seq * s.seq, DType::bf16);
  Tensor d_qkv = b.allocate(s.tokens() * s.qkv_width(), DType::bf16);
  for_each_batch(s, [&](int64_t q, int64_t i) {
    const HeadPlaces at{s, q, i};
    b.product({GemmLayout::tn, s.seq, s.seq, dim, s.kv_heads, false}, at.by_head(d, dim),
              at.value(k.qkv), at.by_head(scores, s.seq));
  });
  for_each_batch(s, [&](int64_t q, int64_t i) {
    const HeadPlaces at{s, q, i};
    b.product({GemmLayout::nt, s.seq, dim, s.seq, s.kv_heads, i > 0},
              at.by_head(k.probabilities, s.seq), at.by_head(d, dim), at.value(d_qkv));
  });
  b.free(d);
  b.softmax_backward(k.probabilities, scores);
  b.free(k.probabilities);
  for_each_batch(s, [&](int64_t q, int64_t i) {
    const HeadPlaces at{s, q, i};
    b.product({GemmLayout::nn, s.seq, dim, s.seq, s.kv_heads, false}, at.by_head(scores, s.seq),
              at.key(k.qkv), at.query(d_qkv));
  });
  for_each_batch(s, [&](int64_t q, int64_t i) {
    const HeadPlaces at{s, q, i};
    b.product({GemmLayout::nt, s.seq, dim, s.seq, s.kv_heads, i > 0}, at.by_head(scores, s.seq),
              at.query(k.qkv), at.key(d_qkv));
  });
  b.free(scores);
  return d_qkv;
}

template <class B>
void core_attention(B& b, const TrainingStep& s, KeptLayer& k) {
  if (!s.fused_attention) return unfused_attention(b, s, k);
  k.context = b.allocate(s.tokens() * s.heads * s.head_dim(), DType::bf16);
  k.log_sum_exp = b.allocate(s.tokens() * s.heads, DType::fp32);
  b.attention(k.qkv, k.context, k.log_sum_exp);
}

template <class B>
Tensor core_attention_backward(B& b, const TrainingStep& s, KeptLayer& k, Tensor& d_context) {
  Tensor d_qkv;
  if (s.fused_attention) {
    d_qkv = b.allocate(s.tokens() * s.qkv_width(), DType::bf16);
    b.attention_backward(k.qkv, k.context, k.log_sum_exp, d_context, d_qkv);
    b.free(k.log_sum_exp);
  } else {
    d_qkv = unfused_attention_backward(b, s, k, d_context);
  }
  b.free(d_context);
  b.free(k.context);
  b.free(k.qkv);
  return d_qkv;
}

// ------------------------------------------------------------------------------------------- layer
// The branch is added to the residual stream and freed.
template <class B>
Tensor add_residual(B& b, const TrainingStep& s, const Tensor& stream, Tensor& branch) {
  Tensor out = b.allocate(s.tokens() * s.hidden, DType::bf16);
  b.add(stream, branch, out);
  b.free(branch);
  return out;
}

template <class B>
void norm(B& b, const TrainingStep& s, const Tensor& x, const Parameter& gain, Tensor& y,
          Tensor& rstd) {
  y = b.allocate(s.tokens() * s.hidden, DType::bf16);
  rstd = b.allocate(s.tokens(), DType::fp32);
  b.rms_norm(x, gain, y, rstd);
}

template <class B>
Tensor layer_forward(B& b, const TrainingStep& s, const LayerParameters& p, const Tensor& input,
                     KeptLayer& k) {
  const int64_t tokens = s.tokens();
  k.input = input;
  norm(b, s, input, p.norm1, k.norm1, k.rstd1);
  k.qkv = linear(b, k.norm1, tokens, p.qkv);
  b.rotary(k.qkv, false);
  core_attention(b, s, k);
  Tensor branch = linear(b, k.context, tokens, p.projection);
  k.residual = add_residual(b, s, k.input, branch);
  norm(b, s, k.residual, p.norm2, k.norm2, k.rstd2);
  k.up = linear(b, k.norm2, tokens, p.up);
  k.activated = b.allocate(tokens * s.ffn, DType::bf16);
  b.activation(k.up, k.activated);
  branch = linear(b, k.activated, tokens, p.down);
  return add_residual(b, s, k.residual, branch);
}

// Through a norm and the sum after it: `branch` is the gradient of the norm's output and is freed;
// the gradient of the residual stream grows by that of the norm's input.
template <class B>
void norm_backward(B& b, Tensor& branch, const Tensor& x, const Parameter& gain, Tensor& rstd,
                   const Tensor& gradient) {
  b.rms_norm_backward(branch, x, gain, rstd);
  b.free(rstd);
  b.add(gradient, branch, gradient);
  b.free(branch);
}

// `gradient`: of the layer's output, becomes that of its input.
template <class B>
void layer_backward(B& b, const TrainingStep& s, const LayerParameters& p, KeptLayer& k,
                    const Tensor& gradient) {
  const int64_t tokens = s.tokens();
  Tensor d = linear_backward(b, gradient, k.activated, tokens, p.down);
  b.free(k.activated);
  Tensor d_up = b.allocate(tokens * s.up_width(), DType::bf16);
  b.activation_backward(k.up, d, d_up);
  b.free(d);
  b.free(k.up);
  d = linear_backward(b, d_up, k.norm2, tokens, p.up);
  b.free(d_up);
  b.free(k.norm2);
  norm_backward(b, d, k.residual, p.norm2, k.rstd2, gradient);
  b.free(k.residual);

  Tensor d_context = linear_backward(b, gradient, k.context, tokens, p.projection);
  Tensor d_qkv = core_attention_backward(b, s, k, d_context);
  b.rotary(d_qkv, true);
  d = linear_backward(b, d_qkv, k.norm1, tokens, p.qkv);
  b.free(d_qkv);
  b.free(k.norm1);
  norm_backward(b, d, k.input, p.norm1, k.rstd1, gradient);
  b.free(k.input);
}

// -------------------------------------------------------------------------------------------- ends
// Final norm, head and loss, whose sum over the microbatch the backend adds up.
template <class B>
void head_forward(B& b, const TrainingStep& s, const ParameterMap& p, const Tensor& stream,
                  const Tensor& targets, KeptEnds& k) {
  k.final_input = stream;
  norm(b, s, stream, p.final_norm, k.final_norm, k.final_rstd);
  Tensor logits = linear(b, k.final_norm, s.tokens(), p.head);
  Tensor maximum = b.allocate(s.tokens(), DType::fp32);
  b.row_maximum(logits, maximum);
  k.softmax = b.allocate(s.tokens() * s.vocab, DType::fp32);
  Tensor sum = b.allocate(s.tokens(), DType::fp32);
  b.exponential(logits, maximum, k.softmax, sum);
  b.normalize(k.softmax, sum, targets);
  b.free(sum);
  b.free(maximum);
  b.free(logits);
}

// The gradient of the residual stream.
template <class B>
Tensor head_backward(B& b, const TrainingStep& s, const ParameterMap& p, const Tensor& targets,
                     KeptEnds& k) {
  Tensor d_logits = b.allocate(s.tokens() * s.vocab, DType::bf16);
  b.logit_gradient(k.softmax, targets, d_logits);
  b.free(k.softmax);
  Tensor d = linear_backward(b, d_logits, k.final_norm, s.tokens(), p.head);
  b.free(d_logits);
  b.free(k.final_norm);
  b.rms_norm_backward(d, k.final_input, p.final_norm, k.final_rstd);
  b.free(k.final_rstd);
  b.free(k.final_input);
  return d;
}

template <class B>
void embedding_backward(B& b, const ParameterMap& p, const Tensor& tokens, Tensor& gradient) {
  Tensor dense = b.allocate(p.embedding.count(), DType::bf16);
  b.fill(dense);
  b.embedding_backward(tokens, gradient, dense);
  b.accumulate(dense, p.embedding);
  b.free(dense);
  b.free(gradient);
}

// -------------------------------------------------------------------------------------------- step
// Forward and backward of one microbatch; everything that it allocates is free again.
template <class B>
void run_microbatch(B& b, const TrainingStep& s, const ParameterMap& p, const Tensor& tokens,
                    const Tensor& targets) {
  std::vector<KeptLayer> layers(p.layers.size());
  Tensor stream = b.allocate(s.tokens() * s.hidden, DType::bf16);
  b.embedding(tokens, p.embedding, stream);
  for (size_t i = 0; i < layers.size(); ++i)
    stream = layer_forward(b, s, p.layers[i], stream, layers[i]);
  KeptEnds ends;
  head_forward(b, s, p, stream, targets, ends);
  Tensor gradient = head_backward(b, s, p, targets, ends);
  for (size_t i = layers.size(); i-- > 0;) layer_backward(b, s, p.layers[i], layers[i], gradient);
  embedding_backward(b, p, tokens, gradient);
}

// After the gradients of all microbatches: norm, clipping, Adam, the model's own copy.
template <class B>
void update_parameters(B& b) {
  b.clip(b.gradient_norm());
  b.adam();
  b.cast_parameters();
}

}  // namespace stepcast::measure
