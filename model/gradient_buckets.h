// SPDX-License-Identifier: Apache-2.0
// Gradients on their way from a backward pass to their reduction, bucket by bucket.
#pragma once

#include <cstdint>
#include <vector>

#include "model/pass_writer.h"
#include "model/replicas.h"
#include "model/shard.h"

namespace stepcast {

// The reductions that a backward pass makes; copied for each pass that is written.
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
  bool beside = true;     // compute goes on meanwhile

  int64_t pending = 0;                   // parameters whose gradient waits for its reduction
  std::vector<TensorIndex> gradients{};  // buffered: those gradients
  TensorIndex payload = kNoTensor;       // of the reduction before, made by op `reduction`
  uint32_t reduction = 0;
  int64_t copied = 0;  // gradients in the payload that go back to where they were
};

// What the last backward of a stage does (`last`), or all others.
GradientBuckets gradient_buckets(const Transformer& model, const Plan& plan,
                                 const ReplicaGroup& group, bool last);

// The op appended last has completed the gradient of so many parameters.
void add_gradient(GradientBuckets& buckets, const Shard& shard, PassWriter& pass,
                  int64_t parameters);
// Reduces what has come since the last reduction.
void reduce_pending(GradientBuckets& buckets, const Shard& shard, PassWriter& pass);
// Reduces what is left, at the end of the pass.
void reduce_rest(GradientBuckets& buckets, const Shard& shard, PassWriter& pass);

// Those of a stage.
struct StageBuckets {
  GradientBuckets layers;
  GradientBuckets experts;  // theirs have other replicas
  GradientBuckets ends;     // embedding and head, where they are reduced apart: a unit of ZeRO-3
  bool ends_apart = false;
  bool tied_counted = false;  // the tied head's gradient waits in `ends` for the embedding's

  // Whether the pass reduces the same gradients as one with `other`.
  bool same_as(const StageBuckets& other) const {
    return layers.size == other.layers.size && experts.size == other.experts.size &&
           ends.size == other.ends.size;
  }
};
StageBuckets stage_buckets(const Transformer& model, const Plan& plan, bool last);

}  // namespace stepcast
