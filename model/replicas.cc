// SPDX-License-Identifier: Apache-2.0
#include "model/replicas.h"

#include <cmath>

#include "model/low_precision.h"
#include "sim/check.h"

namespace stepcast {
namespace {

Work collective(WorkKind kind, Axis axis, DType dtype, int64_t count, double ratio = 1) {
  Work w;
  w.kind = kind;
  w.dtype = dtype;
  w.axis = axis;
  w.bytes = {static_cast<int64_t>(
      std::ceil(static_cast<double>(count) * bytes_per_element(dtype) * ratio))};
  return w;
}

}  // namespace

ReplicaGroup dense_replicas(const Plan& plan) {
  ReplicaGroup g;
  const Axis all = plan.cp > 1 ? Axis::data : Axis::dp;
  g.ranks = plan.cp * plan.dp;
  const bool hybrid = plan.zero >= 1 && plan.dp_replicate > 1;
  STEPCAST_CHECK(g.ranks % plan.dp_replicate == 0, "copies divide the replicas");
  g.shards = plan.zero >= 1 ? g.ranks / (hybrid ? plan.dp_replicate : 1) : 1;
  g.copies = g.ranks / g.shards;
  g.axis = all;
  g.shard_axis = hybrid ? Axis::shard : all;
  g.copy_axis = hybrid ? Axis::replica : all;
  if (plan.zero == 1) g.exchange = plan.zero_exchange;
  return g;
}

ReplicaGroup expert_replicas(const Plan& plan) {
  ReplicaGroup g;
  g.ranks = plan.tp * plan.cp * plan.dp / (plan.ep * plan.etp);
  g.shards = plan.zero >= 1 ? g.ranks : 1;
  g.copies = g.ranks / g.shards;
  g.axis = g.shard_axis = g.copy_axis = Axis::edp;
  if (plan.zero == 1) g.exchange = plan.zero_exchange;
  return g;
}

std::vector<Work> gradient_reduction(const ReplicaGroup& group, int64_t parameters,
                                     const Precision& precision) {
  std::vector<Work> works;
  const auto add = [&](WorkKind kind, Axis axis, int64_t count) {
    works.push_back(collective(kind, axis, precision.reduce, count, precision.gradient_ratio));
  };
  if (group.exchange != ZeroExchange::scatter) {
    if (group.ranks > 1) add(WorkKind::all_reduce, group.axis, parameters);
    return works;
  }
  if (group.shards > 1) add(WorkKind::reduce_scatter, group.shard_axis, parameters);
  if (group.copies > 1) add(WorkKind::all_reduce, group.copy_axis, group.share(parameters));
  return works;
}

namespace {

DType gathered_format(const Precision& precision) {
  return kept_low(precision) ? low_format(precision).dtype : precision.params;
}

}  // namespace

Work parameter_fetch(const ReplicaGroup& group, int64_t parameters, const Plan& plan) {
  const DType kept = wide_shards(plan) ? DType::fp32 : gathered_format(plan.precision);
  Work w;
  w.kind = WorkKind::host_copy;
  w.bytes = collective(w.kind, Axis::dp, kept, group.share(parameters)).bytes;
  return w;
}

Work parameter_gather(const ReplicaGroup& group, int64_t parameters, const Precision& precision) {
  return collective(WorkKind::all_gather, group.shard_axis, gathered_format(precision), parameters);
}

Work parameter_broadcast(const ReplicaGroup& group, int64_t parameters, int64_t owners,
                         const Precision& precision) {
  return collective(WorkKind::broadcast, group.shard_axis, gathered_format(precision),
                    (parameters + owners - 1) / owners);
}

bool copies_gradients(const ReplicaGroup& group, const Precision& precision) {
  return group.ranks > 1 && group.exchange != ZeroExchange::scatter &&
         precision.gradients != DType::fp32;
}

bool keeps_gathered(const Plan& plan) {
  return plan.zero == 3 && plan.pp > 1 && !plan.sharding.reshard_after_forward;
}

bool gathers_units(const Transformer& model, const Plan& plan) {
  if (plan.zero != 3 || keeps_gathered(plan)) return false;
  if (plan.offload.parameters) return true;
  return dense_replicas(plan).shards > 1 || (model.experts > 0 && expert_replicas(plan).shards > 1);
}

namespace {

bool has_replicas(const Transformer& model, const Plan& plan) {
  return dense_replicas(plan).ranks > 1 || (model.experts > 0 && expert_replicas(plan).ranks > 1);
}

}  // namespace

bool sums_gradients_on_host(const Plan& plan) {
  if (plan.zero != 3 || plan.offload.optimizer == 0) return false;
  return plan.sharding.wide ? plan.offload.parameters : plan.sharding.copied_out;
}

bool reduces_every_round(const Transformer& model, const Plan& plan) {
  return plan.zero == 2 && plan.zero_reduce == ZeroReduce::round && has_replicas(model, plan);
}

bool reduces_every_backward(const Transformer& model, const Plan& plan) {
  if (plan.zero < 2 || keeps_gathered(plan) || reduces_every_round(model, plan)) return false;
  return has_replicas(model, plan) || sums_gradients_on_host(plan);
}

bool wide_shards(const Plan& plan) {
  return plan.zero == 3 && plan.sharding.wide && plan.precision.master;
}

}  // namespace stepcast
