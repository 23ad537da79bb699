// SPDX-License-Identifier: Apache-2.0
// The stages that a pipeline rank holds, and their parameters: in parts that are replicated and
// sharded alike.
#pragma once

#include <array>
#include <cstddef>
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

// Dense ones and, if there are any, experts'.
struct ParameterParts {
  std::array<ParameterPart, 2> all;
  size_t count = 0;

  const ParameterPart* begin() const { return all.data(); }
  const ParameterPart* end() const { return all.data() + count; }
};

class RankParameters {
 public:
  // Keeps both references.  REQUIRES: shard and schedule stay as they are.
  RankParameters(const Shard& shard, const Schedule& schedule);

  const Shard& shard() const { return shard_; }
  const Plan& plan() const { return shard_.plan; }
  const Schedule& schedule() const { return schedule_; }
  const ReplicaGroup& dense() const { return dense_; }
  const ReplicaGroup& experts() const { return experts_; }

  // Ascending; of two replicas, those of both.
  std::span<const uint16_t> stages_of(int64_t rank) const {
    const auto r = static_cast<size_t>(rank);
    return std::span(stages_).subspan(first_stage_[r], first_stage_[r + 1] - first_stage_[r]);
  }
  // Of all stages of the rank, of these, or of one.
  ParameterParts parts_of(int64_t rank) const { return parts_of(rank, stages_of(rank)); }
  ParameterParts parts_of(int64_t rank, std::span<const uint16_t> stages) const;
  ParameterParts parts_of(int64_t rank, uint16_t stage) const {
    return parts_of(rank, std::span(&stage, 1));
  }
  // Of one stage together.
  int64_t count(int64_t rank, uint16_t stage) const;
  // Those that the GPU has a gradient of after the reduction.
  int64_t gradients_of(const ParameterPart& part) const;
  // Of `share` parameters those whose optimizer states are in the host's memory.
  int64_t host_share(int64_t share) const;
  // Ranks with the word embedding or a copy of it, ascending.
  std::span<const int64_t> embedding_ranks() const { return embedding_ranks_; }

 private:
  bool holds(int64_t rank, size_t stage) const;
  bool holds_embedding(uint16_t stage) const;

  const Shard& shard_;
  const Schedule& schedule_;
  const ReplicaGroup dense_, experts_;
  std::vector<uint16_t> stages_;     // of the ranks, one after the other
  std::vector<size_t> first_stage_;  // of each rank, in stages_; one entry more than ranks
  std::vector<int64_t> embedding_ranks_;
};

// ------------------------------------------------------------------------------------------------
// What a pipeline rank holds through the whole step: parameters, gradients and optimizer states of
// its stages, copies of weights in low precision, a teacher, workspaces of libraries; of a step
// that only runs forward, parameters and the cache.

// `passes`: of every stage of the schedule and, of each, every piece of a sequence, in `graph`.
std::vector<StaticMemory> static_memory(const OpGraph& graph, const RankParameters& held,
                                        std::span<const StagePasses> passes, int64_t rank);

}  // namespace stepcast
