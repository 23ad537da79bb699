// SPDX-License-Identifier: Apache-2.0
// ZeRO-3 and FSDP: parameters of a unit of layers are gathered from their shards shortly before
// they are needed, and given back.
//
// Unit 0 is what lies outside the layers: embedding, final norm, head.  Without pipeline stages it
// stays from a forward to its backward, as FSDP's root module does; so do all units without
// Sharding::reshard_after_forward.
//
// Source: PyTorch, torch/distributed/fsdp/_fully_shard/_fsdp_param_group.py (unshard,
// wait_for_unshard).  The gather of the next unit begins when the one before is copied out and runs
// beside the compute of that one: two gather buffers are alive in a forward, where the copied-out
// one is freed after the next copy; one in a backward.
#pragma once

#include <cstdint>
#include <vector>

#include "model/pass_writer.h"
#include "model/replicas.h"
#include "model/shard.h"

namespace stepcast {

// Gathered units that a forward leaves to its backward; empty where there are none.
using HeldUnits = std::vector<TensorIndex>;

class UnitGathers {
 public:
  enum class Direction : uint8_t { forward, recompute, backward };
  // Does nothing unless gathers_units(shard.model, shard.plan).  A recomputation gathers layers
  // only, and a backward goes through them from the last one.  `held` is read by a backward, filled
  // by a forward, and outlives this.
  UnitGathers(const Shard& shard, const StageContent& content, PassWriter& pass, HeldUnits& held,
              Direction direction);

  // Gathers ahead of the first need.
  void start() { issue(static_cast<size_t>(ahead_)); }
  // The next op needs what lies outside the layers, or this layer.
  void need_ends() { need(0); }
  void need_layer(int64_t layer) { need(unit_of(layer)); }
  // This layer is done in this pass; true if it was the last of its unit.
  bool end_layer(int64_t layer);
  // All is done: what is not held for the backward is given back.
  void finish();

 private:
  struct Unit {
    int64_t dense = 0, experts = 0;  // parameters that are gathered
    int64_t cast = 0;                // fp32 parameters that this rank holds whole, but computes
                                     // with in the parameters' format
    Bytes bytes{};                   // gathered
    size_t place = 0;                // in order_
    uint32_t gather = 0;             // its last
    TensorIndex buffer = kNoTensor;  // of the gather, if it is copied out
    TensorIndex whole = kNoTensor;
    bool arrived = false;

    bool is_gathered() const { return dense + experts > 0; }
    bool is_empty() const { return !is_gathered() && cast == 0; }
  };

  size_t unit_of(int64_t layer) const { return static_cast<size_t>(layer / unit_layers_) + 1; }
  void need(size_t unit);
  void issue(size_t count);
  Unit unit_with(const StageContent& part) const;
  void gather(Unit& unit);
  void gather_from(const ReplicaGroup& group, int64_t parameters, Unit& unit);
  void release(size_t unit);
  Bytes cast_bytes(const Unit& unit) const;

  const Shard& s_;
  PassWriter& p_;
  HeldUnits& held_;
  const Direction direction_;
  const int64_t layers_;
  const int64_t unit_layers_;
  const int64_t ahead_;
  std::vector<Unit> units_;
  std::vector<size_t> order_;  // units in the order of their gathers
  size_t issued_ = 0;
  TensorIndex last_buffer_ = kNoTensor;  // copied out, not yet freed
};

}  // namespace stepcast
