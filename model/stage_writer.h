// SPDX-License-Identifier: Apache-2.0
// Writes the ops of layers, embedding and head into passes; used by layer_ops.cc alone.
//
// Each function appends what one part of the model launches, in Megatron-LM's order.  Forward
// functions fill a
// `...Tensors` struct with what they keep for the backward pass; backward functions free it.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "model/experts.h"
#include "model/gradient_buckets.h"
#include "model/pass_writer.h"
#include "model/shard.h"

namespace stepcast {

// How a forward is run.
enum class ForwardMode : uint8_t {
  keep,       // everything the backward needs stays
  discard,    // under a checkpoint: only the input stays (Megatron's full recomputation)
  recompute,  // inside the backward of a checkpoint: kept, as workspace
};

// Of a layer with experts; `copies` and so on as in ExpertShard.
struct ExpertTensors {
  TensorIndex scores = kNoTensor, map = kNoTensor;    // of the router; where copies went
  TensorIndex input = kNoTensor;                      // tokens in the order of their experts
  TensorIndex up = kNoTensor, activated = kNoTensor;  // of the experts
  TensorIndex shared_low = kNoTensor;                 // quantized input of the shared experts
  TensorIndex shared_up = kNoTensor, shared_activated = kNoTensor;
  TensorIndex gate = kNoTensor, shared_output = kNoTensor;  // of a gated shared expert
};

// Of latent attention: both latents and their norms; the part of the keys that has positions, of
// all tokens; the quantized input of a projection, if another one reads it too.
struct LatentTensors {
  TensorIndex q_down = kNoTensor, q_statistics = kNoTensor, q_normed = kNoTensor;
  TensorIndex kv_down = kNoTensor, kv_statistics = kNoTensor, kv_normed = kNoTensor;
  TensorIndex position_key = kNoTensor;
  TensorIndex input_low = kNoTensor;
};

// Of what a tensor that is quantized is a part, and in how many it is.
struct QuantizedParts {
  bool gathered = false;  // a share of one that is gathered afterwards
  int64_t experts = 1;    // rows of so many experts, each a tensor of its own
  int64_t busiest = 0;    // rows on the rank with most, which all make room for; 0: those here
};

struct LayerTensors {
  TensorIndex input = kNoTensor;  // owned by the layer: freed by its backward
  TensorIndex norm1_statistics = kNoTensor, norm1_output = kNoTensor;
  LatentTensors latent;
  TensorIndex qkv = kNoTensor;
  TensorIndex qk_normed = kNoTensor;
  TensorIndex probabilities = kNoTensor, dropout_mask = kNoTensor, dropped = kNoTensor;  // unfused
  TensorIndex log_sum_exp = kNoTensor;                                                   // fused
  TensorIndex exchanged = kNoTensor;  // for some heads of more tokens: what the core works on
  TensorIndex context = kNoTensor;
  TensorIndex context_low = kNoTensor;    // quantized for the projection, if both are needed
  TensorIndex context_again = kNoTensor;  // of a recomputed core; the projection reads the first
  TensorIndex mask1 = kNoTensor;
  TensorIndex residual = kNoTensor;  // after attention
  TensorIndex norm2_statistics = kNoTensor, norm2_output = kNoTensor;
  TensorIndex up = kNoTensor, activated = kNoTensor;
  TensorIndex gated = kNoTensor;  // the gate's activation, where the product is apart
  TensorIndex mask2 = kNoTensor;
  // Outputs of matrix products that per-op recomputation keeps: of queries and values, of the gate
  // (or the whole) of fc1, of fc2.
  TensorIndex kept_qkv = kNoTensor, kept_up = kNoTensor, kept_down = kNoTensor;
  ExpertTensors experts;
  // Attention to the encoder's output, none or one: `input` is the residual stream before it, `qkv`
  // its queries, `encoded_kv` keys and values, `encoded_low` what they were projected from if that
  // is quantized.
  std::vector<LayerTensors> cross{};
  TensorIndex encoded_kv = kNoTensor, encoded_low = kNoTensor;
};

struct EmbeddingTensors {
  TensorIndex rows = kNoTensor;  // of a shared vocabulary, looked up before
  TensorIndex mask = kNoTensor;
  TensorIndex normed = kNoTensor, norm_statistics = kNoTensor;  // input of a norm
};

struct HeadTensors {
  TensorIndex input = kNoTensor;  // of the final norm
  TensorIndex norm_statistics = kNoTensor, norm_output = kNoTensor;
  TensorIndex transformed = kNoTensor, activated = kNoTensor;  // of a masked head
  TensorIndex softmax = kNoTensor;
  TensorIndex gradient = kNoTensor;  // of a shared vocabulary's input, made before the backward
};

// A multi-token-prediction module.
struct PredictionTensors {
  EmbeddingTensors embedding;
  TensorIndex embedded = kNoTensor, previous = kNoTensor;  // inputs of its two first norms
  TensorIndex embedded_statistics = kNoTensor, previous_statistics = kNoTensor;
  TensorIndex joined = kNoTensor;  // both side by side
  LayerTensors layer;
  HeadTensors end;  // its last norm
};

// The encoder's output while a decoder's stage is written: [tokens of `shard`, hidden].
struct EncoderOutput {
  const Shard& shard;
  TensorIndex gradient = kNoTensor;  // in a backward: the sum so far
  TensorIndex tensor = kNoTensor;
};

// Gradient of a branch's output, [own_tokens, hidden].
struct BranchGradient {
  TensorIndex tensor = kNoTensor;
  bool own = false;   // to be freed by the branch; else it is the residual stream's gradient
  bool bias = false;  // read by a bias gradient too
};

// A gather of the saved, sequence-split input of a column-parallel layer; its weight gradient
// reads the result.
struct InputGather {
  uint32_t op = 0;
  TensorIndex tensor = kNoTensor;
};

class StageWriter {
 public:
  StageWriter(const Shard& shard, PassWriter& pass) : s_(shard), p_(pass), w_(pass) {}
  // A backward.  `weights` is `pass`, or another one that runs some time later: then weight and
  // bias gradients go there, and what they read stays allocated until then.
  StageWriter(const Shard& shard, PassWriter& pass, PassWriter& weights, StageBuckets buckets)
      : s_(shard), p_(pass), w_(weights), split_(&pass != &weights), buckets_(buckets) {}

  // What follows belongs to layer number `layer` of the stage; -1: to none.
  void set_layer(int layer, const LayerKind& kind = {});

  // Reads `t.input`; returns the tensor of the layer's output.
  TensorIndex layer_forward(LayerTensors& t, ForwardMode mode);
  // `gradient` of the output in, of the input out.
  void layer_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_attention);
  // Full recomputation with Plan::recompute_distribute: of a unit's input each rank keeps a share,
  // and gathers the others' before it computes again.  Do nothing otherwise.
  void split_checkpoint(LayerTensors& t);
  void gather_checkpoint(LayerTensors& t);
  // Selective recomputation of all that the forward of a layer dropped.
  void recompute_selected(LayerTensors& t);
  // ... the core of attention alone, from `t.qkv`.
  void recompute_core(LayerTensors& t);

  TensorIndex embedding_forward(EmbeddingTensors& t);
  void embedding_backward(EmbeddingTensors& t, TensorIndex& gradient);

  // Reads `t.input`, fills `t.norm_output`.
  void final_norm_forward(const std::string& label, HeadTensors& t);
  // In place of the gradient of its output comes that of its input.
  void final_norm_backward(const std::string& label, HeadTensors& t);
  // Head and loss, of `t.norm_output` or of another tensor of that size.
  void loss_forward(HeadTensors& t);
  // Returns the gradient of what the head read.  `more`: the head's gradient is not complete with
  // it, because other losses or a tied embedding in this stage add to it.
  TensorIndex loss_backward(HeadTensors& t, bool more);

  // vocabulary_passes.cc: S, T and G of a rank that holds a share of the vocabulary; embedding_rows
  // is its E.  With Plan::vocabulary the functions above leave out what these do.
  void vocabulary_forward(HeadTensors& t, bool receives);
  void vocabulary_backward(HeadTensors& t);
  void vocabulary_embedding_backward();
  // Word embedding of all tokens; [own_tokens, hidden].
  TensorIndex embedding_rows();

  // prediction.cc: a multi-token-prediction module.  Reads `t.previous`, which it owns; returns the
  // stream it predicts from.
  TensorIndex prediction_forward(PredictionTensors& t, ForwardMode mode);
  // In: the gradient of that stream.  Out: of `t.previous`; both the caller's.  `more`: other
  // gradients are added to that of the stage's word embedding later.
  struct PredictionBackward {
    bool recompute = false, recompute_core = false;
    bool more = false;
  };
  TensorIndex prediction_backward(PredictionTensors& t, TensorIndex& gradient,
                                  const PredictionBackward& how);
  // All of a module that full recomputation leaves out of the forward.
  void recompute_prediction(PredictionTensors& t);

  // cross_attention.cc: what layers attend to from now on.  Keeps the pointer.
  void attend_to(EncoderOutput* encoder) { encoder_ = encoder; }
  // Selective recomputation of the attention to the encoder, if the layer has it.
  void recompute_cross_core(LayerTensors& t);

  // inference.cc: the layers of a stage, no backward follows: nothing is kept.  Owns `received`;
  // kNoTensor where the stage begins with the embedding.
  TensorIndex forward_alone(const StageContent& content, TensorIndex received);

  // What delayed scaling does at the end of a pass of so many layers, with `tensors` scales each.
  void update_scales(int64_t layers, int tensors);

  // All gradients of a unit of layers are there (ZeRO-3).
  void end_unit() {
    reduce_pending(buckets_.layers, s_, w_);
    reduce_pending(buckets_.experts, s_, w_);
  }
  // Whatever is left of the last bucket.
  void flush_gradients();

 private:
  // The same layer, on other shapes.
  StageWriter(const StageWriter& o, const Shard& shard)
      : s_(shard),
        p_(o.p_),
        w_(o.w_),
        split_(o.split_),
        buckets_(o.buckets_),
        mode_(o.mode_),
        kind_(o.kind_),
        in_layer_(o.in_layer_),
        converted_(o.converted_) {}
  // A linear layer's collective after its forward (sum of partial outputs) or before it (gather of
  // its input).
  uint32_t tp(const std::string& label, WorkKind kind, int64_t width) {
    return tp(p_, label, kind, width);
  }
  uint32_t tp(PassWriter& pass, const std::string& label, WorkKind kind, int64_t width);
  Work tp_work(WorkKind kind, int64_t width) const;
  TensorIndex gather(const std::string& label, int64_t width);
  // tp_overlap.cc: collectives that take turns with pieces of their product
  // (TpOverlap::pipelined). Gathers [tokens, hidden] for `gemm`, whose rows they are, and runs it.
  bool pipelined() const;
  TensorIndex gathered_product(const std::string& label, const std::string& gather_label,
                               const Work& gemm);
  // Runs `gemm`; a reduce() has to follow, which finds the exchange made.
  void reduced_product(const std::string& label, const Work& gemm, int64_t width);
  // Reduces `partial` [tokens, width]; returns what is left of it on this rank.
  TensorIndex reduce(const std::string& label, TensorIndex partial, int64_t width,
                     MemoryCategory category = MemoryCategory::workspace);
  // `into_linear`: a column-parallel layer reads the output, and nothing else does.
  void norm_forward(const std::string& label, TensorIndex& statistics, TensorIndex& output,
                    int64_t rows, int64_t width, bool into_linear = false);
  void norm_backward(const std::string& label, int64_t rows, int64_t width);
  void attention_forward(LayerTensors& t, bool keep);
  // From the norm to the projection's partial output, and from the gradient of the branch to that
  // of the norm's output.
  TensorIndex attention_branch_forward(LayerTensors& t, bool keep);
  TensorIndex attention_branch_backward(LayerTensors& t, BranchGradient branch, InputGather input,
                                        bool recompute_core_first);
  InputGather gather_qkv_input_early();
  void projected_forward(LayerTensors& t, bool keep);
  // The gradient of what queries, keys and values were projected from.
  TensorIndex projected_backward(LayerTensors& t, TensorIndex& gradient_qkv, InputGather input);
  // latent_attention.cc
  void latent_forward(LayerTensors& t, bool keep);
  TensorIndex latent_backward(LayerTensors& t, TensorIndex& gradient_qkv);
  void latent_up(LayerTensors& t, TensorIndex& query_input, TensorIndex& kv_input);
  // Queries, keys and values that the forward did not keep, once more from the latents; does
  // nothing if they are there.
  void need_queries(LayerTensors& t);
  // A linear layer that every tensor-parallel rank holds whole, of its own tokens: [own_tokens,
  // out].  `copy` as in quantize_input.
  TensorIndex duplicated_forward(const std::string& label, TensorIndex& input, int64_t out,
                                 TensorIndex* copy);
  TensorIndex duplicated_backward(const std::string& label, TensorIndex& gradient,
                                  TensorIndex& input, int64_t out);
  // cross_attention.cc
  void cross_attention_forward(LayerTensors& t, bool keep);
  void cross_attention_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_core_first);
  Shard cross_shard() const;
  TensorIndex encoded_keys_and_values(LayerTensors& c);
  void encoded_keys_and_values_backward(LayerTensors& c);
  // prediction.cc
  void project_streams(PredictionTensors& t, bool keep);
  TensorIndex project_streams_backward(PredictionTensors& t, TensorIndex& gradient);
  // stage_ends.cc
  bool shares_vocabulary() const { return s_.plan.vocabulary != VocabularySplit::none; }
  bool ends_with_rows() const;
  TensorIndex gather_embedding_gradient();
  void embedding_rows_backward(TensorIndex full, TensorIndex& gradient);
  void head_product(HeadTensors& t);
  // loss.cc
  Loss loss_kind() const;
  void loss_kernel(const std::string& label, Bytes moved);
  void cross_entropy_forward(HeadTensors& t, TensorIndex& logits);
  void fused_loss_forward(HeadTensors& t, TensorIndex& logits);
  void in_place_loss_forward(HeadTensors& t, TensorIndex& logits);
  void torch_loss_forward(HeadTensors& t, TensorIndex& logits);
  TensorIndex logit_gradient(HeadTensors& t);
  TensorIndex torch_logit_gradient(HeadTensors& t);
  void sum_over_shards(const std::string& label);
  void masked_head_forward(HeadTensors& t);
  TensorIndex masked_head_backward(HeadTensors& t, TensorIndex& gradient);
  TensorIndex mlp_forward(LayerTensors& t, bool keep);
  // From fc1 to fc2's partial output, and back to the gradient of fc1's input.
  TensorIndex mlp_branch_forward(LayerTensors& t, TensorIndex& input, bool keep);
  TensorIndex activation_backward(LayerTensors& t, TensorIndex& gradient, Bytes up);
  TensorIndex mlp_branch_backward(LayerTensors& t, BranchGradient branch, TensorIndex& input,
                                  InputGather gathered);
  // parallel_block.cc: attention and MLP side by side.
  TensorIndex parallel_forward(LayerTensors& t, bool keep);
  void parallel_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_core_first);
  // Without the residual; returns what is to be added to it.
  TensorIndex mlp_branch(LayerTensors& t, bool keep);
  void need_mlp(LayerTensors& t);  // what a forward did not keep, once more
  // moe.cc
  TensorIndex moe_forward(LayerTensors& t, bool keep);
  void moe_backward(LayerTensors& t, TensorIndex& gradient);
  TensorIndex mixture_forward(LayerTensors& t, bool keep);
  void need_mixture(LayerTensors& t);  // what a forward did not keep, once more
  void route(LayerTensors& t, const ExpertShard& x);
  void route_backward(LayerTensors& t, const ExpertShard& x);
  TensorIndex experts_forward(ExpertTensors& t, const ExpertShard& x, bool keep);
  TensorIndex experts_backward(ExpertTensors& t, const ExpertShard& x, TensorIndex& gradient);
  void activate_experts(ExpertTensors& t, const ExpertShard& x);
  // `one` for each expert of the rank: one launch, or one each.
  void expert_products(PassWriter& pass, const std::string& label, const ExpertShard& x,
                       const Work& one);
  void expert_weight_gradient(const std::string& label, const ExpertShard& x, int64_t out,
                              int64_t in);
  void expert_kernel(const std::string& label, const ExpertShard& x, Kernel kernel,
                     const std::function<Bytes(int64_t)>& moved);
  // Until the rank with most rows has done what `awaited_` lists.
  void await_busiest();
  void shared_up(LayerTensors& t);
  TensorIndex shared_down(LayerTensors& t, bool keep);
  TensorIndex shared_backward(LayerTensors& t, BranchGradient branch);
  // moe_dispatch.cc
  // Copies of tokens [tokens, hidden] to the ranks of their experts, in the order of these; or of
  // the gradients of what came back.  `beside` is launched while they travel.
  TensorIndex to_experts(const std::string& label, const ExpertShard& x, MemoryCategory category,
                         const std::function<void()>& beside);
  // The rows [rows, hidden] back, those of each token summed: [tokens, hidden].  Frees `rows`, and
  // awaits the busiest rank before they leave.
  TensorIndex from_experts(const std::string& label, const ExpertShard& x, TensorIndex rows,
                           const std::function<void()>& beside);
  void exchange(const std::string& label, const ExpertShard& x, DType payload,
                const std::function<void()>& beside);
  struct TokenRows;
  void travel(const std::string& label, const ExpertShard& x, TokenRows& rows, bool back,
              const std::function<void()>& beside);
  void convert(const std::string& label, const ExpertShard& x, TokenRows& rows, DType to,
               MemoryCategory category);
  // Whether what arrives in fp8 is an operand of the next product as it is.
  bool multiplies_what_arrives() const;
  void core_attention_forward(LayerTensors& t, bool keep);
  void append_to_cache();  // inference.cc
  void core_attention_backward(LayerTensors& t, TensorIndex& gradient, TensorIndex& gradient_qkv);
  // context_parallel.cc: fused attention, on a part of each sequence too.  Forward fills
  // `t.context`.
  struct HeadExchange {
    std::string label;
    int64_t width = 0;
  };
  void fused_core_forward(LayerTensors& t, bool keep);
  void fused_core_backward(LayerTensors& t, TensorIndex& gradient_qkv);
  void exchange_heads(std::initializer_list<HeadExchange> tensors);
  // To the next rank of the ring.
  uint32_t pass_on(const std::string& label, Bytes bytes);
  Bytes of_ring_step(Bytes bytes) const;
  void ring_forward();
  void ring_backward();
  TensorIndex gather_keys();
  void gathered_forward();
  void gathered_backward();
  TensorIndex add_residual(const std::string& label, TensorIndex& branch, TensorIndex* mask,
                           bool bias);
  // Gradient of bias + dropout + residual for the branch; the residual part is `gradient` itself,
  // unless a later weight gradient needs it as it is now: then `gradient` becomes kNoTensor.
  BranchGradient branch_gradient(const std::string& label, TensorIndex& gradient, TensorIndex& mask,
                                 bool bias);
  // Sum of the branch's input gradient and the residual part.
  void add_residual_gradient(const std::string& label, TensorIndex& branch, TensorIndex& gradient);
  // Forward of a linear layer: its output [tokens, out].  Column-parallel: `input` [own_tokens,
  // hidden] is gathered first.  Row-parallel: the output [tokens, hidden] is partial, to be
  // reduced.  With low-precision GEMMs `input` becomes the quantized copy that the weight gradient
  // reads, and the wide tensor is freed; given `copy`, that becomes the quantized one instead.
  TensorIndex column_parallel_forward(const std::string& label, const std::string& output_label,
                                      TensorIndex& input, int64_t out, TensorIndex* copy = nullptr);
  TensorIndex row_parallel_forward(const std::string& label, TensorIndex& input, int64_t in,
                                   TensorIndex* copy = nullptr);
  // Whether this is computed again in the backward instead of being kept: one of the plan's modules
  // of selective recomputation.
  bool recomputes(bool RecomputeModules::*module) const {
    return s_.plan.recompute == Recompute::selective && s_.plan.recompute_modules.*module;
  }
  // Per-op recomputation (PyTorch's selective checkpointing as torchtitan uses it) keeps attention
  // and, of the matrix products of a layer in turn, the first, third ...: here is one that keeps
  // them, or one that computes the others again.
  bool keeps_some() const {
    return s_.plan.recompute == Recompute::per_op && mode_ == ForwardMode::discard;
  }
  bool computes_others() const {
    return s_.plan.recompute == Recompute::per_op && mode_ == ForwardMode::recompute;
  }
  // ... and this is the forward that drops it.
  bool drops(bool RecomputeModules::*module) const {
    return mode_ == ForwardMode::keep && recomputes(module);
  }
  // A norm's output that a forward did not keep, once more; does nothing if it is there.
  void need_norm(const std::string& label, TensorIndex& output, bool into_linear = false);

  // Low-precision GEMMs (low_precision.cc).  Whether the linear layers of this layer use them; all
  // that follows does nothing where they do not.
  bool low() const;
  // A GEMM of a linear layer in the layer's format.
  Work linear(Work gemm) const;
  // ... launched, with what has to precede it.
  void product(PassWriter& pass, const std::string& label, const Work& gemm);
  // Launches the conversion of an input [rows, width].  `input` becomes the copy that the weight
  // gradient reads, its wide tensor is freed; given `copy`, that becomes it and `input` stays.
  // Returns a copy that the forward product alone reads, to be freed after it.
  TensorIndex quantize_input(const std::string& label, TensorIndex& input, int64_t rows,
                             int64_t width, TensorIndex* copy = nullptr, QuantizedParts how = {});
  // The same of a gradient: `gradient` becomes what the weight gradient reads; what is returned is
  // read by the input gradient's product alone.  `own`: the wide tensor is to be freed.
  TensorIndex quantize_gradient(const std::string& label, TensorIndex& gradient, bool own,
                                int64_t rows, int64_t width, QuantizedParts how = {});
  void launch_quantize(const std::string& label, int64_t rows, int64_t width, int copies,
                       QuantizedParts how);
  // A kernel for each tensor of [rows, width], which moves so much of as many values.
  void quantize_kernel(const std::string& label, int64_t rows, int64_t width, QuantizedParts how,
                       const std::function<Bytes(int64_t)>& moved);
  void join_maxima(const std::string& label, Bytes bytes);
  // Of a gathered tensor [tokens, width] with one scale, where tensor cores need it; else
  // kNoTensor.
  TensorIndex transpose_gathered(PassWriter& pass, const std::string& label, int64_t width);
  // Backward of a row-parallel linear layer (its output was reduced): gradient of its input.
  TensorIndex row_parallel_backward(const std::string& label, BranchGradient branch,
                                    TensorIndex& input, int64_t in);
  InputGather gather_input(const std::string& label);
  // The same, if it is to run beside what the weight pass does before.
  InputGather gather_input_early(const std::string& label);
  // Backward of a column-parallel linear layer (its input was gathered): reduced gradient of its
  // input.
  TensorIndex column_parallel_backward(const std::string& label, TensorIndex& gradient,
                                       TensorIndex& input, int64_t out, InputGather gathered = {});
  void mlp_backward(LayerTensors& t, TensorIndex& gradient);
  void attention_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_core_first);
  // `wide`: not in low precision, whatever the layer is in.
  void weight_gradient(const std::string& label, const Work& gemm, bool wide = false);
  void bias_gradient(const std::string& label, int64_t rows, int64_t width);
  void reduce_after(int64_t parameters);
  MemoryCategory saved() const {
    return mode_ == ForwardMode::recompute ? MemoryCategory::recompute_workspace
                                           : MemoryCategory::activations;
  }

  const Shard& s_;
  PassWriter& p_;
  PassWriter& w_;  // weight gradients
  const bool split_ = false;
  StageBuckets buckets_;
  bool exchanged_ = false;   // reduced_product() was the last product
  bool incomplete_ = false;  // the gradient being written is not complete yet
  ForwardMode mode_ = ForwardMode::keep;
  LayerKind kind_{};           // of the layer that is written
  std::vector<Work> awaited_;  // by the busiest expert rank, since await_busiest
  bool in_layer_ = false;
  EncoderOutput* encoder_ = nullptr;
  // What is in low precision already: a norm's output, or tokens that travelled so.
  TensorIndex converted_ = kNoTensor;
};

}  // namespace stepcast
