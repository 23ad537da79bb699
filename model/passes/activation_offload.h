// SPDX-License-Identifier: Apache-2.0
// Activations of a stage's first layers that are kept in host memory until the backward.
//
// As Transformer Engine does it (get_cpu_offload_context; Megatron's --cpu-offloading-num-layers):
// what layer i keeps is copied on a stream of its own while layer i + 1 computes; before layer i +
// 2 compute waits for the copy, and the memory is freed.  It comes back while the backward of layer
// i + 1 computes.
#pragma once

#include <cstdint>
#include <vector>

#include "model/passes/pass_writer.h"
#include "model/plan.h"

namespace stepcast {

// The tensors that went to the host, by layer; a forward fills it and a backward brings them back.
using OffloadedLayers = std::vector<std::vector<TensorIndex>>;

class ActivationOffload {
 public:
  // `layers` outlives this.
  ActivationOffload(const Plan& plan, PassWriter& pass, OffloadedLayers& layers)
      : count_(plan.offload.activation_layers), p_(pass), layers_(layers) {}

  // Forward: around each layer, and at the end.  `input` belongs to the layer (kNoTensor: it is
  // gone), `output` does not.
  void begin_layer() { begin_ = p_.memory_events(); }
  void end_layer(int64_t layer, TensorIndex input, TensorIndex output);
  void end_forward() { settle(); }

  // Backward: this layer will be needed; the next op on the compute stream needs it.
  void fetch(int64_t layer);
  void need(int64_t layer);

 private:
  Work copy_of(const std::vector<TensorIndex>& tensors) const;
  void settle();

  const int64_t count_;
  PassWriter& p_;
  OffloadedLayers& layers_;
  size_t begin_ = 0;
  std::vector<TensorIndex> leaving_;  // by copy `copied_`
  uint32_t copied_ = 0;
  std::vector<int64_t> fetched_;  // by layer: the copy back, -1: none yet
};

}  // namespace stepcast
