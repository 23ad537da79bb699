// SPDX-License-Identifier: Apache-2.0
#include "model/unit_gathers.h"

#include <algorithm>

#include "model/replicas.h"
#include "model/stage_parameters.h"

namespace stepcast {
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
    if (group.shards > 1) {
      gathered = count;
    } else if (wide_shards(s_.plan)) {
      unit.cast += count;
    }
  };
  add(dense_replicas(s_.plan), dense, unit.dense);
  add(expert_replicas(s_.plan), experts, unit.experts);
  return unit;
}

Bytes UnitGathers::cast_bytes(const Unit& unit) const {
  return s_.bytes(unit.cast, 1);
}

void UnitGathers::gather(Unit& unit) {
  gather_from(dense_replicas(s_.plan), unit.dense, unit);
  gather_from(expert_replicas(s_.plan), unit.experts, unit);
  if (!unit.is_gathered()) return;
  if (s_.plan.sharding.copied_out) {
    unit.buffer = p_.allocate("gathered parameters", unit.bytes, MemoryCategory::communication);
  } else {
    unit.whole = p_.allocate("gathered parameters", unit.bytes + cast_bytes(unit),
                             MemoryCategory::parameters);
  }
}

void UnitGathers::gather_from(const ReplicaGroup& group, int64_t parameters, Unit& unit) {
  if (parameters == 0) return;
  const Work work = parameter_gather(group, parameters, s_.plan.precision);
  if (s_.plan.offload.parameters) {
    Work fetch;
    fetch.kind = WorkKind::host_copy;
    fetch.bytes = {(work.bytes.value + group.shards - 1) / group.shards};
    const uint32_t fetched = p_.communicate(Stream::copy, "parameter fetch", fetch);
    unit.gather = p_.communicate(Stream::dp, "parameter gather", work);
    p_.wait(unit.gather, fetched);
  } else {
    unit.gather = p_.communicate(Stream::dp, "parameter gather", work);
  }
  unit.bytes += work.bytes;
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
  const bool copied_out = unit.is_gathered() && s_.plan.sharding.copied_out;
  if (copied_out) p_.compute("parameter copy", s_.memory_bound(Kernel::copy, unit.bytes * 2));
  if (unit.whole == kNoTensor)
    unit.whole = p_.allocate("gathered parameters", unit.bytes + cast_bytes(unit),
                             MemoryCategory::parameters);
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
