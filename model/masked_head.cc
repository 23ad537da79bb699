// SPDX-License-Identifier: Apache-2.0
// What BERT has between its last layer and the head (Devlin et al. 2018, arXiv 1810.04805; as
// Megatron-LM's BertLMHead): a dense layer that is whole on every tensor-parallel rank, activation
// and norm, each rank for its own tokens; beside it a pooler of the first token of each sequence,
// for the next-sentence loss.
#include <string>

#include "model/stage_writer.h"

namespace stepcast {

void StageWriter::masked_head_forward(HeadTensors& t) {
  const Shard& s = s_;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  p_.compute("pooler", s.forward_gemm(s.plan.micro_batch, s.hidden, s.hidden));
  p_.compute("masked head dense", s.forward_gemm(s.own_tokens, s.hidden, s.hidden));
  t.transformed = p_.allocate("masked head dense", own, MemoryCategory::activations);
  t.input = t.norm_output;  // of the dense layer; no final norm comes before
  p_.compute("masked head activation", s.memory_bound(Kernel::activation, own * 2));
  t.activated = p_.allocate("masked head activation", own, MemoryCategory::activations);
  norm_forward("masked head norm", t.norm_statistics, t.norm_output, s.own_tokens, s.hidden);
}

TensorIndex StageWriter::masked_head_backward(HeadTensors& t, TensorIndex& gradient) {
  const Shard& s = s_;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  norm_backward("masked head norm", s.own_tokens, s.hidden);
  p_.free(t.norm_statistics);
  p_.free(t.activated);
  p_.compute("masked head activation backward",
             s.memory_bound(Kernel::activation_backward, own * 3));
  p_.free(t.transformed);
  p_.compute("masked head dense input gradient", s.input_gemm(s.own_tokens, s.hidden, s.hidden));
  const TensorIndex out = p_.allocate("masked head input gradient", own, MemoryCategory::workspace);
  p_.compute("pooler input gradient", s.input_gemm(s.plan.micro_batch, s.hidden, s.hidden));
  weight_gradient("masked head dense", s.weight_gemm(s.own_tokens, s.hidden, s.hidden));
  weight_gradient("pooler", s.weight_gemm(s.plan.micro_batch, s.hidden, s.hidden));
  w_.free(gradient);
  w_.free(t.input);
  return out;
}

}  // namespace stepcast
