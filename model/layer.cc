// SPDX-License-Identifier: Apache-2.0
// One layer, kernel by kernel: attention, then MLP; input gradients (Phase::backward_input) and
// weight gradients (Phase::backward_weight) as separate ops.
#include "model/stage_writer.h"

namespace stepcast {

TensorIndex StageWriter::layer_forward(LayerTensors& t, ForwardMode mode) {
  mode_ = mode;
  const bool keep = mode != ForwardMode::discard;
  if (s_.model.parallel_block && !kind_.experts) return parallel_forward(t, keep);
  attention_forward(t, keep);
  if (kind_.cross) cross_attention_forward(t, keep);
  return kind_.experts ? moe_forward(t, keep) : mlp_forward(t, keep);
}

void StageWriter::layer_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_attention) {
  p_.set_phase(Phase::backward_input);
  if (s_.model.parallel_block && !kind_.experts) {
    return parallel_backward(t, gradient, recompute_attention);
  }
  if (kind_.experts) {
    moe_backward(t, gradient);
  } else {
    mlp_backward(t, gradient);
  }
  if (kind_.cross) cross_attention_backward(t, gradient, recompute_attention);
  attention_backward(t, gradient, recompute_attention);
}

// Megatron-LM's tensor_parallel/random.py: split_tensor_into_1d_equal_chunks into a new buffer, and
// gather_split_1d_tensor.
void StageWriter::split_checkpoint(LayerTensors& t) {
  if (!s_.plan.recompute_distribute) return;
  const Bytes share = s_.bytes(s_.tokens / s_.plan.tp, s_.hidden);
  p_.compute("checkpoint split", s_.memory_bound(Kernel::copy, share * 2));
  const TensorIndex kept = p_.allocate("checkpoint share", share, MemoryCategory::activations);
  p_.free(t.input);
  t.input = kept;
}

void StageWriter::gather_checkpoint(LayerTensors& t) {
  if (!s_.plan.recompute_distribute) return;
  Work gather = s_.collective(WorkKind::all_gather, s_.hidden);
  p_.join(p_.communicate(Stream::tp, "checkpoint all-gather", gather));
  const TensorIndex whole =
      p_.allocate("checkpoint gathered", gather.bytes, MemoryCategory::recompute_workspace);
  p_.free(t.input);
  t.input = whole;
}

void StageWriter::recompute_selected(LayerTensors& t) {
  if (recomputes(&RecomputeModules::core_attention)) {
    recompute_core(t);
    recompute_cross_core(t);
  }
  if (kind_.experts) return;  // theirs where they are needed
  need_mlp(t);
  need_norm("norm 2", t.norm2_output, true);
}

void StageWriter::set_layer(int layer, const LayerKind& kind) {
  kind_ = kind;
  in_layer_ = layer >= 0;
  p_.set_layer(layer);
  w_.set_layer(layer);
}

}  // namespace stepcast
