// SPDX-License-Identifier: Apache-2.0
// Fused attention as a graph of cuDNN 9's backend interface: scores, scale, causal mask, softmax
// and context in one kernel, and its whole backward pass (the "flash fused attention" patterns of
// cuDNN's documentation of the graph interface).
//
// Without cuDNN (STEPCAST_CUDNN undefined) there is none: everything here throws Unsupported.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "calibrate/measure/device.h"
#include "sim/graph/work.h"

namespace stepcast::measure {

// Tensors are [sequence][token][head][values of the head]: a token's heads are contiguous, the next
// token begins so many elements after it, 0 = where its heads end.
struct AttentionShape {
  int64_t batch = 1, heads = 0, kv_heads = 0;
  int64_t seq_q = 0, seq_k = 0;
  int64_t qk_dim = 0, v_dim = 0;
  bool causal = false;
  DType dtype = DType::bf16;  // or fp16
  int64_t q_row = 0, k_row = 0, v_row = 0, o_row = 0;
};

// Of an attention_forward or attention_backward; tensors packed.
AttentionShape attention_shape(const Work& work);

// Device memory.  Gradients stand like what they are the gradients of.
struct AttentionOperands {
  const void *q = nullptr, *k = nullptr, *v = nullptr;
  void* o = nullptr;       // context: written forward, read backward
  float* stats = nullptr;  // log of the sum of exponentials, [sequence][head][query]
  const void* d_o = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;  // written backward
};

// One direction of one shape, compiled for the current device.
class FusedAttention {
 public:
  // Throws Unsupported where cuDNN has no kernel: types but bf16 and fp16, head dimensions that it
  // does not take, causal masks that are not square.
  FusedAttention(const AttentionShape& shape, bool backward);
  FusedAttention(FusedAttention&&) noexcept;
  FusedAttention& operator=(FusedAttention&&) noexcept;
  ~FusedAttention();

  int64_t workspace_bytes() const;
  // Enqueues it.  REQUIRES: workspace of workspace_bytes(), aligned to 256.
  void run(const AttentionOperands& operands, void* workspace, cudaStream_t stream) const;

  struct Plan;  // cuDNN's

 private:
  std::unique_ptr<Plan> plan_;
};

}  // namespace stepcast::measure
