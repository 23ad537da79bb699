// SPDX-License-Identifier: Apache-2.0
// The training step on the GPU: the backend of training_step_stack.h that launches kernels.
//
// All memory is taken once: parameters in bf16, gradients, master weights and both moments in fp32,
// each as one array; one block for the tensors of a microbatch, which get the same places every
// time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "calibrate/measure/attention_graph.h"
#include "calibrate/measure/device.h"
#include "calibrate/measure/gemm.h"
#include "calibrate/measure/kernels/elementwise.h"
#include "calibrate/measure/training_step_memory.h"
#include "calibrate/measure/training_step_shape.h"
#include "calibrate/measure/training_step_stack.h"

namespace stepcast::measure {

// What is asked of fused attention: queries, keys and values in one row a token.
AttentionShape attention_shape(const TrainingStep& step);

class DeviceBackend {
 public:
  // Parameters begin as initial_values() says.  Throws Unsupported where memory or a kernel is
  // missing (fused attention among them).
  DeviceBackend(const TrainingStep& shape, const Device& device, cudaStream_t stream);

  // Tokens as the kernels read them; kept as long as the backend.
  Tensor upload(const std::vector<int32_t>& values);

  void zero_gradients();
  void zero_loss();
  double loss() const;  // summed over the microbatches since; waits for the stream
  int64_t update = 0;   // updates so far, of Adam's correction
  float learning_rate = 1e-3F;

  const __nv_bfloat16* parameters() const { return parameters_.as<__nv_bfloat16>(); }
  const float* gradients() const { return gradients_.as<float>(); }

  Tensor allocate(int64_t count, DType dtype);
  void free(Tensor& t);
  Matrices weight(const Parameter& p) const;
  Matrices main_gradient(const Parameter& p) const;

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

  double gradient_norm();  // the host waits for it, as frameworks do
  void clip(double norm);  // to 1
  void adam();
  void cast_parameters();

 private:
  // What tells one prepared product from another.
  struct Key {
    GemmLayout layout{};
    int64_t m = 0, n = 0, k = 0, batch = 0;
    bool wide = false;             // adds into fp32
    std::array<int64_t, 6> lie{};  // rows and batches of both operands and the result
    auto operator<=>(const Key&) const = default;
  };

  Product& prepared(const Key& key);
  void begin_parameters();
  AttentionOperands attention_operands(const Tensor& qkv, const Tensor& context,
                                       const Tensor& log_sum_exp) const;

  const TrainingStep s_;
  ParameterMap map_;
  cudaStream_t stream_ = nullptr;
  Blas blas_;
  std::map<Key, Product> products_;
  std::optional<FusedAttention> attention_, attention_backward_;
  DeviceMemory attention_workspace_;

  DeviceMemory parameters_, gradients_, masters_, first_, second_;
  DeviceMemory block_, rotary_table_, sums_;  // sums_: loss, squares of gradients
  Arena arena_;
  std::vector<DeviceMemory> uploads_;
};

}  // namespace stepcast::measure
