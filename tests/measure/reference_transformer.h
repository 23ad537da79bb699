// SPDX-License-Identifier: Apache-2.0
// The training step in double precision with the plainest loops there are: what the stack's order
// and the GPU's kernels are compared with.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "calibrate/measure/training_step_shape.h"
#include "calibrate/measure/training_step_stack.h"

namespace stepcast::measure {

// A backend of training_step_stack.h.  Tensors are arrays of doubles (tokens too), whatever their
// dtype says.
class ReferenceBackend {
 public:
  // Parameters as given, gradients zero.  REQUIRES: parameters.size() == map_parameters().count.
  ReferenceBackend(const TrainingStep& shape, std::vector<double> parameters);

  std::vector<double> parameters, gradients;
  double loss = 0;           // summed over microbatches: of each, the mean over its tokens
  int64_t live_tensors = 0;  // allocated and not freed
  Tensor whole_numbers(const std::vector<int32_t>& values);

  Tensor allocate(int64_t count, DType dtype);
  void free(Tensor& t);
  Matrices weight(const Parameter& p);
  Matrices main_gradient(const Parameter& p);

  void product(const ProductShape& p, const Matrices& a, const Matrices& b, const Matrices& c);
  void attention(const Tensor& qkv, const Tensor& context, const Tensor& log_sum_exp);
  void attention_backward(const Tensor& qkv, const Tensor& context, const Tensor& log_sum_exp,
                          const Tensor& d_context, const Tensor& d_qkv);
  void embedding(const Tensor& tokens, const Parameter& table, const Tensor& rows);
  void embedding_backward(const Tensor& tokens, const Tensor& dy, const Tensor& dense);
  void fill(const Tensor& t);
  void accumulate(const Tensor& t, const Parameter& p);
  void rms_norm(const Tensor& x, const Parameter& gain, const Tensor& y, const Tensor& rstd);
  void rms_norm_backward(const Tensor& d, const Tensor& x, const Parameter& gain,
                         const Tensor& rstd);
  void rotary(const Tensor& qkv, bool backward);
  void softmax(const Tensor& scores, const Tensor& probabilities);
  void softmax_backward(const Tensor& probabilities, const Tensor& d);
  void merge_heads(const Tensor& by_head, const Tensor& by_token);
  void split_heads(const Tensor& by_token, const Tensor& by_head);
  void add(const Tensor& a, const Tensor& b, const Tensor& sum);
  void activation(const Tensor& up, const Tensor& y);
  void activation_backward(const Tensor& up, const Tensor& dy, const Tensor& d_up);
  void row_maximum(const Tensor& logits, const Tensor& maximum);
  void exponential(const Tensor& logits, const Tensor& maximum, const Tensor& wide,
                   const Tensor& sum);
  void normalize(const Tensor& wide, const Tensor& sum, const Tensor& targets);
  void logit_gradient(const Tensor& wide, const Tensor& targets, const Tensor& d);

 private:
  const TrainingStep s_;
  std::deque<std::vector<double>> memory_;
};

// Two layers of 64 hidden values and 4 heads, 2 microbatches of 2 sequences.
TrainingStep tiny_step(int64_t seq, int64_t kv_heads, bool gated, bool fused_attention);

// Mean loss of one microbatch, written from the formulas without the stack.
double reference_loss(const TrainingStep& shape, const std::vector<double>& parameters,
                      const Microbatch& batch);

// Parameters of the size that initial_values() asks for, drawn from a fixed sequence.
std::vector<double> reference_parameters(const TrainingStep& shape, double deviation_factor);

}  // namespace stepcast::measure
