// SPDX-License-Identifier: Apache-2.0
#include "scenarios/forecast/utilization.h"

#include "model/passes/forward_only.h"

namespace stepcast {
namespace {

double executed_flops(const OpGraph& graph) {
  std::vector<double> per_pass(graph.passes.size());
  for (size_t p = 0; p < per_pass.size(); ++p) {
    for (const Op& op : graph.passes[p].ops) {
      per_pass[p] += graph.works[static_cast<size_t>(op.work)].flops.value;
    }
  }
  double total = 0;
  for (const RoleOps& role : graph.roles) {
    double of_role = 0;
    for (const Item& item : role.items) {
      if (item.kind == ItemKind::pass) of_role += per_pass[static_cast<size_t>(item.pass)];
    }
    total += of_role * static_cast<double>(role.ranks);
  }
  return total;
}

}  // namespace

StepFlops step_flops(const Transformer& model, const Plan& plan, const OpGraph& graph) {
  if (!plan.trains()) {
    StepFlops flops;
    flops.full_attention = flops.korthikanti = inference_flops(model, plan, false);
    flops.causal_attention = inference_flops(model, plan, true);
    flops.executed = executed_flops(graph);
    return flops;
  }
  const auto sequences = static_cast<double>(plan.global_batch);
  const auto seq = static_cast<double>(plan.seq);
  const auto encoder = static_cast<double>(plan.encoder_seq);
  const double forward = forward_matmul_flops(model, sequences, seq, false, encoder);
  StepFlops flops;
  flops.full_attention = 3 * forward + teacher_flops(plan, false);
  flops.causal_attention =
      3 * forward_matmul_flops(model, sequences, seq, true, encoder) + teacher_flops(plan, true);
  flops.executed = executed_flops(graph);
  flops.korthikanti = flops.full_attention;
  if (plan.recompute == Recompute::selective && plan.recompute_modules.core_attention) {
    // Attention products alone: what a model of twice the sequence would add.
    const int64_t width = query_dim(model) + value_dim(model);
    const double attention =
        2 * sequences * seq * seq * static_cast<double>(model.heads * width * model.layers);
    flops.korthikanti += 3 * attention;
  } else if (plan.recompute == Recompute::full) {
    flops.korthikanti += forward - head_matmul_flops(model, sequences, seq);
  }
  return flops;
}

}  // namespace stepcast
