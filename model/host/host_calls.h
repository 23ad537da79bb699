// SPDX-License-Identifier: Apache-2.0
// What the host does for each op of a step: which calls of the framework launch it.
//
// By the kind of the op, the part of the step it is in, and whose modules the plan runs.  Modules
// of PyTorch and of Megatron-LM's own make a call for each operator (Megatron-LM
// core/tensor_parallel/layers.py: LinearWithGradAccumulationAndAsyncCommunication; fusions/:
// softmax, bias and activation are autograd Functions; apex's norms too).  Transformer Engine makes
// one for a norm and its linear layer (LayerNormLinear), for another linear layer, and for all of
// attention. Views, the Python of the schedule and the optimizer's loops over parameters are not
// counted.
#pragma once

#include "model/plan.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// Sets the launches of all ops and rendezvous of a graph.
void assign_launches(OpGraph& graph, const Plan& plan);

}  // namespace stepcast
