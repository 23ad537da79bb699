// SPDX-License-Identifier: Apache-2.0
// lower: model + plan + schedule -> the op graph of one training step, one role for each pipeline
// rank.
//
// Roles are laid out as a framework of the Megatron family runs them: parameter gather (or what is
// left of it), the schedule with its pipeline transfers, gradient reduction, embedding-gradient
// all-reduce, gradient norm, optimizer.
#pragma once

#include <vector>

#include "model/passes/pass_writer.h"
#include "model/passes/stage_passes.h"
#include "model/plan.h"
#include "model/transformer.h"
#include "schedules/lower/stage_pass_cache.h"
#include "schedules/schedule.h"
#include "schedules/transfers/transfers.h"
#include "sim/graph/op_graph.h"

namespace stepcast {

// Layers that a stage may have.  How many of them a pass can hold depends on how many of a layer's
// ops others wait for (kMostSlots): from one or two thousand to about ten thousand.
constexpr int64_t kMostStageLayers = 10'000;

struct LowerOptions {
  P2pStyle p2p = P2pStyle::async;
  // Each pipeline rank runs its optimizer as soon as its own gradients are reduced; no norm over
  // all stages holds it up (zero-bubble's optimizer post-validation).  A step then costs the span.
  bool post_validation = false;
  // The transfers, if they have been made; those of another schedule or style are not used.
  const MadeTransfers* transfers = nullptr;
  // Where passes of stages are kept from one step to the next; null: nowhere.  The graph is the
  // same.
  StagePassCache* passes = nullptr;
  GraphOptions graph = {};
};

// REQUIRES: check_schedule(schedule) is empty; schedule.pp, vpp, microbatches and the number of
// stages equal the plan's; no stage has more than kMostStageLayers layers. Throws InputError with a
// sentence for the user if transfers of that style do not go with the schedule (with_transfers()).
OpGraph lower(const Transformer& model, const Plan& plan, const Schedule& schedule,
              const LowerOptions& options = {});

// What a step is made of, without the step: for bounds.
struct StepParts {
  OpGraph graph;                    // works and passes of the stages; no roles
  std::vector<StagePasses> passes;  // of every stage, and of each every piece of a sequence
  std::vector<Bytes> held;          // by each rank, through the whole step
};

// REQUIRES: as lower().  `passes` may be null.
StepParts lower_parts(const Transformer& model, const Plan& plan, const Schedule& schedule,
                      StagePassCache* passes);

}  // namespace stepcast
