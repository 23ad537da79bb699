// SPDX-License-Identifier: Apache-2.0
// Ranks that hold the same parameters: how their gradients are summed, and how ZeRO spreads
// optimizer states (stage 1), gradients (2) and parameters (3) over them.
//
// Source: Rajbhandari et al. 2020, arXiv 1910.02054.  Hybrid sharding: Zhao et al. 2023, arXiv
// 2304.11277, section 3.2.2.
#pragma once

#include <cstdint>
#include <vector>

#include "model/plan.h"
#include "model/transformer.h"
#include "sim/graph/work.h"

namespace stepcast {

// `shards` ranks together hold one copy, and there are `copies` of it: ranks = shards * copies.
struct ReplicaGroup {
  int64_t ranks = 1;
  int64_t shards = 1;  // 1: nothing is sharded
  int64_t copies = 1;
  Axis axis = Axis::dp;        // of the whole group
  Axis shard_axis = Axis::dp;  // of the ranks that hold one copy
  Axis copy_axis = Axis::dp;   // of the ranks that hold the same shard
  ZeroExchange exchange = ZeroExchange::scatter;

  // Parameters whose sharded state one rank keeps.  All shards are padded to the same size.
  int64_t share(int64_t parameters) const { return (parameters + shards - 1) / shards; }
};

// The group of all parameters but experts: the ranks along dp and cp.
ReplicaGroup dense_replicas(const Plan& plan);

// The group of an expert's parameters: tp * cp * dp / (ep * etp) ranks.  It is never hybrid: one
// copy is sharded over all of them.
ReplicaGroup expert_replicas(const Plan& plan);

// The collectives, one after the other, that sum gradients of `parameters`: a reduce-scatter among
// the shards, an all-reduce of what is left among the copies; or an all-reduce of everything.  None
// in a group of one.
std::vector<Work> gradient_reduction(const ReplicaGroup& group, int64_t parameters,
                                     const Precision& precision);

// Brings one rank's shard of `parameters` over from the host (Offload::parameters), in the format
// that it has there.
Work parameter_fetch(const ReplicaGroup& group, int64_t parameters, const Plan& plan);

// Gathers `parameters` from their shards.  REQUIRES: group.shards > 1.
Work parameter_gather(const ReplicaGroup& group, int64_t parameters, const Precision& precision);

// One owner's part of `parameters` that `owners` ranks broadcast.  REQUIRES: group.shards > 1.
Work parameter_broadcast(const ReplicaGroup& group, int64_t parameters, int64_t owners,
                         const Precision& precision);

// Gradients are copied into a bucket for their reduction and back: those of 16 bits are tensors of
// their own that autograd made, while fp32 ones lie in one buffer, which is reduced as it is.
bool copies_gradients(const ReplicaGroup& group, const Precision& precision);

// Sums of gradients are in the host's memory, where the optimizer runs: the GPU has them as long as
// a reduction takes, except those that the GPU's share of the optimizer reads.
// Source: deepspeedai/DeepSpeed deepspeed/runtime/zero/stage3.py (grad_partitions_flat_buffer is on
// the CPU with offload_optimizer); pytorch/pytorch torch/distributed/fsdp/_fully_shard
// (CPUOffloadPolicy).  Megatron-LM's HybridDeviceOptimizer copies them over before it runs.
bool sums_gradients_on_host(const Plan& plan);

// Gradients are reduced in every backward, not only in the last one: a rank has no room for
// those of all parameters (ZeRO-2 and 3).
bool reduces_every_backward(const Transformer& model, const Plan& plan);

// ... or in the last backward of each round of a stage (ZeroReduce::round), with a buffer for all
// of the stage's gradients while the round lasts.
bool reduces_every_round(const Transformer& model, const Plan& plan);

// ZeRO-3 with pipeline stages that do not give the gathered parameters back after a forward keeps
// them, and unreduced gradients, through the whole step (torchtitan).
bool keeps_gathered(const Plan& plan);

// Parameters come and go by unit inside the passes: all of them, or those of experts alone, which
// may have replicas where the rest has none.  From the host they come to a single rank too.
bool gathers_units(const Transformer& model, const Plan& plan);

// The shards of ZeRO-3 are the optimizer's own fp32 parameters.
bool wide_shards(const Plan& plan);

}  // namespace stepcast
