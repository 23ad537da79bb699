// SPDX-License-Identifier: Apache-2.0
// Layers in which attention and MLP read the same residual stream and are added to it together
// (GPT-J, GPT-NeoX, PaLM: Chowdhery et al. 2022, arXiv 2204.02311, section 2): one sum of both
// branches, and one tensor-parallel reduction, where other layers have two.
#include "model/stage_writer.h"

namespace stepcast {

TensorIndex StageWriter::parallel_forward(LayerTensors& t, bool keep) {
  const Shard& s = s_;
  TensorIndex attention = attention_branch_forward(t, keep);
  const bool shared = s.model.shared_norm;
  if (!shared) {
    norm_forward("norm 2", t.norm2_statistics, t.norm2_output, s.own_tokens, s.hidden, true);
    if (!keep) p_.free(t.norm2_statistics);
  }
  TensorIndex mlp = mlp_branch_forward(t, shared ? t.norm1_output : t.norm2_output, keep);
  p_.compute("branch sum", s.memory_bound(Kernel::add, s.bytes(s.tokens, s.hidden) * 3));
  p_.free(mlp);
  TensorIndex branch = reduce("layer", attention, s.hidden);
  const bool bias = s.model.mlp_bias || s.model.attention_output_bias;
  const TensorIndex out = add_residual("layer", branch, &t.mask2, bias);
  if (!keep) p_.free(t.mask2);
  return out;
}

void StageWriter::parallel_backward(LayerTensors& t, TensorIndex& gradient,
                                    bool recompute_core_first) {
  const Shard& s = s_;
  const bool shared = s.model.shared_norm;
  const InputGather fc1_input = gather_input_early("fc1");
  const InputGather qkv_input = gather_qkv_input_early();
  const bool bias = s.model.mlp_bias || s.model.attention_output_bias;
  const BranchGradient branch = branch_gradient("layer", gradient, t.mask2, bias);
  BranchGradient borrowed = branch;  // attention's backward is the last to read it
  borrowed.own = false;
  // The weight gradient of qkv is the last to read the output of a shared norm.
  TensorIndex none = kNoTensor;
  TensorIndex d_mlp = mlp_branch_backward(t, borrowed, shared ? none : t.norm2_output, fc1_input);
  const Bytes stream = s.bytes(s.own_tokens, s.hidden);
  if (!shared) {
    norm_backward("norm 2", s.own_tokens, s.hidden);
    p_.free(t.norm2_statistics);
  }
  TensorIndex d = attention_branch_backward(t, branch, qkv_input, recompute_core_first);
  p_.compute("branch gradient sum", s.memory_bound(Kernel::add, stream * 3));
  p_.free(d_mlp);
  norm_backward("norm 1", s.own_tokens, s.hidden);
  p_.free(t.norm1_statistics);
  p_.free(t.input);
  add_residual_gradient("layer", d, gradient);
}

}  // namespace stepcast
