// SPDX-License-Identifier: Apache-2.0
#include "model/python_calls.h"

namespace stepcast {
namespace {

// The gradient of a parameter: the engine's AccumulateGrad, and with Megatron-LM a hook in Python
// that adds it to the main gradient.
void add_parameters(Launch& launch, Modules modules, int count) {
  launch.add(HostCall::node, 2 * count);
  if (modules != Modules::torch) launch.add(HostCall::frame, count);
}

// Scores: the projection's output as heads and cut in three, queries and keys as one batch of heads
// and turned, the keys twice, and the result's shape.  Context: values and probabilities as one
// batch, the values turned, and the result's shape.
constexpr int kScoreViews = 1 + 3 + 2 + 3 + 1;
constexpr int kContextViews = 2 + 1 + 1;
// Fused attention: the output of the projection cut in three, each turned to the kernel's order,
// and its result turned back and put together.
constexpr int kFusedViews = 1 + 3 + 3 + 1;
// Megatron-Core before Transformer Engine's attention: the output as heads, queries in one piece;
// they are cut by an autograd Function (SplitAlongDim).
constexpr int kEngineViews = 2;

void add_product(Launch& launch, const Op& op, const Work& work, Modules modules) {
  if (work.heads > 0) {
    const int views = work.layout == GemmLayout::tn ? kScoreViews : kContextViews;
    if (!is_backward(op.phase)) {
      launch.add(HostCall::view, views);
    } else if (work.layout != GemmLayout::nt) {  // of a product's two gradients the first
      // It is the context's that is made with the layout of scores, and the other way about.
      launch.add(HostCall::node, kScoreViews + kContextViews - views);
    }
    return;
  }
  const bool engine = modules == Modules::transformer_engine;
  // F.linear turns the weight and flattens the input, which the call's own cost has; their
  // gradients are nodes of their own.
  if (!engine && op.phase == Phase::backward_input) launch.add(HostCall::node, 3);
  if (op.phase == Phase::backward_weight) {
    if (!engine) launch.add(HostCall::node);
    add_parameters(launch, modules, 1);
  }
}

void add_kernel(Launch& launch, const Op& op, const Work& work, Modules modules) {
  const bool megatron = modules != Modules::torch;
  switch (work.kernel) {
    case Kernel::layer_norm:
    case Kernel::rms_norm:
      launch.add(HostCall::frame, 2);  // and attention's or the MLP's, which it stands before
      return;
    case Kernel::layer_norm_backward: return add_parameters(launch, modules, 2);
    case Kernel::rms_norm_backward: return add_parameters(launch, modules, 1);
    case Kernel::softmax:
      if (megatron) launch.add(HostCall::frame).add(HostCall::view, 2);
      return;
    case Kernel::softmax_backward:
      if (megatron) launch.add(HostCall::node, 2);
      return;
    case Kernel::dropout:
      launch.add(HostCall::frame);
      if (megatron) launch.add(HostCall::fork);
      return;
    case Kernel::transpose:
      if (is_backward(op.phase)) {
        launch.add(HostCall::node, 2);
      } else {
        launch.add(HostCall::view, 2);
      }
      return;
    case Kernel::bias_backward: return add_parameters(launch, modules, 1);
    case Kernel::bias_dropout_add:
      if (megatron) launch.add(HostCall::script).add(HostCall::view);
      return;
    case Kernel::bias_dropout_add_backward:
      if (megatron) launch.add(HostCall::node);
      return;
    case Kernel::activation:
    case Kernel::activation_backward:
      if (megatron) launch.add(HostCall::script);
      return;
    default: return;
  }
}

}  // namespace

bool is_backward(Phase phase) {
  return phase == Phase::backward_input || phase == Phase::backward_weight;
}

void add_python(Launch& launch, const Op& op, const Work& work, Modules modules) {
  const bool engine = modules == Modules::transformer_engine;
  const int views = engine ? kEngineViews : kFusedViews;
  switch (work.kind) {
    case WorkKind::gemm: return add_product(launch, op, work, modules);
    case WorkKind::grouped_gemm:
      // GroupedLinear has a parameter for each expert, others one for all of them.
      if (op.phase == Phase::backward_weight)
        add_parameters(launch, modules, engine ? static_cast<int>(work.batch) : 1);
      return;
    case WorkKind::attention_forward: launch.add(HostCall::view, views); break;
    case WorkKind::attention_backward: launch.add(HostCall::node, views); break;
    case WorkKind::memory_bound: return add_kernel(launch, op, work, modules);
    default: return;
  }
  if (engine) launch.add(HostCall::function);
}

void add_region(Launch& launch, Modules modules) {
  launch.add(modules == Modules::torch ? HostCall::checkpoint : HostCall::region);
}

}  // namespace stepcast
