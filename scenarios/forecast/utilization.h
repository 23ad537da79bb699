// SPDX-License-Identifier: Apache-2.0
// Floating-point operations of a step under each convention, over all ranks.
#pragma once

#include "model/plan.h"
#include "model/transformer.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

struct StepFlops {
  // Of the model: every query meets every key (Korthikanti et al. 2022, eq. 7) ...
  double full_attention = 0;
  // ... or only the keys it sees.
  double causal_attention = 0;
  // Matrix products and attention as the ops execute them, recomputation included.
  double executed = 0;
  // Korthikanti's hardware FLOPs: selective recomputation turns s/6h into s/3h (eq. 8), full
  // recomputation adds one forward.
  double korthikanti = 0;
};

StepFlops step_flops(const Transformer& model, const Plan& plan, const OpGraph& graph);

}  // namespace stepcast
