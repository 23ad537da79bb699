// SPDX-License-Identifier: Apache-2.0
#include "model/parameters.h"

#include <algorithm>

#include "model/shard.h"

namespace stepcast {
namespace {

int64_t norm_parameters(const Transformer& model) {
  return model.norm == Norm::layer_norm && model.norm_bias ? 2 * model.hidden : model.hidden;
}

// Of this rank: a recurrent mixer is split by heads and their groups.
int64_t recurrent_parameters(const Transformer& m, const Plan& plan, Mixer mixer) {
  const PartParameters p = recurrent_parameters(m, mixer);
  return (p.matrices + p.vectors) / plan.tp + p.whole;
}

// What every tensor-parallel rank holds of latent attention: down projections and their norms.
int64_t latent_parameters(const Transformer& m) {
  const int64_t kv = m.kv_rank + m.qk_rope_dim;
  int64_t count = m.hidden * kv + m.kv_rank;
  if (m.q_rank > 0) count += m.hidden * m.q_rank + m.q_rank;
  if (m.attention_bias) count += kv + m.q_rank;
  return count;
}

int64_t attention_parameters(const Shard& s) {
  const Transformer& model = s.model;
  if (model.kv_rank > 0) {
    const int64_t up = s.heads * (model.qk_nope_dim + model.v_dim);
    return latent_parameters(model) + (model.q_rank > 0 ? model.q_rank : s.hidden) * s.q +
           model.kv_rank * up + s.context * s.hidden +
           (model.attention_output_bias ? s.hidden : 0) + (s.sinks ? s.heads : 0);
  }
  int64_t count = s.hidden * s.projected + s.context * s.hidden;
  if (model.attention_gate) count += s.hidden * s.q;
  if (model.attention_bias) count += s.projected + (model.attention_gate ? s.q : 0);
  if (model.attention_output_bias) count += s.hidden;
  count += qk_norm_parameters(model, s.q, s.key, s.query_dim);
  if (s.sinks) count += s.heads;
  return count;
}

int64_t mlp_parameters(const Transformer& model, int64_t input, int64_t width) {
  const int64_t up = model.gated ? 2 * width : width;
  int64_t count = input * (up + width);
  if (model.mlp_bias) count += up + input;
  return count;
}

// An MLP of which this rank holds columns of such a width.
int64_t mlp_parameters(const Transformer& model, int64_t width) {
  return mlp_parameters(model, model.hidden, width);
}

// What all ranks of tp hold of the projections around experts that read a latent.
int64_t latent_expert_parameters(const Transformer& model) {
  if (model.moe_latent == 0) return 0;
  return 2 * model.hidden * model.moe_latent +
         (model.mlp_bias ? model.moe_latent + model.hidden : 0);
}

int64_t all_of(const PartParameters& p) {
  return p.matrices + p.vectors + p.whole;
}

// What a layer with experts has beside them: router and shared experts.
int64_t beside_experts(const Transformer& model, const Plan& plan, const LayerKind& kind) {
  int64_t count = model.hidden * model.experts;
  count += router_vectors(model, kind);
  if (model.shared_ffn > 0) count += mlp_parameters(model, model.shared_ffn / plan.tp);
  if (model.shared_gate) count += model.hidden;
  return count + latent_expert_parameters(model);
}

// Calls `count` with the kind of each layer of the stage and of each prediction module.
template <class Count>
int64_t sum_over_layers(const Transformer& model, const StageContent& content, Count count) {
  int64_t sum = 0;
  if (content.predictions > 0) sum += content.predictions * count(prediction_kind(model));
  if (content.layers == 0) return sum;
  if (content.kinds.empty()) return sum + content.layers * count(layer_kind(model, 0));
  for (const LayerKind& kind : content.kinds) sum += count(kind);
  return sum;
}

// Norms outside the layers: after the encoder, before prediction modules or the head, or after the
// embedding.
int64_t end_norms(const Transformer& model, const StageContent& content) {
  int64_t norms = content.encoder_ends ? 1 : 0;
  if (model.embedding_norm) return norms + (content.embedding ? 1 : 0);
  const bool last = (content.predictions > 0 || content.head) && content.predicted == 0;
  return norms + (last ? 1 : 0);
}

}  // namespace

int64_t expert_parameters(const Transformer& model, const Plan& plan, const StageContent& content) {
  const int64_t one = mlp_parameters(model, expert_input(model), model.moe_ffn / plan.etp);
  return sum_over_layers(model, content, [&](const LayerKind& kind) {
    return kind.experts ? model.experts / plan.ep * one : 0;
  });
}

int64_t stage_parameters(const Transformer& model, const Plan& plan, const StageContent& content) {
  const LayerShards shards(model, plan);
  const Shard& s = shards.own();
  const int64_t h = model.hidden;
  const int64_t norm = norm_parameters(model);
  int64_t total = expert_parameters(model, plan, content);
  total += sum_over_layers(model, content, [&](const LayerKind& kind) {
    int64_t count = layer_norms(model, kind) * norm;
    const Shard& of_layer = shards.of(kind);
    if (kind.attends())
      count += model.compressions.empty() ? attention_parameters(of_layer)
                                          : all_of(compressed_attention_parameters(model, kind));
    count += branches(kind) * all_of(stream_parameters(model));
    if (kind.indexes) count += indexer_parameters(model).matrices + indexer_parameters(model).whole;
    if (kind.recurs()) count += recurrent_parameters(model, plan, kind.mixer);
    if (kind.experts) {
      count += beside_experts(model, plan, kind);
    } else if (kind.mlp) {
      count += mlp_parameters(model, of_layer.ffn);
    }
    if (kind.cross) count += attention_parameters(of_layer);
    if (kind.predicts) count += 2 * h * h / plan.tp;
    return count;
  });
  total += end_norms(model, content) * norm;
  if (content.head) total += all_of(end_stream_parameters(model));
  const int64_t positions = model.positions == Positions::learned ? model.max_positions * h : 0;
  if (plan.vocabulary != VocabularySplit::none) {
    return total + (content.embedding ? positions : 0) + shared_vocabulary_parameters(model, plan);
  }
  if (content.embedding) total += s.vocab * h + positions + model.token_types * h;
  if (content.embedding || content.decoder_begins) total += model.relative_buckets * s.heads;
  if (copies_embedding(model, content)) total += s.vocab * h;
  if (content.decoder_begins && !content.embedding) total += positions;  // a copy, too
  if (content.head && !model.tied) total += s.vocab * h;
  // Of a masked head the bias of the logits is split, the rest whole.
  if (content.head && model.masked_head)
    total += masked_head_parameters(model) - model.vocab + s.vocab;
  return total;
}

namespace {

// Weights and biases of an MLP.
int64_t tensors_of_mlp(const Transformer& model) {
  return (model.gated ? 3 : 2) + (model.mlp_bias ? 2 : 0);
}

}  // namespace

ParameterTensors expert_tensors(const Transformer& model, const Plan& plan,
                                const StageContent& content) {
  ParameterTensors tensors;
  tensors.count = sum_over_layers(model, content, [&](const LayerKind& kind) {
    return kind.experts ? model.experts / plan.ep * tensors_of_mlp(model) : 0;
  });
  if (tensors.count > 0) tensors.largest = expert_input(model) * (model.moe_ffn / plan.etp);
  return tensors;
}

ParameterTensors parameter_tensors(const Transformer& model, const Plan& plan,
                                   const StageContent& content) {
  const LayerShards shards(model, plan);
  const Shard& s = shards.own();
  const int64_t norm = model.norm == Norm::layer_norm && model.norm_bias ? 2 : 1;
  const int64_t mlp = tensors_of_mlp(model);
  const int64_t latent = model.kv_rank > 0 ? (model.q_rank > 0 ? 6 : 3) : 0;  // down, norm and up
  const int64_t attention = (latent > 0 ? latent + 1 : 2) + (model.attention_bias ? 1 : 0) +
                            (model.attention_output_bias ? 1 : 0) +
                            (model.qk_norm && model.qk_norm_weights != QkNormWeights::none ? 2 : 0);
  // Both projections, convolution, decays, biases of the steps and the norm; what skips a space.
  const Recurrence& r = model.recurrence;
  const int64_t recurrent = 6 + (r.conv_bias ? 1 : 0) + (r.bias ? 2 : 0);
  ParameterTensors tensors;
  tensors.count = sum_over_layers(model, content, [&](const LayerKind& kind) {
    int64_t count = layer_norms(model, kind) * norm;
    // Both of the queries with a norm, keys with a norm, both of the output, logits; a compressor's
    // two, positions and a norm, of the indexer beside two of its own.
    if (kind.attends() && !model.compressions.empty())
      count += 8 + (kind.compression > 0 ? 4 : 0) + (kind.indexes ? 6 : 0);
    else if (kind.attends())
      count += attention * (kind.cross ? 2 : 1);
    if (model.streams > 1) count += 5 * branches(kind);
    if (kind.indexes && model.compressions.empty())
      count += 5;  // three projections, and the norm of the keys
    if (kind.recurs()) count += recurrent + (kind.mixer == Mixer::mamba2 ? 1 : 0);
    const Shard& of_layer = shards.of(kind);
    const int64_t width = !kind.mlp ? 0 : kind.experts ? model.shared_ffn / plan.tp : of_layer.ffn;
    const int64_t gate = model.attention_gate ? of_layer.q : 0;
    const int64_t mixed = kind.recurs() ? recurrent_input_width(model, kind.mixer) / plan.tp
                                        : of_layer.projected + gate;
    tensors.largest = std::max(tensors.largest, s.hidden * std::max(mixed, width));
    if (kind.experts) count += model.expert_norms ? 2 : 1;  // router
    if (kind.experts && model.moe_latent > 0) count += 2;
    return kind.mlp && (!kind.experts || model.shared_ffn > 0) ? count + mlp : count;
  });
  tensors.count += end_norms(model, content) * norm;
  const bool embeds = content.embedding || copies_embedding(model, content);
  const bool head = content.head && !model.tied;
  if (content.head && model.streams > 1) tensors.count += 3;
  tensors.count += (embeds ? 1 : 0) + (head ? 1 : 0) +
                   (content.embedding && model.positions == Positions::learned ? 1 : 0);
  if (embeds || head) tensors.largest = std::max(tensors.largest, s.vocab * s.hidden);
  return tensors;
}

bool copies_embedding(const Transformer& model, const StageContent& content) {
  const bool needs =
      (content.head && model.tied) || content.predictions > 0 || content.decoder_begins;
  return needs && !content.embedding;
}

int64_t shared_vocabulary_parameters(const Transformer& model, const Plan& plan) {
  if (plan.vocabulary == VocabularySplit::none) return 0;
  return Shard(model, plan).vocab * model.hidden * (model.tied ? 1 : 2);
}

int64_t shared_parameters(const Transformer& model, const StageContent& content) {
  const int64_t norm = norm_parameters(model);
  const int64_t layers = sum_over_layers(model, content, [&](const LayerKind& kind) {
    int64_t count = layer_norms(model, kind) * norm;
    if (kind.attends()) {
      if (model.attention_output_bias) count += (kind.cross ? 2 : 1) * model.hidden;
      if (model.qk_norm_weights == QkNormWeights::of_head)
        count += qk_norm_parameters(model, 0, 0, layer_shape(model, kind).head_dim);
      if (model.kv_rank > 0) count += latent_parameters(model);
    }
    if (kind.recurs()) count += recurrent_parameters(model, kind.mixer).whole;
    if (model.mlp_bias && kind.mlp && !kind.experts) count += model.hidden;
    // The router sees the rank's own tokens only, too.
    if (kind.experts) count += model.hidden * model.experts + latent_expert_parameters(model);
    if (kind.experts && model.expert_norms) count += model.experts;
    if (kind.experts && model.shared_gate) count += model.hidden;
    return count;
  });
  return layers + end_norms(model, content) * norm;
}

}  // namespace stepcast
