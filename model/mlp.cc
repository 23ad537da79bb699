// SPDX-License-Identifier: Apache-2.0
// The dense MLP with its norm and residual, forward and backward.
#include <string>

#include "model/stage_writer.h"

namespace stepcast {

TensorIndex StageWriter::mlp_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const Kernels& kernels = s.plan.kernels;
  const auto done_with = [&](TensorIndex& tensor) {
    if (!keep) p_.free(tensor);
  };

  norm_forward("norm 2", t.norm2_statistics, t.norm2_output, s.own_tokens, s.hidden, true);
  done_with(t.norm2_statistics);
  t.up = column_parallel_forward("fc1", "fc1 output", t.norm2_output, s.up);
  done_with(t.norm2_output);
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
  branch = reduce("fc2", branch, s.hidden);
  const TensorIndex out = add_residual("mlp", branch, &t.mask2, model.mlp_bias);
  done_with(t.mask2);
  done_with(t.residual);
  return out;
}

void StageWriter::mlp_backward(LayerTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  const Transformer& model = s.model;
  const InputGather input = gather_input_early("fc1");
  const BranchGradient branch = branch_gradient("mlp", gradient, t.mask2, model.mlp_bias);
  TensorIndex d = row_parallel_backward("fc2", branch, t.activated, s.ffn);
  const Bytes up = s.bytes(s.tokens, s.up);
  p_.compute("activation backward",
             s.memory_bound(Kernel::activation_backward, up * 2 + s.bytes(s.tokens, s.ffn)));
  TensorIndex d_up = p_.allocate("fc1 output gradient", up, MemoryCategory::workspace);
  p_.free(d);
  p_.free(t.up);
  if (model.mlp_bias) bias_gradient("fc1", s.tokens, s.up);
  d = column_parallel_backward("fc1", d_up, t.norm2_output, s.up, input);
  norm_backward("norm 2", s.own_tokens, s.hidden);
  p_.free(t.norm2_statistics);
  p_.free(t.residual);
  add_residual_gradient("mlp", d, gradient);
}

}  // namespace stepcast
