// SPDX-License-Identifier: Apache-2.0
// What an op has to do, in the terms its cost depends on: the key of a price.
//
// Works are few (a few hundred a scenario) and shared by all ops that do the same; each is priced
// once.  A Work says nothing about time; see price.h.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "sim/units.h"

namespace stepcast {
enum class DType : uint8_t { fp32, tf32, fp16, bf16, fp8, int8, fp4, uint8 };

// Bytes of one element; 0.5 for fp4.
double bytes_per_element(DType t);
std::string_view name_of(DType t);  // "bf16"

// The dimensions of the rank grid, and groups made of several:
//   embedding  first and last pipeline stage, which share the tied word embedding
//   model      all ranks that hold one replica of the model (tp x pp): the gradient norm's sum
//   ep, etp    ranks that the experts of a layer are spread over, that one expert is split over
//   edp        replicas of the same experts
//   data       cp x dp: ranks with the same share of the dense parameters; their gradients are
//              summed and ZeRO shards over
//   shard, replica  `data` cut in two: ranks that hold the shards of one copy, and the copies
//   cp_inner, cp_outer  cp cut in two: neighbours that exchange heads, and the rings of ranks
//              that hold the same heads
enum class Axis : uint8_t {
  none,
  tp,
  cp,
  ep,
  dp,
  pp,
  embedding,
  model,
  etp,
  edp,
  data,
  shard,
  replica,
  cp_inner,
  cp_outer,
};
constexpr int kAxes = 15;
std::string_view name_of(Axis a);

enum class WorkKind : uint8_t {
  gemm,                // C[m,n] += A[m,k] B[k,n], `batch` times
  grouped_gemm,        // `batch` GEMMs in one launch, of m rows in the mean: experts
  attention_forward,   // fused (flash) attention: m = query length, n = key length, k = head
                       // dimension
  attention_backward,  // its whole backward pass
  memory_bound,  // a kernel limited by device memory: `kernel` says which, `bytes` what it moves
  expert_wait,   // until the rank that got `busiest` rows (of a GEMM) or bytes (of `kernel`) has
                 // done what takes this one m rows or `bytes`
  host_copy,     // `bytes` between device and host memory, one way
  host_adam,     // Adam on the host's processors: `bytes` read and written in its memory
  all_reduce,
  all_gather,
  reduce_scatter,
  all_to_all,  // m > 0: of tokens in two hops, once to each node over the network and on over
               // NVLink there; a token goes to m of n experts, on at most k nodes (0: on any)
  broadcast,
  send_recv,
  shift,  // every rank of the group sends `bytes` to the next one and takes as much from the last
};
std::string_view name_of(WorkKind k);
constexpr bool is_communication(WorkKind k) {
  return k >= WorkKind::all_reduce;
}

// Memory-bound kernels, named after what they compute; `_backward` is the input gradient (and the
// gradients of the kernel's own few parameters).
enum class Kernel : uint8_t {
  none,
  embedding,
  embedding_backward,
  layer_norm,
  layer_norm_backward,
  rms_norm,
  rms_norm_backward,
  rotary,
  rotary_backward,
  bias_add,
  bias_backward,  // sum of the output gradient over tokens
  softmax,        // scale + mask + softmax of attention scores, one kernel
  softmax_backward,
  dropout,
  dropout_backward,
  bias_dropout_add,  // bias + dropout + residual, one kernel
  bias_dropout_add_backward,
  activation,  // GELU (with its bias), or SiLU and product of a gated MLP, one kernel
  activation_backward,
  add,
  transpose,
  cross_entropy,
  cross_entropy_backward,
  cast,
  fill,
  copy,
  scale,
  grad_norm,
  adam,
  router,  // scores, top-k and auxiliary loss of a mixture of experts
  router_backward,
  permute,    // tokens to the order of their experts
  unpermute,  // ... and back, weighted and summed
  quantize,   // to the format of low-precision GEMMs, with scales and transposed copies
};
std::string_view name_of(Kernel k);

// Operand layout of a GEMM as cuBLAS names it (column-major): forward is tn, input gradient nn,
// weight gradient nt.
enum class GemmLayout : uint8_t { tn, nn, nt };
std::string_view name_of(GemmLayout l);

// Which fused attention is launched.
enum class AttentionKernel : uint8_t {
  table,          // the one that the cost table of the GPU measured
  flash1,         // FlashAttention 1, CUDA
  flash1_triton,  // ... in Triton
  flash2,
};
std::string_view name_of(AttentionKernel k);

struct Work {
  WorkKind kind = WorkKind::memory_bound;
  Kernel kernel = Kernel::none;
  DType dtype = DType::bf16;  // of the operands; of the payload for communication
  GemmLayout layout = GemmLayout::tn;
  bool accumulate = false;  // GEMM adds to its output (weight gradients into main gradients)
  DType sum = DType::fp32;  // ... of the output that it adds to
  bool causal = false;      // attention: only keys at or before the query are needed
  Axis axis = Axis::none;   // communication: the group
  // send_recv: pipeline ranks.  A collective between the ranks of two of them has both as well.
  uint16_t from = 0, to = 0;
  int64_t m = 0, n = 0, k = 0;      // see WorkKind
  int64_t batch = 1;                // GEMMs in one call; attention: sequences
  int64_t heads = 0, kv_heads = 0;  // attention (unfused: its batched GEMMs too), on this rank
  int64_t value_dim = 0;            // attention: of a head's values; 0: as k
  int64_t busiest = 0;              // expert_wait
  AttentionKernel attention = AttentionKernel::table;
  Flops flops{};  // what the hardware executes (causal attention: only what is needed)
  Bytes bytes{};  // memory_bound: read + written; communication: size as nccl-tests counts it
                  // (all-gather and reduce-scatter: the full, gathered size)
                  // GEMM, attention: 0, or read + written where that is not operands in `dtype`
  uint16_t comm_sms = 0;  // SMs that communication keeps from a product or attention meanwhile
  auto operator<=>(const Work&) const = default;
};

// "gemm 2048x4608x12288 bf16 tn", "all_gather tp 50331648 B": for messages and `explain`.
std::string describe(const Work& w);

// -------------------------------------------------------------------------------------------------
// What a rank's host does to get an op going, in the terms its cost depends on: the key of a launch
// time (price.h), as Work is that of a duration.

// What a training framework's host thread does.  Each costs the same wherever it is done, and a
// launch may be made of several.
enum class HostCall : uint8_t {
  kernel,            // one more kernel inside a call
  eager_forward,     // a PyTorch operator called from Python, which records its gradient
  eager_backward,    // its gradient, called by the autograd engine
  product_forward,   // the same of a matrix product: cuBLAS
  product_backward,  // one of the two of its gradient
  view,              // a view, transpose or slice called from Python: no kernel
  node,              // a gradient, called by the autograd engine, that launches no kernel
  function,          // Python around an operator with a gradient of its own (autograd.Function)
  frame,             // a module called from Python, and what it reads of itself
  script,            // a function compiled by torch.jit, beyond its kernels
  fork,              // another random state for a while (Megatron-LM's RNG tracker)
  region,            // a region that is recomputed: Megatron-LM's autograd.Function, both ways
  checkpoint,        // the same of torch.utils.checkpoint
  module,            // a linear layer or attention of Transformer Engine, one way
  unshard,           // before a unit of PyTorch's FSDP2: its parameters are gathered and set up
  collective,        // on a process group
  transfer,          // a send or a receive between pipeline stages
  synchronize,       // the host asks the device whether it is done
  graph,             // a captured CUDA graph, whatever it holds
};
constexpr int kHostCalls = 19;
std::string_view name_of(HostCall c);

// How often the host makes each call before the op can start.  No calls: it costs nothing.
struct Launch {
  std::array<uint16_t, kHostCalls> calls{};

  Launch& add(HostCall c, int times = 1);
  auto operator<=>(const Launch&) const = default;
};

// "module + 2 kernel", or "nothing".
std::string describe(const Launch& launch);

// How many of `places` (nodes, ranks) that hold equal parts of `experts` a token's `chosen`
// different experts lie in, in the mean over all choices: places * (1 - C(experts - experts /
// places, chosen) / C(experts, chosen)). REQUIRES: places > 0, 0 <= chosen <= experts.
double expected_destinations(int64_t places, int64_t experts, int64_t chosen);

}  // namespace stepcast
