// SPDX-License-Identifier: Apache-2.0
// Memory that libraries keep through the whole step, beside tensors of the model.
//
// Workspaces of products:
//   PyTorch gives cuBLAS one for each thread that multiplies, the one that runs forward passes and
//   autograd's, out of its caching allocator (aten/src/ATen/cuda/CublasHandlePool.cpp,
//   getCurrentCUDABlasHandle: by handle and stream; handles belong to threads).
//   Transformer Engine has one, and one for each of four streams for grouped products
//   (transformer_engine/pytorch/module/base.py: get_workspace, get_multi_stream_cublas_workspace).
// Placeholders: where weight-gradient products add into the main gradients themselves, autograd is
// handed a tensor of no meaning instead; Transformer Engine keeps one for each shape of weights
// (get_dummy_wgrad in the same file, from version 2.3: NVIDIA/TransformerEngine pull request 1651),
// and so does Megatron-Core for its head.
#pragma once

#include <vector>

#include "model/plan.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// Of a rank that runs these passes.  O(ops).
Bytes library_memory(const OpGraph& graph, const Plan& plan, const std::vector<PassId>& passes);

}  // namespace stepcast
