// SPDX-License-Identifier: Apache-2.0
#include "scenarios/resolve_plan.h"

#include "scenarios/resolve_mode.h"

namespace stepcast {

int64_t padded_vocab(int64_t vocab, int64_t tp, int64_t multiple) {
  const int64_t unit = multiple * tp;
  return (vocab + unit - 1) / unit * unit;
}

Plan resolve_plan(const PlanInputs& in) {
  Plan plan;
  resolve_mode(in, plan);
  resolve_layout(in, plan);
  resolve_batch(in, plan);
  resolve_context(in, plan);
  resolve_precision(in, plan);
  resolve_exchange(in, plan);
  resolve_recompute(in, plan);
  resolve_sharding(in, plan);
  resolve_kernels(in, plan);
  resolve_overlap(in, plan);
  remark_overridden(in, plan);
  check_tensor_sizes(in, plan);
  check_mode(in, plan);
  return plan;
}

}  // namespace stepcast
