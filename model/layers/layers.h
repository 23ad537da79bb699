// SPDX-License-Identifier: Apache-2.0
// What each part of a model launches, op by op, in Megatron-LM's order.  The inside of
// passes/stage_passes.h: no file outside of model/ includes this, but tests.
//
// A part is a pair of free functions.  Its forward returns what it hands on and what its backward
// needs (a `Saved...` struct of tensors); its backward frees these tensors and turns the gradient
// of its output into that of its input.  Both are given a LayerContext: which rank's share of which
// layer is written, and where the ops go.  A layer's backward is read in two files: layer.cc has
// the order of norms, attention, MLP and residual, linear.cc what a linear layer launches.
//
// Widths and numbers of tokens are those of LayerContext::shard, one rank's share (shard.h).  In
// every Saved struct kNoTensor means that the part keeps no such tensor, or that it has been freed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/passes/pass_writer.h"
#include "model/passes/sharding.h"
#include "model/shard.h"

namespace stepcast {

// ----------------------------------------------------------------------------------------- context

// How a forward is run.
enum class ForwardMode : uint8_t {
  keep,       // everything the backward needs stays
  discard,    // under a checkpoint: only the input stays (Megatron's full recomputation)
  recompute,  // inside the backward of a checkpoint: kept, as workspace
};

// The encoder's output while the stages of a decoder are written: [tokens of `shard`, hidden].
struct EncoderOutput {
  const Shard& shard;
  TensorIndex gradient = kNoTensor;  // in a backward: the sum over the layers written so far
  TensorIndex tensor = kNoTensor;
};

// Which layer is written, and where its ops go.  A part changes nothing in it: what accumulates
// while ops are written lies in the passes, the buckets and the encoder's gradient.
struct LayerContext {
  const Shard& shard;     // model and plan, with the widths of this rank
  PassWriter& pass;       // the pass; of a split backward, the one of input gradients
  PassWriter& weights;    // where weight and bias gradients go: `pass`, or a pass that runs later.
                          // What they read stays allocated until then
  StageBuckets& buckets;  // gradients on their way to their reduction
  EncoderOutput* encoder = nullptr;  // what layers with LayerKind::cross attend to
  LayerKind kind{};                  // of the layer
  bool in_layer = false;             // false: embedding, final norm, head and loss
  // The gradients written here are only a part: other losses, or a tied embedding in this stage,
  // add to the same parameters later.
  bool adds_to_gradients = false;

  bool split() const { return &pass != &weights; }

  // The same place for other shapes, another kind of layer, a partial gradient.
  LayerContext with(const Shard& other) const {
    return {other, pass, weights, buckets, encoder, kind, in_layer, adds_to_gradients};
  }
  LayerContext with(const LayerKind& other) const {
    return {shard, pass, weights, buckets, encoder, other, in_layer, adds_to_gradients};
  }
  LayerContext with_more_gradients(bool more) const {
    return {shard, pass, weights, buckets, encoder, kind, in_layer, more};
  }
  // Begins layer number `layer` of the stage, or what lies outside the layers: ops appended from
  // now on to both passes belong there.
  LayerContext layer(int number, const LayerKind& of) const;
  LayerContext outside_layers() const;
};

// What a forward hands on, and what its backward needs.
template <class Saved>
struct Forward {
  TensorIndex output = kNoTensor;
  Saved saved{};
};

// ----------------------------------------------------------------------------------- recomputation

// Whether the plan computes this module again in the backward instead of keeping it (selective
// recomputation) ...
bool recomputes(const LayerContext& c, bool RecomputeModules::*module);
// ... and this is the forward that drops it.
bool drops(const LayerContext& c, ForwardMode mode, bool RecomputeModules::*module);
// Per-op recomputation (PyTorch's selective checkpointing as torchtitan uses it) keeps attention
// and the outputs of every second matrix product of a layer: the first, the third ...  Whether this
// is the forward that keeps them, or the one in the backward that repeats the rest.
bool keeps_alternate_products(const LayerContext& c, ForwardMode mode);
bool repeats_alternate_products(const LayerContext& c, ForwardMode mode);
// The category of what a forward in this mode keeps.
MemoryCategory saved(ForwardMode mode);

// ----------------------------------------------------------------------- linear layers (linear.cc)

// Whether the linear layers of this layer multiply in the plan's low-precision format.
bool is_low(const LayerContext& c);
// ... and a norm in front of a linear layer writes that format itself.
bool norm_quantizes(const LayerContext& c);

// Sum over the tensor-parallel group that a row-parallel layer leaves to be made: [tokens, width].
struct PartialSum {
  TensorIndex tensor = kNoTensor;
  bool exchanged = false;  // its pieces have travelled already, while the product was made
};

// Gradient of a branch's output, [own_tokens, hidden].
struct BranchGradient {
  TensorIndex tensor = kNoTensor;
  bool own = false;   // to be freed by the branch; else it is the residual stream's gradient
  bool bias = false;  // a bias gradient reads it too
};

// A gather of the saved, sequence-split input of a column-parallel layer; its weight gradient reads
// the result.
struct InputGather {
  uint32_t op = 0;
  TensorIndex tensor = kNoTensor;
};

// A tensor that is converted to low precision: what decides which kernels do it.
struct Conversion {
  bool gathered = false;   // each rank holds a part of it, which is gathered after the conversion
  bool converted = false;  // it is in the format already; only a transposed copy may be missing
  int64_t experts = 1;     // it holds the rows of this many experts, each converted by itself
  int64_t busiest = 0;  // rows on the rank with most, for which all make room; 0: as many as here
  std::vector<Work>* awaited = nullptr;  // where that rank's longer kernels are noted (experts.cc)
};

// What a product of weights is, beside its shape.
struct ProductTraits {
  bool wide = false;  // not in low precision, whatever the layer is in
  OpRole role = OpRole::ordinary;
};

// A column-parallel layer gathers `input` [own_tokens, hidden] and makes [tokens, out].
// With low-precision GEMMs `input` becomes the quantized copy that the weight gradient reads, and
// the wide tensor is freed; given `copy`, that becomes the quantized one and `input` stays.
// `converted`: `input` is in low precision already.
struct LinearInput {
  bool converted = false;
  TensorIndex* copy = nullptr;
};
TensorIndex column_parallel_forward(const LayerContext& c, ForwardMode mode,
                                    const std::string& label, const std::string& output_label,
                                    TensorIndex& input, int64_t out, LinearInput how = {});
// A row-parallel layer makes a partial sum of `input` [tokens, in], which reduce() completes.
PartialSum row_parallel_forward(const LayerContext& c, ForwardMode mode, const std::string& label,
                                TensorIndex& input, int64_t in, TensorIndex* copy = nullptr);
// The backward of both: the gradient of the layer's input, of a column-parallel one reduced.
TensorIndex column_parallel_backward(const LayerContext& c, const std::string& label,
                                     TensorIndex& gradient, TensorIndex& input, int64_t out,
                                     InputGather gathered = {}, OpRole role = OpRole::ordinary);
TensorIndex row_parallel_backward(const LayerContext& c, const std::string& label,
                                  BranchGradient branch, TensorIndex& input, int64_t in);
// Gathers the saved input of a column-parallel layer for its weight gradient.
InputGather gather_input(const LayerContext& c, const std::string& label);
// The same ahead of the layer's backward, if it is split and the gather is to run beside what the
// weight pass does before; else does nothing.
InputGather gather_input_early(const LayerContext& c, const std::string& label);

// All-gather of [tokens, width] over the tensor-parallel group, waited for.
TensorIndex gather(const LayerContext& c, const std::string& label, int64_t width);
// The same without a tensor of its own: the op, in `pass`.
uint32_t start_gather(const LayerContext& c, PassWriter& pass, const std::string& label,
                      int64_t width);
// Completes `partial` [tokens, width]; returns what is left of it on this rank.
TensorIndex reduce(const LayerContext& c, const std::string& label, PartialSum partial,
                   int64_t width, MemoryCategory category = MemoryCategory::workspace);

// The GEMM of a linear layer in the layer's format, with what has to precede it.
void product(const LayerContext& c, PassWriter& pass, const std::string& label, const Work& gemm,
             OpRole role = OpRole::ordinary);
// ... the work alone.
Work linear_work(const LayerContext& c, Work gemm);
void weight_gradient(const LayerContext& c, const std::string& label, const Work& gemm,
                     ProductTraits traits = {});
// Bytes of a gradient of weights [rows, columns] on its way to the main one.
Bytes unadded_gradient(const LayerContext& c, int64_t rows, int64_t columns);
// Frees the gradient of weights that the weight pass has just added to the main one, or leaves it
// to whoever holds it longer (ProductGradients).
void hand_over_gradient(const LayerContext& c, TensorIndex& gradient);
void bias_gradient(const LayerContext& c, const std::string& label, int64_t rows, int64_t width);
// The op appended last to the weight pass has made gradients of this many parameters.
void reduce_after(const LayerContext& c, int64_t parameters);

// Launches the conversion of an input [rows, width] to low precision; nothing where the layer is
// not in it.  `input` becomes the copy that the weight gradient reads, its wide tensor is freed;
// given `copy`, that becomes it and `input` stays.  Returns a copy that the forward product alone
// reads, to be freed after it.
TensorIndex quantize_input(const LayerContext& c, ForwardMode mode, const std::string& label,
                           TensorIndex& input, int64_t rows, int64_t width,
                           TensorIndex* copy = nullptr, const Conversion& how = {});
// The same of a gradient: `gradient` becomes what the weight gradient reads; what is returned is
// read by the input gradient's product alone.  `own`: the wide tensor is to be freed.
TensorIndex quantize_gradient(const LayerContext& c, const std::string& label,
                              TensorIndex& gradient, bool own, int64_t rows, int64_t width,
                              const Conversion& how = {});
// What delayed scaling does at the end of a pass of this many layers, with `tensors` scales each.
void update_scales(const LayerContext& c, int64_t layers, int tensors);

// ------------------------------------------------------- norms and the residual stream (layer.cc)

struct NormOutput {
  TensorIndex output = kNoTensor;
  TensorIndex statistics = kNoTensor;  // of each row, for the backward
};
// `label`: kInputNorm is the norm before attention or what takes its place.  `into_linear`: a
// column-parallel layer reads the output, and nothing else does.
inline constexpr const char* kInputNorm = "norm 1";
NormOutput norm_forward(const LayerContext& c, ForwardMode mode, const std::string& label,
                        int64_t rows, int64_t width, bool into_linear = false);
void norm_backward(const LayerContext& c, const std::string& label, int64_t rows, int64_t width);
// A norm's output that a forward did not keep, once more; does nothing if it is there.
void need_norm(const LayerContext& c, const std::string& label, TensorIndex& output,
               bool into_linear = false);
// Bias, dropout and sum with the residual stream.  Frees the branch; returns the new stream.
TensorIndex add_residual(const LayerContext& c, ForwardMode mode, const std::string& label,
                         TensorIndex& branch, TensorIndex& mask, bool bias);
// The gradient of all that for the branch.  The residual part is `gradient` itself, unless a later
// weight gradient needs it as it is now: then `gradient` becomes kNoTensor.
BranchGradient branch_gradient(const LayerContext& c, const std::string& label,
                               TensorIndex& gradient, TensorIndex& mask, bool bias);
// Sum of the branch's input gradient and the residual part.
void add_residual_gradient(const LayerContext& c, const std::string& label, TensorIndex& branch,
                           TensorIndex& gradient);

// ------------------------------------------------------------- core of attention (attention.cc)

// From queries, keys and values to the context that the projection reads.
struct SavedCore {
  TensorIndex probabilities = kNoTensor, dropout_mask = kNoTensor, dropped = kNoTensor;  // unfused
  TensorIndex converted = kNoTensor;    // probabilities that were computed in fp32, in 16 bits
  TensorIndex log_sum_exp = kNoTensor;  // fused
  TensorIndex exchanged = kNoTensor;    // some heads of more tokens, if heads are exchanged
  TensorIndex context = kNoTensor;
  TensorIndex context_again = kNoTensor;  // of a recomputed core; the projection reads the first
};
// `keep`: for the backward.  `replaced`: the queries, keys and values; freed if the exchanged ones
// are kept instead.
SavedCore core_forward(const LayerContext& c, ForwardMode mode, bool keep, TensorIndex& replaced);
// Frees `gradient` of the context and `qkv`; returns the gradient of queries, keys and values.
TensorIndex core_backward(const LayerContext& c, SavedCore& t, TensorIndex& gradient,
                          TensorIndex& qkv);
// The same core a second time: `t` gets what a forward that keeps nothing left out.
void recompute_core(const LayerContext& c, SavedCore& t, TensorIndex& replaced);

// -------------------------------------------- one layer: attention, then MLP (layer.cc and others)

// Both latents of latent attention and their norms; the part of the keys that has positions, of all
// tokens; the quantized input of a projection, if another one reads it too.
struct SavedLatent {
  TensorIndex q_down = kNoTensor, q_statistics = kNoTensor, q_normed = kNoTensor;
  TensorIndex kv_down = kNoTensor, kv_statistics = kNoTensor, kv_normed = kNoTensor;
  TensorIndex position_key = kNoTensor;
  TensorIndex input_low = kNoTensor;
};

// What an indexer keeps: its queries, keys and the weights of its heads, for all tokens, and which
// keys each query attends to.
struct SavedIndexer {
  TensorIndex queries = kNoTensor, keys = kNoTensor, weights = kNoTensor;
  TensorIndex gathered = kNoTensor;    // what they are projected from, where a sequence is split
  TensorIndex statistics = kNoTensor;  // of the keys' norm
  TensorIndex chosen = kNoTensor;
  TensorIndex target = kNoTensor;  // what its loss compares its scores of them with
  // Of compressed keys: the weights they are summed by, and the sums before and after their norm.
  TensorIndex gates = kNoTensor, compressed = kNoTensor;
};

// What makes compressed keys: both projections' outputs, sums before their norm; and the quantized
// input of the projection to keys, if others read it too.
struct SavedCompressor {
  TensorIndex projected = kNoTensor, compressed = kNoTensor, statistics = kNoTensor;
  TensorIndex key_low = kNoTensor;
};

// Of a branch that reads a weighted sum of several residual streams: the weights, the sum, which
// its norm reads, and what the branch has made.
struct SavedStreams {
  TensorIndex weights = kNoTensor, sum = kNoTensor, branch = kNoTensor;
};

struct SavedAttention {
  TensorIndex input = kNoTensor;  // the residual stream before it; freed by the backward
  TensorIndex norm_statistics = kNoTensor, norm_output = kNoTensor;
  SavedLatent latent{};
  SavedStreams streams{};
  SavedIndexer indexer{};                  // LayerKind::indexes
  SavedCompressor compressor{};            // LayerKind::compression
  TensorIndex queries_before = kNoTensor;  // they were absorbed (attends_to_chosen) or normed
                                           // (attends_compressed)
  TensorIndex qkv = kNoTensor;
  TensorIndex qk_normed = kNoTensor;
  TensorIndex rotated = kNoTensor;  // queries and keys, if operators rotate them (Kernels)
  SavedCore core{};
  TensorIndex context_copy = kNoTensor;  // that the projection reads, where it is not the core's
                                         // (Kernels::context_copies, a gate, an up projection)
  TensorIndex context_low = kNoTensor;   // quantized for the projection, if both are needed
  TensorIndex context_kept =
      kNoTensor;               // the context in Precision::attention_output, instead of it
  bool context_alone = false;  // without context_low, which the backward makes
  TensorIndex mask = kNoTensor;
  TensorIndex kept_qkv = kNoTensor;  // queries and values that per-op recomputation keeps
  TensorIndex output = kNoTensor;    // of the projection, as long as the layer's forward runs
};

// A recurrent mixer in place of attention.
struct SavedRecurrence {
  TensorIndex norm_statistics = kNoTensor, norm_output = kNoTensor;
  TensorIndex projected = kNoTensor;  // gate, values, keys, and what each head decays by
  TensorIndex convolved = kNoTensor;
  // Of the delta rule: normed queries and keys of every head, with values and gate; the inverse of
  // each chunk's triangle.
  TensorIndex spread = kNoTensor, inverse = kNoTensor;
  TensorIndex decays = kNoTensor;
  TensorIndex scanned = kNoTensor, gate_statistics = kNoTensor;
  TensorIndex gated = kNoTensor;  // what the projection out reads
  TensorIndex mask = kNoTensor;
};

// Of a decoder's layer to the output of the encoder.
struct SavedCrossAttention {
  TensorIndex input = kNoTensor;
  TensorIndex norm_statistics = kNoTensor, norm_output = kNoTensor;
  TensorIndex queries = kNoTensor;
  TensorIndex encoded_low = kNoTensor;  // quantized output of the encoder ...
  TensorIndex encoded_kv = kNoTensor;   // ... and the keys and values projected from it
  SavedCore core{};
  TensorIndex context_low = kNoTensor;
  TensorIndex mask = kNoTensor;
};

struct SavedMlp {
  TensorIndex input = kNoTensor;
  SavedStreams streams{};
  TensorIndex norm_statistics = kNoTensor, norm_output = kNoTensor;
  TensorIndex up = kNoTensor, activated = kNoTensor;
  TensorIndex gated = kNoTensor;  // the gate's activation, where the product is apart
  TensorIndex mask = kNoTensor;
  // Per-op recomputation: outputs of the gate (or all of fc1) and of fc2 that it keeps.
  TensorIndex kept_up = kNoTensor, kept_down = kNoTensor;
};

// A mixture of experts in place of the MLP.
struct SavedExperts {
  TensorIndex input = kNoTensor;
  SavedStreams streams{};
  TensorIndex norm_statistics = kNoTensor, norm_output = kNoTensor;
  // Transformer::expert_norms: of the router's input and of the experts'; both outputs' inputs.
  TensorIndex router_normed = kNoTensor, router_statistics = kNoTensor;
  TensorIndex rows_statistics = kNoTensor;
  TensorIndex routed_output = kNoTensor, routed_statistics = kNoTensor;
  TensorIndex shared_statistics = kNoTensor;
  TensorIndex scores = kNoTensor, map = kNoTensor;    // of the router; where copies went
  TensorIndex rows = kNoTensor;                       // tokens in the order of their experts
  TensorIndex up = kNoTensor, activated = kNoTensor;  // of the experts
  TensorIndex shared_low = kNoTensor;                 // quantized input of the shared experts
  TensorIndex shared_up = kNoTensor, shared_activated = kNoTensor;
  TensorIndex combined = kNoTensor;  // sums in the latent of the experts (Transformer::moe_latent)
  bool up_kept = false, shared_up_kept = false;  // they are in MoeRun::activation_input
  TensorIndex shared_output = kNoTensor;         // of shared experts with a gate or a norm
  TensorIndex mask = kNoTensor;
};

struct SavedLayer {
  SavedAttention attention;    // its input is the layer's, whatever mixes the tokens
  SavedRecurrence recurrence;  // LayerKind::recurs()
  SavedCrossAttention cross;   // LayerKind::cross
  SavedMlp mlp;                // a dense layer
  SavedExperts experts;        // LayerKind::experts
};

// recurrence.cc.  The backward frees `input`, the layer's.
Forward<SavedRecurrence> recurrence_forward(const LayerContext& c, ForwardMode mode);
void recurrence_backward(const LayerContext& c, SavedRecurrence& t, TensorIndex& input,
                         TensorIndex& gradient);

// `input` is the residual stream; it stays with the layer (SavedAttention::input).  `before`: what
// an earlier forward of the same layer kept, when this one recomputes.
Forward<SavedLayer> layer_forward(const LayerContext& c, ForwardMode mode, TensorIndex input,
                                  SavedLayer before = {});
// `gradient` of the output becomes that of the input.  `recompute_cores`: the forward did not keep
// the cores of attention, which are computed again here.
void layer_backward(const LayerContext& c, SavedLayer& t, TensorIndex& gradient,
                    bool recompute_cores);
// Full recomputation with Plan::recompute_distribute: each rank keeps a share of a unit's input,
// and gathers the others' before it computes again.  Do nothing otherwise.
void split_checkpoint(const LayerContext& c, TensorIndex& input);
void gather_checkpoint(const LayerContext& c, TensorIndex& input);
// Selective recomputation of all that the forward of a layer dropped.
void recompute_selected(const LayerContext& c, SavedLayer& t);

// residual_streams.cc: several residual streams (Transformer::streams), rows of all of them side by
// side: [own_tokens, streams x hidden].
bool has_streams(const LayerContext& c);
// Before the first layer, in place of the rows [own_tokens, hidden]; and the gradient back.
TensorIndex spread_streams(const LayerContext& c, TensorIndex rows);
void spread_streams_backward(const LayerContext& c, TensorIndex& gradient);
// Before the norm of a branch, which reads `t.sum`, and after the branch, in place of add_residual.
void read_streams(const LayerContext& c, ForwardMode mode, SavedStreams& t);
TensorIndex write_streams(const LayerContext& c, ForwardMode mode, const std::string& label,
                          TensorIndex& branch, SavedStreams& t);
// Back, in place of branch_gradient and add_residual_gradient.  `d`: the gradient of `t.sum`;
// `row`: the streams before the branch, which are freed.
BranchGradient write_streams_backward(const LayerContext& c, const std::string& label,
                                      TensorIndex& gradient, SavedStreams& t, bool bias);
void read_streams_backward(const LayerContext& c, TensorIndex& d, TensorIndex& gradient,
                           SavedStreams& t, TensorIndex& row);
// After the last layer: `t.sum`, and its gradient back to that of the streams.
void join_streams(const LayerContext& c, SavedStreams& t);
void join_streams_backward(const LayerContext& c, TensorIndex& gradient, SavedStreams& t,
                           TensorIndex& row);

// latent_attention.cc.  A linear layer that every tensor-parallel rank holds whole, of its own
// tokens: [own_tokens, out]; `copy` as in quantize_input.
TensorIndex duplicated_forward(const LayerContext& c, ForwardMode mode, const std::string& label,
                               TensorIndex& input, int64_t out, TensorIndex* copy);
TensorIndex duplicated_backward(const LayerContext& c, const std::string& label,
                                TensorIndex& gradient, TensorIndex& input, int64_t out);
// Shapes of the up projection from a latent of this width.
Shard from_latent(const Shard& s, int64_t width);
// Fills `t.latent` and `t.qkv` from `t.norm_output`.
void latent_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t);
// Returns the gradient of the norm's output.
TensorIndex latent_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient_qkv);
// Queries, keys and values that the forward did not keep, once more from the latents; does nothing
// if they are there.
void need_queries(const LayerContext& c, SavedAttention& t);
// The input of the down projections that the forward did not keep; does nothing if it is there.
void need_latent_input(const LayerContext& c, SavedAttention& t);

// sparse_attention.cc: attention of queries to the keys that an indexer has chosen for each.
// Queries are absorbed into the latent space, of which all heads share the keys.
bool attends_to_chosen(const LayerContext& c);
// From the latents to absorbed queries (`t.qkv`), the indexer's choice among that; and from the
// gradient of what attention read back to those of the queries [tokens, q] and of the latents
// [own_tokens, kv_rank + qk_rope_dim].
void absorb_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t,
                    TensorIndex& query_input);
struct AbsorbedGradients {
  TensorIndex queries = kNoTensor, latents = kNoTensor;
};
AbsorbedGradients absorb_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient);
// From there to the context that the projection reads (`t.context_copy`), and back to the gradient
// of what attention read.
void chosen_core_forward(const LayerContext& c, ForwardMode mode, bool keep, SavedAttention& t);
TensorIndex chosen_core_backward(const LayerContext& c, SavedAttention& t, TensorIndex& gradient);
void recompute_chosen_core(const LayerContext& c, SavedAttention& t);
// The shapes of attention in the latent space.
Shard latent_shard(const Shard& s);
// Keys that an indexer leaves of those that the last query sees.
int64_t left_keys(const Shard& s, const LayerKind& kind);
// `count` products of the same size, side by side.
Work products(Work gemm, int64_t count);
// The indexer of a layer: its choice; its loss, after attention; the gradients of its own layers.
// None goes back to what it reads.
void index_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t);
void index_loss(const LayerContext& c, ForwardMode mode, SavedAttention& t);
void index_backward(const LayerContext& c, SavedAttention& t);

// compressed_attention.cc: attention to a window and to compressed keys.  From `t.norm_output` to
// `t.qkv`; from there to what the projection reads, `t.context_copy` [tokens, compressed_context];
// and back to the gradients of `t.qkv` and of the norm's output.
bool attends_compressed(const LayerContext& c);
int64_t compressed_context(const Shard& s);
void compressed_forward(const LayerContext& c, ForwardMode mode, SavedAttention& t);
void compressed_core_forward(const LayerContext& c, ForwardMode mode, bool keep, SavedAttention& t);
void recompute_compressed_core(const LayerContext& c, SavedAttention& t);
TensorIndex compressed_core_backward(const LayerContext& c, SavedAttention& t,
                                     TensorIndex& gradient);
TensorIndex compressed_backward(const LayerContext& c, SavedAttention& t,
                                TensorIndex& gradient_qkv);
// The input of its projections that the forward did not keep; does nothing if it is there.
void need_compressed_input(const LayerContext& c, SavedAttention& t);

// cross_attention.cc.  REQUIRES: c.encoder.
Forward<SavedCrossAttention> cross_attention_forward(const LayerContext& c, ForwardMode mode,
                                                     TensorIndex input);
void cross_attention_backward(const LayerContext& c, SavedCrossAttention& t, TensorIndex& gradient,
                              bool recompute_core_first);
void recompute_cross_core(const LayerContext& c, SavedCrossAttention& t);

// Each token goes to `experts_per_token` experts: that many copies of it are made.  Experts lie on
// the ep ranks in blocks, each split over etp.  Copies are counted in rows of the matrix that an
// expert multiplies.

struct ExpertShard {
  int64_t local = 1;    // experts that this rank holds
  int64_t ffn = 0;      // width of each: 1 / etp of the expert
  int64_t up = 0;       // output width of an expert's first product: ffn, or 2 ffn when gated
  int64_t tokens = 0;   // that this rank's router sees
  int64_t copies = 0;   // of these tokens that reach an expert (or pad its input)
  int64_t sent = 0;     // rows that this rank sends: all copies, or with DeepEP one for each rank
                        // that a token goes to
  int64_t rows = 0;     // that the experts of a rank multiply, in the mean over the ranks
  int64_t busiest = 0;  // ... on the rank that gets most
  // Experts of a rank whose weights are read because some token chose them, in the mean over the
  // ranks.  In training these are all.  A forward alone may have few tokens; each goes to an expert
  // with a probability of experts_per_token times the expert's share, independently of the rest.
  int64_t met = 1;
};
ExpertShard expert_shard(const Shard& shard);

// The share of all copies that each expert gets; the shares sum to 1.  No expert gets more than one
// copy of a token: what a share has above 1 / experts_per_token is spread over the other experts.
// Routing::zipf deals the experts out in the order of their popularity, one to each rank in turn;
// Routing::shares lists them as they lie on the ranks.
std::vector<double> expert_shares(const Transformer& model, const Plan& plan);

// experts.cc
Forward<SavedExperts> experts_forward(const LayerContext& c, ForwardMode mode, TensorIndex input);
void experts_backward(const LayerContext& c, SavedExperts& t, TensorIndex& gradient);

// --------------------------------------------- before the first layer and after the last one

// embedding.cc
struct SavedEmbedding {
  TensorIndex mask = kNoTensor;
  TensorIndex normed = kNoTensor, norm_statistics = kNoTensor;  // input of a norm
};
// `rows`: with Plan::vocabulary the word embeddings have been looked up before.
Forward<SavedEmbedding> embedding_forward(const LayerContext& c, TensorIndex rows = kNoTensor);
void embedding_backward(const LayerContext& c, SavedEmbedding& t, TensorIndex& gradient);
// Word embedding of all tokens: [own_tokens, hidden].
TensorIndex embedding_rows(const LayerContext& c);
// Its gradient, for a rank that holds a share of the vocabulary (G of Plan::vocabulary).
void vocabulary_embedding_backward(const LayerContext& c);

// head.cc
struct SavedFinalNorm {
  TensorIndex input = kNoTensor;
  TensorIndex statistics = kNoTensor;
};
Forward<SavedFinalNorm> final_norm_forward(const LayerContext& c, const std::string& label,
                                           TensorIndex input);
// In place of the gradient of its output comes that of its input.
void final_norm_backward(const LayerContext& c, const std::string& label, SavedFinalNorm& t);

struct SavedHead {
  TensorIndex input = kNoTensor;   // what the head multiplies
  TensorIndex logits = kNoTensor;  // to the end of the backward: Kernels::held_logits
  // Of a masked head (BERT): the input of its dense layer, and that layer's outputs.
  TensorIndex dense_input = kNoTensor, transformed = kNoTensor, activated = kNoTensor;
  TensorIndex norm_statistics = kNoTensor;
  TensorIndex softmax = kNoTensor;
  TensorIndex gradient = kNoTensor;  // of a shared vocabulary's input, made before the backward
};
// Head and loss.  With Plan::vocabulary they are left to vocabulary_forward() and
// vocabulary_backward().
SavedHead loss_forward(const LayerContext& c, TensorIndex input);
// Returns the gradient of what the head read.  `more`: the gradient of the head's weights is not
// complete with it, because other losses or a tied embedding in this stage add to it.
TensorIndex loss_backward(const LayerContext& c, SavedHead& t, bool more);
// S and T of a rank that holds a share of the vocabulary.  `receives`: the head's input comes from
// another rank.
void vocabulary_forward(const LayerContext& c, SavedHead& t, bool receives);
void vocabulary_backward(const LayerContext& c, SavedHead& t);

// prediction.cc: a multi-token-prediction module.
struct SavedPrediction {
  SavedEmbedding embedding;
  TensorIndex embedded = kNoTensor, previous = kNoTensor;  // inputs of its two first norms
  TensorIndex embedded_statistics = kNoTensor, previous_statistics = kNoTensor;
  TensorIndex joined = kNoTensor;  // both side by side
  SavedLayer layer;
  SavedFinalNorm end;
};
// Owns `previous`; returns the stream it predicts from.
Forward<SavedPrediction> prediction_forward(const LayerContext& c, ForwardMode mode,
                                            TensorIndex previous);
// In: the gradient of that stream.  Returns that of `previous`.  `more`: other gradients are added
// to that of the stage's word embedding later.
struct PredictionBackward {
  bool recompute = false, recompute_cores = false;
  bool more = false;
};
TensorIndex prediction_backward(const LayerContext& c, SavedPrediction& t, TensorIndex& gradient,
                                const PredictionBackward& how);
// All of a module that full recomputation leaves out of the forward.
void recompute_prediction(const LayerContext& c, SavedPrediction& t);

}  // namespace stepcast
