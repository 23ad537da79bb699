// SPDX-License-Identifier: Apache-2.0
// The sections parallel, batch, precision, recompute, overlap, optimizer, kernels, moe and offload
// -> Plan.  Here the values meet each other: does it all fit together?
//
// Each resolve_X() is a file of that name.  All add what is wrong to the problems and go on, so
// that the user sees everything at once; remarks on what has no effect are warnings.
#pragma once

#include <string>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "scenarios/field_values.h"
#include "topology/cluster/cluster.h"

namespace stepcast {

// Everything that belongs together when relations are checked.  What could not be resolved is
// absent, and the checks that need it are left out.
struct PlanInputs {
  FieldValues& values;
  Problems& problems;
  std::vector<std::string>& warnings;
  const Transformer* model = nullptr;
  const Cluster* cluster = nullptr;
  int64_t gpus = 0;  // that the job runs on
};

// The whole plan: the parts below in their order.  Adds E127, E130, E201-E204, E206, E210, E211,
// E230 problems; the plan is complete only if there are none.  Fills derived values (dp, vpp, sp,
// the number formats) in.
Plan resolve_plan(const PlanInputs& in);

// Sizes, stages, grid; of models with experts their groups and the section moe.
void resolve_layout(const PlanInputs& in, Plan& plan);
// REQUIRES: tp, cp, dp and sp are resolved.
void resolve_experts(const PlanInputs& in, Plan& plan);
// REQUIRES, from here on: the layout is resolved.
void resolve_batch(const PlanInputs& in, Plan& plan);
// How sequences are split over context-parallel ranks.  REQUIRES: the batch is resolved.
void resolve_context(const PlanInputs& in, Plan& plan);
void resolve_precision(const PlanInputs& in, Plan& plan);
// What tokens travel to experts as.  REQUIRES: precision is resolved.
void resolve_exchange(const PlanInputs& in, Plan& plan);
void resolve_recompute(const PlanInputs& in, Plan& plan);
// ZeRO, FSDP, hybrid sharding; what is moved to the host.
void resolve_sharding(const PlanInputs& in, Plan& plan);
void resolve_kernels(const PlanInputs& in, Plan& plan);
// REQUIRES: sharding is resolved.
void resolve_overlap(const PlanInputs& in, Plan& plan);
// Remarks on what is stated beside something that leaves it without effect (resolve_overridden.cc).
void remark_overridden(const PlanInputs& in, const Plan& plan);
// The largest tensor of a microbatch has to be countable in bytes (resolve_batch.cc).
void check_tensor_sizes(const PlanInputs& in, const Plan& plan);

// The number format of that name.  REQUIRES: there is one.
DType dtype_of(std::string_view word);

// Whether tp divides the heads, the key-value heads (or they it), the MLP and the width.
bool divides(const Transformer& model, int64_t tp);

// For messages: how many tensor-parallel ranks the model and a node allow ("1", "2", "4", "8").
std::vector<std::string> legal_tp(const Transformer& model, int64_t most);

// Vocabulary as Megatron pads it: to a multiple of `multiple` * tp, usually 128 * tp.
int64_t padded_vocab(int64_t vocab, int64_t tp, int64_t multiple);

}  // namespace stepcast
