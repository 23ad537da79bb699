// SPDX-License-Identifier: Apache-2.0
#include "sim/graph/spend.h"

namespace stepcast {

std::string_view name_of(Spend s) {
  static constexpr std::array<std::string_view, kSpends> kNames{"matmul",
                                                                "attention",
                                                                "norm",
                                                                "elementwise",
                                                                "embedding_loss",
                                                                "recompute",
                                                                "gradient_buffers",
                                                                "optimizer",
                                                                "exposed_tp",
                                                                "exposed_cp",
                                                                "exposed_ep",
                                                                "exposed_pp",
                                                                "exposed_dp",
                                                                "exposed_other",
                                                                "fill",
                                                                "imbalance",
                                                                "drain",
                                                                "blocked",
                                                                "straggler",
                                                                "expert_imbalance",
                                                                "contention",
                                                                "launch",
                                                                "idle_end"};
  return kNames[static_cast<size_t>(s)];
}

std::string_view title_of(Spend s) {
  static constexpr std::array<std::string_view, kSpends> kTitles{
      "matrix products", "attention",        "norms",          "elementwise",   "embedding, loss",
      "recompute",       "gradient buffers", "optimizer",      "TP exposed",    "CP exposed",
      "EP exposed",      "PP exposed",       "DP exposed",     "other exposed", "pipeline fill",
      "stage imbalance", "pipeline drain",   "blocked sends",  "straggler",     "expert imbalance",
      "contention",      "launch gaps",      "idle at the end"};
  return kTitles[static_cast<size_t>(s)];
}

Time sum_if(const SpendTable& table, bool (*counts)(Spend)) {
  Time sum{};
  for (size_t s = 0; s < table.size(); ++s)
    if (counts(static_cast<Spend>(s))) sum += table[s];
  return sum;
}

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
