// SPDX-License-Identifier: Apache-2.0
// What data parallelism adds to the passes of a stage: gradients on their way to their reduction,
// bucket by bucket, and parameters that are gathered from their shards.
#pragma once

#include <cstdint>
#include <vector>

#include "model/passes/pass_writer.h"
#include "model/replicas.h"
#include "model/shard.h"

namespace stepcast {

// --------------------------------------------------------------------------------------- gradients

// Gradients of one replica group in a backward pass that is being written, from the op that makes
// them to the collective that reduces them.
//
// Usually gradients are added into the main gradients, which are reduced where they lie.  With
// ZeRO-2 and 3 a rank keeps its share of them only: a gradient has a tensor of its own in the
// parameters' format until its bucket is full; then it is copied into the payload of the reduction,
// which is freed when the next bucket is reduced (PyTorch FSDP2,
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py: foreach_reduce; DeepSpeed's contiguous
// gradients).
struct GradientBuckets {
  ReplicaGroup group;
  int64_t size = 0;       // parameters of a bucket; 0: nothing is reduced inside the pass
  bool buffered = false;  // gradients have tensors of their own
  bool beside = true;     // compute goes on during a reduction
  bool to_host = false;   // sums go on to the host's memory
  bool last = false;      // to_host: the optimizer reads these

  // What changes while the pass is written.
  int64_t pending = 0;                   // parameters whose gradients wait for their reduction
  std::vector<TensorIndex> gradients{};  // if `buffered`: the tensors of these gradients
  TensorIndex payload = kNoTensor;       // of the last reduction, which is op `reduction`
  uint32_t reduction = 0;
  int64_t copied = 0;    // parameters in the payload whose sums are still to be copied back
  int64_t bucketed = 0;  // parameters whose own gradients are in DistributedDataParallel's buckets
};

// For a backward that completes the gradients of its stage (of the step, or of a round), or for any
// other.
GradientBuckets gradient_buckets(const Transformer& model, const Plan& plan,
                                 const ReplicaGroup& group, bool last);

// The op appended last has completed the gradients of this many parameters.
void add_gradient(GradientBuckets& buckets, const Shard& shard, PassWriter& pass,
                  int64_t parameters);
// Reduces what has come since the last reduction.
void reduce_pending(GradientBuckets& buckets, const Shard& shard, PassWriter& pass);
// Reduces what is left, at the end of the pass.
void reduce_rest(GradientBuckets& buckets, const Shard& shard, PassWriter& pass);

// The buckets of a stage.
struct StageBuckets {
  GradientBuckets layers;
  GradientBuckets experts;  // which have replica groups of their own
  GradientBuckets ends;     // embedding and head, where they are reduced apart: a unit of ZeRO-3
  bool ends_apart = false;
  std::vector<TensorIndex> unadded{};  // ProductGradients::backward: freed at the end of the pass
  bool tied_counted = false;  // a tied head has added its parameters to `ends`, so that the
                              // embedding does not add them again

  // Whether the pass reduces the same gradients as one with `other`.
  bool same_as(const StageBuckets& other) const {
    return layers.size == other.layers.size && experts.size == other.experts.size &&
           ends.size == other.ends.size && layers.last == other.layers.last;
  }
};
StageBuckets stage_buckets(const Transformer& model, const Plan& plan, bool last);

// -------------------------------------------------------------------------------------- parameters
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

  // Issues the first gathers, ahead of any need for them.
  void start() { issue(static_cast<size_t>(ahead_)); }
  // The next op needs what lies outside the layers, or this layer.
  void need_ends() { need(0); }
  void need_layer(int64_t layer) { need(unit_of(layer)); }
  // This layer is done in this pass; true if it was the last of its unit.
  bool end_layer(int64_t layer);
  // This layer has been recomputed; its backward comes.  DeepSpeed of early 2021 gives back what
  // the recomputation gathered (Sharding::in_lists), and gathers it again.
  void end_recompute(int64_t layer);
  // All is done: what is not held for the backward is given back.
  void finish();

 private:
  struct Unit {
    int64_t dense = 0, experts = 0;   // parameters that are gathered, or fetched from the host
    int64_t cast = 0;                 // fp32 parameters that this rank holds whole, but computes
                                      // with in the parameters' format
    Bytes bytes{};                    // that come in the parameters' format
    Bytes copied{};                   // of them those that are copied out of the gather's buffer
    Bytes wide{};                     // that come whole in fp32, from the host
    size_t place = 0;                 // index in order_
    uint32_t gather = 0;              // the op of the last gather
    TensorIndex buffer = kNoTensor;   // what the gather writes, if it is copied out from there
    TensorIndex fetched = kNoTensor;  // what the fetch of fp32 parameters writes, until the cast
    TensorIndex whole = kNoTensor;    // the parameters as compute reads them
    bool arrived = false;

    bool is_gathered() const { return dense + experts > 0; }
    bool is_empty() const { return !is_gathered() && cast == 0; }
  };

  size_t unit_of(int64_t layer) const { return static_cast<size_t>(layer / unit_layers_) + 1; }
  void need(size_t unit);
  void issue(size_t count);
  Unit unit_with(const StageContent& part) const;
  void gather(Unit& unit);
  void allocate_whole(Unit& unit);
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
