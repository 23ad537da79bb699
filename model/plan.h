// SPDX-License-Identifier: Apache-2.0
// How a model is trained: the parallel layout, the batch, precision, recomputation, optimizer and
// kernels.
//
// Plain data, complete: every default has been filled in by whoever made it (scenarios/).  Words as
// in Megatron-LM.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/stages.h"
#include "model/transformer.h"
#include "sim/graph/work.h"
#include "sim/rank_grid.h"
#include "sim/units.h"

namespace stepcast {

// What a step does.
enum class StepMode : uint8_t {
  train,
  prefill,  // forward of whole prompts, whose keys and values stay in a cache
  decode,   // forward of one new token a sequence, which sees Plan::seq tokens of the cache
};

enum class Recompute : uint8_t {
  none,
  selective,  // RecomputeModules
  full,       // whole layers
  per_op,     // everything but attention's and every second matrix product's output (torchtitan)
};
enum class RecomputeMethod : uint8_t { uniform, block };

// What selective recomputation computes again: Megatron-LM's --recompute-modules.
struct RecomputeModules {
  bool core_attention = true;
  bool norms = false;  // layernorm: outputs of the norms
  bool mla_up_projection = false;
  bool mlp = false;  // of dense layers
  bool moe = false;  // the whole of it, dispatch and combine too
  bool moe_activation = false;
  bool shared_experts = false;
  bool operator==(const RecomputeModules&) const = default;
};

// Number formats and scaling of the GEMMs of linear layers; attention, head and router stay in
// Precision::params.
enum class Scaling : uint8_t {
  none,        // GEMMs in Precision::params
  delayed,     // fp8, one scale a tensor from the history of its maxima
  tensorwise,  // fp8, one scale a tensor from its own maximum: one more pass over it
  blockwise,   // fp8, a scale for 1 x 128 activations and 128 x 128 weights (DeepSeek-V3)
  mxfp8,       // fp8, a scale for 32 values along either dimension
  nvfp4,       // fp4, a scale for 16 values, with Hadamard transform of weight gradients' inputs
  int8,        // int8, one scale a row
};

// What becomes of the gradient that a product of a backward has written, where products do not add
// into the main gradients themselves.
enum class ProductGradients : uint8_t {
  added,     // to the main gradient at once
  backward,  // ... when the backward has ended; all of them stay until then
  tensors,   // the first of a step is the main gradient, until the optimizer runs; later ones are
             // added to it (PyTorch's autograd without a buffer of gradients)
};

// What an activation is kept in from the forward that makes it to the backward that reads it.  The
// narrow ones have a scale for each 128 values (DeepSeek-V3, arXiv 2412.19437, sections 3.3.2 and
// 3.3.3).
enum class KeptFormat : uint8_t {
  params,  // as it was computed
  fp8,
  e5m6,  // 12 bits
};

struct Precision {
  DType params = DType::bf16;     // what forward and backward compute with
  DType gradients = DType::fp32;  // main gradient buffer
  bool own_gradients = false;     // of each backward, in `params`, kept beside wider main ones
  ProductGradients product_gradients = ProductGradients::added;
  DType reduce = DType::fp32;   // payload of the gradient reduction
  bool master = true;           // fp32 copy of the parameters in the optimizer
  DType moments = DType::fp32;  // Adam's two moments
  Scaling scaling = Scaling::none;
  bool low_params = false;        // parameters are kept and gathered in the GEMMs' format
                                  // (--fp8-param-gather)
  bool low_transposes = true;     // GEMMs in 8 bits take both operands along the summed dimension
                                  // only (before Blackwell): what two products read is kept twice
  int64_t wide_first_layers = 0;  // this many layers at either end compute in `params`
  int64_t wide_last_layers = 0;   // (--first-last-layers-bf16)
  double gradient_ratio = 1;      // bytes of the gradient reduction by those of its payload
  // Fused attention's output, which its own backward reads and, in low precision, the weight
  // gradient of the projection after it: kept once, and converted in the backward.  Nothing: as it
  // was computed, and a copy in the GEMMs' format beside it.
  std::optional<KeptFormat> attention_output{};
  // Formats other than `params` in which some tensors are stored: weights of linear layers that are
  // not trained (inference, a teacher), which GEMMs convert as they read them, and the keys and
  // values of the cache.
  std::optional<DType> weights{};
  std::optional<DType> kv_cache{};
  bool operator==(const Precision&) const = default;
};

// Whose modules launch the kernels, which decides how many calls of the host an op takes.
enum class Modules : uint8_t {
  torch,               // PyTorch's: a call for each operator
  megatron,            // Megatron-LM's own: that, and Python of its own around them
  transformer_engine,  // one call for a norm and its linear layer, or for all of attention
};

// What is captured as a CUDA graph and launched by one call.
enum class CudaGraph : uint8_t {
  none,
  layer,  // each layer, forward and backward apart
  step,   // all forward and backward passes; not the optimizer
};

// Where the host of a rank waits for its device, beside pipeline transfers and the gradient norm.
enum class HostWaits : uint8_t {
  none,
  forward,   // before each forward pass: the sizes of the batch's tensors are read back
  passes,    // after each pass as well: it is timed
  launches,  // after whatever it launches, transfers too (CUDA_LAUNCH_BLOCKING=1)
};

// How the loss of the tokens comes from the logits, and the gradient back.
enum class Loss : uint8_t {
  megatron_copied,  // as megatron, but the maximum is subtracted into a copy, while the caller
                    // holds the logits in fp32 (nanotron)
  megatron,         // softmax over the shards of the vocabulary, in fp32
  in_place,         // logits are overwritten by their gradient (Transformer Engine, Liger-Kernel)
  torch,            // torch.nn.functional.cross_entropy of logits in fp32
  torch_compiled,   // ... in one kernel each way, which reads and writes Precision::params
  torch_gathered,   // ... not compiled, on every tensor-parallel rank, of the whole vocabulary
};

// How LayerNorm is launched.
enum class LayerNormKernel : uint8_t {
  fused,       // one kernel each way (apex, Transformer Engine)
  torch_2021,  // moments and output apart; sums, input gradient and weight gradients apart
};

// Which kernels the framework launches: properties of the op inventory, not factors.
struct Kernels {
  bool flash_attention = true;  // else scores, softmax, dropout and context as kernels of their own
  AttentionKernel fused_attention = AttentionKernel::table;
  bool fused_bias = false;  // biases of linear layers inside the GEMM (cuBLASLt epilogue)
  bool fused_bias_dropout_add = true;
  bool fused_activation = true;  // bias + GELU, or SiLU + product, in one kernel
  // Unfused: gate and up are views of one product's output, whose gradients a copy puts together.
  bool gate_views = false;
  bool fused_softmax = true;  // scale + mask + softmax
  bool softmax_fp32 = false;  // of scores converted to fp32, where it is not fused
  Loss loss = Loss::megatron;
  bool fused_cross_entropy = false;  // Loss::megatron compiled; else a chain of kernels
  // Weight gradient GEMMs add into the main gradients themselves.
  bool gradient_accumulation_fusion = true;
  bool fused_norm = true;        // RMSNorm in one kernel; else PyTorch's operators, in fp32
  bool fused_input_norm = true;  // ... of the norm before attention; false: not even if fused_norm
  LayerNormKernel layer_norm = LayerNormKernel::fused;
  bool fused_rotary =
      true;  // rotates queries and keys in one kernel where they lie; else operators
  // Between fused attention, whose tokens lie head by head within a sequence, and the projection
  // the context is transposed; with several sequences in a microbatch a copy of it stays.
  bool context_copies = false;
  // Microbatches whose logits in Precision::params the framework refers to: the last one's until
  // its backward ends, those of the ones before through the whole step.
  int64_t held_logits = 0;
  Modules modules = Modules::transformer_engine;
  // What libraries keep through the step for products (library_memory.h).
  int64_t libraries = 0;     // year of cuBLAS, cuDNN and Transformer Engine; 0: as young as can be
  Bytes blas_workspace{};    // PyTorch's for cuBLAS, of each thread that multiplies
  Bytes engine_workspace{};  // Transformer Engine's for cuBLASLt, of each stream
  bool gradient_placeholders = false;  // Transformer Engine keeps one for each shape of weights
  bool eager_loading = false;          // CUDA loads all of PyTorch's kernels at once
  int64_t nccl_version = 22105;        // NCCL_VERSION_CODE
  bool expandable_segments = false;    // of PyTorch's caching allocator
  bool keep_gathered = false;          // inputs of column-parallel layers, until their backward
  bool record_streams = false;  // blocks that a collective has read are free when it has ended
  CudaGraph cuda_graph = CudaGraph::none;
  HostWaits host_waits = HostWaits::none;
  bool operator==(const Kernels&) const = default;
};

enum class TpOverlap : uint8_t {
  none,       // every tensor-parallel collective is waited for where it is issued
  backward,   // Megatron's default: backward collectives run beside the weight- and input-gradient
              // GEMMs
  bulk,       // as `backward`, whatever the framework's default is (Transformer Engine's bulk)
  pipelined,  // GEMM and collective in tp pieces that take turns (Transformer Engine's ring
              // exchange, forward too)
};

// How the queries of a rank see the keys of others when sequences are split over cp.
enum class CpComm : uint8_t {
  p2p,           // keys and values travel around a ring, a step beside the attention of another
  all_gather,    // ... are gathered before
  all_to_all,    // heads instead of tokens are split meanwhile (Ulysses)
  hierarchical,  // all_to_all inside, p2p between groups of Plan::cp_inner ranks
};

// Who holds the rows of the word embedding and of the head.
enum class VocabularySplit : uint8_t {
  none,          // the first and the last stage
  two_barriers,  // every rank of the pipeline a share: gradients after the softmax's sums are known
  one_barrier,   // ... the input gradient before, corrected when they are (Vocab-2 of Yeung et al.)
};

// How tokens reach the ranks of their experts.
enum class Dispatcher : uint8_t {
  all_gather,  // every rank of the group sees all tokens, and takes its own
  all_to_all,
  deepep,  // to each node once over the network, then over NVLink
};

// Which experts tokens choose.
struct Routing {
  enum class Kind : uint8_t {
    balanced,  // all experts get the same
    zipf,      // the r-th most popular one gets in proportion to r^-exponent
    shares,    // as written
  } kind = Kind::balanced;
  double exponent = 0;
  std::vector<double> shares;  // of the experts, their sum is 1
  bool by_sequence = false;    // all tokens of a sequence choose alike (hard gating by group)
  bool operator==(const Routing&) const = default;
};

struct MoeRun {
  Dispatcher dispatcher = Dispatcher::all_to_all;
  DType dispatch = DType::bf16, combine = DType::bf16;  // payloads
  double capacity_factor = 0;  // tokens an expert takes, of a fair share; 0: all that come
  bool pad_to_capacity = false;
  bool grouped_gemm = true;  // all experts of a rank in one launch
  bool permute_fusion = true;
  bool router_fusion = false;
  bool shared_overlap = false;  // shared experts run beside dispatch and combine
  KeptFormat activation_input = KeptFormat::params;  // of all experts: the output of fc1
  int64_t node_limit = 0;  // deepep: nodes that a token may reach; 0 = any
  Routing routing;
  bool operator==(const MoeRun&) const = default;
};

// What lives in host memory and comes over PCIe or C2C when it is needed.
struct Offload {
  double optimizer = 0;           // share of the optimizer states; their step runs on the CPU
  bool parameters = false;        // ZeRO-3: shards (PyTorch's are the optimizer's own: with them
                                  // optimizer = 1)
  int64_t activation_layers = 0;  // of each stage: what the first this many keep
  bool operator==(const Offload&) const = default;
};

// How Adam is launched, which decides what its kernels hold beside the state while they run.
enum class OptimizerKernel : uint8_t {
  fused,    // nothing (apex, Transformer Engine, torch.optim with fused)
  foreach,  // one number in fp32 for each parameter (torch.optim's lists of tensors)
  flat,     // two (torch.optim on a flat tensor of all parameters, operator by operator)
};

// What the optimizer copies gradients to before it runs.
enum class GradientCopies : uint8_t {
  none,       // nothing but narrower gradients, to fp32
  by_tensor,  // buckets for their reduction; each tensor to fp32 to look for infinities and to fp64
              // to square it; and all of them into one, before that is widened (DeepSpeed's ZeRO-1)
  flat,       // all tensors to fp32, and these into one (DeepSpeed's FP16_Optimizer)
  for_norm,   // all of narrower ones to fp32 at once, a tensor each, for their norm (InternEvo)
};

// How ZeRO-1 sums gradients and spreads what the optimizer has written.
enum class ZeroExchange : uint8_t {
  scatter,     // a rank gets the sums of its shard, and all gather the parameters (Megatron's
               // distributed optimizer)
  all_reduce,  // every rank gets all sums and takes its shard; all gather the parameters
               // (DeepSpeed's BF16_Optimizer, Aleph-Alpha/scaling)
  broadcast,   // every rank gets all sums; shards are whole tensors, sent by their owners one
               // after the other (InternEvo's HybridZeroOptimizer, PyTorch's
               // ZeroRedundancyOptimizer)
};

// When ZeRO-2 reduces gradients.
enum class ZeroReduce : uint8_t {
  backward,  // in every backward, bucket by bucket
  round,     // after the last of the backwards that a stage runs before another stage of the rank
             // has its turn; until then they are summed unsharded (Llama Team, arXiv 2407.21783,
             // section 3.3.2: gradients are sharded, and accumulate in fp32 over microbatches)
};

// ZeRO-3 and FSDP: parameters are gathered unit by unit.
struct Sharding {
  int64_t unit_layers = 1;  // layers gathered together
  int64_t prefetch = 1;     // units gathered ahead
  bool reshard_after_forward = true;
  bool copied_out = true;  // a gathered unit is copied to its parameters (PyTorch's FSDP2,
                           // DeepSpeed); else they are views of it (FSDP1, Megatron-FSDP)
  bool wide = true;        // the shards are the optimizer's own fp32 parameters, cast before each
                           // gather (PyTorch); else the format of `params` beside them
  bool in_lists = false;   // tensor by tensor, by a list of every rank's part, on an idle device
                           // (DeepSpeed of early 2021)
  bool fsdp2() const { return copied_out && wide; }
  bool operator==(const Sharding&) const = default;
};

struct Overlap {
  TpOverlap tp = TpOverlap::backward;
  bool ep = false;   // of one microbatch beside the compute of another (pairs of the schedule too)
  int comm_sms = 0;  // SMs that exchanges keep to themselves in such pairs
  bool dp_grad = false;   // gradient reduction by bucket, beside the last backward
  bool dp_param = false;  // parameter all-gather beside the first forward
  bool operator==(const Overlap&) const = default;
};

struct Plan {
  StepMode mode = StepMode::train;
  bool trains() const { return mode == StepMode::train; }

  // Layout.  world = tp * cp * pp * dp.  Experts are spread over the same ranks otherwise: each
  // over etp, all of them over ep, with as many replicas as make tp * cp * dp = etp * ep * edp.
  int64_t tp = 1, cp = 1, ep = 1, etp = 1, dp = 1, pp = 1;
  CpComm cp_comm = CpComm::p2p;
  int64_t cp_inner = 1;      // hierarchical
  int64_t dp_replicate = 1;  // ZeRO shards over dp * cp / dp_replicate ranks (HSDP)
  int64_t vpp = 1;           // chunks of each pipeline rank
  bool sp = false;           // sequence parallelism in the tensor-parallel group
  // Pipeline transfers of tensors that all tensor-parallel ranks hold: each sends its part, which
  // the receivers gather.
  bool scatter_gather = false;
  bool splits_transfers() const { return scatter_gather && tp > 1 && !sp; }
  int zero = 0;  // sharded over dp: 1 optimizer state, 2 gradients too, 3 parameters too
  ZeroExchange zero_exchange = ZeroExchange::scatter;  // zero = 1
  ZeroReduce zero_reduce = ZeroReduce::backward;       // zero = 2
  Sharding sharding;                                   // zero = 3
  Offload offload;
  MoeRun moe;
  VocabularySplit vocabulary = VocabularySplit::none;  // as the schedule has it
  bool splits_vocabulary() const { return vocabulary != VocabularySplit::none; }
  std::vector<StageContent> stages;  // pp * vpp of them; the schedule places them
  // Placement of the ranks.  The order is its own; its sizes are copies that the resolvers make
  // (resolve_layout and after it), of which the members above are the source.
  RankGrid grid{};

  // Batch, in sequences.
  int64_t global_batch = 1;
  int64_t micro_batch = 1;
  int64_t seq = 0;          // tokens
  int64_t encoder_seq = 0;  // with an encoder and a decoder: tokens of the encoder; `seq` is the
                            // decoder's
  // A microbatch may pass through the pipeline in pieces of equal length along the sequence
  // (Seq1F1B).  Passes are written for one of the pieces, `piece`: its queries see the keys of all
  // pieces up to its own.  REQUIRES: seq_pieces divides seq, piece < seq_pieces.
  int64_t seq_pieces = 1;
  int64_t piece = 0;
  int64_t microbatches() const { return global_batch / (micro_batch * dp); }

  Precision precision;
  // Whether gradients are the tensors that autograd has made, which have the format of the
  // parameters: products that add into the main gradients make none, shards are copied out of them.
  bool gradients_are_tensors() const {
    const Precision& p = precision;
    return p.product_gradients == ProductGradients::tensors && zero < 2 &&
           !kernels.gradient_accumulation_fusion && (p.gradients == p.params || p.own_gradients);
  }
  Recompute recompute = Recompute::none;
  RecomputeModules recompute_modules;  // selective
  RecomputeMethod recompute_method = RecomputeMethod::uniform;
  // Full; uniform: layers of one checkpointed unit; block: layers recomputed a stage.
  int64_t recompute_layers = 1;
  bool recompute_distribute = false;  // full: inputs of units are split over tp
                                      // (--distribute-saved-activations); without `sp` only
  Kernels kernels;
  Overlap overlap;
  // Gradient bucket of overlapped reduction; 0: Megatron's max(40e6, 1e6 dp).
  int64_t bucket_parameters = 0;
  int64_t gather_bucket = 0;   // parameters gathered at once after the optimizer; 0 = a stage
  bool clip_gradients = true;  // global gradient norm before the optimizer
  OptimizerKernel optimizer_kernel = OptimizerKernel::fused;
  GradientCopies gradient_copies = GradientCopies::none;
  bool whole_master = false;  // ZeRO-1: every rank has the fp32 copy of all of its parameters

  // Distillation: each microbatch runs forward through a teacher too, whose stages stand beside
  // those of the model.
  std::optional<Transformer> teacher{};
  std::vector<StageContent> teacher_stages{};
  bool operator==(const Plan&) const = default;
};

}  // namespace stepcast
