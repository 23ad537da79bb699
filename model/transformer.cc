// SPDX-License-Identifier: Apache-2.0
#include "model/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/check.h"
#include "sim/diagnostic.h"

namespace stepcast {
namespace {

// Parameters of a part of the model: matrices that tokens are multiplied with, and vectors (biases,
// norms and the like).
struct Count {
  int64_t matrices = 0;
  int64_t vectors = 0;

  Count& operator+=(const Count& o) {
    matrices += o.matrices;
    vectors += o.vectors;
    return *this;
  }
  int64_t total() const { return matrices + vectors; }
};

int64_t norm_parameters(const Transformer& t, int64_t width) {
  return t.norm == Norm::layer_norm && t.norm_bias ? 2 * width : width;
}

Count ordinary_attention(const Transformer& t, const LayerShape& s) {
  const int64_t q = s.heads * s.head_dim;
  const int64_t qkv = projected_width(s);
  Count c{t.hidden * qkv + s.heads * s.value_dim * t.hidden, 0};
  // The gate comes out of the projection of the queries, with its bias.
  if (t.attention_bias) c.vectors += qkv + (t.attention_gate ? q : 0);
  if (t.attention_gate) c.matrices += t.hidden * q;
  c.vectors += qk_norm_parameters(t, q, s.kv_heads * s.head_dim, s.head_dim);
  return c;
}

// Multi-head latent attention, DeepSeek-V2 (arXiv 2405.04434) section 2.1: down and up projections
// with an RMS norm between them.  Only the down projections can have biases.
Count latent_attention(const Transformer& t) {
  const int64_t q = t.heads * (t.qk_nope_dim + t.qk_rope_dim);
  const int64_t kv_down = t.kv_rank + t.qk_rope_dim;
  Count c{t.hidden * kv_down + t.kv_rank * t.heads * (t.qk_nope_dim + t.v_dim) +
              t.heads * t.v_dim * t.hidden,
          t.kv_rank};
  if (t.attention_bias) c.vectors += kv_down;
  if (t.q_rank == 0) {
    c.matrices += t.hidden * q;
  } else {
    c += {t.hidden * t.q_rank + t.q_rank * q, t.q_rank};
    if (t.attention_bias) c.vectors += t.q_rank;
  }
  return c;
}

Count count_of(const PartParameters& p) {
  return {p.matrices, p.vectors + p.whole};
}

Count attention(const Transformer& t, const LayerShape& s) {
  Count c = t.kv_rank > 0 ? latent_attention(t) : ordinary_attention(t, s);
  if (t.attention_output_bias) c.vectors += t.hidden;
  if (s.sinks) c.vectors += s.heads;
  return c;
}

Count mlp(const Transformer& t, int64_t input, int64_t width) {
  const int64_t up = t.gated ? 2 * width : width;
  Count c{input * up + width * input, 0};
  if (t.mlp_bias) c.vectors += up + input;
  return c;
}

// Counts this many experts of a layer: all of them, or those that one token goes to.
Count mixture(const Transformer& t, int64_t met) {
  const Count expert = mlp(t, expert_input(t), t.moe_ffn);
  Count c{t.hidden * t.experts + met * expert.matrices, met * expert.vectors};
  if (t.shared_ffn > 0) c += mlp(t, t.hidden, t.shared_ffn);
  if (t.shared_gate) c.matrices += t.hidden;
  if (t.moe_latent > 0) c.matrices += 2 * t.hidden * t.moe_latent;
  if (t.moe_latent > 0 && t.mlp_bias) c.vectors += t.moe_latent + t.hidden;
  return c;
}

bool has_experts(const Transformer& t, int64_t layer) {
  if (t.experts == 0) return false;
  if (!t.expert_layers.empty()) return t.expert_layers[static_cast<size_t>(layer)] != 0;
  return layer >= t.dense_layers;
}

Count layer_count(const Transformer& t, const LayerKind& kind, int64_t met) {
  Count c;
  const LayerShape shape = layer_shape(t, kind);
  if (kind.attends() && !t.compressions.empty())
    c += count_of(compressed_attention_parameters(t, kind));
  else if (kind.attends())
    c += attention(t, shape);
  if (kind.indexes) c += count_of(indexer_parameters(t));
  if (kind.recurs()) c += count_of(recurrent_parameters(t, kind.mixer));
  if (kind.mlp) c += kind.experts ? mixture(t, met) : mlp(t, t.hidden, shape.ffn);
  if (kind.experts) c.vectors += router_vectors(t, kind);
  const Count streams = count_of(stream_parameters(t));
  c += {branches(kind) * streams.matrices, branches(kind) * streams.vectors};
  c.vectors += layer_norms(t, kind) * norm_parameters(t, t.hidden);
  if (kind.cross) c += attention(t, shape);
  return c;
}

// A multi-token-prediction module (DeepSeek-V3, arXiv 2412.19437, section 2.2, eq. 21-22): norms of
// both streams, their projection to one, a layer, and a norm before the shared head.
Count module_count(const Transformer& t, int64_t met) {
  Count c = layer_count(t, prediction_kind(t), met);
  c.matrices += 2 * t.hidden * t.hidden;
  return c;
}

// Layers that cost the same, and how many there are.
std::map<LayerKind, int64_t> kinds_of(const Transformer& t) {
  std::map<LayerKind, int64_t> kinds;
  for (int64_t i = 0; i < t.layers; ++i) ++kinds[layer_kind(t, i)];
  return kinds;
}

Count layers_count(const Transformer& t, int64_t met) {
  Count c;
  for (const auto& [kind, layers] : kinds_of(t)) {
    const Count one = layer_count(t, kind, met);
    c += {layers * one.matrices, layers * one.vectors};
  }
  return c;
}

// Embeddings, head and final norms.
int64_t outer_parameters(const Transformer& t) {
  int64_t n = t.vocab * t.hidden;
  if (!t.tied) n *= 2;
  if (t.positions == Positions::learned) n += t.max_positions * t.hidden;
  const int64_t stacks = t.encoder_layers > 0 ? 2 : 1;
  n += stacks * (norm_parameters(t, t.hidden) + t.relative_buckets * t.heads);
  return n + t.token_types * t.hidden + masked_head_parameters(t) +
         count_of(end_stream_parameters(t)).total();
}

// Pairs of query and key that attention multiplies, in one sequence.  A causal query sees half of
// the keys on average; with a window, at most that many.
double attention_pairs(const LayerKind& kind, double seq, bool causal) {
  if (!causal) return seq * seq;
  const auto limit = static_cast<double>(kind.window);
  const double window = limit > 0 ? std::min(seq, limit) : seq;
  return seq * window - window * window / 2;
}

}  // namespace

// transformers' NemotronHMamba2Mixer and Qwen3NextGatedDeltaNet.  Beside both projections and the
// convolution each head has a decay and the bias of its step, in a state space also a weight of its
// input that skips it.  The norm before the projection out has weights of its own for all heads,
// which are split with them, or shares them.  The bias after the sum over the ranks is whole.
PartParameters recurrent_parameters(const Transformer& t, Mixer mixer) {
  const Recurrence& r = t.recurrence;
  const int64_t in = recurrent_input_width(t, mixer), channels = recurrent_channels(t);
  const bool space = mixer == Mixer::mamba2;
  PartParameters p{t.hidden * (in + r.values()), channels * r.conv + (space ? 3 : 2) * r.heads, 0};
  (space ? p.vectors : p.whole) += space ? r.values() : r.head_dim;
  if (r.conv_bias) p.vectors += channels;
  if (r.bias) p.vectors += in;
  if (r.bias) p.whole += t.hidden;
  return p;
}

// transformers' DeepseekV4Attention and its compressors: projections to queries and to the vector
// of a token, by way of the norms of the queries' latent and of that vector; a logit a head; the
// output in groups.  A compressor has two projections, a bias for each position and a norm.
PartParameters compressed_attention_parameters(const Transformer& t, const LayerKind& kind) {
  const int64_t q = t.heads * t.head_dim;
  PartParameters p;
  p.matrices = t.hidden * (t.q_rank + t.head_dim) + t.q_rank * q + q * t.out_rank +
               t.out_groups * t.out_rank * t.hidden;
  p.vectors = t.q_rank + t.head_dim + t.heads;
  if (kind.compression == 0) return p;
  const int64_t width = vectors_per_token(kind.compression) * t.head_dim;
  p.matrices += 2 * t.hidden * width;
  p.vectors += kind.compression * width + t.head_dim;
  return p;
}

int64_t stream_weights(const Transformer& t) {
  return t.streams * (t.streams + 2);
}

// Megatron-Core's HyperConnectionModule: beside the projection what is added to the weights, and a
// factor of each of the three kinds; at the end there is one kind.
PartParameters stream_parameters(const Transformer& t) {
  if (t.streams == 1) return {};
  return {stream_weights(t) * t.streams * t.hidden, 0, stream_weights(t) + 3};
}

PartParameters end_stream_parameters(const Transformer& t) {
  if (t.streams == 1) return {};
  return {t.streams * t.streams * t.hidden, 0, t.streams + 1};
}

// DeepSeek-V3.2 section 2.1, eq. 1; transformers' DeepseekV32Indexer: queries from the latent, keys
// of one head and their layer norm, a weight of each head.
PartParameters indexer_parameters(const Transformer& t) {
  if (!t.compressions.empty()) {  // DeepseekV4Indexer: keys are compressed as those of attention
    const int64_t width = 2 * t.index_dim;
    return {t.q_rank * t.index_heads * t.index_dim + t.hidden * (2 * width + t.index_heads), 0,
            kChosenCompression * width + t.index_dim};
  }
  return {t.q_rank * t.index_heads * t.index_dim + t.hidden * (t.index_dim + t.index_heads), 0,
          2 * t.index_dim};
}

int64_t qk_norm_parameters(const Transformer& t, int64_t q, int64_t key, int64_t head_dim) {
  if (!t.qk_norm || t.qk_norm_weights == QkNormWeights::none) return 0;
  return t.qk_norm_weights == QkNormWeights::of_heads ? q + key : 2 * head_dim;
}

int64_t recurrent_channels(const Transformer& t) {
  return t.recurrence.values() + 2 * t.recurrence.keys();
}

int64_t recurrent_input_width(const Transformer& t, Mixer mixer) {
  const int64_t of_head = mixer == Mixer::mamba2 ? 1 : 2;
  return recurrent_channels(t) + t.recurrence.values() + of_head * t.recurrence.heads;
}

int64_t expert_input(const Transformer& t) {
  return t.moe_latent > 0 ? t.moe_latent : t.hidden;
}

bool has_recurrent_layers(const Transformer& t) {
  return std::ranges::any_of(t.mixers, [](Mixer m) { return LayerKind{.mixer = m}.recurs(); });
}

int64_t layer_norms(const Transformer& t, const LayerKind& kind) {
  const int64_t all = branches(kind);
  const int64_t before = t.shared_norm && all == 2 ? 1 : all;
  return before + (t.branch_norms ? all : 0) + (kind.cross ? 1 : 0) + (kind.predicts ? 3 : 0) +
         (kind.experts && t.expert_norms ? 4 : 0);
}

int64_t branches(const LayerKind& kind) {
  return (kind.mixer != Mixer::none ? 1 : 0) + (kind.mlp ? 1 : 0);
}

bool chooses_latents(const Transformer& t) {
  return t.index_topk > 0 && t.kv_rank > 0;
}

// transformers' Gemma4TextRouter multiplies the weights of a token's experts with a scale of each.
int64_t router_vectors(const Transformer& t, const LayerKind& kind) {
  return (t.router_bias && !kind.hashed ? t.experts : 0) + (t.expert_norms ? t.experts : 0);
}

LayerShape own_shape(const Transformer& t) {
  const int64_t head_dim = t.kv_rank > 0 ? t.qk_nope_dim + t.qk_rope_dim : t.head_dim;
  return {t.heads,
          t.kv_heads,
          head_dim,
          t.kv_rank > 0 || t.v_dim > 0 ? t.v_dim : t.head_dim,
          t.attention_sinks,
          t.shared_values,
          t.ffn};
}

LayerShape layer_shape(const Transformer& t, const LayerKind& kind) {
  return kind.shape == 0 ? own_shape(t) : t.shapes[kind.shape - size_t{1}];
}

std::vector<LayerShape> all_shapes(const Transformer& t) {
  std::vector<LayerShape> all{own_shape(t)};
  all.insert(all.end(), t.shapes.begin(), t.shapes.end());
  return all;
}

int64_t projected_width(const LayerShape& s) {
  return s.heads * s.head_dim + s.kv_heads * (s.head_dim + (s.shared_values ? 0 : s.value_dim));
}

LayerKind layer_kind(const Transformer& t, int64_t layer) {
  STEPCAST_CHECK(layer >= 0 && layer < t.layers, fmt::format("no such layer: {}", layer));
  LayerKind kind;
  const auto at = static_cast<size_t>(layer);
  if (!t.mixers.empty()) kind.mixer = t.mixers[at];
  kind.mlp = t.bare.empty() || t.bare[at] == 0;
  kind.experts = kind.mlp && has_experts(t, layer);
  kind.indexes = t.index_topk > 0 && (t.indexers.empty() || t.indexers[at] != 0);
  kind.window = t.windows.empty() ? t.sliding_window : t.windows[static_cast<size_t>(layer)];
  kind.bidirectional = t.bidirectional || layer < t.encoder_layers;
  kind.cross = t.encoder_layers > 0 && layer >= t.encoder_layers;
  kind.shape = t.shape_of.empty() ? uint8_t{0} : t.shape_of[at];
  if (!t.compressions.empty()) {
    kind.compression = t.compressions[at];
    kind.indexes = kind.compression == kChosenCompression;
  }
  kind.hashed = kind.experts && layer < t.hashed_layers;
  return kind;
}

LayerKind prediction_kind(const Transformer& t) {
  LayerKind kind = layer_kind(t, t.layers - 1);
  kind.predicts = true;
  kind.indexes =
      t.index_topk > 0;  // of its own, even if the last layer shares the choice of another
  if (t.bare.empty()) return kind;
  // Where layers are one branch each, a module has two of them: attention, and experts if the model
  // has any (Nemotron 3: mtp_layers_block_type).
  kind.mixer = Mixer::attention;
  kind.mlp = true;
  kind.experts = t.experts > 0;
  return kind;
}

int64_t parameters(const Transformer& t) {
  return outer_parameters(t) + layers_count(t, t.experts).total();
}

int64_t active_parameters(const Transformer& t) {
  return outer_parameters(t) + layers_count(t, t.experts_per_token).total();
}

int64_t layer_parameters(const Transformer& t, int64_t layer) {
  return layer_count(t, layer_kind(t, layer), t.experts).total();
}

int64_t prediction_parameters(const Transformer& t) {
  return t.mtp_layers == 0 ? 0 : t.mtp_layers * module_count(t, t.experts).total();
}

// BERT's heads (Devlin et al. 2018; transformers' BertForPreTraining): h x h and a norm before the
// head, whose logits have a bias; a pooler h x h of the first token and two classes after it.
int64_t masked_head_parameters(const Transformer& t) {
  if (!t.masked_head) return 0;
  const int64_t dense = t.hidden * t.hidden + t.hidden;
  return 2 * dense + norm_parameters(t, t.hidden) + t.vocab + 2 * t.hidden + 2;
}

int64_t attended_width(const Transformer& t, const LayerShape& shape) {
  return chooses_latents(t) ? 2 * t.kv_rank + t.qk_rope_dim : shape.head_dim + shape.value_dim;
}

// The t-th query sees t / compression of the compressed keys, of which an indexer leaves
// index_topk. Without the causal mask it would see all of them, and a whole window.
double compressed_pairs(const Transformer& t, const LayerKind& kind, double seq, bool causal) {
  const double window = std::min(seq, static_cast<double>(kind.window));
  const double near = seq * window - (causal ? window * window / 2 : 0);
  if (kind.compression == 0) return near;
  const double tokens = static_cast<double>(kind.compression), all = seq / tokens;
  const double most = kind.indexes ? std::min(all, static_cast<double>(t.index_topk)) : all;
  return near + tokens * (all * most - (causal ? most * most / 2 : 0));
}

double forward_matmul_flops(const Transformer& t, double sequences, double seq, bool causal,
                            double encoder_seq) {
  const auto wide = [](int64_t n) { return static_cast<double>(n); };
  const double source = encoder_seq > 0 ? encoder_seq : seq;  // what cross attention sees
  const bool sparse = chooses_latents(t);
  const auto scored = static_cast<double>(2 * t.index_heads * t.index_dim);
  const auto state = static_cast<double>(2 * t.recurrence.values() * t.recurrence.state);
  const auto products = [&](const LayerKind& kind, const Count& count) {
    const bool encodes = t.encoder_layers > 0 && !kind.cross;
    const double tokens = encodes ? source : seq;
    double flops = 2 * tokens * wide(count.matrices);
    const LayerShape shape = layer_shape(t, kind);
    const auto pair = static_cast<double>(2 * shape.heads * attended_width(t, shape));
    if (kind.attends() && !t.compressions.empty()) {
      flops += pair * compressed_pairs(t, kind, tokens, causal);
    } else if (kind.attends()) {
      LayerKind seen = kind;
      if (sparse) seen.window = t.index_topk;
      // Full attention counts all pairs, but of sparse attention those that are chosen at most.
      flops +=
          pair * (sparse && !causal ? tokens * std::min(tokens, static_cast<double>(t.index_topk))
                                    : attention_pairs(seen, tokens, causal && !kind.bidirectional));
    }
    // An indexer scores all keys, or all compressed ones.
    LayerKind all = kind;
    all.window = 0;
    if (kind.indexes)
      flops += scored * attention_pairs(all, tokens, causal) /
               static_cast<double>(std::max<int64_t>(1, kind.compression));
    if (kind.recurs()) flops += tokens * state * (kind.mixer == Mixer::mamba2 ? 2 : 3);
    if (kind.cross) {
      // Keys and values are projected from the encoder's output.
      const auto kv = static_cast<double>(2 * shape.kv_heads * shape.head_dim * t.hidden);
      flops += 2 * (source - tokens) * kv + pair * tokens * source;
    }
    return flops;
  };
  double flops = 0;
  for (const auto& [kind, layers] : kinds_of(t))
    flops += wide(layers) * products(kind, layer_count(t, kind, t.experts_per_token));
  if (t.mtp_layers > 0) {
    const Count module = module_count(t, t.experts_per_token);
    flops += wide(t.mtp_layers) * products(prediction_kind(t), module);
  }
  return sequences * flops + head_matmul_flops(t, sequences, seq);
}

double training_matmul_flops(const Transformer& t, double sequences, double seq, bool causal,
                             double encoder_seq) {
  int64_t indexers = t.mtp_layers > 0 && prediction_kind(t).indexes ? t.mtp_layers : 0;
  for (const auto& [kind, layers] : kinds_of(t)) indexers += kind.indexes ? layers : 0;
  const auto read = static_cast<double>(indexers * indexer_parameters(t).matrices);
  return 3 * forward_matmul_flops(t, sequences, seq, causal, encoder_seq) -
         2 * sequences * seq * read;
}

double head_matmul_flops(const Transformer& t, double sequences, double seq) {
  const double one = 2 * sequences * seq * static_cast<double>(t.hidden * t.vocab);
  double flops = static_cast<double>(1 + t.mtp_layers) * one;
  flops += 2 * sequences * seq * static_cast<double>(end_stream_parameters(t).matrices);
  if (t.masked_head) flops += 2 * sequences * seq * static_cast<double>(t.hidden * t.hidden);
  return flops;
}

// ----------------------------------------------------------------------------------------- pruning
namespace {

int64_t kept(int64_t count, double removed) {
  if (removed <= 0 || count == 0) return count;
  const double left = static_cast<double>(count) * (1 - removed);
  return std::max<int64_t>(1, static_cast<int64_t>(left + 0.5));
}

int64_t kept_width(int64_t width, double removed) {
  constexpr int64_t kUnit = 128;
  if (removed <= 0) return width;
  if (width < kUnit) return kept(width, removed);
  return std::max<int64_t>(1, (kept(width, removed) + kUnit / 2) / kUnit) * kUnit;
}

}  // namespace

Transformer pruned(const Transformer& model, const Pruning& p) {
  Transformer t = model;
  if (p.experts > 0 && t.experts == 0)
    refuse("the model has no experts of which a share could be pruned");
  if (p.layers > 0 && t.encoder_layers > 0)
    refuse("layers of a model with an encoder cannot be pruned: which of the two would lose them?");
  t.layers = kept(t.layers, p.layers);
  t.dense_layers = std::min(t.dense_layers, t.layers);
  if (!t.windows.empty()) t.windows.resize(static_cast<size_t>(t.layers));
  if (!t.expert_layers.empty()) t.expert_layers.resize(static_cast<size_t>(t.layers));
  if (!t.mixers.empty()) t.mixers.resize(static_cast<size_t>(t.layers));
  if (!t.bare.empty()) t.bare.resize(static_cast<size_t>(t.layers));
  if (!t.indexers.empty()) t.indexers.resize(static_cast<size_t>(t.layers));
  if (!t.shape_of.empty()) t.shape_of.resize(static_cast<size_t>(t.layers));
  if (!t.compressions.empty()) t.compressions.resize(static_cast<size_t>(t.layers));
  const auto prune = [&p](int64_t& heads, int64_t& kv_heads, int64_t& ffn) {
    const int64_t group = heads / kv_heads;
    kv_heads = kept(kv_heads, p.heads);
    heads = kv_heads * group;
    ffn = kept_width(ffn, p.ffn);
  };
  prune(t.heads, t.kv_heads, t.ffn);
  for (LayerShape& s : t.shapes) prune(s.heads, s.kv_heads, s.ffn);
  t.moe_ffn = kept_width(t.moe_ffn, p.ffn);
  t.shared_ffn = kept_width(t.shared_ffn, p.ffn);
  t.hidden = kept_width(t.hidden, p.hidden);
  t.experts = kept(t.experts, p.experts);
  if (t.experts < t.experts_per_token)
    refuse(fmt::format("{} experts are left, but a token has {}", t.experts, t.experts_per_token));
  return t;
}

}  // namespace stepcast
