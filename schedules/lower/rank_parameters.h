// SPDX-License-Identifier: Apache-2.0
// The stages that a pipeline rank holds, and their parameters: in parts that are replicated and
// sharded alike.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/passes/stage_passes.h"
#include "model/replicas.h"
#include "model/shard.h"
#include "schedules/schedule.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

struct ParameterPart {
  ReplicaGroup group;
  int64_t parameters = 0;
  int64_t share = 0;    // of them, whose optimizer state the rank keeps
  int64_t tensors = 0;  // that they come in: counted where each has one owner
};

class RankParameters {
 public:
  // Keeps both references.
  RankParameters(const Shard& shard, const Schedule& schedule);

  const Shard& shard() const { return shard_; }
  const Plan& plan() const { return shard_.plan; }
  const Schedule& schedule() const { return schedule_; }
  const ReplicaGroup& dense() const { return dense_; }
  const ReplicaGroup& experts() const { return experts_; }

  // Ascending; of two replicas, those of both.
  std::vector<uint16_t> stages_of(int64_t rank) const;
  // Dense ones and, if there are any, experts': of all stages of the rank, or of these.
  std::vector<ParameterPart> parts_of(int64_t rank) const;
  std::vector<ParameterPart> parts_of(int64_t rank, const std::vector<uint16_t>& stages) const;
  // Of one stage together.
  int64_t count(int64_t rank, uint16_t stage) const;
  // Those that the rank has a gradient of after the reduction.
  int64_t gradients_of(const ParameterPart& part) const;
  // Of `share` parameters those whose optimizer states are in the host's memory.
  int64_t host_share(int64_t share) const;
  // Ranks with the word embedding or a copy of it, ascending.
  std::vector<int64_t> embedding_ranks() const;

 private:
  bool holds(int64_t rank, size_t stage) const;
  bool holds_embedding(uint16_t stage) const;

  const Shard& shard_;
  const Schedule& schedule_;
  const ReplicaGroup dense_, experts_;
};

// ------------------------------------------------------------------------------------------------
// What a pipeline rank holds through the whole step: parameters, gradients and optimizer states of
// its stages, copies of weights in low precision, a teacher, workspaces of libraries; of a step
// that only runs forward, parameters and the cache.

// `passes`: of every stage of the schedule and, of each, every piece of a sequence, in `graph`.
std::vector<StaticMemory> static_memory(const OpGraph& graph, const RankParameters& held,
                                        std::span<const StagePasses> passes, int64_t rank);

}  // namespace stepcast
