// SPDX-License-Identifier: Apache-2.0
// Every op gets a Launch: how many calls of which kind (sim/graph/work.h) the host makes for it.
// Three things are added up: the call of the framework that launches the kernel, what Python does
// around it, and what happens at the beginning of a pass, a layer or an exchange.  The qkv
// projection of a layer, for example, is one call of a module with Transformer Engine, norm
// included.  With Megatron-LM's own modules it is a product, the autograd Function around it, and
// the views that cut its output; its backward is the two products and the nodes of autograd for
// what surrounds them, each parameter's accumulation and hook among these.
#include "model/host/host_calls.h"
#include "model/replicas.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace stepcast {
namespace {

// ------------------------------------------------------------------------------------------ Python
// What Python does around the kernels of a layer: views, modules called, autograd's nodes without a
// kernel.
//
// Counted in the code of Megatron-LM v2.5 and of what it calls: model/transformer.py (ParallelMLP,
// ParallelAttention, ParallelTransformerLayer), model/fused_softmax.py, model/fused_bias_gelu.py,
// mpu/layers.py, mpu/random.py, model/distributed.py (the hook of each parameter).  Modules that
// use PyTorch's directly need the same views and modules, without what only Megatron-LM has.
// Megatron-Core's layers (core/transformer/transformer_layer.py, attention.py, mlp.py) call as many
// modules around Transformer Engine's.
// Not counted: sizes that are read, attributes, conditions, allocations.

// Whether the autograd engine launches it.
bool is_backward(Phase phase) {
  return phase == Phase::backward_input || phase == Phase::backward_weight;
}

constexpr int64_t kMostCalls = 30'000;  // of a launch, which counts them in 16 bits

// The gradient of a parameter: the engine's AccumulateGrad, and with Megatron-LM a hook in Python
// that adds it to the main gradient.
void add_parameters(Launch& launch, Modules modules, int64_t parameters) {
  const auto count = static_cast<int>(std::min(kMostCalls / 2, parameters));
  launch.add(HostCall::node, 2 * count);
  if (modules != Modules::torch) launch.add(HostCall::frame, count);
}

// Scores: the projection's output as heads and cut in three, queries and keys as one batch of heads
// and turned, the keys twice, and the result's shape.  Context: values and probabilities as one
// batch, the values turned, and the result's shape.
constexpr int kScoreViews = 1 + 3 + 2 + 3 + 1;
constexpr int kContextViews = 2 + 1 + 1;
// Fused attention: the output of the projection cut in three, each turned to the kernel's order,
// and its result turned back and put together.
constexpr int kFusedViews = 1 + 3 + 3 + 1;
// Megatron-Core before Transformer Engine's attention: the output as heads, queries in one piece;
// they are cut by an autograd Function (SplitAlongDim).
constexpr int kEngineViews = 2;

void add_python_of_product(Launch& launch, const Op& op, const Work& work, Modules modules) {
  if (work.heads > 0) {
    const int views = work.layout == GemmLayout::tn ? kScoreViews : kContextViews;
    if (!is_backward(op.phase)) {
      launch.add(HostCall::view, views);
    } else if (work.layout != GemmLayout::nt) {  // of a product's two gradients the first
      // The context's gradient has the layout of scores, and that of scores the context's.
      launch.add(HostCall::node, kScoreViews + kContextViews - views);
    }
    return;
  }
  const bool engine = modules == Modules::transformer_engine;
  // F.linear turns the weight and flattens the input, which the call's own cost has; their
  // gradients are nodes of their own.
  if (!engine && op.phase == Phase::backward_input) launch.add(HostCall::node, 3);
  if (op.phase == Phase::backward_weight) {
    if (!engine) launch.add(HostCall::node);
    add_parameters(launch, modules, 1);
  }
}

void add_python_of_kernel(Launch& launch, const Op& op, const Work& work, Modules modules) {
  const bool megatron = modules != Modules::torch;
  switch (work.kernel) {
    case Kernel::layer_norm:
    case Kernel::rms_norm:
      launch.add(HostCall::frame, 2);  // and attention's or the MLP's, which it stands before
      return;
    case Kernel::layer_norm_backward: return add_parameters(launch, modules, 2);
    case Kernel::rms_norm_backward: return add_parameters(launch, modules, 1);
    case Kernel::softmax:
      if (megatron) launch.add(HostCall::frame).add(HostCall::view, 2);
      return;
    case Kernel::softmax_backward:
      if (megatron) launch.add(HostCall::node, 2);
      return;
    case Kernel::dropout:
      launch.add(HostCall::frame);
      if (megatron) launch.add(HostCall::fork);
      return;
    case Kernel::transpose:
      if (is_backward(op.phase)) {
        launch.add(HostCall::node, 2);
      } else {
        launch.add(HostCall::view, 2);
      }
      return;
    case Kernel::bias_backward: return add_parameters(launch, modules, 1);
    case Kernel::bias_dropout_add:
      if (megatron) launch.add(HostCall::script).add(HostCall::view);
      return;
    case Kernel::bias_dropout_add_backward:
      // The gradient of a function of torch.jit is one, too.
      if (megatron) launch.add(HostCall::script).add(HostCall::node);
      return;
    case Kernel::activation:
    case Kernel::activation_backward:
      if (megatron) launch.add(HostCall::script);
      return;
    default: return;
  }
}

// Adds what Python does around an op of a layer.
void add_python(Launch& launch, const Op& op, const Work& work, Modules modules) {
  const bool engine = modules == Modules::transformer_engine;
  const int views = engine ? kEngineViews : kFusedViews;
  switch (work.kind) {
    case WorkKind::gemm: return add_python_of_product(launch, op, work, modules);
    case WorkKind::grouped_gemm:
      // GroupedLinear has a parameter for each expert, others one for all of them.
      if (op.phase == Phase::backward_weight)
        add_parameters(launch, modules, engine ? work.batch : 1);
      return;
    case WorkKind::attention_forward: launch.add(HostCall::view, views); break;
    case WorkKind::attention_backward: launch.add(HostCall::node, views); break;
    case WorkKind::memory_bound: return add_python_of_kernel(launch, op, work, modules);
    default: return;
  }
  if (engine) launch.add(HostCall::function);
}

// Adds what recomputing a region takes, at its first op.
void add_region(Launch& launch, Modules modules) {
  launch.add(modules == Modules::torch ? HostCall::checkpoint : HostCall::region);
}

// ------------------------------------------------------------------------------------------- calls

bool is_step_end(Phase phase) {
  return phase == Phase::gradient_sync || phase == Phase::optimizer;
}

bool is_norm(Kernel k) {
  return k == Kernel::layer_norm || k == Kernel::rms_norm || k == Kernel::layer_norm_backward ||
         k == Kernel::rms_norm_backward;
}

// Kernels that frameworks wrap in an autograd Function of their own.
bool has_function(Kernel k) {
  switch (k) {
    case Kernel::rotary:
    case Kernel::rotary_backward:
    case Kernel::softmax:
    case Kernel::softmax_backward:
    case Kernel::activation:
    case Kernel::activation_backward:
    case Kernel::permute:
    case Kernel::unpermute:
    case Kernel::router:
    case Kernel::router_backward: return true;
    default: return is_norm(k);
  }
}

// Operators of a router that is not fused, beyond the one of its kernel here (Megatron-LM
// core/transformer/moe/router.py, aux_loss_load_balancing, and moe_utils.py).  Forward: the choice
// (top-k, softmax, cast, scores and map of two and four operators, sum: 10), the same for the loss
// (softmax, top-k, map: 6), the loss (two sums, product, sum, two scalings, two for the log: 8);
// token_dispatcher.py, preprocess: five sums and casts of counts, three copies to the host.
// Backward, of what has a gradient: two softmaxes, scatter, cast, sum, two products, scaling.
constexpr int kRouterForward = 24 + 5, kRouterCopies = 3, kRouterBackward = 8;

class Launches {
 public:
  Launches(OpGraph& graph, const Plan& plan)
      : graph_(graph), plan_(plan), first_of_work_(graph.works.size(), kNone) {
    launches_.reserve(graph.works.size());
  }

  void assign() {
    for (Pass& pass : graph_.passes) {
      assign_ops(pass);
      if (reads_counts()) read_counts(pass);
      if (plan_.kernels.cuda_graph == CudaGraph::layer) capture_layers(pass);
      if (plan_.kernels.cuda_graph == CudaGraph::step && is_captured(pass)) set_all(pass, {});
    }
    assign_rendezvous();
    // What a CUDA graph holds is one launch.
    graph_.host_blocks = plan_.kernels.host_waits == HostWaits::launches &&
                         plan_.kernels.cuda_graph == CudaGraph::none;
  }

 private:
  void assign_rendezvous() {
    std::vector<bool> read(graph_.rendezvous.size());  // by the host, when it has ended
    for (const RoleOps& role : graph_.roles)
      for (const Item& item : role.items)
        if (item.kind == ItemKind::join && item.host_waits)
          read[static_cast<size_t>(item.rendezvous)] = true;
    std::array<std::optional<LaunchId>, 4> known;  // by whether it sends, and whether it is read
    for (size_t i = 0; i < graph_.rendezvous.size(); ++i) {
      Rendezvous& r = graph_.rendezvous[i];
      const bool sends = graph_.works[static_cast<size_t>(r.work)].kind == WorkKind::send_recv;
      std::optional<LaunchId>& id = known[(sends ? 2 : 0) + (read[i] ? 1 : 0)];
      if (id) {
        r.launch = *id;
        continue;
      }
      Launch launch;
      if (!sends) launch.add(HostCall::collective);
      if (sends && plan_.kernels.cuda_graph != CudaGraph::step) launch.add(HostCall::transfer);
      if (read[i]) launch.add(HostCall::synchronize);
      id = r.launch = launch_of(graph_, launch);
    }
  }

  const Work& work_of(const Op& op) const { return graph_.works[static_cast<size_t>(op.work)]; }

  bool in_te(const Op& op) const {
    return op.layer >= 0 && plan_.kernels.modules == Modules::transformer_engine;
  }

  void assign_ops(Pass& pass) {
    bool first = true;
    std::pair<Phase, int> last{Phase::forward, -1};
    for (Op& op : pass.ops) {
      LaunchOfOp& own = launch_of_op(op);
      const std::pair<Phase, int> here{op.phase, op.layer};
      const bool region =
          op.phase == Phase::recompute && op.layer >= 0 && std::exchange(last, here) != here;
      last = here;
      const bool batch = std::exchange(first, false) && reads_batch(pass);
      if (!region && !batch) {
        if (!own.id) own.id = launch_of(graph_, own.launch);
        op.launch = *own.id;
        continue;
      }
      Launch launch = own.launch;
      if (region) add_region(launch, plan_.kernels.modules);
      if (batch) add_batch(launch);
      op.launch = launch_of(graph_, launch);
    }
  }

  static constexpr uint32_t kNone = UINT32_MAX;

  struct LaunchOfOp {
    Op op;
    Launch launch;
    std::optional<LaunchId> id;  // once an op has it
    uint32_t next = kNone;       // of the same work
  };

  // Of the op by itself, wherever it stands.  A layer's ops are the next one's, and asked for once.
  LaunchOfOp& launch_of_op(const Op& op) {
    const auto is_same = [&](const Op& o) {
      return o.stream == op.stream && o.phase == op.phase && o.role == op.role &&
             (o.layer >= 0) == (op.layer >= 0);
    };
    uint32_t& first = first_of_work_[static_cast<size_t>(op.work)];
    for (uint32_t at = first; at != kNone; at = launches_[at].next)
      if (is_same(launches_[at].op)) return launches_[at];
    LaunchOfOp& fresh = launches_.emplace_back(LaunchOfOp{op, {}, {}, first});
    first = static_cast<uint32_t>(launches_.size() - 1);
    // Nobody launches a wait for experts.
    if (work_of(op).kind != WorkKind::expert_wait)
      fresh.launch = is_communication(work_of(op).kind) ? of_communication(op) : of_compute(op);
    return fresh;
  }

  Launch of_communication(const Op& op) const {
    Launch launch;
    if (work_of(op).kind == WorkKind::send_recv) return launch.add(HostCall::transfer, 2);
    // Pieces that a product is made beside are exchanged by the module itself, in C++: one kernel
    // sends, one receives (Transformer Engine common/comm_gemm_overlap/comm_gemm_overlap.cpp).
    if (in_te(op) && work_of(op).kind == WorkKind::shift && op.stream == Stream::tp)
      return launch.add(HostCall::kernel, 2);
    launch.add(HostCall::collective);
    // Between PyTorch's modules the collective has a gradient of its own; Megatron-LM's linear
    // layers have it in the Function that is counted with their products.
    const bool own = op.phase == Phase::forward || op.phase == Phase::recompute;
    const bool inside = op.layer >= 0 && plan_.kernels.modules != Modules::torch;
    const bool gathers = op.stream == Stream::dp && work_of(op).kind == WorkKind::all_gather;
    if (gathers && op.phase == Phase::forward && plan_.zero == 3 && plan_.sharding.fsdp2())
      launch.add(HostCall::unshard);
    if (own && !inside && op.stream != Stream::dp) launch.add(HostCall::function);
    if (plan_.zero == 3 && plan_.sharding.in_lists && op.stream == Stream::dp)
      add_lists(launch, work_of(op));
    return launch;
  }

  // DeepSpeed of early 2021 (@112ebff6 deepspeed/runtime/zero/partition_parameters.py) gathers each
  // weight by itself (_allgather_param) and reduces its gradient so (_reduce_scatter_gradient).
  // Both hand torch.distributed a list of the parts of all ranks: for each part a slice made in
  // Python (a gradient is viewed as flat first; a gather asks torch.distributed.get_rank for each
  // whether it is its own), and in c10d a slice of the flat buffer and a copy to or from it.
  // Before it gathers, the host waits for its device (torch.cuda.synchronize).
  // Vectors stay whole (stage3_param_persistence_threshold), so that a layer has four weights.
  void add_lists(Launch& launch, const Work& work) const {
    constexpr int64_t kWeights = 4;
    const bool gathers = work.kind == WorkKind::all_gather;
    if (!gathers && work.kind != WorkKind::reduce_scatter) return;
    const int64_t weights = kWeights * plan_.sharding.unit_layers;
    const auto parts =
        static_cast<int>(std::min(kMostCalls, weights * dense_replicas(plan_).shards));
    launch.add(HostCall::collective, static_cast<int>(std::min(kMostCalls, weights - 1)))
        .add(HostCall::view, gathers ? parts : 2 * parts)
        .add(HostCall::node, parts)
        .add(HostCall::eager_backward, parts);
    if (gathers) launch.add(HostCall::frame, parts).add(HostCall::synchronize);
  }

  Launch of_compute(const Op& op) const {
    const Work& work = work_of(op);
    Launch launch;
    if (work.flops.value <= 0 && work.bytes.value <= 0) return launch;
    if (is_step_end(op.phase)) return launch.add(HostCall::eager_backward);
    if (op.role == OpRole::later_kernel) return launch.add(HostCall::kernel);
    // One call of a module makes all pieces of its product.
    if (in_te(op) && op.role == OpRole::later_piece) return launch.add(HostCall::kernel);
    if (op.layer >= 0) add_python(launch, op, work, plan_.kernels.modules);
    add_kernels(launch, op, work);
    return launch;
  }

  void add_kernels(Launch& launch, const Op& op, const Work& work) const {
    switch (work.kind) {
      case WorkKind::gemm:
      case WorkKind::grouped_gemm: return add_product(launch, op, work);
      case WorkKind::attention_forward:
      case WorkKind::attention_backward:
        if (in_te(op)) {
          launch.add(HostCall::module);
        } else {
          launch.add(HostCall::function).add(HostCall::kernel);
        }
        return;
      default: return add_kernel(launch, op, work);
    }
  }

  void add_product(Launch& launch, const Op& op, const Work& work) const {
    const bool backward = is_backward(op.phase);
    const HostCall product = backward ? HostCall::product_backward : HostCall::product_forward;
    const bool second = op.phase == Phase::backward_weight;  // of the two that one call makes
    if (work.heads == 0 && in_te(op)) {
      const bool grouped = work.kind == WorkKind::grouped_gemm;
      if (!second) launch.add(HostCall::module);
      // GroupedLinear launches a product for each expert, in a loop in C++
      // (transformer_engine/common/gemm/cublaslt_gemm.cu, nvte_multi_stream_cublas_gemm).
      if (second || grouped)
        launch.add(HostCall::kernel, grouped ? static_cast<int>(work.batch) : 1);
      return;
    }
    launch.add(product);
    // Megatron-LM hands the input on, or reduces the output, by an autograd Function.
    const bool linear = work.heads == 0 && !second;
    if (linear && plan_.kernels.modules != Modules::torch) launch.add(HostCall::function);
  }

  // Whether a function of torch.jit launches it, which add_python_of_kernel counts.
  bool is_script(const Op& op, Kernel k) const {
    return op.layer >= 0 && plan_.kernels.modules != Modules::torch &&
           (k == Kernel::bias_dropout_add || k == Kernel::bias_dropout_add_backward);
  }

  void add_kernel(Launch& launch, const Op& op, const Work& work) const {
    const Kernel k = work.kernel;
    if (!plan_.moe.router_fusion && plan_.kernels.modules != Modules::torch) {
      if (k == Kernel::router)
        launch.add(HostCall::eager_forward, kRouterForward - 1)
            .add(HostCall::eager_backward, kRouterCopies);
      if (k == Kernel::router_backward) launch.add(HostCall::eager_backward, kRouterBackward - 1);
    }
    if (k == Kernel::quantize || (in_te(op) && is_norm(k)) || is_script(op, k)) {
      launch.add(HostCall::kernel);
    } else if (has_function(k)) {
      launch.add(HostCall::function).add(HostCall::kernel);
    } else {
      launch.add(is_backward(op.phase) ? HostCall::eager_backward : HostCall::eager_forward);
    }
  }

  bool reads_batch(const Pass& pass) const {
    return std::ranges::any_of(pass.ops, [&](const Op& op) {
      const Kernel k = work_of(op).kernel;
      return op.phase == Phase::forward && (k == Kernel::embedding || k == Kernel::cross_entropy);
    });
  }

  // Tokens, labels, loss mask, attention mask, positions: copied to the device, or received from
  // the rank of the tensor-parallel group that read them (Megatron-LM: get_batch_on_this_tp_rank).
  void add_batch(Launch& launch) const {
    constexpr int kTensors = 5;
    launch.add(HostCall::eager_backward, kTensors);
    if (plan_.tp > 1) launch.add(HostCall::collective, kTensors);
  }

  // The host has to know how many rows come, unless every expert's input is padded to its capacity
  // (Megatron-Core core/transformer/moe/token_dispatcher.py).  A captured graph cannot wait.
  bool reads_counts() const {
    const bool padded = plan_.moe.capacity_factor > 0 && plan_.moe.pad_to_capacity;
    return !padded && plan_.kernels.cuda_graph == CudaGraph::none;
  }

  // It waits before the exchange of a dispatch ("before_ep_alltoall"), DeepEP between counting and
  // sending (csrc/deep_ep.cpp), and before the first permutation where tokens are dropped
  // ("before_permutation_1"), where all are gathered (local_map.sum(dim=0).long().cpu()) and where
  // nothing is exchanged: there later ("before_finish"), for the same counts.
  bool needs_counts(const Work& work) const {
    const Dispatcher dispatcher = plan_.moe.dispatcher;
    const bool at_exchange =
        plan_.ep > 1 && (dispatcher == Dispatcher::deepep ||
                         (dispatcher == Dispatcher::all_to_all && plan_.moe.capacity_factor == 0));
    if (at_exchange) return work.kind == WorkKind::all_to_all && work.axis == Axis::ep;
    return work.kind == WorkKind::memory_bound && work.kernel == Kernel::permute;
  }

  void read_counts(Pass& pass) {
    std::array<int, 2> layer{-1, -1};  // of forward and recomputation, which dispatches again
    for (Op& op : pass.ops) {
      const bool again = op.phase == Phase::recompute;
      if ((op.phase != Phase::forward && !again) || !needs_counts(work_of(op))) continue;
      if (std::exchange(layer[again ? 1 : 0], op.layer) == op.layer) continue;
      Launch launch = graph_.launches[static_cast<size_t>(op.launch)];
      op.launch = launch_of(graph_, launch.add(HostCall::synchronize));
    }
  }

  // A replay is a call with a gradient, which copies its input into the graph's buffer.  Gradients
  // are reduced outside.  In a pair of passes that take turns each has its layers in order.
  void capture_layers(Pass& pass) {
    std::array<int, 2> layer{-1, -1};  // of forward and backward
    for (Op& op : pass.ops) {
      if (op.layer < 0 || op.stream == Stream::dp || is_step_end(op.phase)) continue;
      Launch launch;
      int& last = layer[op.phase == Phase::forward ? 0 : 1];
      if (op.layer != last)
        launch.add(HostCall::graph).add(HostCall::function).add(HostCall::eager_backward);
      last = op.layer;
      op.launch = launch_of(graph_, launch);
    }
  }

  static bool is_captured(const Pass& pass) {
    return std::ranges::any_of(pass.ops, [](const Op& op) { return !is_step_end(op.phase); });
  }

  void set_all(Pass& pass, const Launch& launch) {
    for (Op& op : pass.ops) op.launch = launch_of(graph_, launch);
  }

  OpGraph& graph_;
  const Plan& plan_;
  // One for each that of_communication() and of_compute() tell apart: by work, stream, phase, role,
  // and whether it is in a layer.
  std::vector<LaunchOfOp> launches_;
  std::vector<uint32_t> first_of_work_;  // in launches_
};

}  // namespace

void assign_launches(OpGraph& graph, const Plan& plan) {
  Launches(graph, plan).assign();
}

}  // namespace stepcast
