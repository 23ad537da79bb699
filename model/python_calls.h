// SPDX-License-Identifier: Apache-2.0
// What Python does around the kernels of a layer: views, modules called, autograd's nodes without a
// kernel.
//
// Counted in the code of Megatron-LM v2.5 and of what it calls: model/transformer.py (ParallelMLP,
// ParallelAttention, ParallelTransformerLayer), model/fused_softmax.py, model/fused_bias_gelu.py,
// mpu/layers.py, mpu/random.py, model/distributed.py (the hook of each parameter).  Modules that
// use PyTorch's directly need the same views and modules, without what only Megatron-LM has.
// Megatron-Core's layers (core/transformer/transformer_layer.py, attention.py, mlp.py) call as many
// modules around Transformer Engine's.
// Not counted: sizes that are read, attributes, conditions, allocations.
#pragma once

#include "model/plan.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// Whether the autograd engine launches it.
bool is_backward(Phase phase);

// Adds it to the launch of an op of a layer.
void add_python(Launch& launch, const Op& op, const Work& work, Modules modules);

// Adds what recomputing a region takes, at its first op.
void add_region(Launch& launch, Modules modules);

}  // namespace stepcast
