// SPDX-License-Identifier: Apache-2.0
// What a pipeline rank holds through the whole step: parameters, gradients and optimizer states of
// its stages, copies of weights in low precision, a teacher, workspaces of libraries; of a step
// that only runs forward, parameters and the cache.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/stage_passes.h"
#include "schedules/rank_parameters.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// `passes`: of every stage of the schedule and, of each, every piece of a sequence, in `graph`.
std::vector<StaticMemory> static_memory(const OpGraph& graph, const RankParameters& held,
                                        std::span<const StagePasses> passes, int64_t rank);

}  // namespace stepcast
