// SPDX-License-Identifier: Apache-2.0
#include "model/host_calls.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "model/python_calls.h"

namespace stepcast {
namespace {

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

class Launches {
 public:
  Launches(OpGraph& graph, const Plan& plan) : graph_(graph), plan_(plan) {}

  void assign() {
    for (Pass& pass : graph_.passes) {
      assign_ops(pass);
      if (reads_counts()) read_counts(pass);
      if (plan_.kernels.cuda_graph == CudaGraph::layer) capture_layers(pass);
      if (plan_.kernels.cuda_graph == CudaGraph::step && is_captured(pass)) set_all(pass, {});
    }
    assign_rendezvous();
  }

 private:
  void assign_rendezvous() {
    std::vector<bool> read(graph_.rendezvous.size());  // by the host, when it has ended
    for (const RoleOps& role : graph_.roles)
      for (const Item& item : role.items)
        if (item.kind == ItemKind::join && item.host_waits)
          read[static_cast<size_t>(item.rendezvous)] = true;
    for (size_t i = 0; i < graph_.rendezvous.size(); ++i) {
      Rendezvous& r = graph_.rendezvous[i];
      const bool sends = graph_.works[static_cast<size_t>(r.work)].kind == WorkKind::send_recv;
      Launch launch;
      if (!sends) launch.add(HostCall::collective);
      if (sends && plan_.kernels.cuda_graph != CudaGraph::step) launch.add(HostCall::transfer);
      if (read[i]) launch.add(HostCall::synchronize);
      r.launch = launch_of(graph_, launch);
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
      Launch launch = is_communication(work_of(op).kind) ? of_communication(op) : of_compute(op);
      if (work_of(op).kind == WorkKind::expert_wait) launch = {};  // nobody launches it
      const std::pair<Phase, int> here{op.phase, op.layer};
      if (op.phase == Phase::recompute && op.layer >= 0 && std::exchange(last, here) != here)
        add_region(launch, plan_.kernels.modules);
      last = here;
      if (std::exchange(first, false) && reads_batch(pass)) add_batch(launch);
      op.launch = launch_of(graph_, launch);
    }
  }

  Launch of_communication(const Op& op) const {
    Launch launch;
    if (work_of(op).kind == WorkKind::send_recv) return launch.add(HostCall::transfer, 2);
    launch.add(HostCall::collective);
    // Between PyTorch's modules the collective has a gradient of its own; Megatron-LM's linear
    // layers have it in the Function that is counted with their products.
    const bool own = op.phase == Phase::forward || op.phase == Phase::recompute;
    const bool inside = op.layer >= 0 && plan_.kernels.modules != Modules::torch;
    if (own && !inside && op.stream != Stream::dp) launch.add(HostCall::function);
    return launch;
  }

  Launch of_compute(const Op& op) const {
    const Work& work = work_of(op);
    Launch launch;
    if (work.flops.value <= 0 && work.bytes.value <= 0) return launch;
    if (is_step_end(op.phase)) return launch.add(HostCall::eager_backward);
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

  void add_kernel(Launch& launch, const Op& op, const Work& work) const {
    const Kernel k = work.kernel;
    if (k == Kernel::quantize || (in_te(op) && is_norm(k))) {
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
    const Dispatcher way = plan_.moe.dispatcher;
    const bool at_exchange =
        plan_.ep > 1 && (way == Dispatcher::deepep ||
                         (way == Dispatcher::all_to_all && plan_.moe.capacity_factor == 0));
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
};

}  // namespace

void assign_launches(OpGraph& graph, const Plan& plan) {
  Launches(graph, plan).assign();
}

}  // namespace stepcast
