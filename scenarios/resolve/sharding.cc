// SPDX-License-Identifier: Apache-2.0
// ZeRO, FSDP, hybrid sharding; what lives in the memory of the host.
#include "scenarios/resolve/resolve.h"

#include <fmt/format.h>

#include <string>

namespace stepcast {

namespace {

void resolve_copies(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (!v.has("parallel.dp_replicate")) return;
  const int64_t copies = v.whole("parallel.dp_replicate");
  const int64_t ranks = plan.cp * plan.dp;
  if (copies == 1) return;
  if (plan.zero == 0) {
    in.warnings.push_back("parallel.dp_replicate has no effect without parallel.zero");
    return;
  }
  if (in.cluster != nullptr && ranks % copies != 0) {
    v.refuse("E201", "parallel.dp_replicate",
             fmt::format("dp_replicate = {} does not divide dp * cp = {}", copies, ranks),
             "each of dp_replicate groups of equal size shards one copy of the states");
    return;
  }
  plan.dp_replicate = copies;
  plan.grid.replicas = copies;
}

// Which framework's units: docs/sharding.md has the table.
void resolve_units(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (v.has("parallel.fsdp")) {
    const auto kind = v.get<FsdpKind>("parallel.fsdp");
    plan.sharding.in_lists = kind == FsdpKind::deepspeed_2021;
    plan.sharding.copied_out =
        kind == FsdpKind::fsdp2 || kind == FsdpKind::deepspeed || plan.sharding.in_lists;
    plan.sharding.wide = kind == FsdpKind::fsdp1 || kind == FsdpKind::fsdp2;
  }
  if (plan.zero == 3) return;
  for (const Key key : Keys{"parallel.fsdp", "parallel.fsdp_unit", "parallel.reshard_after_forward",
                            "overlap.fsdp_prefetch"})
    if (v.value(key) != nullptr)
      in.warnings.push_back(key.path() + " has no effect without parallel.zero: 3");
}

void resolve_zero_exchange(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (plan.zero != 1 && v.value("parallel.zero_exchange") != nullptr)
    in.warnings.push_back("parallel.zero_exchange has no effect without parallel.zero: 1");
  if (plan.zero != 2 && v.value("parallel.zero_reduce") != nullptr)
    in.warnings.push_back("parallel.zero_reduce has no effect without parallel.zero: 2");
}

// A gather for each bucket is a pass of so many ops.
constexpr int64_t kMostGathers = 100'000;

void resolve_gather_bucket(const PlanInputs& in, Plan& plan) {
  const FieldValues& v = in.values;
  if (!v.has("overlap.gather_bucket")) return;
  plan.gather_bucket = v.whole("overlap.gather_bucket");
  if (in.model == nullptr || plan.gather_bucket == 0 || plan.zero == 0) return;
  const int64_t all = parameters(*in.model);
  if (all / plan.gather_bucket <= kMostGathers) return;
  v.refuse("E123", "overlap.gather_bucket",
           fmt::format("'overlap.gather_bucket' is too small: {} of {} parameters",
                       plan.gather_bucket, all),
           fmt::format("at least {}, or 0 for a whole stage at once", all / kMostGathers + 1));
}

// DeepSpeed's ZeRO-1 and its optimizer without ZeRO: what ZeRO-2 and 3 copy is not modelled.
void resolve_gradient_copies(const PlanInputs& in, Plan& plan) {
  const bool copies = plan.gradient_copies == GradientCopies::by_tensor ||
                      plan.gradient_copies == GradientCopies::flat;
  if (plan.zero < 2 || !copies) return;
  plan.gradient_copies = GradientCopies::none;
  if (in.values.value("optimizer.gradient_copies") != nullptr)
    in.warnings.push_back(
        fmt::format("optimizer.gradient_copies: {} has no effect with parallel.zero: {}",
                    in.values.text("optimizer.gradient_copies"), plan.zero));
}

// REQUIRES: resolve_units.
void resolve_offload(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (v.has("offload.optimizer")) plan.offload.optimizer = v.real("offload.optimizer");
  if (plan.offload.parameters && plan.zero != 3)
    v.refuse("E127", "offload.parameters", "offload.parameters needs parallel.zero: 3",
             "without it the GPU computes with parameters that it holds all the time");
  // PyTorch's shards are the optimizer's own parameters, which it updates where they are
  // (pytorch/pytorch torch/distributed/fsdp/_fully_shard/_fsdp_api.py, CPUOffloadPolicy; FSDP1's
  // CPUOffload likewise).
  if (!plan.offload.parameters || plan.zero != 3 || !plan.sharding.wide) return;
  if (!v.stated("offload.optimizer")) {
    plan.offload.optimizer = 1;
    v.derive<double>("offload.optimizer", 1,
                     "derived: PyTorch's optimizer runs where the parameters are");
  } else if (plan.offload.optimizer != 1) {
    v.refuse("E127", "offload.optimizer",
             "with PyTorch's units all optimizer states are where offload.parameters are",
             "leave offload.optimizer out, or set parallel.fsdp: deepspeed");
  }
}

}  // namespace

void resolve_sharding(const PlanInputs& in, Plan& plan) {
  FieldValues& v = in.values;
  if (plan.zero == 3 && !v.stated("overlap.dp_grad"))
    v.derive<bool>("overlap.dp_grad", true, "derived: zero 3 reduces gradients unit by unit");
  resolve_copies(in, plan);
  resolve_units(in, plan);
  resolve_zero_exchange(in, plan);
  resolve_gradient_copies(in, plan);
  resolve_offload(in, plan);
  resolve_gather_bucket(in, plan);
  if (v.has("precision.gradient_ratio")) {
    plan.precision.gradient_ratio = v.real("precision.gradient_ratio");
    if (plan.precision.gradient_ratio <= 0)
      v.refuse("E121", "precision.gradient_ratio", "'precision.gradient_ratio' must be above 0",
               "25% sends a quarter of the bytes, 1 all of them");
  }
}

}  // namespace stepcast
