// SPDX-License-Identifier: Apache-2.0
// resolve_kernels: which kernels the framework launches, what its libraries keep for them, and what
// the host waits for.
#include <fmt/format.h>

#include <initializer_list>
#include <string_view>
#include <utility>

#include "scenarios/resolve_plan.h"

namespace stepcast {
namespace {

// The meaning of the word at `path`; without one, or with a wrong one, `to` stays what it is.
template <class Enum>
void choose(const FieldValues& v, std::string_view path,
            std::initializer_list<std::pair<std::string_view, Enum>> meanings, Enum& to) {
  if (!v.has(path)) return;
  for (const auto& [word, meaning] : meanings)
    if (v.text(path) == word) to = meaning;
}

void resolve_choices(const FieldValues& v, Plan& plan) {
  Kernels& k = plan.kernels;
  choose(v, "kernels.attention", {{"flash", true}, {"unfused", false}}, k.flash_attention);
  choose(v, "kernels.flash_kernel",
         {{"table", AttentionKernel::table},
          {"flash-1", AttentionKernel::flash1},
          {"flash-1-triton", AttentionKernel::flash1_triton},
          {"flash-2", AttentionKernel::flash2}},
         k.fused_attention);
  choose(v, "kernels.modules",
         {{"torch", Modules::torch},
          {"megatron", Modules::megatron},
          {"transformer-engine", Modules::transformer_engine}},
         k.modules);
  choose(v, "kernels.loss",
         {{"megatron", Loss::megatron},
          {"in-place", Loss::in_place},
          {"torch", Loss::torch},
          {"torch-compiled", Loss::torch_compiled},
          {"torch-gathered", Loss::torch_gathered}},
         k.loss);
  choose(
      v, "kernels.host_waits",
      {{"none", HostWaits::none}, {"forward", HostWaits::forward}, {"passes", HostWaits::passes}},
      k.host_waits);
  choose(v, "kernels.cuda_graph",
         {{"none", CudaGraph::none}, {"layer", CudaGraph::layer}, {"step", CudaGraph::step}},
         k.cuda_graph);
  choose(v, "optimizer.kernel",
         {{"fused", OptimizerKernel::fused},
          {"foreach", OptimizerKernel::foreach},
          {"flat", OptimizerKernel::flat}},
         plan.optimizer_kernel);
}

void resolve_flags(const FieldValues& v, Plan& plan) {
  const auto flag = [&](std::string_view path, bool& to) {
    if (v.has(path)) to = v.flag(path);
  };
  Kernels& k = plan.kernels;
  flag("kernels.fused_bias", k.fused_bias);
  flag("kernels.fused_bias_dropout_add", k.fused_bias_dropout_add);
  flag("kernels.fused_activation", k.fused_activation);
  flag("kernels.fused_softmax", k.fused_softmax);
  flag("kernels.fused_cross_entropy", k.fused_cross_entropy);
  flag("kernels.gradient_accumulation_fusion", k.gradient_accumulation_fusion);
  flag("kernels.fused_norm", k.fused_norm);
  flag("kernels.gradient_placeholders", k.gradient_placeholders);
  flag("optimizer.clip", plan.clip_gradients);
}

// What libraries keep for products depends on the GPU.
void resolve_workspaces(const PlanInputs& in, Kernels& k) {
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  if (in.cluster == nullptr) return;
  FieldValues& v = in.values;
  const GpuArchitecture& arch = architecture(in.cluster->node.gpu.arch);
  const int64_t kib = arch.blas_workspace_kib;
  const bool whole = kib % 1024 == 0;
  if (!v.stated("kernels.blas_workspace"))
    v.derive("kernels.blas_workspace", kib * kKiB,
             whole ? fmt::format("{}MiB", kib / 1024) : fmt::format("{}KiB", kib),
             kib == 8320 ? "PyTorch but on Hopper: ':4096:2:16:8'" : "PyTorch on Hopper");
  if (v.has("kernels.blas_workspace")) k.blas_workspace = Bytes{v.whole("kernels.blas_workspace")};
  k.engine_workspace = Bytes{arch.engine_workspace_mib * kMiB};
}

}  // namespace

void resolve_kernels(const PlanInputs& in, Plan& plan) {
  resolve_choices(in.values, plan);
  resolve_flags(in.values, plan);
  resolve_workspaces(in, plan.kernels);
}

}  // namespace stepcast
