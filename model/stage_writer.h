// SPDX-License-Identifier: Apache-2.0
// Writes what each part of a model launches into passes, op by op, in Megatron-LM's order; the
// inside of stage_passes.h, not for others.
//
// Forward functions fill a `...Tensors` struct (layer_tensors.h) with what they keep for the
// backward; backward functions free it.  One class, because all parts share the writers and the
// place in the stage; its functions stand in a file for each part of the model, which the sections
// below name.  Widths and counts of tokens are those of `shard` (shard.h), one rank's share.
#pragma once

#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "model/experts.h"
#include "model/gradient_buckets.h"
#include "model/layer_tensors.h"
#include "model/pass_writer.h"
#include "model/shard.h"

namespace stepcast {

// How a forward is run.
enum class ForwardMode : uint8_t {
  keep,       // everything the backward needs stays
  discard,    // under a checkpoint: only the input stays (Megatron's full recomputation)
  recompute,  // inside the backward of a checkpoint: kept, as workspace
};

// Of what a tensor that is quantized is a part, and in how many it is.
struct QuantizedParts {
  bool gathered = false;  // a share of one that is gathered afterwards
  int64_t experts = 1;    // rows of so many experts, each a tensor of its own
  int64_t busiest = 0;    // rows on the rank with most, which all make room for; 0: those here
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

  // layer.cc.  What follows belongs to layer number `layer` of the stage; -1: to none.
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

  // stage_ends.cc: embedding, final norm, head and loss.
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

  // low_precision.cc: what delayed scaling does at the end of a pass of so many layers, with
  // `tensors` scales each.
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

  // How the plan recomputes.
  // Whether this is computed again in the backward instead of being kept: one of the plan's modules
  // of selective recomputation.
  bool recomputes(bool RecomputeModules::*module) const {
    return s_.plan.recompute == Recompute::selective && s_.plan.recompute_modules.*module;
  }
  // ... and this is the forward that drops it.
  bool drops(bool RecomputeModules::*module) const {
    return mode_ == ForwardMode::keep && recomputes(module);
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
  MemoryCategory saved() const {
    return mode_ == ForwardMode::recompute ? MemoryCategory::recompute_workspace
                                           : MemoryCategory::activations;
  }

  // linear.cc: linear layers, their collectives and the gradients of their weights.
  // Column-parallel forward: `input` [own_tokens, hidden] is gathered, the output is [tokens, out].
  // Row-parallel: the output [tokens, hidden] is partial, to be reduced.  With low-precision GEMMs
  // `input` becomes the quantized copy that the weight gradient reads, and the wide tensor is
  // freed; given `copy`, that becomes the quantized one instead.
  TensorIndex column_parallel_forward(const std::string& label, const std::string& output_label,
                                      TensorIndex& input, int64_t out, TensorIndex* copy = nullptr);
  TensorIndex row_parallel_forward(const std::string& label, TensorIndex& input, int64_t in,
                                   TensorIndex* copy = nullptr);
  // Backward: the gradient of the layer's input, of a column-parallel one reduced.
  TensorIndex column_parallel_backward(const std::string& label, TensorIndex& gradient,
                                       TensorIndex& input, int64_t out, InputGather gathered = {});
  TensorIndex row_parallel_backward(const std::string& label, BranchGradient branch,
                                    TensorIndex& input, int64_t in);
  InputGather gather_input(const std::string& label);
  // The same, if it is to run beside what the weight pass does before.
  InputGather gather_input_early(const std::string& label);
  // A tensor-parallel collective over [tokens, width].
  uint32_t tp(const std::string& label, WorkKind kind, int64_t width) {
    return tp(p_, label, kind, width);
  }
  uint32_t tp(PassWriter& pass, const std::string& label, WorkKind kind, int64_t width);
  Work tp_work(WorkKind kind, int64_t width) const;
  TensorIndex gather(const std::string& label, int64_t width);
  // Reduces `partial` [tokens, width]; returns what is left of it on this rank.
  TensorIndex reduce(const std::string& label, TensorIndex partial, int64_t width,
                     MemoryCategory category = MemoryCategory::workspace);
  // `wide`: not in low precision, whatever the layer is in.
  void weight_gradient(const std::string& label, const Work& gemm, bool wide = false);
  void bias_gradient(const std::string& label, int64_t rows, int64_t width);
  // The op appended last to the weight pass has made gradients of so many parameters.
  void reduce_after(int64_t parameters);

  // tp_overlap.cc: collectives that take turns with pieces of their product
  // (TpOverlap::pipelined).
  bool pipelined() const;
  // Gathers [tokens, hidden] for `gemm`, whose rows they are, and runs it.
  TensorIndex gathered_product(const std::string& label, const std::string& gather_label,
                               const Work& gemm);
  // Runs `gemm`; a reduce() has to follow, which finds the exchange made.
  void reduced_product(const std::string& label, const Work& gemm, int64_t width);

  // low_precision.cc: GEMMs below 16 bits.  Whether the linear layers of this layer use them; all
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

  // norm_residual.cc
  // `into_linear`: a column-parallel layer reads the output, and nothing else does.
  void norm_forward(const std::string& label, TensorIndex& statistics, TensorIndex& output,
                    int64_t rows, int64_t width, bool into_linear = false);
  void norm_backward(const std::string& label, int64_t rows, int64_t width);
  // A norm's output that a forward did not keep, once more; does nothing if it is there.
  void need_norm(const std::string& label, TensorIndex& output, bool into_linear = false);
  TensorIndex add_residual(const std::string& label, TensorIndex& branch, TensorIndex* mask,
                           bool bias);
  // Gradient of bias + dropout + residual for the branch; the residual part is `gradient` itself,
  // unless a later weight gradient needs it as it is now: then `gradient` becomes kNoTensor.
  BranchGradient branch_gradient(const std::string& label, TensorIndex& gradient, TensorIndex& mask,
                                 bool bias);
  // Sum of the branch's input gradient and the residual part.
  void add_residual_gradient(const std::string& label, TensorIndex& branch, TensorIndex& gradient);

  // attention.cc
  void attention_forward(LayerTensors& t, bool keep);
  void attention_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_core_first);
  // From the norm to the projection's partial output, and from the gradient of the branch to that
  // of the norm's output.
  TensorIndex attention_branch_forward(LayerTensors& t, bool keep);
  TensorIndex attention_branch_backward(LayerTensors& t, BranchGradient branch, InputGather input,
                                        bool recompute_core_first);
  InputGather gather_qkv_input_early();
  void projected_forward(LayerTensors& t, bool keep);
  // The gradient of what queries, keys and values were projected from.
  TensorIndex projected_backward(LayerTensors& t, TensorIndex& gradient_qkv, InputGather input);
  void core_attention_forward(LayerTensors& t, bool keep);
  void core_attention_backward(LayerTensors& t, TensorIndex& gradient, TensorIndex& gradient_qkv);
  void append_to_cache();  // inference.cc

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

  // mlp.cc
  TensorIndex mlp_forward(LayerTensors& t, bool keep);
  void mlp_backward(LayerTensors& t, TensorIndex& gradient);
  // Without the residual; returns what is to be added to it.
  TensorIndex mlp_branch(LayerTensors& t, bool keep);
  // From fc1 to fc2's partial output, and back to the gradient of fc1's input.
  TensorIndex mlp_branch_forward(LayerTensors& t, TensorIndex& input, bool keep);
  TensorIndex mlp_branch_backward(LayerTensors& t, BranchGradient branch, TensorIndex& input,
                                  InputGather gathered);
  TensorIndex activation_backward(LayerTensors& t, TensorIndex& gradient, Bytes up);
  void need_mlp(LayerTensors& t);  // what a forward did not keep, once more

  // parallel_block.cc: attention and MLP side by side.
  TensorIndex parallel_forward(LayerTensors& t, bool keep);
  void parallel_backward(LayerTensors& t, TensorIndex& gradient, bool recompute_core_first);

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

  // prediction.cc
  void project_streams(PredictionTensors& t, bool keep);
  TensorIndex project_streams_backward(PredictionTensors& t, TensorIndex& gradient);

  // stage_ends.cc
  bool shares_vocabulary() const { return s_.plan.vocabulary != VocabularySplit::none; }
  bool ends_with_rows() const;
  TensorIndex gather_embedding_gradient();
  void embedding_rows_backward(TensorIndex full, TensorIndex& gradient);
  void head_product(HeadTensors& t);

  // masked_head.cc
  void masked_head_forward(HeadTensors& t);
  TensorIndex masked_head_backward(HeadTensors& t, TensorIndex& gradient);

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

  const Shard& s_;
  PassWriter& p_;  // the pass; of a backward that is split, its input gradients
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
