// SPDX-License-Identifier: Apache-2.0
// Floating-point operations of a step under each convention, over all ranks.
#pragma once

#include "model/plan.h"
#include "model/transformer.h"
#include "sim/op_graph.h"

namespace stepcast {

struct StepFlops {
  double full_attention =
      0;  // model FLOPs, every query meets every key (Korthikanti et al. 2022, eq. 7)
  double causal_attention = 0;  // only the keys a query sees
  double executed =
      0;  // matrix products and attention as the ops execute them, recomputation included
  double korthikanti = 0;  // their hardware FLOPs: selective recomputation turns s/6h into s/3h
                           // (eq. 8), full recomputation adds one forward
};

StepFlops step_flops(const Transformer& model, const Plan& plan, const OpGraph& graph);

}  // namespace stepcast
