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
  int64_t scaled = 0;           // values that share one scale; 0: the tensor has a single scale
  int64_t scale_bytes = 0;      // of one such scale
  bool two_copies = false;      // products along rows and along columns need a tensor each
  bool maximum_first = false;   // a kernel finds the tensor's maximum before it is converted
  bool own_kernels = false;     // each copy is made by a kernel of its own, else one makes both
  bool swizzles = false;        // a kernel reorders the scales of each GEMM's operands before it
  bool norm_quantizes = false;  // a norm in front of a linear layer writes the format itself

  // Bytes of one copy of `values` numbers, scales included.
  Bytes bytes(int64_t values) const;
  // Bytes of their scales alone.
  Bytes scale_bytes_of(int64_t values) const;
  // Whether both copies are made at once.  A tensor with a single scale that is gathered afterwards
  // is converted once and transposed when it has been gathered, instead of being gathered twice.
  bool copied_at_once(bool gathered) const { return two_copies && !(gathered && scaled == 0); }
  // Bytes of all copies that two products need.
  Bytes copies(int64_t values) const { return two_copies ? bytes(values) * 2 : bytes(values); }
};

// REQUIRES: scaling is not none.
LowFormat low_format(const Precision& precision);

// Sizes, in values, of the weights that a forward pass multiplies with in low precision, in the
// order in which it does.
std::vector<int64_t> low_weights(const OpGraph& graph, PassId forward);

// The kernels that convert such weights, `values` numbers of them, before the first forward after
// an update.  None for some recipes if parameters are kept in the format.
std::vector<Work> weight_casts(const Shard& shard, int64_t values);

// Bytes of `values` numbers that are kept for the backward; `wide` is what they were computed in.
Bytes kept_bytes(KeptFormat format, int64_t values, DType wide);

// Whether the weights of linear layers are gathered over replicas in the format.
bool kept_low(const Precision& precision);

// Bytes that a kernel reads and writes to convert `values` numbers of the format `wide` to this
// many copies.
Bytes quantize_bytes(const LowFormat& format, int64_t values, DType wide, int copies);

}  // namespace stepcast
