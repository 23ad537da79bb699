// SPDX-License-Identifier: Apache-2.0
// Number formats of the GEMMs of linear layers below 16 bits, and the kernels that convert to them.
//
// What Transformer Engine 2 launches (docs/precision.md has the list with its places in the
// source): a linear layer quantizes its input and the gradient of its output, each for two
// products: along rows and along columns.  Formats with one scale a tensor need the second copy
// only for tensor cores that read 8 bits along the summed dimension alone (before Blackwell);
// formats with scales for blocks along a row always do.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan.h"
#include "model/shard.h"
#include "sim/graph/op_graph.h"
#include "sim/graph/work.h"
#include "sim/units.h"

namespace stepcast {

struct LowFormat {
  DType dtype = DType::bf16;    // of the operands
  int64_t scaled = 0;           // values that share a scale ...
  int64_t scale_bytes = 0;      // ... of so many bytes; 0: one scale a tensor
  bool two_copies = false;      // along rows and along columns are two tensors
  bool maximum_first = false;   // a pass over the tensor finds its maximum before
  bool own_kernels = false;     // one kernel for each copy, else one for both
  bool swizzles = false;        // each GEMM's scales are put into the order that it reads first
  bool norm_quantizes = false;  // a norm in front of a linear layer writes the format itself

  // One copy of `values` numbers with their scales.
  Bytes bytes(int64_t values) const;
  Bytes scale_bytes_of(int64_t values) const;
  // Whether both copies are made at once.  A tensor with one scale that is gathered is transposed
  // after that, instead of being gathered twice.
  bool copied_at_once(bool gathered) const { return two_copies && !(gathered && scaled == 0); }
  // Both, where two products read them.
  Bytes copies(int64_t values) const { return two_copies ? bytes(values) * 2 : bytes(values); }
};

// REQUIRES: scaling is not none.
LowFormat low_format(const Precision& precision);

// Numbers of values of the weights that a forward pass multiplies with in low precision, in its
// order.
std::vector<int64_t> low_weights(const OpGraph& graph, PassId forward);

// What has to be done with such weights before the first forward after an update; nothing for some
// recipes if parameters are kept in the format.
std::vector<Work> weight_casts(const Shard& shard, int64_t values);

// Whether the weights of linear layers are gathered over replicas in the format.
bool kept_low(const Precision& precision);

// What the kernel that converts `values` numbers of the format `wide` to one copy, or both, reads
// and writes.
Bytes quantize_bytes(const LowFormat& format, int64_t values, DType wide, int copies);

}  // namespace stepcast
