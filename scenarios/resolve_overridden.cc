// SPDX-License-Identifier: Apache-2.0
// remark_overridden: what a scenario states beside something that leaves it without effect.
#include <string>

#include "scenarios/resolve_plan.h"

namespace stepcast {

void remark_overridden(const PlanInputs& in, const Plan& plan) {
  const FieldValues& v = in.values;
  const Kernels& k = plan.kernels;
  const auto remark = [&](bool overridden, const char* path, const char* why) {
    if (overridden && v.value(path) != nullptr && v.has(path))
      in.warnings.push_back(std::string(path) + " has no effect" + why);
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
}

}  // namespace stepcast
