// SPDX-License-Identifier: Apache-2.0
#include "model/passes/forward_only.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/layers/layers.h"
#include "model/low_precision.h"
#include "model/parameters.h"
#include "sim/check.h"

namespace stepcast {

// --------------------------------------------------------------------------------------- inference
namespace {

LayerKind kind_of(const Transformer& model, const StageContent& content, int64_t i) {
  return content.kinds.empty() ? layer_kind(model, 0) : content.kinds[static_cast<size_t>(i)];
}

// The layers of a stage, kept for nothing.  Owns `received`; kNoTensor where the stage begins with
// the embedding.
TensorIndex forward_alone(const LayerShards& shards, PassWriter& pass, const StageContent& content,
                          TensorIndex received) {
  StageBuckets buckets;
  const LayerContext outside{shards.own(), pass, pass, buckets};
  TensorIndex stream = received;
  if (content.embedding) {
    Forward<SavedEmbedding> embedding = embedding_forward(outside);
    stream = embedding.output;
    pass.free(embedding.saved.mask);
  }
  for (int64_t i = 0; i < content.layers; ++i) {
    const LayerKind kind = kind_of(shards.own().model, content, i);
    const LayerContext c = outside.with(shards.of(kind)).layer(static_cast<int>(i), kind);
    const Forward<SavedLayer> layer = layer_forward(c, ForwardMode::discard, stream);
    pass.free(stream);
    stream = layer.output;
  }
  outside.outside_layers();
  return stream;
}

// Final norm, head and the choice of a token, for the last token of each sequence.
void write_sampling(const Shard& s, PassWriter& pass, TensorIndex& stream) {
  const int64_t rows = s.plan.micro_batch;
  const Kernel norm = s.model.norm == Norm::layer_norm ? Kernel::layer_norm : Kernel::rms_norm;
  if (s.sequence_split()) {  // the last tokens are on one rank
    Work w = s.collective(WorkKind::broadcast, s.hidden);
    w.bytes = s.bytes(rows, s.hidden);
    pass.join(pass.communicate(Stream::tp, "last tokens broadcast", w));
  }
  pass.compute("final norm", s.memory_bound(norm, s.bytes(rows, s.hidden) * 2));
  TensorIndex normed =
      pass.allocate("final norm output", s.bytes(rows, s.hidden), MemoryCategory::workspace);
  pass.free(stream);
  pass.compute("head", s.forward_gemm(rows, s.vocab, s.hidden), OpRole::head);
  TensorIndex logits = pass.allocate("logits", s.bytes(rows, s.vocab), MemoryCategory::logits);
  pass.free(normed);
  const int64_t vocab = s.vocab * s.plan.tp;
  TensorIndex all = kNoTensor;
  if (s.split()) {
    Work w = s.collective(WorkKind::all_gather, s.hidden);
    w.bytes = s.bytes(rows, vocab);
    pass.join(pass.communicate(Stream::tp, "logits all-gather", w));
    all = pass.allocate("logits of all ranks", w.bytes, MemoryCategory::logits);
  }
  const Bytes wide = s.bytes(rows, vocab, DType::fp32);
  pass.compute("sampling", s.memory_bound(Kernel::softmax, s.bytes(rows, vocab) + wide * 2));
  TensorIndex probabilities = pass.allocate("probabilities", wide, MemoryCategory::logits);
  pass.free(logits);
  pass.free(all);
  pass.free(probabilities);
}

}  // namespace

StagePasses add_inference_passes(GraphBuilder& builder, const Transformer& model, const Plan& plan,
                                 const StageContent& content) {
  STEPCAST_CHECK(!plan.trains() && model.encoder_layers == 0, "a decoder's forward");
  const LayerShards shards(model, plan);
  const Shard& shard = shards.own();
  OpGraph& graph = builder.graph();
  const auto table = static_cast<TensorTableId>(graph.tensor_tables.size());
  graph.tensor_tables.emplace_back();
  const char* name = plan.mode == StepMode::decode ? "decode" : "prefill";
  PassWriter pass(builder, fmt::format("{}, {} layers", name, content.layers), table);
  pass.set_phase(Phase::forward);
  TensorIndex received = kNoTensor;
  if (!content.embedding)
    received = pass.allocate("residual stream", shard.bytes(shard.own_tokens, shard.hidden),
                             MemoryCategory::activations);
  TensorIndex stream = forward_alone(shards, pass, content, received);
  if (content.head) write_sampling(shard, pass, stream);
  if (pass.empty()) pass.compute("pass through", shard.memory_bound(Kernel::none, {}));
  pass.free(stream);  // leaves with the transfer
  StagePasses out;
  out.forward = pass.finish();
  return out;
}

int64_t linear_parameters(const Transformer& model, const Plan& plan, const StageContent& content) {
  StageContent layers = content;
  layers.embedding = layers.head = false;
  const LayerShards shards(model, plan);
  int64_t biases = 0;  // split like the layers they belong to
  for (int64_t i = 0; i < content.layers; ++i) {
    const LayerKind kind = kind_of(model, content, i);
    const Shard& s = shards.of(kind);
    if (model.attention_bias && kind.attends()) biases += s.projected;
    if (model.mlp_bias && kind.mlp) biases += s.up;
  }
  return stage_parameters(model, plan, layers) - shared_parameters(model, layers) - biases;
}

Bytes stored_parameters(const Transformer& model, const Plan& plan, const StageContent& content,
                        int64_t parameters) {
  const Shard s(model, plan);
  const Precision& p = plan.precision;
  if (!p.weights && !plan.trains() && p.scaling != Scaling::none) {
    // Converted when they are loaded; there is no backward that needs the other copy.
    StageContent low = content;
    std::erase_if(low.kinds, [](const LayerKind& kind) { return kind.wide; });
    if (!content.kinds.empty()) low.layers = static_cast<int64_t>(low.kinds.size());
    const int64_t narrow = low.layers == 0 ? 0 : linear_parameters(model, plan, low);
    return low_format(p).bytes(narrow) + s.bytes(parameters - narrow, 1);
  }
  if (!p.weights) return s.bytes(parameters, 1);
  const int64_t narrow = linear_parameters(model, plan, content);
  return s.bytes(narrow, 1, *plan.precision.weights) + s.bytes(parameters - narrow, 1);
}

Bytes cache_bytes(const Transformer& model, const Plan& plan, const StageContent& content,
                  int64_t tokens) {
  const LayerShards shards(model, plan);
  int64_t kept = 0;  // elements of all layers
  for (int64_t i = 0; i < content.layers; ++i) {
    const LayerKind kind = kind_of(model, content, i);
    if (!kind.attends()) continue;
    if (kind.bidirectional) continue;  // no token comes after those that have been seen
    // A window's cache is a ring buffer.
    const int64_t most =
        kind.window > 0 ? kind.window * std::max<int64_t>(1, tokens / plan.seq) : tokens;
    const Shard& s = shards.of(kind);
    kept += std::min(tokens, most) *
            (model.kv_rank > 0 ? model.kv_rank + model.qk_rope_dim : s.key + s.value);
  }
  return shards.own().bytes(kept, 1, plan.precision.kv_cache.value_or(plan.precision.params));
}

int64_t step_tokens(const Plan& plan) {
  return plan.global_batch * (plan.mode == StepMode::decode ? 1 : plan.seq);
}

Bytes bytes_with_stored_weights(const Work& gemm, DType stored) {
  const auto m = static_cast<double>(gemm.m), n = static_cast<double>(gemm.n);
  const auto k = static_cast<double>(gemm.k);
  const double wide = bytes_per_element(gemm.dtype);
  const double all = wide * m * (n + k) + bytes_per_element(stored) * n * k;
  return {static_cast<int64_t>(static_cast<double>(gemm.batch) * all)};
}

double inference_flops(const Transformer& model, const Plan& plan, bool causal) {
  Transformer run = model;
  run.mtp_layers = 0;  // they are trained beside the model and do not run
  const auto sequences = static_cast<double>(plan.global_batch);
  const auto seq = static_cast<double>(plan.seq);
  if (plan.mode == StepMode::prefill)
    return forward_matmul_flops(run, sequences, seq, causal) -
           head_matmul_flops(run, sequences, seq - 1);
  // Per token: all that grows with the tokens, and attention to `seq` keys; f(s) = a s + c s^2.
  const double one = forward_matmul_flops(run, sequences, 1, false);
  const double two = forward_matmul_flops(run, sequences, 2, false);
  const double all = one + (two - 2 * one) / 2 * (seq - 1);
  if (!causal) return all;
  double unseen = 0;  // products with keys that windows end before
  for (int64_t i = 0; i < run.layers; ++i) {
    const LayerKind kind = layer_kind(run, i);
    const LayerShape shape = layer_shape(run, kind);
    const int64_t pair = 2 * shape.heads * (shape.head_dim + shape.value_dim);
    if (kind.attends() && kind.window > 0)
      unseen += static_cast<double>(std::max<int64_t>(0, plan.seq - kind.window)) *
                static_cast<double>(pair);
  }
  return all - sequences * unseen;
}

// ------------------------------------------------------------------------------------ distillation
namespace {

// The logits of all tokens.
TensorIndex write_teacher_head(const Shard& s, PassWriter& pass, TensorIndex& stream) {
  const Kernel norm = s.model.norm == Norm::layer_norm ? Kernel::layer_norm : Kernel::rms_norm;
  const Bytes own = s.bytes(s.own_tokens, s.hidden);
  pass.compute("teacher final norm", s.memory_bound(norm, own * 2));
  TensorIndex normed = pass.allocate("teacher final norm output", own, MemoryCategory::workspace);
  pass.free(stream);
  TensorIndex gathered = kNoTensor;
  if (s.sequence_split()) {
    pass.join(pass.communicate(Stream::tp, "teacher head all-gather",
                               s.collective(WorkKind::all_gather, s.hidden)));
    gathered = pass.allocate("teacher head all-gather", s.bytes(s.tokens, s.hidden),
                             MemoryCategory::communication);
  }
  pass.compute("teacher head", s.forward_gemm(s.tokens, s.vocab, s.hidden), OpRole::head);
  const TensorIndex logits =
      pass.allocate("teacher logits", s.bytes(s.tokens, s.vocab), MemoryCategory::logits);
  pass.free(gathered);
  pass.free(normed);
  return logits;
}

}  // namespace

Plan with_teacher_of(Plan plan, size_t stage) {
  if (!plan.teacher) return plan;
  STEPCAST_CHECK(plan.teacher_stages.size() == plan.stages.size(), "a teacher's stage for each");
  plan.teacher_stages = {plan.teacher_stages[stage]};
  return plan;
}

TensorIndex write_teacher(const Plan& plan, PassWriter& pass) {
  if (!plan.teacher) return kNoTensor;
  STEPCAST_CHECK(plan.teacher_stages.size() == 1, "whose stage?");
  Plan alone = plan;
  alone.recompute = Recompute::none;  // no backward, for which some of it would be kept
  const LayerShards shards(*alone.teacher, alone);
  const Shard& s = shards.own();
  const StageContent& own = alone.teacher_stages.front();
  TensorIndex received = kNoTensor, choice = kNoTensor;
  if (!own.embedding)
    received =
        pass.allocate("teacher residual stream", teacher_stream(plan), MemoryCategory::activations);
  if (const Bytes bytes = received_choice(*plan.teacher, plan, own); bytes.value > 0)
    choice = pass.allocate("teacher's chosen keys", bytes, MemoryCategory::activations);
  TensorIndex stream = forward_alone(shards, pass, own, received);
  pass.free(choice);
  if (own.head) return write_teacher_head(s, pass, stream);
  pass.free(stream);  // leaves with the student's
  return kNoTensor;
}

void write_distillation_loss(const Shard& s, TensorIndex logits, PassWriter& pass) {
  if (logits == kNoTensor) return;
  // Log-softmax of both, and the sum of their difference by the teacher's probabilities; over the
  // shards of the vocabulary, maximum and sum of each.
  const Bytes narrow = s.bytes(s.tokens, s.vocab);
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  pass.compute("teacher softmax", s.memory_bound(Kernel::cross_entropy, narrow + wide));
  TensorIndex probabilities = pass.allocate("teacher probabilities", wide, MemoryCategory::logits);
  if (s.split()) {
    Work w = s.collective(WorkKind::all_reduce, 1);
    w.dtype = DType::fp32;
    w.bytes = s.bytes(s.tokens, 2, DType::fp32);
    pass.join(pass.communicate(Stream::tp, "teacher softmax all-reduce", w));
  }
  pass.compute("distillation loss", s.memory_bound(Kernel::cross_entropy, wide * 2));
  pass.free(probabilities);
}

void write_distillation_gradient(const Shard& s, TensorIndex& logits, PassWriter& pass) {
  if (logits == kNoTensor) return;
  // Student's and teacher's probabilities once more, their difference added to the gradient.
  const Bytes narrow = s.bytes(s.tokens, s.vocab);
  const Bytes wide = s.bytes(s.tokens, s.vocab, DType::fp32);
  pass.compute("distillation gradient",
               s.memory_bound(Kernel::cross_entropy_backward, narrow + wide * 3));
  pass.free(logits);
}

Bytes teacher_parameters(const Plan& plan, const StageContent& own) {
  return stored_parameters(*plan.teacher, plan, own, stage_parameters(*plan.teacher, plan, own));
}

Bytes teacher_stream(const Plan& plan) {
  if (!plan.teacher) return {};
  const Shard s(*plan.teacher, plan);
  return s.bytes(s.own_tokens, s.hidden);
}

Bytes received_by_teacher(const Plan& plan, size_t stage) {
  if (!plan.teacher) return {};
  return teacher_stream(plan) + received_choice(*plan.teacher, plan, plan.teacher_stages[stage]);
}

double teacher_flops(const Plan& plan, bool causal) {
  if (!plan.teacher) return 0;
  return forward_matmul_flops(*plan.teacher, static_cast<double>(plan.global_batch),
                              static_cast<double>(plan.seq), causal);
}

}  // namespace stepcast
