// SPDX-License-Identifier: Apache-2.0
#include "model/inference.h"

#include <algorithm>
#include <string>

#include "model/low_precision.h"
#include "model/stage_parameters.h"
#include "model/stage_writer.h"
#include "sim/check.h"

namespace stepcast {
namespace {

LayerKind kind_of(const Transformer& model, const StageContent& content, int64_t i) {
  return content.kinds.empty() ? layer_kind(model, 0) : content.kinds[static_cast<size_t>(i)];
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
  pass.compute("head", s.forward_gemm(rows, s.vocab, s.hidden));
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
  const Shard shard(model, plan);
  OpGraph& graph = builder.graph();
  const auto table = static_cast<TensorTableId>(graph.tensor_tables.size());
  graph.tensor_tables.emplace_back();
  const char* name = plan.mode == StepMode::decode ? "decode" : "prefill";
  PassWriter pass(builder, name + (", " + std::to_string(content.layers)) + " layers", table);
  pass.set_phase(Phase::forward);
  StageWriter stage(shard, pass);
  TensorIndex received = kNoTensor;
  if (!content.embedding)
    received = pass.allocate("residual stream", shard.bytes(shard.own_tokens, shard.hidden),
                             MemoryCategory::activations);
  TensorIndex stream = stage.forward_alone(content, received);
  if (content.head) write_sampling(shard, pass, stream);
  if (pass.empty()) pass.compute("pass through", shard.memory_bound(Kernel::none, {}));
  pass.free(stream);  // leaves with the transfer
  StagePasses out;
  out.forward = pass.finish();
  return out;
}

TensorIndex StageWriter::forward_alone(const StageContent& content, TensorIndex received) {
  TensorIndex stream = received;
  if (content.embedding) {
    EmbeddingTensors embedding;
    stream = embedding_forward(embedding);
    p_.free(embedding.mask);
  }
  for (int64_t i = 0; i < content.layers; ++i) {
    LayerTensors layer;
    layer.input = stream;
    set_layer(static_cast<int>(i), kind_of(s_.model, content, i));
    stream = layer_forward(layer, ForwardMode::discard);
    p_.free(layer.input);
  }
  set_layer(-1);
  return stream;
}

// The new keys and values are written behind those in the cache.
void StageWriter::append_to_cache() {
  const Plan& plan = s_.plan;
  const LayerKind& kind = kind_;
  if (kind.bidirectional) return;
  StageContent one{.layers = 1};
  one.kinds = {kind};
  const Bytes written = cache_bytes(s_.model, plan, one, s_.tokens);
  const int64_t width =
      s_.model.kv_rank > 0 ? s_.model.kv_rank + s_.model.qk_rope_dim : s_.key + s_.value;
  p_.compute("append to cache",
             s_.memory_bound(Kernel::copy, s_.bytes(s_.tokens, width) + written));
}

// Attention of the new token of each sequence to what is in the cache: limited by reading it.
// Latent attention is absorbed: all heads attend to the compressed keys, whose first part are the
// values (arXiv 2405.04434, section 2.1.2).  The products with the up projections that it takes,
// of each query before and of each context after, are as large as those of the new token's keys and
// values, which latent_forward writes.
Work Shard::cached_attention(const LayerKind& kind) const {
  const int64_t seen = kind.window > 0 ? std::min(keys, kind.window) : keys;
  const bool latent = model.kv_rank > 0;
  const int64_t query_width = latent ? model.kv_rank + model.qk_rope_dim : query_dim(model);
  const int64_t value_width = latent ? model.kv_rank : value_dim(model);
  Work w;
  w.kind = WorkKind::attention_forward;
  w.dtype = plan.precision.params;
  w.m = 1;
  w.n = seen;
  w.k = query_width;
  if (value_width != query_width) w.value_dim = value_width;
  w.batch = plan.micro_batch;
  w.heads = heads;
  w.kv_heads = latent ? 1 : kv_heads;
  const int64_t width = query_width + value_width;
  w.flops = {2.0 * static_cast<double>(seen * width) * static_cast<double>(heads * w.batch)};
  const DType stored = plan.precision.kv_cache.value_or(plan.precision.params);
  w.bytes = bytes(w.batch * heads, width) +
            bytes(w.batch * seen, latent ? query_width : key + value, stored);
  return w;
}

int64_t linear_parameters(const Transformer& model, const Plan& plan, const StageContent& content) {
  StageContent layers = content;
  layers.embedding = layers.head = false;
  const Shard s(model, plan);
  int64_t biases = 0;  // split like the layers they belong to
  if (model.attention_bias) biases += s.qkv;
  if (model.mlp_bias) biases += s.up;
  return stage_parameters(model, plan, layers) - shared_parameters(model, layers) -
         biases * content.layers;
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
  const Shard s(model, plan);
  const int64_t width = model.kv_rank > 0 ? model.kv_rank + model.qk_rope_dim : s.key + s.value;
  int64_t kept = 0;  // tokens of all layers
  for (int64_t i = 0; i < content.layers; ++i) {
    const LayerKind kind = kind_of(model, content, i);
    if (kind.bidirectional) continue;  // no token comes after those that have been seen
    // A window's cache is a ring buffer.
    const int64_t most =
        kind.window > 0 ? kind.window * std::max<int64_t>(1, tokens / plan.seq) : tokens;
    kept += std::min(tokens, most);
  }
  return s.bytes(kept, width, plan.precision.kv_cache.value_or(plan.precision.params));
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
  double unseen = 0;  // keys that windows end before
  for (int64_t i = 0; i < run.layers; ++i) {
    const int64_t window = layer_kind(run, i).window;
    if (window > 0) unseen += static_cast<double>(std::max<int64_t>(0, plan.seq - window));
  }
  const int64_t pair = 2 * run.heads * (query_dim(run) + value_dim(run));
  return all - sequences * unseen * static_cast<double>(pair);
}

}  // namespace stepcast
