// SPDX-License-Identifier: Apache-2.0
// Shape of a transformer, in the vocabulary of Hugging Face's config.json.
//
// Plain data; what a field costs is decided in stage_passes.h.  Layers that differ say so by
// LayerKind.
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

namespace stepcast {

enum class Norm : uint8_t { layer_norm, rms_norm };
enum class Activation : uint8_t { gelu, silu, relu };
enum class Positions : uint8_t {
  learned,
  rotary,
  none,  // ALiBi and the like: nothing to look up or rotate
};

// What the norms of queries and keys multiply with.
enum class QkNormWeights : uint8_t {
  of_head,   // head_dim weights that all heads share (Qwen3, Gemma 3)
  of_heads,  // weights of each head's own (OLMo 2, MiniMax-M2, Cohere)
  none,      // nothing (Llama 4)
};

// What mixes the tokens of a layer with those before them.
enum class Mixer : uint8_t {
  attention,
  none,             // nothing: the layer is an MLP or experts alone (Nemotron-H)
  mamba2,           // a state space with a scalar decay (Dao and Gu 2024, arXiv 2405.21060)
  gated_delta_net,  // linear attention by the gated delta rule (Yang et al. 2024, arXiv 2412.06464)
};

// How a layer can differ from others of its model.  Layers of one kind cost the same.
struct LayerKind {
  bool experts = false;        // its MLP is a mixture of experts
  int64_t window = 0;          // keys each query sees; 0 = all
  bool bidirectional = false;  // every query sees every key, not those before it only
  bool cross = false;          // attends to the output of the encoder too
  bool predicts = false;       // multi-token prediction: joins two streams before, own loss after
  bool wide = false;           // its GEMMs are not in the plan's low precision
  Mixer mixer = Mixer::attention;
  bool mlp = true;          // an MLP or experts follow the mixer
  bool indexes = false;     // chooses the keys of its queries, and of later layers that do not
  uint8_t shape = 0;        // 0: the model's own sizes; else Transformer::shapes, counted from 1
  int64_t compression = 0;  // attends to one vector for each so many tokens, beside its window
  bool hashed = false;      // a table says which experts a token goes to, not the router

  bool attends() const { return mixer == Mixer::attention; }
  bool recurs() const { return mixer == Mixer::mamba2 || mixer == Mixer::gated_delta_net; }
  auto operator<=>(const LayerKind&) const = default;
};

// Compressed keys of so many tokens overlap, and an indexer chooses among them (DeepSeek-V4); those
// of more tokens do not.
inline constexpr int64_t kChosenCompression = 4;
// Vectors that a token is projected to for compressed keys: of its own and, where they overlap, of
// the next.
constexpr int64_t vectors_per_token(int64_t compression) {
  return compression == kChosenCompression ? 2 : 1;
}

// Sizes in which a layer can differ from others of its model.
struct LayerShape {
  int64_t heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;   // of queries and keys
  int64_t value_dim = 0;  // of values
  bool sinks = false;
  bool shared_values = false;
  int64_t ffn = 0;

  auto operator<=>(const LayerShape&) const = default;
};

// Sizes of the recurrent mixers.  Every head has a state of `state` x `head_dim` numbers.
struct Recurrence {
  int64_t heads = 0;
  int64_t head_dim = 0;
  int64_t groups = 0;  // heads that share what is written and read by: B and C of a state space,
                       // keys and queries of the delta rule
  int64_t state = 0;   // width of one of them
  int64_t conv = 0;    // tokens that the short causal convolution sees; 0: there is none
  bool conv_bias = false;
  bool bias = false;  // of the projections into and out of the mixer
  int64_t chunk = 0;  // tokens whose products a kernel makes at once
  int64_t values() const { return heads * head_dim; }
  int64_t keys() const { return groups * state; }
  bool operator==(const Recurrence&) const = default;
};

struct Transformer {
  std::string name;

  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;
  int64_t kv_heads = 0;       // = heads without grouped queries
  int64_t head_dim = 0;       // usually hidden / heads
  int64_t ffn = 0;            // width of the (dense) MLP
  int64_t vocab = 0;          // as the framework pads it
  int64_t max_positions = 0;  // rows of the learned position embedding
  bool gated = false;         // SwiGLU-like: two up projections
  bool tied = false;          // head = transposed word embedding
  Norm norm = Norm::layer_norm;
  Activation activation = Activation::gelu;
  Positions positions = Positions::learned;
  bool attention_bias = false;  // bias on the query, key, value projections
  bool attention_output_bias = false;
  bool mlp_bias = false;
  bool norm_bias = true;  // layer norms have a bias (RMS norms never do)
  bool qk_norm = false;   // RMS norm on queries and keys
  QkNormWeights qk_norm_weights = QkNormWeights::of_head;
  bool branch_norms = false;     // attention and MLP end in a norm, too (Gemma 2, GLM-4)
  bool attention_sinks = false;  // one learned logit a head (gpt-oss)
  bool shared_values = false;    // values are what keys are made of: no projection of their own
  bool value_norm = false;       // RMS norm without weights on values (Gemma 4)
  int64_t sliding_window = 0;    // keys each query sees; 0 = all
  std::vector<int64_t> windows;  // of each layer, where they differ; empty: sliding_window
  std::vector<Mixer> mixers;     // of each layer; empty: all attend
  std::vector<uint8_t> bare;     // of each layer: 1 = its mixer is alone; empty: MLPs everywhere
  Recurrence recurrence;         // of the layers whose mixer is one
  bool attention_gate = false;   // attention's output times a sigmoid of its input (Qwen3-Next)
  bool bidirectional = false;    // an encoder (BERT)
  bool parallel_block = false;   // attention and MLP read the same input, one sum after both
  bool shared_norm = false;      // ... and the same norm (Falcon-7B, GPT-J)
  int64_t encoder_layers = 0;    // the first of `layers` are an encoder; the others attend to its
                                 // output (T5)
  int64_t mtp_layers = 0;        // multi-token-prediction modules after the last layer
  int64_t relative_buckets = 0;  // rows of the table of biases by distance, one a head, which each
                                 // stack of layers has (T5)
  int64_t token_types = 0;       // rows of the embedding of token types (BERT's segments)
  bool embedding_norm = false;   // norm after the embedding instead of before the head (BERT)
  bool masked_head = false;  // dense layer, activation and norm before a head with a bias, and a
                             // classifier of the first token (BERT's pretraining)
  double attention_dropout = 0;  // probability; 0 = no kernel
  double hidden_dropout = 0;

  // Mixture of experts; 0 experts = dense.
  int64_t experts = 0;
  int64_t experts_per_token = 0;
  int64_t moe_ffn = 0;                 // width of one expert
  int64_t shared_ffn = 0;              // width of the shared experts together
  int64_t dense_layers = 0;            // leading layers without experts
  std::vector<uint8_t> expert_layers;  // of each layer: 1 = experts, where `dense_layers` cannot
                                       // say it; else empty
  int64_t router_groups = 0;      // experts are in this many groups, of which a token may use ...
  int64_t router_top_groups = 0;  // ... this many; 0 = any
  bool router_bias = false;       // correction bias of the router, one a expert
  bool shared_gate = false;       // a gate of its own in front of the shared experts (Qwen2-MoE)
  bool expert_norms = false;      // router and routed experts read the residual stream through a
                                  // norm of their own each; what comes from routed and from shared
                                  // experts has one, too (Gemma 4)
  int64_t moe_latent = 0;  // routed experts read and write vectors of this width, between two
                           // projections that all of them share (Nemotron 3); 0: `hidden`

  // Multi-head latent attention; kv_rank 0 = ordinary attention.
  int64_t q_rank = 0;  // 0: queries are projected directly
  int64_t kv_rank = 0;
  int64_t qk_nope_dim = 0, qk_rope_dim = 0;
  int64_t v_dim = 0;  // of ordinary attention, too, where it is not head_dim (MiMo-V2); else 0

  // Layers of other sizes than heads, kv_heads, head_dim, v_dim, attention_sinks, shared_values and
  // ffn say (Gemma 4, MiMo-V2, models that a search made of others: Puzzle, arXiv 2411.19146).
  std::vector<LayerShape> shapes;
  std::vector<uint8_t> shape_of;  // of each layer, as LayerKind::shape; empty: 0 everywhere

  // Latent attention to chosen keys (DeepSeek-V3.2: DeepSeek Sparse Attention); 0 = to all.
  int64_t index_topk = 0;   // keys that each query attends to
  int64_t index_heads = 0;  // of the indexer, which scores them
  int64_t index_dim = 0;
  std::vector<uint8_t> indexers;  // of each layer: 1 = has an indexer, 0 = takes the choice of the
                                  // layer before (GLM-5.2); empty: all have one

  // Attention to a window and to compressed keys (DeepSeek-V4): queries of rank q_rank, one vector
  // of head_dim a token as key and value of all heads, of which qk_rope_dim numbers are rotated.
  std::vector<int64_t> compressions;  // of each layer, as LayerKind has it; empty: other attention
  int64_t out_groups = 0, out_rank = 0;  // the output of a group of heads is projected to this rank
                                         // apart, all of them to `hidden` together
  int64_t streams = 1;        // residual streams (manifold-constrained hyper-connections)
  int64_t hashed_layers = 0;  // leading layers that are LayerKind::hashed
  bool operator==(const Transformer&) const = default;
};

// Parameters of a part of a layer.
struct PartParameters {
  int64_t matrices = 0;  // tokens are multiplied with them
  int64_t vectors = 0;   // biases, norms and the like, which tensor parallelism splits as matrices
  int64_t whole = 0;     // ... and those that each of its ranks holds
};
PartParameters recurrent_parameters(const Transformer& t, Mixer mixer);
// Of attention to compressed keys, without its indexer: every rank holds all of it.
PartParameters compressed_attention_parameters(const Transformer& t, const LayerKind& kind);
// Of what each branch of a layer has to read several residual streams and to write them; of what
// sums them after the last layer.  Nothing for one stream.
PartParameters stream_parameters(const Transformer& t);
PartParameters end_stream_parameters(const Transformer& t);
// Numbers a token that weigh the streams of a branch: n for what it reads, n for what it writes, n
// x n for how they are mixed.
int64_t stream_weights(const Transformer& t);
// Of what scores keys for sparse attention: every rank holds all of it.
PartParameters indexer_parameters(const Transformer& t);

// Weights of the norms of queries and keys, `q` and `key` wide, of heads of such a width.
int64_t qk_norm_parameters(const Transformer& t, int64_t q, int64_t key, int64_t head_dim);

// Width that a recurrent mixer projects its input to: a gate and values, two vectors of keys and,
// of each head, the step of a state space or both gates of the delta rule.
int64_t recurrent_input_width(const Transformer& t, Mixer mixer);
// Channels of its convolution.
int64_t recurrent_channels(const Transformer& t);
// Width of what routed experts read.
int64_t expert_input(const Transformer& t);
bool has_recurrent_layers(const Transformer& t);
// Norms of `hidden` in a layer, those of experts and of a prediction module among them.
int64_t layer_norms(const Transformer& t, const LayerKind& kind);
// Parameters that the router of a layer has beside its matrix: a correction bias where it chooses,
// a scale of each expert.
int64_t router_vectors(const Transformer& t, const LayerKind& kind);
// Branches of a layer: what mixes its tokens, and its MLP or experts.
int64_t branches(const LayerKind& kind);
// Latent attention whose keys an indexer chooses.
bool chooses_latents(const Transformer& t);
// Pairs of a query and a vector of its window or a compressed one that attention multiplies in one
// sequence of `seq` tokens.  REQUIRES: the model attends to compressed keys.
double compressed_pairs(const Transformer& t, const LayerKind& kind, double seq, bool causal);

// Sizes of the layers that have no shape of their own; of one kind of layers; of all that there
// are, the model's first.
LayerShape own_shape(const Transformer& t);
LayerShape layer_shape(const Transformer& t, const LayerKind& kind);
std::vector<LayerShape> all_shapes(const Transformer& t);
// Width of what queries, keys and values are projected to, by heads in a layer of this shape.
int64_t projected_width(const LayerShape& shape);

// REQUIRES: 0 <= layer < layers.
LayerKind layer_kind(const Transformer& t, int64_t layer);
// The kind of the layer in a multi-token-prediction module: that of the last layer (DeepSeek-V3,
// arXiv 2412.19437, section 2.2).
LayerKind prediction_kind(const Transformer& t);

// Exact number of parameters, tied embeddings counted once, multi-token-prediction modules not
// counted.
int64_t parameters(const Transformer& t);
// Parameters that one token is multiplied with: of the routed experts only `experts_per_token`.
int64_t active_parameters(const Transformer& t);
// Parameters of one layer, all its experts included.
int64_t layer_parameters(const Transformer& t, int64_t layer);
// Parameters of all multi-token-prediction modules.  Each has a layer, the projection of two
// streams to one, and three norms; embedding and head are the model's.  For tests, which count the
// parameters of lowered stages against it.
int64_t prediction_parameters(const Transformer& t);
// Parameters that Transformer::masked_head adds, the head itself not counted.
int64_t masked_head_parameters(const Transformer& t);

// ------------------------------------------------------------------------------------- model FLOPs
// FLOPs of the forward of `sequences` sequences of `seq` tokens: the products of the layers and the
// head, without the lookup of the embedding.  A multiply-add counts two; a backward takes twice as
// many.  Each query is multiplied with every key or, with `causal`, with the keys that it sees.
// With encoder and decoder `seq` is the decoder's; `encoder_seq` 0: the encoder's is the same.
// Recurrences count by their definition, token by token, however kernels cut them: of each head
// two products of state x head_dim in a state space (arXiv 2405.21060, eq. 1: the outer product
// that is written, and C h), three by the delta rule (arXiv 2412.06464, eq. 10: S k, the outer
// product, S q).  With index_topk a query is multiplied with that many keys in the latent space
// (DeepSeek-V3.2, section 2.1: MLA in its multi-query mode), and indexers with all that it sees.
//
// The closed forms of a step, 72 B s L h^2 (1 + s/6h + V/12Lh) (Korthikanti et al. 2022, eq. 7-8)
// and with full recompute 96 B s L h^2 (1 + s/6h + V/16Lh) (Narayanan et al. 2021, eq. 3), are
// three and four times this for heads = kv_heads, ffn = 4h.
double forward_matmul_flops(const Transformer& t, double sequences, double seq, bool causal,
                            double encoder_seq = 0);
// Elements that a head of a query is multiplied with for each key: in scores and in their sum of
// values, or both in the latent space.
int64_t attended_width(const Transformer& t, const LayerShape& shape);
// FLOPs of a training step, model FLOPs as MFU counts them: three times the forward, but for the
// gradients of what indexers read.  They learn by a loss of their own, from inputs that are cut off
// (x.detach(), qr.detach() in Megatron-Core's experimental_attention_variant/dsa.py).
double training_matmul_flops(const Transformer& t, double sequences, double seq, bool causal,
                             double encoder_seq = 0);
// How many of the forward's are the head's.
double head_matmul_flops(const Transformer& t, double sequences, double seq);

// ----------------------------------------------------------------------------------------- pruning
// A model with a part of it taken away: layers (depth), or heads, MLP and hidden width, experts.

// Shares that are removed, each from 0 to below 1.
struct Pruning {
  double layers = 0;
  double heads = 0;    // of key-value heads, each with the query heads that share it
  double ffn = 0;      // width of the MLP, of each expert, of the shared experts
  double hidden = 0;   // width of the residual stream; heads keep theirs
  double experts = 0;  // routed ones, in every layer
};

// What is kept is rounded to the nearest whole number, widths from 1,024 on to the nearest multiple
// of 128, as pruned models are cut for the sake of their GEMMs (Muralidharan et al. 2024, arXiv
// 2407.14679); one is always left.  The first layers stay.  Refuses (sim/diagnostic.h) to leave a
// token with fewer experts than it goes to, and to take layers from a model that has an encoder and
// a decoder, where the share does not say which of the two loses them.
Transformer pruned(const Transformer& model, const Pruning& pruning);

}  // namespace stepcast
