// SPDX-License-Identifier: Apache-2.0
// The dense MLP with its norm and residual, forward and backward.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

TensorIndex StageWriter::mlp_branch(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const Kernels& kernels = s.plan.kernels;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };

  norm_forward("norm 2", t.norm2_statistics, t.norm2_output, s.own_tokens, s.hidden, true);
  done_with(t.norm2_statistics);
  t.up = column_parallel_forward("fc1", "fc1 output", t.norm2_output, s.up);
  if (!keep || drops(&RecomputeModules::norms)) p_.free(t.norm2_output);
  const Bytes up = s.bytes(s.tokens, s.up);
  const Bytes act = s.bytes(s.tokens, s.ffn);
  if (model.mlp_bias && !kernels.fused_activation) {
    p_.compute("fc1 bias", s.memory_bound(Kernel::bias_add, up * 2));
  }
  p_.compute("activation", s.memory_bound(Kernel::activation, up + act));
  t.activated = p_.allocate("activation output", act, saved());
  done_with(t.up);
  TensorIndex branch = row_parallel_forward("fc2", t.activated, s.ffn);
  done_with(t.activated);
  return reduce("fc2", branch, s.hidden);
}

TensorIndex StageWriter::mlp_branch_forward(LayerTensors& t, TensorIndex& input, bool keep) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };
  t.up = column_parallel_forward("fc1", "fc1 output", input, s.up);
  done_with(input);
  const Bytes up = s.bytes(s.tokens, s.up);
  const Bytes act = s.bytes(s.tokens, s.ffn);
  if (model.mlp_bias && !s.plan.kernels.fused_activation) {
    p_.compute("fc1 bias", s.memory_bound(Kernel::bias_add, up * 2));
  }
  p_.compute("activation", s.memory_bound(Kernel::activation, up + act));
  t.activated = p_.allocate("activation output", act, saved());
  done_with(t.up);
  const TensorIndex branch = row_parallel_forward("fc2", t.activated, s.ffn);
  done_with(t.activated);
  return branch;
}

TensorIndex StageWriter::mlp_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  norm_forward("norm 2", t.norm2_statistics, t.norm2_output, s.own_tokens, s.hidden, true);
  if (!keep) p_.free(t.norm2_statistics);
  const TensorIndex partial = mlp_branch_forward(t, t.norm2_output, keep);
  TensorIndex branch = reduce("fc2", partial, s.hidden);
  const TensorIndex out = add_residual("mlp", branch, &t.mask2, s.model.mlp_bias);
  if (!keep) {
    p_.free(t.mask2);
    p_.free(t.residual);
  }
  return out;
}

TensorIndex StageWriter::mlp_branch_backward(LayerTensors& t, BranchGradient branch,
                                             TensorIndex& input, InputGather gathered) {
  const Shard& s = s_;
  TensorIndex d = row_parallel_backward("fc2", branch, t.activated, s.ffn);
  const Bytes up = s.bytes(s.tokens, s.up);
  p_.compute("activation backward",
             s.memory_bound(Kernel::activation_backward, up * 2 + s.bytes(s.tokens, s.ffn)));
  TensorIndex d_up = p_.allocate("fc1 output gradient", up, MemoryCategory::workspace);
  p_.free(d);
  p_.free(t.up);
  if (s.model.mlp_bias) bias_gradient("fc1", s.tokens, s.up);
  return column_parallel_backward("fc1", d_up, input, s.up, gathered);
}

void StageWriter::mlp_backward(LayerTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  const InputGather input = gather_input_early("fc1");
  const BranchGradient branch = branch_gradient("mlp", gradient, t.mask2, s.model.mlp_bias);
  TensorIndex d = mlp_branch_backward(t, branch, t.norm2_output, input);
  norm_backward("norm 2", s.own_tokens, s.hidden);
  p_.free(t.norm2_statistics);
  p_.free(t.residual);
  add_residual_gradient("mlp", d, gradient);
}

}  // namespace stepcast
