// SPDX-License-Identifier: Apache-2.0
// What a framework runs and when: kernels and what the host waits for, recomputation, communication
// beside computation.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace stepcast {

// ----------------------------------------------------------------------------------------- kernels

namespace {

// What libraries keep for products depends on the GPU.
void resolve_workspaces(const PlanInputs& in, Kernels& k) {
  constexpr int64_t kKiB = 1024, kMiB = 1024 * kKiB;
  if (in.cluster == nullptr) return;
  FieldValues& v = in.values;
  const GpuArchitecture& arch = architecture(in.cluster->node.gpu.arch);
  const int64_t kib = arch.blas_workspace_kib;
  if (!v.stated("kernels.blas_workspace"))
    v.derive<Bytes>("kernels.blas_workspace", Bytes{kib * kKiB},
                    kib == 8320 ? "PyTorch but on Hopper: ':4096:2:16:8'" : "PyTorch on Hopper",
                    kib % 1024 == 0 ? fmt::format("{}MiB", kib / 1024) : fmt::format("{}KiB", kib));
  v.read("kernels.blas_workspace", k.blas_workspace);
  v.read("kernels.module_loading", k.eager_loading);
  v.read("kernels.nccl", k.nccl_version);
  v.read("kernels.record_streams", k.record_streams);
  v.read("kernels.expandable_segments", k.expandable_segments);
  k.engine_workspace = Bytes{arch.engine_workspace_mib * kMiB};
}

// A digit too few, as years before CUDA have, or too old.  NCCL_VERSION of NVIDIA/nccl's public
// header counts 1000 X + 100 Y + Z up to 2.8 and 10000 X + 100 Y + Z from 2.9 on.
void check_versions(FieldValues& v, const Kernels& k) {
  constexpr int64_t kFirstYear = 2007;
  const int64_t nccl = k.nccl_version;
  const bool is_nccl = (nccl >= 2700 && nccl < 2900) || nccl >= 20900;
  if (k.libraries > 0 && k.libraries < kFirstYear)
    v.refuse("E127", "kernels.libraries",
             fmt::format("'libraries' is a year: CUDA had none in {}", k.libraries),
             fmt::format("{} or later; 0 stands for the newest", kFirstYear));
  if (!is_nccl)
    v.refuse(
        "E127", "kernels.nccl",
        fmt::format("'nccl' is NCCL_VERSION_CODE: {} is no version from 2.7 on", nccl),
        "20900 to 29999, 10000 X + 100 Y + Z for version X.Y.Z, such as 22105 for 2.21.5; 2700 to "
        "2899 for 2.7 and 2.8");
}

}  // namespace

void resolve_kernels(const PlanInputs& in, Plan& plan) {
  in.values.read("kernels.cuda_graph", plan.kernels.cuda_graph);
  resolve_workspaces(in, plan.kernels);
  check_versions(in.values, plan.kernels);
}

// --------------------------------------------------------------------------------------- recompute

namespace {

void resolve_modules(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (!v.has("recompute.modules")) return;
  const bool stated =
      v.value("recompute.modules") != nullptr;  // facts and defaults raise no remarks
  RecomputeModules& m = plan.recompute_modules;
  const std::vector<RecomputeModule> chosen = v.list<RecomputeModule>("recompute.modules");
  const auto has = [&](RecomputeModule one) { return std::ranges::count(chosen, one) > 0; };
  m.core_attention = has(RecomputeModule::core_attention);
  m.norms = has(RecomputeModule::norms);
  m.mla_up_projection = has(RecomputeModule::mla_up_projection);
  m.mlp = has(RecomputeModule::mlp);
  m.moe = has(RecomputeModule::moe);
  m.moe_activation = has(RecomputeModule::moe_activation);
  m.shared_experts = has(RecomputeModule::shared_experts);
  if (!stated) return;
  if (plan.recompute != Recompute::selective)
    in.warnings.push_back("recompute.modules has no effect without recompute: selective");
  if (in.model == nullptr) return;
  const bool experts = in.model->experts > 0;
  const auto without = [&](bool asked, const char* word, const char* what) {
    if (asked)
      in.warnings.push_back(
          fmt::format("recompute.modules: {} has no effect: the model has no {}", word, what));
  };
  without(m.mla_up_projection && in.model->kv_rank == 0, "mla_up_proj", "latent attention");
  without(m.moe && !experts, "moe", "experts");
  without(m.moe_activation && !experts, "moe_act", "experts");
  without(m.shared_experts && in.model->shared_ffn == 0, "shared_experts", "shared experts");
}

}  // namespace

void resolve_recompute(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  resolve_modules(in, plan);
  if (v.is("recompute.distribute", true)) {
    plan.recompute_distribute = plan.recompute == Recompute::full && plan.tp > 1 && !plan.sp;
    if (!plan.recompute_distribute)
      in.warnings.push_back(
          "recompute.distribute has no effect: it needs recompute: full, tp > 1 and sp: false");
  }
  if (!v.has("recompute.layers")) return;
  plan.recompute_layers = v.whole("recompute.layers");
  int64_t most = 0;
  for (const StageContent& s : plan.stages) most = std::max(most, s.layers);
  if (plan.recompute == Recompute::full && most > 0 && plan.recompute_layers > most)
    v.refuse("E127", "recompute.layers",
             fmt::format("recompute.layers = {}, but no stage has more than {} layers",
                         plan.recompute_layers, most),
             fmt::format("layers of each stage: at most {}", most));
}

// ----------------------------------------------------------------------------------------- overlap

namespace {

void resolve_comm_sms(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (!v.has("overlap.comm_sms")) return;
  const int64_t taken = v.whole("overlap.comm_sms");
  if (taken == 0 || in.cluster == nullptr) return;
  const Gpu& gpu = in.cluster->node.gpu;
  if (taken < gpu.sms) {
    plan.overlap.comm_sms = static_cast<int>(taken);
    return;
  }
  v.refuse("E127", "overlap.comm_sms", fmt::format("{} has {} SMs", gpu.name, gpu.sms),
           "DeepSeek-V3 used 20 of 132");
}

// Overlap that can do nothing is remarked on.
void check_overlap(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  for (const KeyOf<bool> key : {KeyOf<bool>("overlap.dp_grad"), KeyOf<bool>("overlap.dp_param")}) {
    if (v.value(key) == nullptr || !v.is(key, true)) continue;
    if (plan.dp * plan.cp == 1) {
      in.warnings.push_back(key.path() + " has no effect: dp = 1");
    } else if (plan.zero == 0 && key == Key("overlap.dp_param")) {
      in.warnings.push_back(key.path() + " has no effect without parallel.zero: 1");
    }
  }
}

}  // namespace

void resolve_overlap(const PlanInputs& in, Plan& plan) {
  in.values.read("overlap.dp_grad", plan.overlap.dp_grad);
  resolve_comm_sms(in, plan);
  check_overlap(in, plan);
}

// ----------------------------------------------------------------------------------------- remarks

namespace {

// Logits that stay without being held, and microbatches that there are not.
void remark_logits(const PlanInputs& in, const Plan& plan) {
  const Kernels& k = plan.kernels;
  if (in.values.value("kernels.held_logits") == nullptr || k.held_logits == 0) return;
  const bool stay = k.loss == Loss::in_place || k.loss == Loss::torch_compiled;
  if (k.held_logits == 1 && stay)
    in.warnings.push_back("kernels.held_logits has no effect: kernels.loss: " +
                          in.values.text("kernels.loss") + " keeps them for its backward");
  if (plan.micro_batch < 1 || plan.dp < 1) return;  // which is refused elsewhere
  const int64_t microbatches = plan.microbatches();
  if (k.held_logits > std::max<int64_t>(1, microbatches))
    in.warnings.push_back(fmt::format(
        "kernels.held_logits has no effect beyond {}, the microbatches of a step", microbatches));
}

}  // namespace

void remark_overridden(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const Kernels& k = plan.kernels;
  const auto remark = [&](bool overridden, Key key, const char* why) {
    if (overridden && v.value(key) != nullptr && v.has(key))
      in.warnings.push_back(key.path() + " has no effect" + why);
  };
  remark(v.value("parallel.layout") != nullptr, "parallel.split",
         ": parallel.layout says which layers are where");
  // Transformer Engine's loss is one that Megatron's --cross-entropy-loss-fusion switches on.
  const bool other_loss = k.loss != Loss::megatron && k.loss != Loss::in_place;
  remark(other_loss && k.fused_cross_entropy, "kernels.fused_cross_entropy",
         " without kernels.loss: megatron");
  remark(k.cuda_graph == CudaGraph::step && k.host_waits != HostWaits::none, "kernels.host_waits",
         ": with kernels.cuda_graph: step passes are one launch");
  remark(!k.flash_attention && k.fused_attention != AttentionKernel::table, "kernels.flash_kernel",
         " without kernels.attention: flash");
  remark(k.modules != Modules::transformer_engine && k.gradient_placeholders,
         "kernels.gradient_placeholders", " without kernels.modules: transformer-engine");
  const Precision& p = plan.precision;
  const bool widens = p.master && p.gradients != DType::fp32;
  remark(plan.gradient_copies == GradientCopies::for_norm && !(widens && plan.clip_gradients),
         "optimizer.gradient_copies",
         widens ? " without optimizer.clip" : ": gradients are as wide as the optimizer's already");
  remark(plan.whole_master && plan.zero != 1, "optimizer.whole_master",
         " without parallel.zero: 1");
  remark(p.product_gradients != ProductGradients::added && k.gradient_accumulation_fusion,
         "precision.product_grads", " without kernels.gradient_accumulation_fusion: false");
  remark(p.own_gradients && p.gradients == p.params, "precision.own_grads",
         ": the main gradients are in the format of the parameters");
  remark(k.softmax_fp32 && k.flash_attention, "kernels.softmax_fp32",
         " without kernels.attention: unfused");
  remark(k.softmax_fp32 && !k.flash_attention && k.fused_softmax, "kernels.softmax_fp32",
         " without kernels.fused_softmax: false");
  remark(k.context_copies && !k.flash_attention, "kernels.context_copies",
         " without kernels.attention: flash");
  remark(k.context_copies && k.flash_attention && plan.micro_batch == 1, "kernels.context_copies",
         ": batch.micro = 1");
  remark_logits(in, plan);
}

}  // namespace stepcast
