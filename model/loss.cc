// SPDX-License-Identifier: Apache-2.0
// The loss of the tokens from the logits, and the gradient of the logits.
#include <string>
#include <utility>

#include "model/stage_writer.h"

namespace stepcast {

// Vocabulary-parallel cross-entropy (Megatron-LM) has three small all-reduces over the
// tensor-parallel group.
void StageWriter::sum_over_shards(const std::string& label) {
  if (!s_.split()) return;
  Work w = s_.collective(WorkKind::all_reduce, 1);
  w.dtype = DType::fp32;
  w.bytes = s_.bytes(s_.tokens, 1, DType::fp32);
  p_.join(p_.communicate(Stream::tp, label, w));
}

// A shared vocabulary has the passes of Megatron's loss (vocabulary_passes.cc).
Loss StageWriter::loss_kind() const {
  return shares_vocabulary() ? Loss::megatron : s_.plan.kernels.loss;
}

void StageWriter::loss_kernel(const std::string& label, Bytes moved) {
  p_.compute(label, s_.memory_bound(Kernel::cross_entropy, moved));
}

void StageWriter::cross_entropy_forward(HeadTensors& t, TensorIndex& low) {
  switch (loss_kind()) {
    case Loss::in_place: return in_place_loss_forward(t, low);
    case Loss::torch_compiled:
      sum_over_shards("loss sum all-reduce");
      loss_kernel("loss", s_.bytes(s_.tokens, s_.vocab) * 2);
      t.softmax = std::exchange(low, kNoTensor);  // what the backward reads
      return;
    case Loss::torch:
    case Loss::torch_gathered: return torch_loss_forward(t, low);
    case Loss::megatron: break;
  }
  if (s_.plan.kernels.fused_cross_entropy) return fused_loss_forward(t, low);
  const Shard& s = s_;
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  if (s.plan.precision.params == DType::fp32) {
    t.softmax = low;  // nothing to convert
  } else {
    p_.compute("logits to fp32", s.memory_bound(Kernel::cast, s.bytes(s.tokens, s.vocab) + wide));
    t.softmax = p_.allocate("loss softmax", wide, MemoryCategory::logits);
    p_.free(low);
  }
  loss_kernel("loss maximum", wide);
  sum_over_shards("loss maximum all-reduce");
  loss_kernel("loss subtract maximum", wide * 2);
  sum_over_shards("loss target all-reduce");
  loss_kernel("loss exponential", wide * 2);
  loss_kernel("loss sum", wide);
  sum_over_shards("loss sum all-reduce");
  loss_kernel("loss normalization", wide * 2);
}

// Megatron's --cross-entropy-loss-fusion: functions compiled by torch.compile.  Where one both
// overwrites the logits and sums over them, Inductor writes a copy and then copies it back
// (NVIDIA/Megatron-LM megatron/core/fusions/fused_cross_entropy.py @0cb4a9c8, note on in-place
// semantics, which takes these out again): a second set of logits in fp32 for a while, forward and
// backward.  The time of that copy is not counted.
void StageWriter::fused_loss_forward(HeadTensors& t, TensorIndex& low) {
  const Bytes wide = s_.bytes(s_.tokens, s_.vocab, DType::fp32);
  const Bytes logits = s_.bytes(s_.tokens, s_.vocab);
  loss_kernel("loss maximum", logits);
  sum_over_shards("loss maximum all-reduce");
  loss_kernel("loss", logits + wide);
  t.softmax = p_.allocate("loss softmax", wide, MemoryCategory::logits);
  TensorIndex copy = p_.allocate("loss copy", wide, MemoryCategory::logits);
  p_.free(copy);
  sum_over_shards("loss sum all-reduce");
  loss_kernel("loss normalization", wide * 2);
  p_.free(low);
}

// Transformer Engine's parallel_cross_entropy (transformer_engine/pytorch/triton/cross_entropy.py)
// and Liger-Kernel's: one kernel finds maximum and sum of a row, the other overwrites the row with
// its gradient.
void StageWriter::in_place_loss_forward(HeadTensors& t, TensorIndex& low) {
  const Bytes logits = s_.bytes(s_.tokens, s_.vocab);
  loss_kernel("loss maximum and sum", logits);
  sum_over_shards("loss sum all-reduce");
  loss_kernel("loss and gradient", logits * 2);
  t.softmax = std::exchange(low, kNoTensor);
}

// torch.nn.functional.cross_entropy of logits in fp32: its log-softmax is kept, the caller holds
// the logits until the loss is there.
void StageWriter::torch_loss_forward(HeadTensors& t, TensorIndex& low) {
  const Shard& s = s_;
  const bool gathers = s.split() && loss_kind() == Loss::torch_gathered;
  const int64_t words = gathers ? s.vocab * s.plan.tp : s.vocab;
  const Bytes logits = s.bytes(s.tokens, words);
  const Bytes wide = s.bytes(s.tokens, words, DType::fp32);
  if (gathers) {
    p_.join(
        p_.communicate(Stream::tp, "logits all-gather", s.collective(WorkKind::all_gather, words)));
    TensorIndex parts = p_.allocate("logits of all ranks", logits, MemoryCategory::logits);
    p_.compute("logits side by side", s.memory_bound(Kernel::copy, logits * 2));
    p_.free(low);
    low = p_.allocate("logits gathered", logits, MemoryCategory::logits);
    p_.free(parts);
  }
  TensorIndex converted = low;
  if (s.plan.precision.params != DType::fp32) {
    p_.compute("logits to fp32", s.memory_bound(Kernel::cast, logits + wide));
    converted = p_.allocate("logits in fp32", wide, MemoryCategory::logits);
  }
  loss_kernel("log-softmax", wide * 2);
  t.softmax = p_.allocate("loss softmax", wide, MemoryCategory::logits);
  if (!gathers) {  // the numbers of a token over the vocabulary's shards
    sum_over_shards("loss maximum all-reduce");
    sum_over_shards("loss sum all-reduce");
    sum_over_shards("loss target all-reduce");
  }
  if (converted != low) p_.free(converted);
  p_.free(low);
}

TensorIndex StageWriter::logit_gradient(HeadTensors& t) {
  const Shard& s = s_;
  const Bytes logits = s.bytes(s.tokens, s.vocab);
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  const auto backward = [&](Bytes moved) {
    p_.compute("loss backward", s.memory_bound(Kernel::cross_entropy_backward, moved));
  };
  const Loss kind = loss_kind();
  if (kind == Loss::in_place) {
    backward(logits * 2);  // by the gradient of each token's loss
    return std::exchange(t.softmax, kNoTensor);
  }
  if (kind == Loss::torch || kind == Loss::torch_gathered) return torch_logit_gradient(t);
  if (kind == Loss::torch_compiled) {
    backward(logits * 2);
  } else if (!s.plan.kernels.fused_cross_entropy) {
    backward(wide * 2);
    if (s.plan.precision.params != DType::fp32) {
      p_.compute("logit gradient to " + std::string(name_of(s.plan.precision.params)),
                 s.memory_bound(Kernel::cast, wide + logits));
    }
  } else {
    backward(wide + logits);
    TensorIndex copy = p_.allocate("loss copy", wide, MemoryCategory::logits);
    p_.free(copy);
  }
  const TensorIndex d = p_.allocate("logit gradient", logits, MemoryCategory::logits);
  p_.free(t.softmax);
  return d;
}

// The gradient of the log-likelihood is zeros but for the targets, that of the log-softmax another
// tensor of that size.
TensorIndex StageWriter::torch_logit_gradient(HeadTensors& t) {
  const Shard& s = s_;
  const bool gathers = s.split() && loss_kind() == Loss::torch_gathered;
  const int64_t words = gathers ? s.vocab * s.plan.tp : s.vocab;
  const Bytes all = s.bytes(s.tokens, words);
  const Bytes wide = s.bytes(s.tokens, words, DType::fp32);
  p_.compute("likelihood gradient", s.memory_bound(Kernel::fill, wide));
  TensorIndex targets = p_.allocate("likelihood gradient", wide, MemoryCategory::logits);
  p_.compute("loss backward", s.memory_bound(Kernel::cross_entropy_backward, wide * 3));
  TensorIndex gradient = p_.allocate("logit gradient in fp32", wide, MemoryCategory::logits);
  p_.free(targets);
  p_.free(t.softmax);
  if (s.plan.precision.params != DType::fp32) {
    p_.compute("logit gradient to " + std::string(name_of(s.plan.precision.params)),
               s.memory_bound(Kernel::cast, wide + all));
    TensorIndex low = p_.allocate("logit gradient", all, MemoryCategory::logits);
    p_.free(gradient);
    gradient = low;
  }
  if (!gathers) return gradient;
  const Bytes own = s.bytes(s.tokens, s.vocab);
  p_.compute("logit gradient of this rank", s.memory_bound(Kernel::copy, own * 2));
  const TensorIndex part = p_.allocate("logit gradient of this rank", own, MemoryCategory::logits);
  p_.free(gradient);
  return part;
}

}  // namespace stepcast
