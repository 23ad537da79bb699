// SPDX-License-Identifier: Apache-2.0
#include "model/vocabulary_passes.h"

#include <string>

#include "model/stage_writer.h"

namespace stepcast {

// ------------------------------------------------------------------------------------------ writer
// S.  `receives`: the head's input comes from another rank.
void StageWriter::vocabulary_forward(HeadTensors& t, bool receives) {
  const Shard& s = s_;
  mode_ = ForwardMode::keep;
  if (receives)
    t.norm_output =
        p_.allocate("head input", s.bytes(s.own_tokens, s.hidden), MemoryCategory::activations);
  head_product(t);
  if (s.plan.vocabulary == VocabularySplit::two_barriers) return;
  // The softmax by the rank's own maxima and sums gives its part of the input gradient but for a
  // factor a token, which the exchange of the sums brings; less the target's row (Yeung et al.,
  // algorithm 2).
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  TensorIndex low = kNoTensor;
  if (s.plan.precision.params != DType::fp32) {
    const Bytes logits = s.bytes(s.tokens, s.vocab);
    p_.compute("softmax to " + std::string(name_of(s.plan.precision.params)),
               s.memory_bound(Kernel::cast, s.bytes(s.tokens, s.vocab, DType::fp32) + logits));
    low = p_.allocate("softmax copy", logits, MemoryCategory::logits);
  }
  p_.compute("head input gradient", s.input_gemm(s.tokens, s.vocab, s.hidden));
  const TensorIndex partial =
      p_.allocate("head input gradient", s.bytes(s.tokens, s.hidden), MemoryCategory::workspace);
  p_.free(low);
  t.gradient = reduce("head input gradient", partial, s.hidden);
  p_.compute("target rows", s.memory_bound(Kernel::embedding, own * 2));
  p_.compute("head input gradient scale", s.memory_bound(Kernel::scale, own * 2));
  p_.compute("head input gradient difference", s.memory_bound(Kernel::add, own * 3));
}

// T.
void StageWriter::vocabulary_backward(HeadTensors& t) {
  const Shard& s = s_;
  p_.set_phase(Phase::backward_input);
  p_.compute("softmax scale",
             s.memory_bound(Kernel::scale, s.bytes(s.tokens, s.vocab, DType::fp32) * 2));
  TensorIndex d = logit_gradient(t);
  if (s.plan.vocabulary == VocabularySplit::two_barriers) {
    t.gradient = column_parallel_backward("head", d, t.norm_output, s.vocab);
    return;
  }
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) {
    const InputGather input = gather_input("head");
    w_.join(input.op);
    gathered = input.tensor;
  }
  weight_gradient("head", s.weight_gemm(s.tokens, s.vocab, s.hidden));
  w_.free(gathered);
  w_.free(d);
  w_.free(t.norm_output);
}

// G.  The gradient of the first stage's input has come.
void StageWriter::vocabulary_embedding_backward() {
  TensorIndex gradient = p_.allocate("embedding output gradient",
                                     s_.bytes(s_.own_tokens, s_.hidden), MemoryCategory::workspace);
  p_.set_phase(Phase::backward_weight);
  const TensorIndex full = gather_embedding_gradient();
  embedding_rows_backward(full, gradient);
}

// ------------------------------------------------------------------------------------------ passes
PassId add_embedding_forward(const VocabularyShare& share, EmbeddingTensors& t) {
  PassWriter pass(share.builder, "embedding", share.table);
  StageWriter stage(share.shard, pass);
  pass.set_phase(Phase::forward);
  TensorIndex rows = stage.embedding_rows();
  if (share.content.embedding) {
    t.rows = rows;
  } else {
    pass.free(rows);
  }
  return pass.finish();
}

void add_vocabulary_passes(const VocabularyShare& share, HeadTensors& t, StagePasses& passes) {
  const bool last = share.content.head;
  PassWriter forward(share.builder, "head", share.table);
  forward.set_phase(Phase::forward);
  StageWriter(share.shard, forward).vocabulary_forward(t, !last);
  passes.vocabulary_forward = forward.finish();

  PassWriter backward(share.builder, "head gradients", share.table);
  StageWriter(share.shard, backward).vocabulary_backward(t);
  // Where the last stage is not, the gradient has gone into the sum.
  if (!last) backward.free(t.gradient);
  passes.vocabulary_backward = backward.finish();

  PassWriter rows(share.builder, "embedding gradient", share.table);
  StageWriter(share.shard, rows).vocabulary_embedding_backward();
  passes.embedding_backward = rows.finish();
}

}  // namespace stepcast
