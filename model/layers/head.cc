// SPDX-License-Identifier: Apache-2.0
// What follows the last layer: final norm, head, and the loss of the tokens from the logits; and
// back to the gradient of what the head read.
//
// How the loss is computed is Kernels::loss.  Megatron-LM's default, for example, converts the
// logits [tokens, vocabulary / tp] to fp32, subtracts their maximum, takes exponentials in place
// and divides by their sum, with three small all-reduces over the tensor-parallel group; the
// softmax stays for the backward, which subtracts 1 at the target and converts back.
//
// With Plan::vocabulary every rank of the pipeline has a share of the head (Yeung et al. 2025,
// arXiv 2411.05288, sections 4 and 5): passes S (vocabulary_forward) and T (vocabulary_backward) of
// each rank do what loss_forward and loss_backward leave out.
#include <string>
#include <utility>

#include "model/layers/layers.h"

namespace stepcast {
namespace {

// -------------------------------------------------------------------------------------------- loss

// Vocabulary-parallel cross-entropy (Megatron-LM) has three small all-reduces over the
// tensor-parallel group.
void sum_over_shards(const LayerContext& c, const std::string& label) {
  if (!c.shard.split()) return;
  Work w = c.shard.collective(WorkKind::all_reduce, 1);
  w.dtype = DType::fp32;
  w.bytes = c.shard.bytes(c.shard.tokens, 1, DType::fp32);
  c.pass.join(c.pass.communicate(Stream::tp, label, w));
}

// A shared vocabulary has the passes of Megatron's loss.
Loss loss_kind(const Shard& s) {
  return s.plan.splits_vocabulary() ? Loss::megatron : s.plan.kernels.loss;
}

// Kernels::fused_cross_entropy is of Megatron's loss.
bool is_fused(const Shard& s) {
  return s.plan.kernels.fused_cross_entropy && loss_kind(s) == Loss::megatron;
}

// The loss has read the logits `low`.
void done_with_logits(const LayerContext& c, SavedHead& t, TensorIndex& low) {
  if (c.shard.plan.kernels.held_logits > 0) {
    t.logits = std::exchange(low, kNoTensor);
  } else {
    c.pass.free(low);
  }
}

void loss_kernel(const LayerContext& c, const std::string& label, Bytes moved) {
  c.pass.compute(label, c.shard.memory_bound(Kernel::cross_entropy, moved));
}

// Megatron's --cross-entropy-loss-fusion: functions compiled by torch.compile.  Where one both
// overwrites the logits and sums over them, Inductor writes a copy and then copies it back
// (NVIDIA/Megatron-LM megatron/core/fusions/fused_cross_entropy.py @0cb4a9c8, note on in-place
// semantics, which takes these out again): a second set of logits in fp32 for a while, forward and
// backward.  The time of that copy is not counted.
void fused_loss_forward(const LayerContext& c, SavedHead& t, TensorIndex& low) {
  const Bytes wide = c.shard.bytes(c.shard.tokens, c.shard.vocab, DType::fp32);
  const Bytes logits = c.shard.bytes(c.shard.tokens, c.shard.vocab);
  loss_kernel(c, "loss maximum", logits);
  sum_over_shards(c, "loss maximum all-reduce");
  loss_kernel(c, "loss", logits + wide);
  t.softmax = c.pass.allocate("loss softmax", wide, MemoryCategory::logits);
  TensorIndex copy = c.pass.allocate("loss copy", wide, MemoryCategory::logits);
  c.pass.free(copy);
  sum_over_shards(c, "loss sum all-reduce");
  loss_kernel(c, "loss normalization", wide * 2);
  done_with_logits(c, t, low);
}

// Transformer Engine's parallel_cross_entropy (transformer_engine/pytorch/triton/cross_entropy.py)
// and Liger-Kernel's: one kernel finds maximum and sum of a row, the other overwrites the row with
// its gradient.
void in_place_loss_forward(const LayerContext& c, SavedHead& t, TensorIndex& low) {
  const Bytes logits = c.shard.bytes(c.shard.tokens, c.shard.vocab);
  loss_kernel(c, "loss maximum and sum", logits);
  sum_over_shards(c, "loss sum all-reduce");
  loss_kernel(c, "loss and gradient", logits * 2);
  t.softmax = std::exchange(low, kNoTensor);
}

// torch.nn.functional.cross_entropy of logits in fp32: its log-softmax is kept, the caller holds
// the logits until the loss is there.
void torch_loss_forward(const LayerContext& c, SavedHead& t, TensorIndex& low) {
  const Shard& s = c.shard;
  const bool gathers = s.gathers_logits();
  const int64_t words = s.logits();
  const Bytes logits = s.bytes(s.tokens, words);
  const Bytes wide = s.bytes(s.tokens, words, DType::fp32);
  if (gathers) {
    c.pass.join(c.pass.communicate(Stream::tp, "logits all-gather",
                                   s.collective(WorkKind::all_gather, words)));
    TensorIndex parts = c.pass.allocate("logits of all ranks", logits, MemoryCategory::logits);
    c.pass.compute("logits side by side", s.memory_bound(Kernel::copy, logits * 2));
    c.pass.free(low);
    low = c.pass.allocate("logits gathered", logits, MemoryCategory::logits);
    c.pass.free(parts);
  }
  TensorIndex converted = low;
  if (s.plan.precision.params != DType::fp32) {
    c.pass.compute("logits to fp32", s.memory_bound(Kernel::cast, logits + wide));
    converted = c.pass.allocate("logits in fp32", wide, MemoryCategory::logits);
  }
  loss_kernel(c, "log-softmax", wide * 2);
  t.softmax = c.pass.allocate("loss softmax", wide, MemoryCategory::logits);
  if (!gathers) {  // the numbers of a token over the vocabulary's shards
    sum_over_shards(c, "loss maximum all-reduce");
    sum_over_shards(c, "loss sum all-reduce");
    sum_over_shards(c, "loss target all-reduce");
  }
  if (converted != low) c.pass.free(converted);
  done_with_logits(c, t, low);
}

// Frees `low`, the logits; keeps what the backward reads.
void cross_entropy_forward(const LayerContext& c, SavedHead& t, TensorIndex& low) {
  switch (loss_kind(c.shard)) {
    case Loss::in_place: return in_place_loss_forward(c, t, low);
    case Loss::torch_compiled:
      sum_over_shards(c, "loss sum all-reduce");
      loss_kernel(c, "loss", c.shard.bytes(c.shard.tokens, c.shard.vocab) * 2);
      t.softmax = std::exchange(low, kNoTensor);  // what the backward reads
      return;
    case Loss::torch:
    case Loss::torch_gathered: return torch_loss_forward(c, t, low);
    case Loss::megatron:
    case Loss::megatron_copied: break;
  }
  if (is_fused(c.shard)) return fused_loss_forward(c, t, low);
  const Shard& s = c.shard;
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  if (s.plan.precision.params == DType::fp32) {
    t.softmax = low;  // nothing to convert
  } else {
    c.pass.compute("logits to fp32",
                   s.memory_bound(Kernel::cast, s.bytes(s.tokens, s.vocab) + wide));
    const bool copied = loss_kind(s) == Loss::megatron_copied;
    t.softmax =
        c.pass.allocate(copied ? "logits in fp32" : "loss softmax", wide, MemoryCategory::logits);
    done_with_logits(c, t, low);
  }
  loss_kernel(c, "loss maximum", wide);
  sum_over_shards(c, "loss maximum all-reduce");
  loss_kernel(c, "loss subtract maximum", wide * 2);
  TensorIndex callers = kNoTensor;
  if (loss_kind(s) == Loss::megatron_copied) {
    callers = t.softmax;
    t.softmax = c.pass.allocate("loss softmax", wide, MemoryCategory::logits);
  }
  sum_over_shards(c, "loss target all-reduce");
  loss_kernel(c, "loss exponential", wide * 2);
  loss_kernel(c, "loss sum", wide);
  sum_over_shards(c, "loss sum all-reduce");
  loss_kernel(c, "loss normalization", wide * 2);
  c.pass.free(callers);
}

// The gradient of the log-likelihood is zeros but for the targets, that of the log-softmax another
// tensor of that size.
TensorIndex torch_logit_gradient(const LayerContext& c, SavedHead& t) {
  const Shard& s = c.shard;
  const bool gathers = s.gathers_logits();
  const int64_t words = s.logits();
  const Bytes all = s.bytes(s.tokens, words);
  const Bytes wide = s.bytes(s.tokens, words, DType::fp32);
  c.pass.compute("likelihood gradient", s.memory_bound(Kernel::fill, wide));
  TensorIndex targets = c.pass.allocate("likelihood gradient", wide, MemoryCategory::logits);
  c.pass.compute("loss backward", s.memory_bound(Kernel::cross_entropy_backward, wide * 3));
  TensorIndex gradient = c.pass.allocate("logit gradient in fp32", wide, MemoryCategory::logits);
  c.pass.free(targets);
  c.pass.free(t.softmax);
  if (s.plan.precision.params != DType::fp32) {
    c.pass.compute("logit gradient to " + std::string(name_of(s.plan.precision.params)),
                   s.memory_bound(Kernel::cast, wide + all));
    TensorIndex low = c.pass.allocate("logit gradient", all, MemoryCategory::logits);
    c.pass.free(gradient);
    gradient = low;
  }
  if (!gathers) return gradient;
  const Bytes own = s.bytes(s.tokens, s.vocab);
  c.pass.compute("logit gradient of this rank", s.memory_bound(Kernel::copy, own * 2));
  const TensorIndex part =
      c.pass.allocate("logit gradient of this rank", own, MemoryCategory::logits);
  c.pass.free(gradient);
  return part;
}

// From what the forward kept to the gradient of the logits.
TensorIndex logit_gradient(const LayerContext& c, SavedHead& t) {
  const Shard& s = c.shard;
  const Bytes logits = s.bytes(s.tokens, s.vocab);
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  const auto backward = [&](Bytes moved) {
    c.pass.compute("loss backward", s.memory_bound(Kernel::cross_entropy_backward, moved));
  };
  const Loss kind = loss_kind(c.shard);
  if (kind == Loss::in_place) {
    backward(logits * 2);  // by the gradient of each token's loss
    return std::exchange(t.softmax, kNoTensor);
  }
  if (kind == Loss::torch || kind == Loss::torch_gathered) return torch_logit_gradient(c, t);
  if (kind == Loss::torch_compiled) {
    backward(logits * 2);
  } else if (!is_fused(s)) {
    backward(wide * 2);
    if (s.plan.precision.params != DType::fp32) {
      c.pass.compute("logit gradient to " + std::string(name_of(s.plan.precision.params)),
                     s.memory_bound(Kernel::cast, wide + logits));
    }
  } else {
    backward(wide + logits);
    TensorIndex copy = c.pass.allocate("loss copy", wide, MemoryCategory::logits);
    c.pass.free(copy);
  }
  const TensorIndex d = c.pass.allocate("logit gradient", logits, MemoryCategory::logits);
  c.pass.free(t.softmax);
  return d;
}

// ------------------------------------------------------------------------------------- masked head
// What BERT has between its last layer and the head (Devlin et al. 2018, arXiv 1810.04805; as
// Megatron-LM's BertLMHead): a dense layer that is whole on every tensor-parallel rank, activation
// and norm, each rank for its own tokens; beside it a pooler of the first token of each sequence,
// for the next-sentence loss.

// From `t.input`, which becomes what the head multiplies.
void masked_head_forward(const LayerContext& c, SavedHead& t) {
  const Shard& s = c.shard;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  c.pass.compute("pooler", s.forward_gemm(s.plan.micro_batch, s.hidden, s.hidden));
  c.pass.compute("masked head dense", s.forward_gemm(s.own_tokens, s.hidden, s.hidden));
  t.transformed = c.pass.allocate("masked head dense", own, MemoryCategory::activations);
  t.dense_input = t.input;
  c.pass.compute("masked head activation", s.memory_bound(Kernel::activation, own * 2));
  t.activated = c.pass.allocate("masked head activation", own, MemoryCategory::activations);
  const NormOutput norm =
      norm_forward(c, ForwardMode::keep, "masked head norm", s.own_tokens, s.hidden);
  t.input = norm.output;
  t.norm_statistics = norm.statistics;
}

TensorIndex masked_head_backward(const LayerContext& c, SavedHead& t, TensorIndex& gradient) {
  const Shard& s = c.shard;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  norm_backward(c, "masked head norm", s.own_tokens, s.hidden);
  c.pass.free(t.norm_statistics);
  c.pass.free(t.activated);
  c.pass.compute("masked head activation backward",
                 s.memory_bound(Kernel::activation_backward, own * 3));
  c.pass.free(t.transformed);
  c.pass.compute("masked head dense input gradient",
                 s.input_gemm(s.own_tokens, s.hidden, s.hidden));
  const TensorIndex out =
      c.pass.allocate("masked head input gradient", own, MemoryCategory::workspace);
  c.pass.compute("pooler input gradient", s.input_gemm(s.plan.micro_batch, s.hidden, s.hidden));
  weight_gradient(c, "masked head dense", s.weight_gemm(s.own_tokens, s.hidden, s.hidden));
  weight_gradient(c, "pooler", s.weight_gemm(s.plan.micro_batch, s.hidden, s.hidden));
  c.weights.free(gradient);
  c.weights.free(t.dense_input);
  return out;
}

// -------------------------------------------------------------------------------------------- head

void head_product(const LayerContext& c, SavedHead& t) {
  const Shard& s = c.shard;
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) gathered = gather(c, "head all-gather", s.hidden);
  c.pass.compute("head", s.forward_gemm(s.tokens, s.vocab, s.hidden), OpRole::head);
  TensorIndex low = c.pass.allocate("logits", s.bytes(s.tokens, s.vocab), MemoryCategory::logits);
  c.pass.free(gathered);
  cross_entropy_forward(c, t, low);
}

}  // namespace

Forward<SavedFinalNorm> final_norm_forward(const LayerContext& c, const std::string& label,
                                           TensorIndex input) {
  const NormOutput norm =
      norm_forward(c, ForwardMode::keep, label, c.shard.own_tokens, c.shard.hidden);
  return {norm.output, {input, norm.statistics}};
}

void final_norm_backward(const LayerContext& c, const std::string& label, SavedFinalNorm& t) {
  c.pass.set_phase(Phase::backward_input);
  norm_backward(c, label, c.shard.own_tokens, c.shard.hidden);
  c.pass.free(t.statistics);
  c.pass.free(t.input);
}

SavedHead loss_forward(const LayerContext& c, TensorIndex input) {
  SavedHead t{.input = input};
  if (c.shard.plan.splits_vocabulary()) return t;
  if (c.shard.model.masked_head) masked_head_forward(c, t);
  head_product(c, t);
  return t;
}

TensorIndex loss_backward(const LayerContext& c, SavedHead& t, bool more) {
  c.pass.set_phase(Phase::backward_input);
  if (c.shard.plan.splits_vocabulary()) return t.gradient;
  TensorIndex d = logit_gradient(c, t);
  TensorIndex gradient = column_parallel_backward(c.with_more_gradients(more), "head", d, t.input,
                                                  c.shard.vocab, {}, OpRole::head);
  if (c.shard.model.masked_head) gradient = masked_head_backward(c, t, gradient);
  return gradient;
}

void vocabulary_forward(const LayerContext& c, SavedHead& t, bool receives) {
  const Shard& s = c.shard;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  if (receives) t.input = c.pass.allocate("head input", own, MemoryCategory::activations);
  head_product(c, t);
  if (s.plan.vocabulary == VocabularySplit::two_barriers) return;
  // The softmax by the rank's own maxima and sums gives its part of the input gradient but for a
  // factor a token, which the exchange of the sums brings; less the target's row (Yeung et al.,
  // algorithm 2).
  TensorIndex low = kNoTensor;
  if (s.plan.precision.params != DType::fp32) {
    const Bytes logits = s.bytes(s.tokens, s.vocab);
    c.pass.compute("softmax to " + std::string(name_of(s.plan.precision.params)),
                   s.memory_bound(Kernel::cast, s.bytes(s.tokens, s.vocab, DType::fp32) + logits));
    low = c.pass.allocate("softmax copy", logits, MemoryCategory::logits);
  }
  const std::string label = "head input gradient";
  c.pass.compute(label, s.input_gemm(s.tokens, s.vocab, s.hidden), OpRole::head);
  const TensorIndex partial =
      c.pass.allocate(label, s.bytes(s.tokens, s.hidden), MemoryCategory::workspace);
  c.pass.free(low);
  t.gradient = reduce(c, label, {partial}, s.hidden);
  c.pass.compute("target rows", s.memory_bound(Kernel::embedding, own * 2));
  c.pass.compute("head input gradient scale", s.memory_bound(Kernel::scale, own * 2));
  c.pass.compute("head input gradient difference", s.memory_bound(Kernel::add, own * 3));
}

void vocabulary_backward(const LayerContext& c, SavedHead& t) {
  const Shard& s = c.shard;
  c.pass.set_phase(Phase::backward_input);
  c.pass.compute("softmax scale",
                 s.memory_bound(Kernel::scale, s.bytes(s.tokens, s.vocab, DType::fp32) * 2));
  TensorIndex d = logit_gradient(c, t);
  if (s.plan.vocabulary == VocabularySplit::two_barriers) {
    t.gradient = column_parallel_backward(c, "head", d, t.input, s.vocab, {}, OpRole::head);
    return;
  }
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) {
    const InputGather input = gather_input(c, "head");
    c.weights.join(input.op);
    gathered = input.tensor;
  }
  weight_gradient(c, "head", s.weight_gemm(s.tokens, s.vocab, s.hidden), {.role = OpRole::head});
  c.weights.free(gathered);
  c.weights.free(d);
  c.weights.free(t.input);
}

}  // namespace stepcast
