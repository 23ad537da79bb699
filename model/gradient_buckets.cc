// SPDX-License-Identifier: Apache-2.0
#include "model/gradient_buckets.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace stepcast {

GradientBuckets gradient_buckets(const Transformer& model, const Plan& plan,
                                 const ReplicaGroup& group, bool last) {
  GradientBuckets buckets;
  const bool every = reduces_every_backward(model, plan);
  if (group.ranks == 1 || !(every || (last && plan.overlap.dp_grad))) return buckets;
  buckets.group = group;
  buckets.buffered = every;
  buckets.beside = plan.overlap.dp_grad;
  if (gathers_units(model, plan)) {
    buckets.size = std::numeric_limits<int64_t>::max();  // unit by unit
  } else {
    buckets.size = plan.bucket_parameters > 0 ? plan.bucket_parameters
                                              : std::max<int64_t>(40'000'000, 1'000'000 * plan.dp);
  }
  return buckets;
}

void add_gradient(GradientBuckets& buckets, const Shard& shard, PassWriter& pass,
                  int64_t parameters) {
  if (buckets.size == 0) return;
  buckets.pending += parameters;
  if (buckets.buffered)
    buckets.gradients.push_back(
        pass.allocate("gradient", shard.bytes(parameters, 1), MemoryCategory::gradients));
  if (buckets.pending >= buckets.size) reduce_pending(buckets, shard, pass);
}

namespace {

// From the gradients to what is sent.  FSDP1's units are one flat parameter: autograd joins the
// gradients of its views, then they are cast and divided by a part of the group's size in kernels
// of their own (torch/distributed/fsdp/_runtime_utils.py: _post_backward_hook, _reduce_grad).  The
// others copy and cast in one kernel.
void write_payload(const Shard& shard, PassWriter& pass, int64_t count, Bytes payload) {
  const Bytes gradients = shard.bytes(count, 1);
  const Sharding& sharding = shard.plan.sharding;
  if (!gathers_units(shard.model, shard.plan) || sharding.copied_out || !sharding.wide) {
    pass.compute("gradient copy", shard.memory_bound(Kernel::cast, gradients + payload));
    return;
  }
  pass.compute("gradient join", shard.memory_bound(Kernel::copy, gradients * 2));
  if (payload != gradients)
    pass.compute("gradient cast", shard.memory_bound(Kernel::cast, gradients + payload));
  pass.compute("gradient scale", shard.memory_bound(Kernel::scale, payload * 2));
}

Work bucket_copy(const Shard& shard, int64_t count) {
  const Precision& p = shard.plan.precision;
  return shard.memory_bound(Kernel::cast,
                            shard.bytes(count, 1, p.gradients) + shard.bytes(count, 1, p.reduce));
}

// The sums that have come go from their bucket to the gradients.
void copy_back(GradientBuckets& buckets, const Shard& shard, PassWriter& pass) {
  if (buckets.copied == 0) return;
  pass.join(buckets.reduction);
  pass.compute("gradient copy back", bucket_copy(shard, std::exchange(buckets.copied, 0)));
  pass.free(buckets.payload);
}

}  // namespace

void reduce_pending(GradientBuckets& buckets, const Shard& shard, PassWriter& pass) {
  if (buckets.pending == 0) return;
  const int64_t count = std::exchange(buckets.pending, 0);
  const Phase phase = pass.phase();
  pass.set_phase(Phase::gradient_sync);
  const Bytes payload = shard.bytes(count, 1, shard.plan.precision.reduce);
  const bool copied = copies_gradients(buckets.group, shard.plan.precision);
  if (copied) {
    copy_back(buckets, shard, pass);
    buckets.copied = count;
    pass.compute("gradient copy", bucket_copy(shard, count));
    // Where only the last backward reduces, the others have no such tensor.
    buckets.payload =
        pass.allocate_apart("gradient payload", payload, MemoryCategory::communication);
  } else if (buckets.buffered) {
    if (buckets.payload != kNoTensor) pass.join(buckets.reduction);
    write_payload(shard, pass, count, payload);
    pass.free(buckets.payload);
    buckets.payload = pass.allocate("gradient payload", payload, MemoryCategory::communication);
    for (TensorIndex& gradient : buckets.gradients) pass.free(gradient);
    buckets.gradients.clear();
  }
  for (const Work& work : gradient_reduction(buckets.group, count, shard.plan.precision)) {
    buckets.reduction = pass.communicate(Stream::dp, "gradient reduction", work);
    if (!buckets.beside) pass.join(buckets.reduction);
  }
  if (!buckets.beside) {
    copy_back(buckets, shard, pass);
    pass.free(buckets.payload);
  }
  pass.set_phase(phase);
}

StageBuckets stage_buckets(const Transformer& model, const Plan& plan, bool last) {
  StageBuckets buckets;
  buckets.layers = buckets.ends = gradient_buckets(model, plan, dense_replicas(plan), last);
  buckets.experts = gradient_buckets(model, plan, expert_replicas(plan), last);
  buckets.ends_apart = gathers_units(model, plan);
  return buckets;
}

void reduce_rest(GradientBuckets& buckets, const Shard& shard, PassWriter& pass) {
  reduce_pending(buckets, shard, pass);
  const Phase phase = pass.phase();
  pass.set_phase(Phase::gradient_sync);
  copy_back(buckets, shard, pass);
  pass.set_phase(phase);
  pass.free(buckets.payload);
}

}  // namespace stepcast
