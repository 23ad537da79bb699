// SPDX-License-Identifier: Apache-2.0
// Buckets.  Each op that completes a gradient adds its parameters to the bucket; when the bucket is
// full, its reduction is issued on Stream::dp and compute goes on.  With buckets of 100 parameters
// and layers whose gradients are complete in portions of 60, 30 and 40, for example, a reduction of
// 130 follows the third portion, and what is left at the end of the pass is reduced there.  Under
// ZeRO-2 and 3 the gradients of a bucket are tensors of their own until they have been copied into
// the payload of its reduction.
//
// Gathers.  Units are gathered in the order in which the pass needs them, Sharding::prefetch ahead.
// With one layer a unit and prefetch 1, a forward of three layers issues
//
//   need unit 1   gather 1, gather 2   | compute waits for gather 1, copies it out
//   need unit 2   gather 3             | waits for gather 2, which ran beside layer 1
//   need unit 3                        | waits for gather 3, which ran beside layer 2
//
// and each unit is given back after its last layer, unless the backward finds it held.
#include "model/passes/sharding.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "model/parameters.h"

namespace stepcast {

// --------------------------------------------------------------------------------------- gradients
GradientBuckets gradient_buckets(const Transformer& model, const Plan& plan,
                                 const ReplicaGroup& group, bool last) {
  GradientBuckets buckets;
  const bool every = reduces_every_backward(model, plan);
  const bool of_last = plan.overlap.dp_grad || reduces_every_round(model, plan);
  buckets.to_host = every && sums_gradients_on_host(plan);
  const bool is_needed = group.ranks > 1 || buckets.to_host;
  if (!is_needed || !(every || (last && of_last))) return buckets;
  buckets.last = last && buckets.to_host;
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

// PyTorch's DistributedDataParallel without gradient_as_bucket_view copies each gradient into a
// bucket as soon as autograd has it, and out of it at the end of the backward, whatever its hook
// sums (pytorch/pytorch torch/csrc/distributed/c10d/reducer.cpp: mark_variable_ready_dense,
// finalize_bucket_dense).  Gradients that stay, and are added to wider ones by then, are those.
bool has_own_buckets(const Precision& p) {
  return p.own_gradients && p.product_gradients == ProductGradients::backward;
}

// The reduced shard of `count` parameters goes to the sums in the host's memory.  DeepSpeed brings
// them back to the device, where it adds to them and takes their norm, and sends those of the last
// backward to the optimizer in its own format (deepspeedai/DeepSpeed
// deepspeed/runtime/zero/stage3.py: partition_grads, _offload_grad_partition_at_boundary).  PyTorch
// adds on the host (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce).
void copy_to_host(GradientBuckets& buckets, const Shard& shard, PassWriter& pass, int64_t count) {
  const Precision& p = shard.plan.precision;
  const auto copy = [&](const char* label, DType type) {
    Work w;
    w.kind = WorkKind::host_copy;
    w.bytes = shard.bytes(buckets.group.share(count), 1, type);
    const uint32_t op = pass.communicate(Stream::copy, label, w);
    if (buckets.group.ranks > 1) pass.wait(op, buckets.reduction);
    return op;
  };
  uint32_t done = copy("gradients to the host", p.gradients);
  if (!shard.plan.sharding.wide) {
    done = copy("gradients from the host", p.gradients);
    if (buckets.last) done = copy("gradients to the optimizer", p.master ? DType::fp32 : p.params);
  }
  buckets.reduction = done;
}

void copy_own(const Shard& shard, PassWriter& pass, const char* label, int64_t count) {
  pass.compute(label, shard.memory_bound(Kernel::copy, shard.bytes(count, 1) * 2));
}

}  // namespace

void reduce_pending(GradientBuckets& buckets, const Shard& shard, PassWriter& pass) {
  if (buckets.pending == 0) return;
  const int64_t count = std::exchange(buckets.pending, 0);
  const Phase phase = pass.phase();
  pass.set_phase(Phase::gradient_sync);
  const Bytes payload = shard.bytes(count, 1, shard.plan.precision.reduce);
  const bool copied = copies_gradients(buckets.group, shard.plan.precision);
  if (has_own_buckets(shard.plan.precision)) {
    copy_own(shard, pass, "gradients into their bucket", count);
    buckets.bucketed += count;
  }
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
  if (buckets.to_host) {
    copy_to_host(buckets, shard, pass, count);
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
  if (buckets.bucketed > 0)
    copy_own(shard, pass, "gradients out of their buckets", std::exchange(buckets.bucketed, 0));
  pass.set_phase(phase);
  pass.free(buckets.payload);
}

// -------------------------------------------------------------------------------------- parameters
namespace {

StageContent layers_of(const StageContent& content, int64_t begin, int64_t end) {
  StageContent part{.layers = end - begin};
  if (!content.kinds.empty())
    part.kinds.assign(content.kinds.begin() + begin, content.kinds.begin() + end);
  return part;
}

}  // namespace

UnitGathers::UnitGathers(const Shard& shard, const StageContent& content, PassWriter& pass,
                         HeldUnits& held, Direction direction)
    : s_(shard),
      p_(pass),
      held_(held),
      direction_(direction),
      layers_(content.layers),
      unit_layers_(shard.plan.sharding.unit_layers),
      ahead_(shard.plan.sharding.prefetch) {
  if (!gathers_units(shard.model, shard.plan)) return;
  units_.push_back(unit_with(content));
  for (int64_t begin = 0; begin < layers_; begin += unit_layers_) {
    const int64_t end = std::min(layers_, begin + unit_layers_);
    units_.push_back(unit_with(layers_of(content, begin, end)));
    units_.front().dense -= units_.back().dense;
    units_.front().experts -= units_.back().experts;
    units_.front().cast -= units_.back().cast;
  }
  held_.resize(units_.size(), kNoTensor);
  for (size_t u = 1; u < units_.size(); ++u) order_.push_back(u);
  if (direction == Direction::backward) std::ranges::reverse(order_);
  if (direction != Direction::recompute) order_.insert(order_.begin(), 0);
  std::erase_if(order_, [&](size_t u) {
    if (direction == Direction::backward) units_[u].whole = held_[u];
    units_[u].arrived = units_[u].whole != kNoTensor || units_[u].is_empty();
    return units_[u].arrived;
  });
  for (size_t i = 0; i < order_.size(); ++i) units_[order_[i]].place = i;
}

void UnitGathers::issue(size_t count) {
  for (; issued_ < std::min(count, order_.size()); ++issued_) gather(units_[order_[issued_]]);
}

UnitGathers::Unit UnitGathers::unit_with(const StageContent& part) const {
  const int64_t experts = expert_parameters(s_.model, s_.plan, part);
  const int64_t dense = stage_parameters(s_.model, s_.plan, part) - experts;
  Unit unit;
  const auto add = [&](const ReplicaGroup& group, int64_t count, int64_t& gathered) {
    if (group.shards > 1 || s_.plan.offload.parameters) gathered = count;
    if (group.shards == 1 && wide_shards(s_.plan)) unit.cast += count;
  };
  add(dense_replicas(s_.plan), dense, unit.dense);
  add(expert_replicas(s_.plan), experts, unit.experts);
  return unit;
}

Bytes UnitGathers::cast_bytes(const Unit& unit) const {
  return s_.bytes(unit.cast, 1);
}

void UnitGathers::gather(Unit& unit) {
  unit.bytes = unit.copied = unit.wide = {};
  // The buffer is set to zero first (partition_parameters.py, _allgather_param: torch.zeros).
  if (s_.plan.sharding.in_lists && unit.is_gathered())
    p_.compute("gather buffer",
               s_.memory_bound(Kernel::fill, s_.bytes(unit.dense + unit.experts, 1)));
  gather_from(dense_replicas(s_.plan), unit.dense, unit);
  gather_from(expert_replicas(s_.plan), unit.experts, unit);
  if (unit.copied.value > 0)
    unit.buffer = p_.allocate("gathered parameters", unit.copied, MemoryCategory::communication);
  if (unit.wide.value > 0)
    unit.fetched = p_.allocate("fetched parameters", unit.wide, MemoryCategory::communication);
  // Where some of it arrives in place.
  if (unit.bytes > unit.copied) allocate_whole(unit);
}

void UnitGathers::allocate_whole(Unit& unit) {
  unit.whole =
      p_.allocate("gathered parameters", unit.bytes + cast_bytes(unit), MemoryCategory::parameters);
}

void UnitGathers::gather_from(const ReplicaGroup& group, int64_t parameters, Unit& unit) {
  if (parameters == 0) return;
  const bool gathered_before = (unit.bytes + unit.wide).value > 0;
  const Work work = parameter_gather(group, parameters, s_.plan.precision);
  const Work fetch = parameter_fetch(group, parameters, s_.plan);
  // What a single rank fetches from the host is its parameters (deepspeedai/DeepSpeed
  // deepspeed/runtime/zero/partition_parameters.py: NoGatherHandle), but for their format.
  if (group.shards == 1 && wide_shards(s_.plan)) {
    unit.wide += fetch.bytes;
  } else {
    unit.bytes += work.bytes;
    if (group.shards > 1 && s_.plan.sharding.copied_out) unit.copied += work.bytes;
  }
  uint32_t fetched = 0;
  if (s_.plan.offload.parameters) fetched = p_.communicate(Stream::copy, "parameter fetch", fetch);
  if (group.shards > 1) {
    unit.gather = p_.communicate(Stream::dp, "parameter gather", work);
    if (s_.plan.offload.parameters) p_.wait(unit.gather, fetched);
  } else {
    // What a single rank fetches is whole.  Compute waits for the op that is last.
    if (gathered_before) p_.wait(fetched, unit.gather);
    unit.gather = fetched;
  }
}

void UnitGathers::need(size_t index) {
  if (units_.empty() || units_[index].arrived) return;
  Unit& unit = units_[index];
  issue(unit.place + 1);
  unit.arrived = true;
  if (unit.is_gathered()) p_.join(unit.gather);
  if (unit.cast > 0) {
    const Bytes wide = s_.bytes(unit.cast, 1, DType::fp32);
    p_.compute("parameter cast", s_.memory_bound(Kernel::cast, wide + cast_bytes(unit)));
  }
  const bool copied_out = unit.copied.value > 0;
  if (copied_out) p_.compute("parameter copy", s_.memory_bound(Kernel::copy, unit.copied * 2));
  if (unit.whole == kNoTensor) allocate_whole(unit);
  p_.free(unit.fetched);
  if (copied_out) {
    p_.free(last_buffer_);
    if (direction_ == Direction::backward) {
      p_.free(unit.buffer);
    } else {
      last_buffer_ = unit.buffer;
    }
  }
  issue(unit.place + 1 + static_cast<size_t>(ahead_));
}

bool UnitGathers::end_layer(int64_t layer) {
  if (units_.empty()) return false;
  const bool backward = direction_ == Direction::backward;
  const bool last = backward ? layer % unit_layers_ == 0
                             : (layer + 1) % unit_layers_ == 0 || layer + 1 == layers_;
  if (last) release(unit_of(layer));
  return last;
}

// Source: microsoft/DeepSpeed @112ebff6 deepspeed/runtime/zero/stage3.py, release_sub_module: kept
// is what the next use of is less than stage3_max_reuse_distance, 1e9 parameters, away; of a large
// layer that is its last weight alone, which counts as the others here.
void UnitGathers::end_recompute(int64_t layer) {
  // A recomputation that is a pass of its own gives everything back at its end.
  if (units_.empty() || !s_.plan.sharding.in_lists || direction_ != Direction::backward) return;
  Unit& unit = units_[unit_of(layer)];
  if (!unit.arrived || !unit.is_gathered()) return;
  p_.free(unit.whole);
  unit.whole = kNoTensor;
  unit.arrived = false;
  gather(unit);
}

void UnitGathers::release(size_t unit) {
  const bool keeps = !s_.plan.sharding.reshard_after_forward || (unit == 0 && s_.plan.pp == 1);
  if (direction_ == Direction::forward && keeps) {
    held_[unit] = units_[unit].whole;
  } else {
    p_.free(units_[unit].whole);
    units_[unit].arrived = false;
  }
}

void UnitGathers::finish() {
  if (units_.empty()) return;
  p_.free(last_buffer_);
  release(0);
}

}  // namespace stepcast
