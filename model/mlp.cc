// SPDX-License-Identifier: Apache-2.0
// The dense MLP with its norm and residual, forward and backward.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

// From the norm's output to a partial sum.
TensorIndex StageWriter::mlp_branch_forward(LayerTensors& t, TensorIndex& input, bool keep) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  const int64_t gate = s.ffn;  // without one, the whole of it
  const int64_t others = computes_others() ? gate : 0;
  t.up = column_parallel_forward("fc1", "fc1 output", input, s.up - others);
  if (keeps_some()) t.kept_up = p_.allocate("fc1 kept output", s.bytes(s.tokens, gate), saved());
  done_with(input);
  const Bytes up = s.bytes(s.tokens, s.up);
  const Bytes act = s.bytes(s.tokens, s.ffn);
  if (model.mlp_bias && !s.plan.kernels.fused_activation) {
    p_.compute("fc1 bias", s.memory_bound(Kernel::bias_add, up * 2));
  }
  if (model.gated && !s.plan.kernels.fused_activation) {
    // The product keeps both its factors.
    p_.compute("gate activation", s.memory_bound(Kernel::activation, act * 2));
    t.gated = p_.allocate("gate activation output", act, saved());
    p_.compute("activation", s.memory_bound(Kernel::scale, act * 3));
  } else {
    p_.compute("activation", s.memory_bound(Kernel::activation, up + act));
  }
  t.activated = p_.allocate("activation output", act, saved());
  done_with(t.up);
  done_with(t.gated);
  if (computes_others() && model.gated) return std::exchange(t.kept_down, kNoTensor);
  const TensorIndex branch = row_parallel_forward("fc2", t.activated, s.ffn);
  done_with(t.activated);
  return branch;
}

// The whole of it, without the residual.
TensorIndex StageWriter::mlp_branch(LayerTensors& t, bool keep) {
  norm_forward("norm 2", t.norm2_statistics, t.norm2_output, s_.own_tokens, s_.hidden, true);
  if (!keep) p_.free(t.norm2_statistics);
  TensorIndex branch = mlp_branch_forward(t, t.norm2_output, keep);
  if (drops(&RecomputeModules::norms)) p_.free(t.norm2_output);
  if (computes_others()) return branch;
  branch = reduce("fc2", branch, s_.hidden);
  if (keeps_some() && s_.model.gated)  // the last of seven products; of four without a gate
    t.kept_down = p_.allocate("fc2 kept output", s_.bytes(s_.own_tokens, s_.hidden), saved());
  return branch;
}

TensorIndex StageWriter::mlp_forward(LayerTensors& t, bool keep) {
  const bool again = drops(&RecomputeModules::mlp);
  const ForwardMode mode = mode_;
  if (again) mode_ = ForwardMode::discard;
  TensorIndex branch = mlp_branch(t, keep && !again);
  mode_ = mode;
  const TensorIndex out = add_residual("mlp", branch, &t.mask2, s_.model.mlp_bias);
  if (!keep) {
    p_.free(t.mask2);
    p_.free(t.residual);
  }
  return out;
}

// As Megatron-LM's checkpoint around the MLP does, all of it, the last sum too.
void StageWriter::need_mlp(LayerTensors& t) {
  if (t.activated != kNoTensor || !recomputes(&RecomputeModules::mlp)) return;
  const Phase phase = p_.phase();
  const ForwardMode mode = std::exchange(mode_, ForwardMode::recompute);
  p_.set_phase(Phase::recompute);
  TensorIndex branch = mlp_branch(t, true);
  p_.free(branch);
  p_.set_phase(phase);
  mode_ = mode;
}

// Frees the gradient of the activation's output.
TensorIndex StageWriter::activation_backward(LayerTensors& t, TensorIndex& gradient, Bytes up) {
  const Bytes act = s_.bytes(s_.tokens, s_.ffn);
  TensorIndex d_gate = kNoTensor;
  if (t.gated != kNoTensor) {
    p_.compute("activation product backward", s_.memory_bound(Kernel::scale, act * 5));
    d_gate = p_.allocate("gate gradient", act, MemoryCategory::workspace);
    p_.free(t.gated);
    p_.compute("activation backward", s_.memory_bound(Kernel::activation_backward, act * 3));
  } else {
    p_.compute("activation backward", s_.memory_bound(Kernel::activation_backward, up * 2 + act));
  }
  const TensorIndex d_up = p_.allocate("fc1 output gradient", up, MemoryCategory::workspace);
  p_.free(gradient);
  p_.free(d_gate);
  return d_up;
}

TensorIndex StageWriter::mlp_branch_backward(LayerTensors& t, BranchGradient branch,
                                             TensorIndex& input, InputGather gathered) {
  const Shard& s = s_;
  TensorIndex d = row_parallel_backward("fc2", branch, t.activated, s.ffn);
  const Bytes up = s.bytes(s.tokens, s.up);
  TensorIndex d_up = activation_backward(t, d, up);
  p_.free(t.up);
  p_.free(t.kept_up);
  if (s.model.mlp_bias) bias_gradient("fc1", s.tokens, s.up);
  return column_parallel_backward("fc1", d_up, input, s.up, gathered);
}

void StageWriter::mlp_backward(LayerTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  need_mlp(t);
  need_norm("norm 2", t.norm2_output, true);
  const InputGather input = gather_input_early("fc1");
  const BranchGradient branch = branch_gradient("mlp", gradient, t.mask2, s.model.mlp_bias);
  TensorIndex d = mlp_branch_backward(t, branch, t.norm2_output, input);
  norm_backward("norm 2", s.own_tokens, s.hidden);
  p_.free(t.norm2_statistics);
  p_.free(t.residual);
  add_residual_gradient("mlp", d, gradient);
}

}  // namespace stepcast
