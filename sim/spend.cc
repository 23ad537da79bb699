// SPDX-License-Identifier: Apache-2.0
#include "sim/spend.h"

namespace stepcast {

Spend spend_of(const Work& work, Phase phase) {
  if (is_communication(work.kind)) {
    switch (work.axis) {
      case Axis::tp: return Spend::exposed_tp;
      case Axis::cp:
      case Axis::cp_inner:
      case Axis::cp_outer: return Spend::exposed_cp;
      case Axis::ep:
      case Axis::etp: return Spend::exposed_ep;
      case Axis::dp:
      case Axis::edp:
      case Axis::data:
      case Axis::shard:
      case Axis::replica: return Spend::exposed_dp;
      case Axis::pp: return Spend::exposed_pp;
      default: return Spend::exposed_other;
    }
  }
  if (work.kind == WorkKind::expert_wait) return Spend::expert_imbalance;
  if (phase == Phase::optimizer) return Spend::optimizer;
  if (phase == Phase::gradient_sync) return Spend::gradient_buffers;
  if (phase == Phase::recompute) return Spend::recompute;
  switch (work.kind) {
    // The batched products of unfused attention carry their heads.
    case WorkKind::gemm: return work.heads > 0 ? Spend::attention : Spend::matmul;
    case WorkKind::grouped_gemm: return Spend::matmul;
    case WorkKind::attention_forward:
    case WorkKind::attention_backward: return Spend::attention;
    default: break;
  }
  switch (work.kernel) {
    case Kernel::softmax:
    case Kernel::softmax_backward: return Spend::attention;
    case Kernel::layer_norm:
    case Kernel::layer_norm_backward:
    case Kernel::rms_norm:
    case Kernel::rms_norm_backward: return Spend::norm;
    case Kernel::embedding:
    case Kernel::embedding_backward:
    case Kernel::cross_entropy:
    case Kernel::cross_entropy_backward: return Spend::embedding_loss;
    default: return Spend::elementwise;
  }
}

}  // namespace stepcast
